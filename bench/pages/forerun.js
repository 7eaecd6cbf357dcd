// This engine, as a page uses it. Modes of a job are named; what a mode asks for is in its fields.

import { Forerun } from "/forerun/index.js";

let engine;

export async function load(job) {
  const began = performance.now();
  engine = await Forerun.load("/model.gguf", { cache: false, memory: "off" });
  const since = performance.now(), stats = await engine.stats();
  const width = Math.max(...job.modes.map(m => m.request.width ?? 0));
  if (width > 1) await engine.prepare({ mode: "tree", width });
  const prepare_ms = performance.now() - since;
  if (job.modes.some(m => m.request.mode === "adaptive")) for (const n of [2, 4, 8, 16, 32]) await engine.prepare({ mode: "tree", width: n });
  const info = await engine.info();
  return {
    load_ms: since - began, name: info.name, types: info.quantisation, device_bytes: info.device_bytes, host_bytes: info.host_bytes, context: info.context,
    engine_load_ms: stats.load_ms, compile_ms: stats.compile_ms, pipelines: stats.pipelines, prepare_ms,
  };
}

export async function run({ text, max_tokens, ignore_eos, mode }) {
  await engine.reset();
  const began = performance.now();
  let first, last;
  for await (const chunk of await engine.completions.create({ prompt: text, max_tokens, ignore_eos, stream: true, stream_options: { include_usage: true }, ...mode.request })) {
    if (chunk.choices[0]?.text) first ??= performance.now();
    if (chunk.timing) last = chunk;
    if (chunk.usage) last = { ...last, usage: chunk.usage };
  }
  const total_ms = performance.now() - began, { timing, usage, token_ids } = last;
  // Random weights yield tokens without a text of their own, which are no chunks: then the engine's word counts.
  return {
    first_ms: ignore_eos || !first ? timing.first_token_ms : first - began, total_ms, prompt_tokens: usage.prompt_tokens, tokens: usage.completion_tokens, engine_first_ms: timing.first_token_ms,
    engine_ms_per_token: timing.ms_per_token, steps: timing.steps, tau: timing.tau, window: timing.window, width: timing.width, widths: timing.widths, probes: timing.probes, submits: timing.submits,
    dispatches_per_step: timing.dispatches_per_step, hash: hash(token_ids),
  };
}

/** FNV-1a over the ids: all modes must give the same tokens. */
function hash(ids) {
  let h = 0x811c9dc5;
  for (const id of ids) for (let i = 0; i < 4; i++) h = Math.imul(h ^ ((id >>> (8 * i)) & 255), 0x01000193);
  return (h >>> 0).toString(16).padStart(8, "0");
}
