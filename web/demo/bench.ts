// Measures the package in this browser and shows one JSON object; posts it to /log and then /done, for a server that listens (bench/serve_page.py,
// tools/bench.mjs). Parameters: see bench.html.

import { Forerun, type Completion, type CompletionRequest } from "../src/index.js";

const out = document.getElementById("out")!;
const query = new URLSearchParams(location.search);

async function say(path: string, text: string): Promise<void> {
  out.append(`${text}\n`);
  await fetch(path, { method: "POST", body: text }).catch(() => undefined); // nobody listens: the page shows it
}

const median = (list: number[]) => list.toSorted((a, b) => a - b)[list.length >> 1]!;
const round = (n: number, digits = 3) => Number(n.toFixed(digits));

async function sizes(): Promise<Record<string, { bytes: number; gzip: number }>> {
  const result: Record<string, { bytes: number; gzip: number }> = {};
  for (const name of ["index.js", "worker.js", "forerun.wasm"]) {
    const bytes = await (await fetch(name)).arrayBuffer();
    const packed = await new Response(new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"))).arrayBuffer();
    result[name] = { bytes: bytes.byteLength, gzip: packed.byteLength };
  }
  return result;
}

async function promptIds(engine: Forerun, count: number): Promise<number[]> {
  const article = await engine.tokenize(await (await fetch("article.txt")).text());
  return Array.from({ length: count }, (_, i) => article[i % article.length]!);
}

async function measure(): Promise<object> {
  const model = query.get("model") ?? "model.gguf";
  const began = performance.now();
  const engine = await Forerun.load(model, { cache: false });
  const wall = performance.now() - began;
  const [info, loaded] = await Promise.all([engine.info(), engine.stats()]);
  const cpu = info.adapter.isCpu; // a software adapter is a thousand times slower
  const tokens = Number(query.get("n") ?? (cpu ? 16 : 128)), length = Math.min(Number(query.get("prompt") ?? (cpu ? 64 : 1024)), info.context - tokens - 1);
  const runs = Number(query.get("runs") ?? (cpu ? 1 : 5));
  const windows = (query.get("windows") ?? (cpu ? "4" : "1,2,4,8")).split(",").map(Number);
  const prompt = await promptIds(engine, length);
  const run = async (request: Partial<CompletionRequest>) => await engine.completions.create({ prompt, ignore_eos: true, max_tokens: tokens, ...request, stream: false }) as Completion;

  const prefill = async () => { // from nothing: the prefix that the cache holds would not be computed again
    await engine.reset();
    return (await run({ max_tokens: 1 })).timing.prefill_tokens_per_second;
  };
  const repeat = async <T>(times: number, task: () => Promise<T>) => {
    const results: T[] = [];
    for (let i = 0; i < times; i++) results.push(await task());
    return results;
  };
  await prefill(); // the clocks of an idle GPU are low, and the first run pays for lazy work
  const rates = await repeat(runs, prefill);
  const decode = async (request: Partial<CompletionRequest>) => {
    const answers = await repeat(runs + (cpu ? 0 : 1), () => run(request));
    const kept = answers.slice(cpu ? 0 : 1); // likewise
    return { ms_per_token: round(median(kept.map(a => a.timing.ms_per_token))), first_token_ms: round(median(kept.map(a => a.timing.first_token_ms))), window: kept[0]!.timing.window };
  };
  const greedy = await decode({ mode: "greedy" });
  const loop = await decode({ mode: "loop" });
  const byWindow: Record<string, number> = {};
  for (const window of windows) byWindow[window] = (await decode({ mode: "loop", window })).ms_per_token;
  const stats = await engine.stats();
  await engine.dispose();
  return {
    adapter: info.adapter, browser: navigator.userAgent, model: info.name, quantisation: info.quantisation, parameters: info.parameters,
    prompt_tokens: length, new_tokens: tokens, runs,
    load_ms: round(loaded.load_ms), compile_ms: round(loaded.compile_ms), load_wall_ms: round(wall), pipelines: loaded.pipelines,
    prefill_tokens_per_second: round(median(rates), 1),
    greedy_ms_per_token: greedy.ms_per_token, loop_ms_per_token: loop.ms_per_token, loop_window: loop.window, loop_ms_per_token_by_window: byWindow,
    first_token_cached_ms: loop.first_token_ms,
    dispatches_per_step: stats.dispatches_per_step, bytes_per_step: stats.bytes_per_step, device_bytes: info.device_bytes, host_bytes: info.host_bytes,
    sizes: await sizes(),
  };
}

try {
  await say("/log", JSON.stringify(await measure()));
} catch (e) {
  await say("/log", JSON.stringify({ error: (e as Error).message }));
}
await fetch("/done", { method: "POST", body: "" }).catch(() => undefined);
