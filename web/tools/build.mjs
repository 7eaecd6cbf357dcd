// Makes the npm package in dist/: bundles, types, the wasm module; and beside them the pages that demonstrate, measure and test it.
// FORERUN_WASM: the folder of the modules (default ../build/wasm, where `make web` builds them).

import { execFile } from "node:child_process";
import { copyFile, mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import * as esbuild from "esbuild";

const web = fileURLToPath(new URL("..", import.meta.url));
const dist = `${web}dist/`;
const wasm = process.env.FORERUN_WASM ?? `${web}../build/wasm`;
const modules = ["forerun.wasm", "selftest.wasm"];

async function version() {
  const header = await readFile(`${web}../include/forerun.h`, "utf8");
  return /#define FR_VERSION "([^"]+)"/.exec(header)[1];
}

const tsc = project => promisify(execFile)(process.execPath, [`${web}node_modules/typescript/bin/tsc`, ...project], { cwd: web })
  .catch(e => { throw new Error(`tsc ${project.join(" ")}:\n${e.stdout}${e.stderr}`); });

const packageBeside = {
  name: "package-beside",
  setup(build) {
    build.onResolve({ filter: /^\.\.\/src\/index\.js$/ }, () => ({ path: "./index.js", external: true }));
  },
};

async function bundles() {
  const common = { bundle: true, format: "esm", target: "es2022", minify: true, legalComments: "none", logLevel: "warning" };
  await esbuild.build({ ...common, entryPoints: { index: `${web}src/index.ts`, worker: `${web}src/worker.ts` }, outdir: dist });
  // The pages use the package as anyone would: index.js stays a file of its own.
  await esbuild.build({ ...common, entryPoints: { main: `${web}demo/main.ts`, bench: `${web}demo/bench.ts`, frames: `${web}demo/frames.ts`, selftest: `${web}demo/selftest.ts` }, outdir: dist, plugins: [packageBeside] });
}

/** tsc writes a file for every module; the package has those that its own types lead to. */
async function types() {
  const all = `${web}../build/web/types/`;
  await rm(all, { recursive: true, force: true });
  await tsc(["-p", "tsconfig.types.json", "--outDir", all]);
  const seen = new Set(), open = ["index"];
  for (let name; (name = open.pop());) {
    if (seen.has(name)) continue;
    seen.add(name);
    const text = await readFile(`${all}${name}.d.ts`, "utf8");
    for (const [, next] of text.matchAll(/from "\.\/([a-z_]+)\.js"/g)) open.push(next);
    await writeFile(`${dist}${name}.d.ts`, text);
  }
}

async function packageFiles() {
  const manifest = {
    name: "forerun", version: await version(), type: "module",
    description: "Language models in a web page, on the visitor's GPU: GGUF files on WebGPU, in 200 KB",
    keywords: ["webgpu", "llm", "gguf", "inference", "wasm"],
    license: "Apache-2.0",
    exports: { ".": { types: "./index.d.ts", default: "./index.js" }, "./worker.js": "./worker.js", "./forerun.wasm": "./forerun.wasm" },
    types: "./index.d.ts",
    files: ["index.js", "worker.js", "forerun.wasm", "*.d.ts"],
    sideEffects: ["./worker.js"],
  };
  await writeFile(`${dist}package.json`, JSON.stringify(manifest, null, 2) + "\n");
  await copyFile(`${web}README.md`, `${dist}README.md`);
  await copyFile(`${web}../LICENSE`, `${dist}LICENSE`);
  for (const page of ["index.html", "style.css", "article.txt", "bench.html", "frames.html", "selftest.html"]) await copyFile(`${web}demo/${page}`, `${dist}${page}`);
}

try {
  for (const name of modules)
    if (!await stat(`${wasm}/${name}`).catch(() => null)) throw new Error(`${wasm}/${name} is missing: run \`make web\``);
  await rm(dist, { recursive: true, force: true });
  await mkdir(dist);
  await Promise.all([
    bundles(), packageFiles(), ...modules.map(name => copyFile(`${wasm}/${name}`, `${dist}${name}`)),
    tsc(["-p", ".", "--noEmit"]), tsc(["-p", "tsconfig.worker.json", "--noEmit"]),
    types(),
  ]);
} catch (e) {
  console.error(`web/tools/build.mjs: ${e.message}`);
  process.exit(1);
}
