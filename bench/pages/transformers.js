// Transformers.js on onnxruntime-web's WebGPU, with random weights (make_onnx.py).

import { AutoModelForCausalLM, AutoTokenizer, TextStreamer, env } from "/peers/@huggingface/transformers/dist/transformers.web.min.js";

let tokenizer, model;

export async function load(job) {
  env.allowLocalModels = true;
  env.allowRemoteModels = false;
  env.useBrowserCache = false;
  env.localModelPath = "/";
  const runtime = "/peers/onnxruntime-web/dist/ort-wasm-simd-threaded.asyncify";
  env.backends.onnx.wasm.wasmPaths = { mjs: `${location.origin}${runtime}.mjs`, wasm: `${location.origin}${runtime}.wasm` };
  tokenizer = await AutoTokenizer.from_pretrained("onnx");
  model = await AutoModelForCausalLM.from_pretrained("onnx", { dtype: job.dtype, device: "webgpu" });
  return { version: env.version, onnxruntime: env.backends.onnx.versions?.web, dtype: job.dtype };
}

export async function run({ text, max_tokens, ignore_eos }) {
  const began = performance.now(), inputs = tokenizer(text, { add_special_tokens: false });
  let first, tokens = 0;
  const streamer = new TextStreamer(tokenizer, {
    skip_prompt: true, callback_function: () => undefined,
    token_callback_function: list => {
      first ??= performance.now();
      tokens += list.length;
    },
  });
  await model.generate({ ...inputs, max_new_tokens: max_tokens, ...(ignore_eos && { min_new_tokens: max_tokens }), do_sample: false, streamer });
  return { first_ms: first - began, total_ms: performance.now() - began, prompt_tokens: inputs.input_ids.dims[1], tokens };
}
