// What several tests need: where things are, sources of the package as modules for node, C for wasm32, a GPU in node.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { buildSync } from "esbuild";

export const web = resolve(dirname(fileURLToPath(import.meta.url)), "..");
export const root = resolve(web, "..");
export const dist = join(web, "dist");
export const build = process.env.FORERUN_BUILD ?? join(root, "build");
export const scratch = join(build, "web-test");
mkdirSync(scratch, { recursive: true });

/** The folder of webgpu/webgpu.h; the Makefile says where it was fetched to. */
export function headerFolder() {
  const folder = process.env.FORERUN_WEBGPU_INCLUDE;
  if (!folder || !existsSync(join(folder, "webgpu/webgpu.h"))) throw new Error("FORERUN_WEBGPU_INCLUDE must name the folder of webgpu/webgpu.h: run `make test-web`");
  return folder;
}

/** A module of src/, importable by node. */
export function source(name) {
  const outfile = join(scratch, `${name}.mjs`);
  buildSync({ entryPoints: [join(web, "src", `${name}.ts`)], outfile, bundle: true, format: "esm", target: "node20", logLevel: "error" });
  return import(pathToFileURL(outfile).href);
}

/** Compiles C for wasm32 and only checks it; the compiler's complaint is the error. */
export function checkC(text) {
  const args = ["--target=wasm32-wasi", "--sysroot=/usr", "-std=c11", "-fsyntax-only", "-I", join(root, "include"), "-isystem", headerFolder(), "-x", "c", "-"];
  try {
    execFileSync("clang-19", args, { input: text, stdio: ["pipe", "pipe", "pipe"] });
  } catch (e) {
    throw new Error(String(e.stderr ?? e));
  }
}

/** Compiles and links C sources into a wasm module as the Makefile does the engine. */
export function linkWasm(name, sources) {
  const header = headerFolder(), symbols = join(scratch, "webgpu.syms"), out = join(scratch, `${name}.wasm`);
  const functions = new Set(readFileSync(join(header, "webgpu/webgpu.h"), "utf8").match(/\bwgpu[A-Z][A-Za-z0-9]+(?=\()/g));
  writeFileSync(symbols, [...functions].join("\n"));
  execFileSync("clang-19", ["-std=c11", "-Wall", "-Wextra", "-Werror", "--target=wasm32-wasi", "--sysroot=/usr", "-mexec-model=reactor", "-O2", "-mbulk-memory",
    "-I", join(root, "include"), "-I", join(root, "src"), "-isystem", header, `-Wl,--allow-undefined-file=${symbols}`, "-Wl,--export-table", "-o", out, ...sources]);
  return readFileSync(out);
}

let gpu; // kept: devices don't outlive the object they came from

/** The GPU object of dawn.node, on SwiftShader unless the environment names a driver. */
export async function nodeGpu() {
  if (gpu) return gpu;
  process.env.VK_DRIVER_FILES ??= "/usr/lib/chromium/vk_swiftshader_icd.json";
  process.env.XDG_RUNTIME_DIR ??= scratch;
  const { create, globals } = await import("webgpu");
  for (const [name, value] of Object.entries(globals)) globalThis[name] ??= value;
  gpu = create(["disable-dawn-features=use_vulkan_zero_initialize_workgroup_memory_extension"]); // as cli/host.c
  return gpu;
}
