// check.mjs BUILD: rules of the tree that a compiler does not know. One line a rule; the last line is "N passed, N failed, N skipped".

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";

const build = process.argv[2] ?? "build";

/** Paths of all our files below `folder`, with "/" and without what is fetched or built. */
function walk(folder) {
  const left_out = /^(node_modules|build|dist|\.(?!ci$).*)$/;
  return readdirSync(folder, { withFileTypes: true }).flatMap(entry => {
    const path = folder === "." ? entry.name : `${folder}/${entry.name}`;
    if (entry.isDirectory()) return left_out.test(entry.name) ? [] : walk(path);
    return entry.isFile() ? [path] : [];
  }).sort();
}
const files = walk(".");
const text = path => readFileSync(path, "utf8");
const lines = path => text(path).split("\n");
const named = pattern => files.filter(path => pattern.test(path));
const c_files = named(/^(src|include|cli|ref|test|tools|examples|web\/(wasm|test))\/.*\.[ch]$/);
const sources = named(/\.(c|h|def|wgsl|ts|mjs|js|html|css|sh|py|json|md)$|^Makefile$|^deps\/|^\.ci\/|^\.(clang-format|editorconfig|gitignore)$/)
  .filter(path => !path.startsWith("test/golden/"));

/** "path:line: why" for every line of `paths` that `pattern` meets. */
function lines_with(paths, pattern, why) {
  return paths.flatMap(path => lines(path).flatMap((line, i) => pattern.test(line) ? [`${path}:${i + 1}: ${why}: ${line.trim().slice(0, 100)}`] : []));
}

function includes(path) {
  return lines(path).flatMap((line, i) => {
    const match = /^\s*#\s*include\s+["<]([^">]+)[">]/.exec(line);
    return match ? [{ header: match[1], at: `${path}:${i + 1}` }] : [];
  });
}

// ---- the rules: each returns what is wrong, a line each

function formatted() {
  try {
    execFileSync("clang-format-19", ["--dry-run", "-Werror", ...c_files], { stdio: ["ignore", "pipe", "pipe"] });
    return [];
  } catch (e) {
    const wrong = new Set([...String(e.stderr).matchAll(/^([^:\n]+):\d+:\d+: error/gm)].map(m => m[1]));
    return wrong.size ? [...wrong].map(path => `${path}: run clang-format-19 -i on it`) : [String(e.stderr) || e.message];
  }
}

/** Which folders of src/ the files of a folder may include, besides their own and forerun.h. A twin (ref/ref*) takes types from src/, no
 *  functions; the rest of ref/ runs the engine beside the twins, so it may include all of it. */
const allowed = {
  base: [], text: ["base"], gpu: ["base"], model: ["base", "gpu"], load: ["base", "text", "gpu", "model"], spec: ["base", "gpu", "model"],
  session: ["base", "text", "gpu", "model", "load", "spec"], twin: ["base", "ref"], ref: ["base", "text", "gpu", "model", "load", "spec", "tools"],
};
const headers_of_types = ["gpu/shared.h", "model/weights.h", "model/kernels.h", "model/config.h", "spec/draft.h"];

function layer(path) {
  if (path.startsWith("ref/")) return basename(path).startsWith("ref") ? "twin" : "ref";
  return dirname(path) === "src" ? "session" : path.split("/")[1];
}

function include_direction() {
  return c_files.filter(path => /^(src|ref)\//.test(path)).flatMap(path => {
    const from = layer(path);
    const may = header => {
      const into = header.includes("/") ? header.split("/")[0] : null;
      if (into === null) return isStandard(header) || header === "forerun.h" || from === "session" || (from === "gpu" && header === "kernels_gen.h");
      if (into === "webgpu") return true; // has a rule of its own
      return into === from || allowed[from]?.includes(into) || (from === "twin" && headers_of_types.includes(header))
        || (from === "model" && header === "spec/draft.h"); // sizes of the drafter's kernels
    };
    return includes(path).flatMap(({ header, at }) => may(header) ? []
      : [`${at}: ${from} may not include ${header} (session > spec, load > model > gpu > base; text and twins > base)`]);
  });
}
const isStandard = header => /^(assert|errno|float|inttypes|limits|math|setjmp|stdalign|stdarg|stdbool|stddef|stdint|stdio|stdlib|string)\.h$/.test(header);

const native_host = ["cli/host.c", "cli/adapter.c"];

function webgpu_users() {
  return c_files.flatMap(path => includes(path).flatMap(({ header, at }) => {
    if (header === "webgpu/webgpu.h" && path !== "src/gpu/webgpu.h") return [`${at}: include gpu/webgpu.h, which turns the functions into wasm imports`];
    if (header === "gpu/webgpu.h" && !path.startsWith("src/gpu/") && !native_host.includes(path) && !path.startsWith("web/test/")) return [`${at}: only src/gpu/ and ${native_host.join(", ")} know WebGPU`];
    return [];
  }));
}

function sizes() {
  const limit = path => path === "include/forerun.h" ? 300 : path.endsWith(".wgsl") ? 250 : 800;
  return [...c_files, ...named(/\.(wgsl|mjs|ts)$/)].flatMap(path => {
    const n = lines(path).length - 1;
    return n > limit(path) ? [`${path}: ${n} lines, the limit is ${limit(path)}; split it by topic`] : [];
  });
}

/** The core has no I/O, clock or environment, and no logic that knows its platform. */
function core_is_pure() {
  const core = c_files.filter(path => path.startsWith("src/"));
  const code = line => line.replace(/"(\\.|[^"\\])*"/g, '""').replace(/\/\*.*?\*\/|\/\/.*|^\s*\*.*/g, "");
  const impure = /(?<![.>]\s*)\b(printf|fprintf|puts|fputs|putchar|perror|exit|abort|_Exit|getenv|setenv|fopen|fread|fwrite|open|read|write|mmap|time|clock|clock_gettime|rand|srand|system|usleep|nanosleep)\s*\(/;
  const platform = /^\s*#\s*(if|ifdef|ifndef|elif)\b.*(__wasm|__wasi|__EMSCRIPTEN__|_WIN32|__linux|__APPLE__|__unix|__x86_64|__AVX|__SSE)/;
  return core.flatMap(path => lines(path).flatMap((line, i) => {
    if (impure.test(code(line))) return [`${path}:${i + 1}: the core does no I/O and never ends the program: ${line.trim()}`];
    if (platform.test(line) && path !== "src/gpu/webgpu.h") return [`${path}:${i + 1}: a platform difference is a second file: ${line.trim()}`];
    return [];
  }));
}

function kernels() {
  const entry = path => basename(path, ".wgsl");
  return named(/^kernels\/[^/]+\.wgsl$/).flatMap(path => {
    const found = [...text(path).matchAll(/@compute[^{]*?\bfn\s+(\w+)/gs)].map(m => m[1]);
    return found.length === 1 && found[0] === entry(path) ? [] : [`${path}: wants one entry point, named ${entry(path)}; has ${found.join(", ") || "none"}`];
  });
}

/** Generated sources do not depend on the order or the place of the run, and are those that the build has. */
function generated() {
  const folder = mkdtempSync(join(tmpdir(), "forerun-check-"));
  try {
    const wgsl = named(/^kernels\/.*\.wgsl$/);
    execFileSync(`${build}/embed`, [folder, ...wgsl.reverse()]);
    return ["kernels_gen.h", "kernels_gen.c"].flatMap(name =>
      text(join(folder, name)) === text(`${build}/gen/${name}`) ? [] : [`${build}/gen/${name} is not what tools/embed.c makes of kernels/ now`]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const no_machine_paths = () => lines_with(sources, /(^|[\s"'`=(:])\/(work|root|home\/\w)(\/|\b)/, "a path of one machine");

/** Registries are reached through their clients' own settings; a host in the tree would break whoever uses a mirror. */
const no_registry_hosts = () => lines_with([...sources, ...named(/package-lock\.json$|npmrc$/)], /"resolved"\s*:|registry\.[a-z]+\.(org|com)|files\.python/, "a registry's address");

const nothing_unfinished = () => lines_with(sources.filter(path => path !== "tools/check.mjs"), /\b(TODO|FIXME|XXX|HACK)\b/, "unfinished");

function whitespace() {
  return sources.filter(path => path !== "LICENSE").flatMap(path => {
    const body = text(path);
    const wrong = lines_with([path], /[ \t]+$|\r/, "white space at the end");
    if (path !== "Makefile") wrong.push(...lines_with([path], /^ *\t/, "a tab"));
    if (body && !body.endsWith("\n")) wrong.push(`${path}: the last line has no end`);
    return wrong;
  });
}

/** Links of our documents lead to files, and the README prints the examples as they are. */
function documents() {
  const links = named(/\.md$/).flatMap(path => [...text(path).matchAll(/\]\(([^)#\s]+)[^)]*\)/g)].flatMap(([, target]) =>
    /^[a-z]+:/.test(target) || existsSync(join(dirname(path), target)) ? [] : [`${path}: ${target} is not there`]));
  const examples = ["examples/answer.c", "examples/page.html"].filter(path => !text("README.md").includes(`\n${text(path)}\u0060\u0060\u0060\n`));
  return [...links, ...examples.map(path => `README.md: does not print ${path} as it is`)];
}

function scripts_parse() {
  return named(/\.(sh|mjs)$|^\.ci\/run$/).flatMap(path => {
    const [program, ...args] = path.endsWith(".mjs") ? ["node", "--check"] : [path === ".ci/run" ? "bash" : "sh", "-n"];
    try {
      execFileSync(program, [...args, path], { stdio: ["ignore", "ignore", "pipe"] });
      return [];
    } catch (e) {
      return [`${path}: ${String(e.stderr).trim()}`];
    }
  });
}

const rules = {
  "C files are laid out by .clang-format": formatted,
  "includes point one way": include_direction,
  "only src/gpu/ and the native host use webgpu.h": webgpu_users,
  "files keep to their size": sizes,
  "the core does no I/O and knows no platform": core_is_pure,
  "each kernel's entry point is named as its file": kernels,
  "generated sources are reproducible": generated,
  "no path of one machine": no_machine_paths,
  "no address of a registry": no_registry_hosts,
  "nothing is marked as unfinished": nothing_unfinished,
  "no stray white space": whitespace,
  "documents' links and examples are right": documents,
  "scripts parse": scripts_parse,
};

let failed = 0;
for (const [rule, run] of Object.entries(rules)) {
  const wrong = run();
  for (const line of wrong) console.log(line);
  console.log(`${wrong.length ? "FAILED " : "ok     "} check: ${rule}`);
  failed += wrong.length ? 1 : 0;
}
console.log(`${Object.keys(rules).length - failed} passed, ${failed} failed, 0 skipped`);
process.exit(failed ? 1 : 0);
