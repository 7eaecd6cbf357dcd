// Where a step's time goes in this browser, kernel by kernel: a plain step, a step of the prompt, a step over a tree. recorder.js, in the
// engine's worker, does the timing. The result has the keys of `forerun bench --profile --json`.

import { Forerun } from "/forerun/index.js";
import { adapterReady, done, say } from "./report.js";

const channel = new BroadcastChannel("profile");

/** Asks the recorder; resolves with its answer. */
function ask(message) {
  return new Promise((resolve, reject) => {
    channel.onmessage = ({ data }) => (data.error ? reject(new Error(data.error)) : resolve(data.answer));
    channel.postMessage(message);
  });
}

function median(list) {
  const sorted = list.toSorted((a, b) => a - b), half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

async function profile(engine, job, cpu, { name, nodes, skip, request }) {
  await engine.reset();
  await ask({ record: skip });
  const answer = await engine.completions.create({ prompt: job.text, max_tokens: 24, ignore_eos: true, window: 1, stream: false, ...request });
  const { dispatches, step_samples, kernels } = await ask({ profile: job.repeats, cpu });
  return {
    name, nodes, positions: answer.usage.prompt_tokens, dispatches, step_ms: median(step_samples), step_samples_ms: step_samples,
    kernels: kernels.map(k => ({
      kernel: k.kernel, matrix: `grid ${k.grid}`, dispatches: k.dispatches, us: median(k.samples[0]), samples_us: k.samples[0],
      one_layer_us: median(k.samples[1]), one_layer_samples_us: k.samples[1],
    })),
  };
}

try {
  const job = await (await fetch("/job.json")).json();
  await say({ event: "start", browser: navigator.userAgent, ...await adapterReady() });
  const engine = await Forerun.load("/model.gguf", { cache: false, memory: "off", workerUrl: new URL("profile_worker.js", location.href) });
  const { name, quantisation, adapter } = await engine.info(), cpu = adapter.isCpu, prompt = cpu ? 32 : 256; // nodes of a step of the prompt
  const tokens = (await engine.tokenize(job.text)).length, steps = Math.ceil(tokens / prompt); // of the prompt, a command buffer each
  if (job.width > 1) await engine.prepare({ mode: "tree", width: job.width });
  const buckets = [
    { name: "a step", nodes: 1, skip: steps + 4, request: { mode: "loop" } },
    ...(steps > 2 ? [{ name: "a step of the prompt", nodes: prompt, skip: steps - 2, request: { mode: "loop" } }] : []), // not the last, which has a head
    ...(job.width > 1 ? [{ name: "a tree", nodes: job.width, skip: steps + 1, request: { mode: "tree", width: job.width } }] : []),
  ];
  const profiles = [];
  for (const bucket of buckets) profiles.push(await profile(engine, job, cpu, bucket));
  await say({ event: "result", name, types: quantisation, adapter: adapter.name, profiles });
} catch (e) {
  await say({ event: "error", error: String(e?.stack ?? e).slice(0, 600) });
}
await done();
