// One engine through one job, the same for every engine: load, requests with a fixed prompt, requests of the workload. suite.py serves the job
// as /job.json and collects what is posted to /log.
//
// An engine is a module that exports
//   load(job): facts about the model and the device, once it takes requests
//   run({ text, max_tokens, ignore_eos, mode }): { first_ms, total_ms, prompt_tokens, tokens, ... }. first_ms: from the call to the first text or
//     token in the page. total_ms: to the end. Nothing of earlier requests may be reused.

import { adapterReady, done, say } from "./report.js";

/** The order rotates, so that nobody always goes first. */
const rotated = (list, by) => list.map((_, i) => list[(i + by) % list.length]);

/** Decoding begins behind the first token, which the end of the prompt yields. */
function rates(r) {
  return { ...r, ms_per_token: r.tokens > 1 ? (r.total_ms - r.first_ms) / (r.tokens - 1) : null, prompt_tokens_per_s: (1000 * r.prompt_tokens) / r.first_ms };
}

async function speed(engine, job) {
  const { text, tokens, repeats, warm } = job.speed;
  for (const mode of job.modes) for (let i = 0; i < warm; i++) await engine.run({ text, max_tokens: tokens, ignore_eos: true, mode });
  for (let repeat = 0; repeat < repeats; repeat++)
    for (const mode of rotated(job.modes, repeat)) {
      const r = await engine.run({ text, max_tokens: tokens, ignore_eos: true, mode });
      await say({ event: "speed", mode: mode.name, repeat, ...rates(r) });
    }
}

async function workload(engine, job) {
  for (const [i, { id, task, text }] of job.workload.entries())
    for (const mode of rotated(job.modes, i)) {
      const r = await engine.run({ text, max_tokens: job.max_tokens, ignore_eos: false, mode });
      await say({ event: "prompt", mode: mode.name, id, task, ...rates(r) });
    }
}

try {
  const job = await (await fetch("/job.json")).json();
  await say({ event: "start", browser: navigator.userAgent, ...await adapterReady() });
  const engine = await import(`./${job.engine}.js`);
  const began = performance.now();
  const facts = await engine.load(job);
  await say({ event: "loaded", load_ms: performance.now() - began, ...facts });
  if (job.speed) await speed(engine, job);
  if (job.workload) await workload(engine, job);
  await say({ event: "end" });
} catch (e) {
  await say({ event: "error", error: String(e?.stack ?? e).slice(0, 600) });
}
await done();
