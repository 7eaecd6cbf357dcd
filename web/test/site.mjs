// A browser on a copy of dist/, with a tiny random model and files that are no models beside it.

import { execFileSync } from "node:child_process";
import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { launch } from "../tools/browser.mjs";
import { startServer } from "../tools/server.mjs";
import { build, dist, scratch } from "./helpers.mjs";

export const needed = name => {
  const path = join(build, name);
  if (!existsSync(path)) throw new Error(`${path} is missing: run \`make test-web\``);
  return path;
};

/** A random model whose answers vary; the same bytes every time. */
export function tinyModel() {
  const path = join(scratch, "tiny.gguf");
  execFileSync(needed("tiny_model"), ["--out", path, "--layers", "2", "--untied", "--context", "512", "--seed", "7"]);
  return path;
}

/** What the native program answers to a raw prompt, as its JSON. */
export function native(model, args) {
  const env = { VK_DRIVER_FILES: "/usr/lib/chromium/vk_swiftshader_icd.json", XDG_RUNTIME_DIR: scratch, ...process.env };
  return JSON.parse(execFileSync(needed("forerun"), ["run", model, ...args, "--json"], { env, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }));
}

/** {page, url, model, close}: a blank page of the site, for scripts that import /index.js. */
export async function openSite() {
  const root = join(scratch, "site"), model = tinyModel();
  rmSync(root, { recursive: true, force: true });
  cpSync(dist, root, { recursive: true });
  const bytes = readFileSync(model);
  writeFileSync(join(root, "blank.html"), "<!doctype html><title>test</title>");
  writeFileSync(join(root, "cached.gguf"), bytes);
  writeFileSync(join(root, "truncated.gguf"), bytes.subarray(0, bytes.length - 1000));
  writeFileSync(join(root, "headless.gguf"), bytes.subarray(0, 300));
  writeFileSync(join(root, "wrong-version.gguf"), Buffer.concat([Buffer.from("GGUF"), Buffer.from([99, 0, 0, 0]), bytes.subarray(8)]));
  writeFileSync(join(root, "page.gguf"), "<!doctype html><p>Not found");
  const server = await startServer({ root, model });
  const { browser } = await launch({ url: `${server.url}blank.html`, cpu: true });
  const page = await browser.newPage();
  await page.goto(`${server.url}blank.html`);
  await page.evaluate(async () => { Object.assign(globalThis, await import("/index.js")); });
  return {
    page, browser, root, model, url: server.url,
    close: async () => {
      await browser.close();
      await server.close();
    },
  };
}
