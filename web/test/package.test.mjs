// The package as npm would publish it.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { dist, scratch, web } from "./helpers.mjs";

const read = name => readFileSync(join(dist, name));
const manifest = JSON.parse(read("package.json"));

test("package: the files that belong to it, and no others", () => {
  const [{ files }] = JSON.parse(execFileSync("npm", ["pack", "--dry-run", "--json"], { cwd: dist, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }));
  const names = files.map(file => file.path).sort();
  const expected = ["LICENSE", "README.md", "engine.d.ts", "errors.d.ts", "forerun.wasm", "index.d.ts", "index.js", "package.json", "page.d.ts", "types.d.ts", "worker.js"];
  assert.deepEqual(names, expected);
});

test("package: no dependencies, and the version of the header", () => {
  assert.equal(manifest.dependencies, undefined);
  const header = readFileSync(join(web, "../include/forerun.h"), "utf8");
  assert.ok(header.includes(`#define FR_VERSION "${manifest.version}"`));
});

test("package: under 200 KB of gzip", () => {
  const sizes = ["index.js", "worker.js", "forerun.wasm"].map(name => gzipSync(read(name), { level: 9 }).length);
  const total = sizes.reduce((a, b) => a + b);
  assert.ok(total < 200_000, `${total} bytes`);
});

test("package: no code from elsewhere, no eval", () => {
  for (const name of ["index.js", "worker.js"]) {
    const text = read(name).toString();
    assert.doesNotMatch(text, /https?:\/\//, name);
    assert.doesNotMatch(text, /\beval\(|new Function/, name);
    assert.doesNotMatch(text, /from"node:|require\(/, name);
  }
  assert.match(read("index.js").toString(), /new Worker\(new URL\("\.\/worker\.js",import\.meta\.url\)/, "the form that bundlers know");
  assert.match(read("worker.js").toString(), /new URL\("\.\/forerun\.wasm",import\.meta\.url\)/);
});

test("package: the README describes every option, field and function of the public types", () => {
  const readme = readFileSync(join(web, "README.md"), "utf8").replace(/```ts\n.*?```/gs, "");
  const types = readFileSync(join(web, "src/types.ts"), "utf8"), engine = readFileSync(join(web, "src/engine.ts"), "utf8");
  const described = ["Adapter", "Progress", "LoadOptions", "ChatMessage", "RequestOptions", "ChatRequest", "CompletionRequest", "Usage", "Timing", "Outcome", "Info", "Stats", "Memory", "Support"];
  const names = described.flatMap(name => {
    const [, body] = new RegExp(`^export interface ${name} [^{]*\\{\n(.*?)^\\}`, "ms").exec(types);
    const found = [...body.matchAll(/^ {2}(\w+)\??[:(]/gm)].map(m => m[1]);
    assert.ok(found.length, name);
    return found;
  });
  const calls = [...engine.matchAll(/^ {2}(?:static |async |get )*([a-z]\w+)\(.*\{$/gm)].map(m => m[1]).filter(name => name !== "constructor");
  assert.ok(names.length > 70 && calls.length >= 9, `${names.length} names, ${calls}`);
  const missing = [...names, ...calls].filter(name => !new RegExp(`\`[^\`\n]*\\b${name}\\b[^\`\n]*\``).test(readme));
  assert.deepEqual(missing, []);
});

test("package: its types stand alone and accept what the README shows", () => {
  const folder = join(scratch, "types");
  mkdirSync(folder, { recursive: true });
  const examples = [...readFileSync(join(web, "README.md"), "utf8").matchAll(/```ts\n(.*?)```/gs)].map(m => m[1]);
  assert.ok(examples.length >= 2);
  examples.forEach((text, i) => writeFileSync(join(folder, `example${i}.ts`), text));
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({
    compilerOptions: {
      target: "ES2022", module: "ESNext", moduleResolution: "bundler", lib: ["ES2023", "DOM", "DOM.Iterable"], types: [], strict: true, noEmit: true, skipLibCheck: false,
      paths: { forerun: [join(dist, "index.d.ts")] },
    },
    include: ["*.ts"],
  }));
  try {
    execFileSync(process.execPath, [join(web, "node_modules/typescript/bin/tsc"), "-p", folder], { encoding: "utf8", stdio: "pipe" });
  } catch (e) {
    assert.fail(e.stdout + e.stderr);
  }
});

test("package: the lock file names no registry", () => {
  assert.doesNotMatch(readFileSync(join(web, "package-lock.json"), "utf8"), /"resolved"/);
});
