// Measures the package in this browser, by the protocol and with the keys of `forerun bench --json`, and shows one JSON object; posts it to
// /log and then /done, for a server that listens (../bench/serve_page.py, tools/bench.mjs). Parameters: see bench.html.

import { Forerun, type Completion, type CompletionRequest, type Mode } from "../src/index.js";
import { makePrompt, number, query, round, say } from "./measure.js";

function median(list: number[]): number {
  const sorted = list.toSorted((a, b) => a - b), half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}

async function sizes(): Promise<Record<string, { bytes: number; gzip: number }>> {
  const result: Record<string, { bytes: number; gzip: number }> = {};
  for (const name of ["index.js", "worker.js", "forerun.wasm"]) {
    const bytes = await (await fetch(name)).arrayBuffer();
    const packed = await new Response(new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"))).arrayBuffer();
    result[name] = { bytes: bytes.byteLength, gzip: packed.byteLength };
  }
  return result;
}

class Bench {
  readonly #engine: Forerun;
  readonly #prompt: number[];
  readonly #tokens: number;
  #first: number[] = []; // tokens of the longest run: the speed of a wrong answer is worth nothing

  constructor(engine: Forerun, prompt: number[], tokens: number) {
    this.#engine = engine;
    this.#prompt = prompt;
    this.#tokens = tokens;
  }

  async #run(request: Partial<CompletionRequest>): Promise<Completion> {
    return await this.#engine.completions.create({ prompt: this.#prompt, ignore_eos: true, max_tokens: this.#tokens, ...request, stream: false }) as Completion;
  }

  /** From nothing: what the KV cache holds would not be computed again. */
  async prefill(): Promise<number> {
    await this.#engine.reset();
    return (await this.#run({ mode: "loop", max_tokens: 1 })).timing.prefill_ms;
  }

  async decode(mode: Mode, more: Partial<CompletionRequest> = {}): Promise<Completion["timing"]> {
    const answer = await this.#run({ mode, ...more });
    const ids = answer.token_ids, known = Math.min(ids.length, this.#first.length);
    for (let i = 0; i < known; i++)
      if (ids[i] !== this.#first[i]) throw new Error(`${mode} ${JSON.stringify(more)}: runs of the same prompt disagree at token ${i}`);
    if (ids.length > known) this.#first = ids;
    return answer.timing;
  }

  /** Milliseconds a step over `width` nodes; of 1 node, a step of loop. Decoding begins behind the first token, which the prompt's last step chose. */
  async step(width: number, tokens: number): Promise<{ ms: number; timing: Completion["timing"] }> {
    const timing = await this.decode(width > 1 ? "tree" : "loop", { max_tokens: tokens, ...(width > 1 && { width }) });
    return { ms: timing.decode_ms / (timing.steps - 1), timing };
  }
}

async function measure(): Promise<object> {
  const began = performance.now();
  const engine = await Forerun.load(query.get("model") ?? "model.gguf", { cache: false, memory: "off" }); // memory would know the answers
  const wall = performance.now() - began;
  const [info, loaded] = await Promise.all([engine.info(), engine.stats()]);
  const cpu = info.adapter.isCpu; // a software adapter is some hundred times slower, and less of everything tells as much there
  const tokens = number("n", cpu ? 16 : 64), length = number("prompt", cpu ? 128 : 512), repeats = number("repeats", cpu ? 3 : 5);
  const windows = (query.get("windows") ?? (cpu ? "" : "1,2,4,8")).split(",").filter(Boolean).map(Number);
  if (length + tokens > info.context) throw new Error(`${length} + ${tokens} tokens do not fit a context of ${info.context}`);
  const widths = (query.get("widths") ?? (cpu ? "" : "2,4,8,16,32")).split(",").filter(Boolean).map(Number), width = number("width", 8);
  const stepTokens = Math.min(cpu ? tokens : 4 * tokens, info.context - length);
  const bench = new Bench(engine, await makePrompt(engine, info.vocabulary, length), tokens);

  const compiled = new Map<number, number>();
  for (const n of new Set([...widths, width])) {
    const since = performance.now();
    await engine.prepare({ mode: "tree", width: n });
    compiled.set(n, performance.now() - since);
  }
  await bench.decode("loop"); // the clocks of an idle GPU are low, and the first run pays for lazy work
  const bytes = (await engine.stats()).bytes_per_step, prefill: number[] = [];
  for (let i = 0; i < repeats; i++) prefill.push(await bench.prefill());
  const runs: Record<Mode, Completion["timing"][]> = { greedy: [], loop: [], tree: [], adaptive: [] }, modes = Object.keys(runs) as Mode[];
  const byWindow = new Map<number, number[]>(windows.map(w => [w, []]));
  const steps = [1, ...widths].map(n => ({ width: n, samples: [] as number[], timing: null as Completion["timing"] | null }));
  for (let i = 0; i < repeats; i++) {
    for (const k of modes.keys()) { // who goes first alternates
      const mode = modes[(i + k) % modes.length]!;
      runs[mode].push(await bench.decode(mode, mode === "tree" ? { width } : {}));
    }
    for (const [window, list] of byWindow) list.push((await bench.decode("loop", { window })).ms_per_token);
    for (const s of widths.length ? steps : []) {
      const { ms, timing } = await bench.step(s.width, stepTokens);
      s.samples.push(ms);
      s.timing = timing;
    }
  }
  const summary = (mode: Mode) => ({
    ms_per_token: round(median(runs[mode].map(t => t.ms_per_token))), samples_ms: runs[mode].map(t => round(t.ms_per_token)), submits: runs[mode].at(-1)!.submits,
  });
  await engine.dispose();
  return {
    name: info.name, types: info.quantisation, adapter: info.adapter.name, is_cpu: cpu, browser: navigator.userAgent, parameters: info.parameters,
    device_bytes: info.device_bytes, host_bytes: info.host_bytes, context: info.context, prompt_tokens: length, tokens,
    load_ms: round(loaded.load_ms), load_wall_ms: round(wall), compile_ms: round(loaded.compile_ms), pipelines: loaded.pipelines,
    dispatches_per_step: runs.loop[0]!.dispatches_per_step, bytes_per_step: bytes,
    prefill: { tokens_per_s: round((1000 * length) / median(prefill)), samples_ms: prefill.map(round) },
    greedy: summary("greedy"), loop: { ...summary("loop"), window: runs.loop[0]!.window },
    tree: { ...summary("tree"), window: runs.tree[0]!.window, width: runs.tree[0]!.width, tau: round(runs.tree[0]!.tau) },
    adaptive: { ...summary("adaptive"), window: runs.adaptive.at(-1)!.window, tau: round(runs.adaptive.at(-1)!.tau), widths: runs.adaptive.at(-1)!.widths, probes: runs.adaptive.at(-1)!.probes },
    step_tokens: stepTokens,
    steps: steps.flatMap(({ width, samples, timing }) => (timing ? [{
      width, ms_per_step: round(median(samples)), samples_ms: samples.map(round), tau: round(timing.tau), dispatches_per_step: timing.dispatches_per_step,
      prepare_ms: round(compiled.get(width) ?? 0),
    }] : [])),
    loop_by_window: Object.fromEntries([...byWindow].map(([window, list]) => [window, round(median(list))])),
    sizes: await sizes(),
  };
}

try {
  await say("/log", JSON.stringify(await measure()));
} catch (e) {
  await say("/log", JSON.stringify({ error: (e as Error).message }));
}
await fetch("/done", { method: "POST", body: "" }).catch(() => undefined);
