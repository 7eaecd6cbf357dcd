// llama.cpp without a browser, through the library that node-llama-cpp packages: node llama.mjs JOB.json. Prints a JSON line an event, as the
// pages of the suite report them (../pages/engine.js).

import { readFileSync } from "node:fs";
import { getLlama, LlamaLogLevel } from "node-llama-cpp";

const job = JSON.parse(readFileSync(process.argv[2], "utf8"));
const round = (key, value) => (typeof value === "number" && !Number.isInteger(value) ? Number(value.toFixed(4)) : value);
const say = object => console.log(JSON.stringify(object, round));

let model, sequence;

async function load() {
  const llama = await getLlama({ gpu: "vulkan", build: "never", skipDownload: true, logLevel: LlamaLogLevel.error });
  model = await llama.loadModel({ modelPath: job.model, gpuLayers: job.cpu ? 0 : "max" });
  const context = await model.createContext({ contextSize: 4096, sequences: 1 });
  sequence = context.getSequence();
  return { gpu: llama.gpu, device: llama.gpu ? await llama.getGpuDeviceNames() : [], threads: context.currentThreads };
}

async function run({ text, max_tokens, ignore_eos }) {
  await sequence.clearHistory();
  const began = performance.now(), ids = model.tokenize(text, true);
  let first, tokens = 0;
  for await (const id of sequence.evaluate(ids, { temperature: 0, yieldEogToken: true })) {
    first ??= performance.now();
    if (!ignore_eos && model.isEogToken(id)) break;
    if (++tokens === max_tokens) break;
  }
  const total_ms = performance.now() - began, first_ms = first - began;
  return {
    first_ms, total_ms, prompt_tokens: ids.length, tokens, ms_per_token: tokens > 1 ? (total_ms - first_ms) / (tokens - 1) : null,
    prompt_tokens_per_s: (1000 * ids.length) / first_ms,
  };
}

try {
  const began = performance.now();
  const facts = await load();
  say({ event: "loaded", load_ms: performance.now() - began, ...facts });
  const { text, tokens, repeats, warm } = job.speed;
  if (!job.workload)
    for (let i = -warm; i < repeats; i++) {
      const r = await run({ text, max_tokens: tokens, ignore_eos: true });
      if (i >= 0) say({ event: "speed", mode: "default", repeat: i, ...r });
    }
  else await run({ text, max_tokens: 2, ignore_eos: true }); // compiles what there is to compile
  for (const { id, task, text } of job.workload ?? []) say({ event: "prompt", mode: "default", id, task, ...await run({ text, max_tokens: job.max_tokens, ignore_eos: false }) });
  say({ event: "end" });
  await new Promise(resolve => process.stdin.once("end", resolve).resume()); // the suite looks at this process's memory
} catch (e) {
  say({ event: "error", error: String(e?.stack ?? e).slice(0, 600) });
}
process.exit(0);
