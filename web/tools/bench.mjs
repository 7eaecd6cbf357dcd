// The benchmark page in headless Chromium, or with --frames the page-frame test; prints its JSON. node tools/bench.mjs --model PATH|URL [--cpu]
// [--frames] and what the pages take: see bench.html, frames.html

import { fileURLToPath } from "node:url";
import { parseArgs } from "./args.mjs";
import { launch } from "./browser.mjs";
import { isUrl, startServer } from "./server.mjs";

const usage = "usage: bench.mjs --model PATH|URL [--cpu] [--n TOKENS] [--prompt TOKENS] [--repeats N] [--windows LIST] [--width N] [--widths LIST] [--frames [--mode MODE] [--budgets LIST]]";
const args = parseArgs(process.argv.slice(2), { model: String, cpu: Boolean, n: Number, prompt: Number, repeats: Number, windows: String, width: Number, widths: String, frames: Boolean, mode: String, budgets: String }, usage);
const LIMIT_MS = 900_000;

async function main() {
  let result = null, finish;
  const done = new Promise(resolve => { finish = resolve; });
  const server = await startServer({
    root: fileURLToPath(new URL("../dist", import.meta.url)), model: args.model, onLog: text => { result = JSON.parse(text); }, onDone: finish,
  });
  let browser;
  try {
    ({ browser } = await launch({ url: `${server.url}article.txt`, cpu: args.cpu ?? false }));
    const page = await browser.newPage();
    const query = new URLSearchParams(Object.entries(args).filter(([name]) => ["n", "prompt", "repeats", "windows", "width", "widths", "mode", "budgets"].includes(name)).map(([k, v]) => [k, String(v)]));
    if (args.model && isUrl(args.model)) query.set("model", args.model);
    let timer;
    const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`no result after ${LIMIT_MS / 1000} s`)), LIMIT_MS); });
    const crash = new Promise((_, reject) => page.on("crash", () => reject(new Error("the page crashed"))));
    await page.goto(`${server.url}${args.frames ? "frames" : "bench"}.html?${query}`);
    await Promise.race([done, late, crash]).finally(() => clearTimeout(timer));
  } finally {
    await browser?.close().catch(() => {});
    await server.close();
  }
  if (!result) throw new Error("the page ended without a result");
  if (result.error) throw new Error(result.error);
  console.log(JSON.stringify(result, null, 2));
}

main().catch(e => {
  console.error(`bench: ${String(e.message).split("\n")[0]}`);
  process.exit(1);
});
