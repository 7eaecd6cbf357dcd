// The demo for a terminal: serves the page, opens it in headless Chromium, loads the model, presses "Summarise", and prints what the page
// shows as it comes. node tools/demo.mjs --model PATH|URL [--cpu] [--screenshot FILE] [--verbose]

import { fileURLToPath } from "node:url";
import { parseArgs } from "./args.mjs";
import { launch } from "./browser.mjs";
import { startServer } from "./server.mjs";

const usage = "usage: demo.mjs --model PATH|URL [--cpu] [--screenshot FILE] [--verbose]";
const args = parseArgs(process.argv.slice(2), { model: String, cpu: Boolean, screenshot: String, verbose: Boolean }, usage);
const SILENCE_MS = 600_000; // a software adapter on a busy machine computes a long prompt for minutes without a sign of life

const seconds = ms => `${(ms / 1000).toFixed(ms < 9995 ? 2 : 1)} s`;
const megabytes = n => `${(n / 1e6).toFixed(0)} MB`;

/** The page's "forerun" events, one after the other; throws when it fails or falls silent. */
function watch(page) {
  const queue = [];
  let wake = () => {};
  const push = event => {
    queue.push(event);
    wake();
  };
  page.on("pageerror", e => push({ type: "error", message: `the page failed: ${e.message}` }));
  page.on("crash", () => push({ type: "error", message: "the page crashed" }));
  page.on("close", () => push({ type: "error", message: "the page was closed" }));
  if (args.verbose) page.on("console", m => console.error(`[${m.type()}] ${m.text()}`));
  return { push, next: async () => {
    if (!queue.length) {
      let timer;
      const silence = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`the page gave no sign of life for ${SILENCE_MS / 1000} s`)), SILENCE_MS);
      });
      await Promise.race([new Promise(resolve => { wake = resolve; }), silence]).finally(() => clearTimeout(timer));
    }
    const event = queue.shift();
    if (event.type === "error") throw new Error(event.message);
    return event;
  } };
}

async function until(events, type, use = () => {}) {
  for (;;) {
    const event = await events.next();
    if (event.type === type) return event;
    use(event);
  }
}

function progressLine() {
  let last = "";
  return ({ type, phase, loaded, total, ratio }) => {
    if (type !== "progress") return;
    const text = process.stdout.isTTY
      ? `${phase} ${total ? `${megabytes(loaded)} of ${megabytes(total)}` : ""} ${(100 * ratio).toFixed(0)} %`
      : phase;
    if (text === last) return;
    last = text;
    process.stdout.write(process.stdout.isTTY ? `\r\x1b[K${text}` : `${text}\n`);
  };
}

function report({ info, stats, reason }) {
  const where = info.adapter.isCpu ? ` (on the CPU)` : "";
  const rows = [
    ["adapter", info.adapter.name + where],
    ["model", [info.name, info.quantisation].filter(Boolean).join(", ")],
    ["load", `${seconds(stats.load_ms)}, of it ${seconds(stats.compile_ms)} compiling`],
    ["prompt", `${stats.prompt_tokens} tokens at ${stats.prefill_tokens_per_second.toFixed(0)} tokens/s`],
    ["first token", seconds(stats.first_token_ms)],
    ["per token", `${stats.ms_per_token.toFixed(2)} ms (${stats.tokens_per_second.toFixed(1)} tokens/s), ${stats.completion_tokens} tokens, ended by ${reason}`],
    ["mode", stats.mode === "greedy" ? stats.mode : `${stats.mode}, ${stats.window} step${stats.window === 1 ? "" : "s"} a window`],
    ["dispatches", `${stats.dispatches_per_step} a step`],
  ];
  console.log("\n");
  for (const [name, value] of rows) console.log(`${name.padEnd(12)} ${value}`);
}

async function main() {
  const server = await startServer({ root: fileURLToPath(new URL("../dist", import.meta.url)), model: args.model });
  let browser;
  try {
    const launched = await launch({ url: `${server.url}article.txt`, cpu: args.cpu ?? false });
    browser = launched.browser;
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    const events = watch(page);
    await page.exposeFunction("forerunEvent", events.push);
    await page.addInitScript(() => addEventListener("forerun", event => globalThis.forerunEvent(event.detail)));
    await page.goto(server.url);
    const { adapter } = await until(events, "open");
    console.log(`Chromium ${browser.version()}, ${launched.gpu ? "GPU" : "no GPU that WebGPU can use, so SwiftShader computes on the CPU"}: ${adapter}`);
    await page.click("#load");
    await until(events, "loaded", progressLine());
    console.log(`${process.stdout.isTTY ? "\r\x1b[K" : ""}Summary of the article in the page:\n`);
    await page.click("#summarise");
    const done = await until(events, "done", event => { if (event.type === "text") process.stdout.write(event.text); });
    report(done);
    if (args.screenshot) await page.screenshot({ path: args.screenshot });
    if (!done.text.trim()) throw new Error("the answer is empty");
  } finally {
    await browser?.close().catch(() => {});
    await server.close();
  }
}

main().catch(e => {
  console.error(`demo: ${String(e.message).split("\n")[0]}`);
  process.exit(1);
});
