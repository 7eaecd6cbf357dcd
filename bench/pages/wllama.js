// wllama: llama.cpp as WebAssembly. Its WebGPU needs shader-f16; without, it computes on the CPU, and `webgpu` says so.

import { Wllama } from "/peers/@wllama/wllama/esm/index.js";

let engine;

export async function load() {
  const quiet = () => undefined;
  engine = new Wllama({ default: "/peers/@wllama/wllama/esm/wasm/wllama.wasm" }, { suppressNativeLog: true, logger: { debug: quiet, log: quiet, warn: quiet, error: quiet } });
  const blob = await (await fetch("/model.gguf")).blob();
  await engine.loadModel([blob], { n_ctx: 4096, n_gpu_layers: 999 });
  return { version: Wllama.getLibllamaVersion(), webgpu: engine.isSupportWebGPU(), threads: engine.getNumThreads() };
}

export async function run({ text, max_tokens, ignore_eos }) {
  const began = performance.now();
  let first, timings;
  for await (const chunk of await engine.createCompletion({ prompt: text, max_tokens, temperature: 0, top_k: 1, ignore_eos, cache_prompt: false, stream: true })) {
    first ??= performance.now();
    timings = chunk.timings ?? timings;
  }
  const total_ms = performance.now() - began;
  return {
    first_ms: first - began, total_ms, prompt_tokens: timings.prompt_n, tokens: timings.predicted_n, engine_first_ms: timings.prompt_ms,
    engine_ms_per_token: timings.predicted_per_token_ms,
  };
}
