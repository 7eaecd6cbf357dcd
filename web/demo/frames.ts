// The page-frame test: what a page that animates on the GPU waits for, while the engine works on a device of its own. Shows one JSON object;
// posts it to /log and then /done, for a server that listens (../bench/serve_page.py, tools/bench.mjs). Parameters: see frames.html.

import { Forerun, type Completion, type CompletionRequest, type Mode } from "../src/index.js";
import { makePrompt, number, query, round, say } from "./measure.js";

const FRAME_MS = 1000 / 60;
const SHADER = `
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(64) fn draw(@builtin(global_invocation_id) id: vec3u) {
  var v = x[id.x];
  for (var i = 0u; i < 64u; i++) { v = v * 1.0001 + 0.5; }
  x[id.x] = v;
}`;

/** What an animation would do: a small pass, submitted every 16.7 ms, whether the last one is done or not. */
class Frames {
  readonly #device: GPUDevice;
  readonly #pipeline: GPUComputePipeline;
  readonly #group: GPUBindGroup;
  #running: Promise<void> | null = null;
  #stop = false;
  #waits: number[] = [];
  #late = 0;
  #rate = 0;

  private constructor(device: GPUDevice, pipeline: GPUComputePipeline) {
    this.#device = device;
    this.#pipeline = pipeline;
    const buffer = device.createBuffer({ size: 4 << 14, usage: 0x80 /* storage */ });
    this.#group = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries: [{ binding: 0, resource: { buffer } }] });
  }

  static async open(): Promise<Frames> {
    const adapter = await navigator.gpu.requestAdapter();
    if (!adapter) throw new Error("no adapter for the page's own device");
    const device = await adapter.requestDevice();
    const module = device.createShaderModule({ code: SHADER });
    return new Frames(device, await device.createComputePipelineAsync({ layout: "auto", compute: { module, entryPoint: "draw" } }));
  }

  start(): void {
    this.#stop = false;
    this.#waits = [];
    this.#late = 0;
    this.#running = this.#run();
  }

  /** Milliseconds from the submission of a frame until it was done; and how many frames were done a second. */
  async end(): Promise<{ frames: number; per_second: number; p50: number; p99: number; most: number; late: number }> {
    this.#stop = true;
    await this.#running;
    const sorted = this.#waits.toSorted((a, b) => a - b), at = (share: number) => round(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0);
    return { frames: sorted.length, per_second: round(this.#rate), p50: at(0.5), p99: at(0.99), most: at(1), late: this.#late };
  }
  async #run(): Promise<void> {
    const began = performance.now(), open = new Set<Promise<void>>();
    let last = began;
    for (let due = began; !this.#stop; due += FRAME_MS) {
      const now = performance.now();
      if (due < now - FRAME_MS) due = now; // the page itself was late: frames that it missed are not drawn afterwards
      else await new Promise(resolve => setTimeout(resolve, due - now));
      const encoder = this.#device.createCommandEncoder(), pass = encoder.beginComputePass();
      pass.setPipeline(this.#pipeline);
      pass.setBindGroup(0, this.#group);
      pass.dispatchWorkgroups(256);
      pass.end();
      const since = performance.now();
      this.#device.queue.submit([encoder.finish()]);
      const done = this.#device.queue.onSubmittedWorkDone().then(() => {
        last = performance.now();
        const wait = last - since;
        this.#waits.push(wait);
        this.#late += Number(wait > FRAME_MS);
        open.delete(done);
      });
      open.add(done);
    }
    await Promise.all(open);
    this.#rate = (1000 * this.#waits.length) / (last - began);
  }
}

async function measure(): Promise<object> {
  const engine = await Forerun.load(query.get("model") ?? "model.gguf", { cache: false, memory: "off" }); // waits until there is an adapter
  const frames = await Frames.open();
  const info = await engine.info(), cpu = info.adapter.isCpu;
  const tokens = number("n", cpu ? 12 : 128), length = number("prompt", cpu ? 64 : 512), repeats = number("repeats", cpu ? 1 : 5), mode = (query.get("mode") ?? "adaptive") as Mode;
  const list = (name: string, usual: string) => (query.get(name) ?? usual).split(",").filter(Boolean).map(Number);
  const prompt = await makePrompt(engine, info.vocabulary, length);
  const ask = async (request: Partial<CompletionRequest>) => {
    await engine.reset(); // the prompt is part of what a page waits for
    return await engine.completions.create({ prompt, max_tokens: tokens, ignore_eos: true, mode, ...request, stream: false }) as Completion;
  };
  for (let i = 0; i < (cpu ? 1 : 3); i++) await ask({}); // kernels, clocks, costs
  const first = (await ask({})).token_ids;

  frames.start();
  await new Promise(resolve => setTimeout(resolve, 2000));
  const rows: object[] = [{ way: "idle", ...(await frames.end()) }];
  const row = async (way: string, request: Partial<CompletionRequest>) => {
    if (request.budget) await ask(request); // it learns what fits
    const timings: Completion["timing"][] = [];
    frames.start();
    for (let i = 0; i < repeats; i++) {
      const answer = await ask(request);
      if (answer.token_ids.some((id, k) => id !== first[k])) throw new Error(`${way}: runs of the same prompt disagree`);
      timings.push(answer.timing);
    }
    const waits = await frames.end(), t = timings.at(-1)!;
    rows.push({ way, ...waits, ms_per_token: round(t.ms_per_token), prefill_ms: round(t.prefill_ms), window: t.window, tau: round(t.tau), widths: t.widths, submits: t.submits });
  };
  await row("greedy", { mode: "greedy" });
  for (const window of list("windows", cpu ? "1,4" : "1,2,4,8,16")) await row(`W = ${window}`, { window });
  for (const budget of list("budgets", cpu ? "16" : "4,8")) await row(`budget of ${budget} ms`, { budget });
  await engine.dispose();
  return { name: info.name, adapter: info.adapter.name, is_cpu: cpu, browser: navigator.userAgent, mode, tokens, prompt_tokens: length, repeats, rows };
}

try {
  await say("/log", JSON.stringify(await measure()));
} catch (e) {
  await say("/log", JSON.stringify({ error: (e as Error).message }));
}
await fetch("/done", { method: "POST", body: "" }).catch(() => undefined);
