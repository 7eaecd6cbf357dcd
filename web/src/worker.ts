// The worker's side: one engine, its download and its cache. The page's side is link.ts; what they say to each other is protocol.ts.

import { cacheWriter, findCached, type CacheWriter } from "./cache.js";
import { findCosts, keepCosts } from "./cache_costs.js";
import { removeCached } from "./cache_folder.js";
import { Core } from "./core.js";
import * as download from "./download.js";
import { AbortError, DisposedError, ForerunError, ModelError, toWire } from "./errors.js";
import { requestDevice } from "./gpu.js";
import { rising } from "./progress.js";
import type { CallName, Calls, FromWorker, GenerateCall, LoadCall, Prompt, ToWorker } from "./protocol.js";
import type { Info, Mode, Outcome, Progress, Stats } from "./types.js";

declare const self: { onmessage: ((event: MessageEvent<ToWorker>) => void) | null; postMessage(message: FromWorker, transfer?: Transferable[]): void };

let core: Core | null = null;
let fromCache = false;
let costsKept = Infinity; // performance.now() of the last time; Infinity: never to be kept
let lastMode: Mode = "adaptive";
const running = new Map<number, () => void>(); // id of a call > how to abort it

const post = (message: FromWorker) => self.postMessage(message);

// ---- load

/** Share of the whole load at the end of each phase; bytes weigh most. */
const PARTS = { start: 0.02, bytes: 0.92, compile: 1 };

async function load(call: LoadCall, id: number): Promise<Info> {
  const stop = new AbortController();
  running.set(id, () => stop.abort());
  const unfinished: Unfinished = { writer: null };
  const aborted = new Promise<never>((_, reject) => stop.signal.addEventListener("abort", () => reject(new AbortError("the load was aborted"))));
  try { // abort doesn't wait for what the GPU is doing
    return await Promise.race([loadFrom(call, id, stop.signal, unfinished), aborted]);
  } catch (e) {
    await unfinished.writer?.discard().catch(() => undefined);
    throw e;
  }
}

/** What has to be put back when a load fails, wherever it was. */
interface Unfinished { writer: CacheWriter | null }

async function loadFrom(call: LoadCall, id: number, signal: AbortSignal, unfinished: Unfinished): Promise<Info> {
  const progress = rising(p => post({ type: "progress", id, progress: p }));
  progress({ phase: "start", loaded: 0, total: 0, ratio: 0 });
  const module = await compileModule(call.wasmUrl);
  const open = async () => {
    const { device, adapter } = await requestDevice(navigator.gpu, call);
    core = await Core.open(module, device, adapter, call);
    download.throwIfAborted(signal);
    return core;
  };
  const url = call.source.kind === "url" ? call.source.url : null;
  const cached = url && call.cache ? await findCached(url, signal) : null;
  if (cached) {
    try {
      await fill(await open(), { ...download.fromBlob(cached, signal), from: url! }, "read", null, progress, call.costs);
      fromCache = true;
      return info();
    } catch (e) {
      if (!(e instanceof ModelError)) throw e; // a damaged entry heals: forget it and download
      await close();
      await removeCached(url!);
    }
  }
  const engine = await open();
  const bytes = await download.open(call.source, signal);
  const writer = url && call.cache ? await cacheWriter(url, bytes.size) : null;
  if (signal.aborted) await writer?.discard();
  download.throwIfAborted(signal);
  unfinished.writer = writer;
  await fill(engine, bytes, url ? "download" : "read", writer, progress, call.costs);
  unfinished.writer = null;
  await writer?.commit(bytes.version!);
  return info();
}

async function compileModule(wasmUrl: string | undefined): Promise<WebAssembly.Module> {
  const url = wasmUrl ?? new URL("./forerun.wasm", import.meta.url).href;
  const response = await fetch(url).catch((e: Error) => { throw new ForerunError(`forerun.wasm can't be fetched from ${url}: ${e.message}`); });
  if (!response.ok) throw new ForerunError(`forerun.wasm can't be fetched from ${url}: HTTP ${response.status}; serve it beside worker.js or set wasmUrl`);
  try { // not compileStreaming: it insists on a MIME type that many servers don't send
    return await WebAssembly.compile(await response.arrayBuffer());
  } catch (e) {
    throw new ForerunError(`${url} is not the engine's WebAssembly module: ${(e as Error).message}`, { cause: e });
  }
}

async function fill(engine: Core, bytes: download.Bytes, phase: "download" | "read", writer: CacheWriter | null,
  progress: (p: Progress) => void, costs: boolean): Promise<void> {
  let loaded = 0, last = 0;
  for await (const chunk of download.checked(bytes)) {
    await engine.feed(chunk);
    writer?.write(chunk);
    loaded += chunk.length;
    const total = engine.expectedBytes || bytes.size;
    const share = total ? Math.min(1, loaded / total) : 0;
    const now = performance.now();
    if (now - last < 50 && loaded < total) continue; // at most 20 messages a second
    last = now;
    progress({ phase, loaded, total, ratio: PARTS.start + (PARTS.bytes - PARTS.start) * share });
  }
  const total = engine.expectedBytes || loaded;
  progress({ phase: "compile", loaded, total, ratio: PARTS.bytes });
  await engine.finish();
  costsKept = costs ? -Infinity : Infinity;
  if (costs) await loadCosts(engine);
  progress({ phase: "ready", loaded, total, ratio: PARTS.compile });
}

// ---- costs

const KEEP_MS = 5000; // between two times that they are written

async function loadCosts(engine: Core): Promise<void> {
  const bytes = await findCosts(engine.info("COSTS"));
  try {
    if (bytes) engine.loadCosts(bytes);
  } catch (e) { // stale or damaged: they are learnt again
    if (!(e instanceof ForerunError)) throw e;
  }
}

function saveCosts(engine: Core): void {
  const now = performance.now();
  if (now - costsKept < KEEP_MS) return;
  costsKept = now;
  void keepCosts(engine.info("COSTS"), engine.saveCosts());
}

// ---- requests

function ids(engine: Core, prompt: Prompt): Uint32Array {
  switch (prompt.kind) {
    case "chat": return engine.chat(prompt.messages);
    case "text": return engine.tokenize(prompt.text, true);
    case "ids": return prompt.ids;
  }
}

async function generate({ prompt, request }: GenerateCall, id: number): Promise<Calls["generate"]["answers"]> {
  const engine = loaded();
  engine.begin(ids(engine, prompt), request);
  running.set(id, () => engine.abort());
  lastMode = request.mode.toLowerCase() as Mode;
  post({ type: "started", id });
  const finish = await engine.run(text => post({ type: "text", id, text }));
  if (request.mode === "ADAPTIVE") saveCosts(engine);
  return { finish, ...outcome(engine) };
}

function outcome(engine: Core): Outcome {
  const prompt = engine.stat("PROMPT_TOKENS"), completion = engine.stat("COMPLETION_TOKENS");
  const accepted = engine.stat("ACCEPTED");
  const {
    prefill_ms, first_token_ms, decode_ms, ms_per_token, prefill_tokens_per_second, tokens_per_second, mode, steps, tau, window, width, widths, probes, whole_steps, lost_steps, dispatches_per_step, submits,
  } = stats();
  return {
    usage: {
      prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion,
      prompt_tokens_details: { cached_tokens: engine.stat("CACHED_TOKENS") },
      completion_tokens_details: { accepted_prediction_tokens: accepted, rejected_prediction_tokens: engine.stat("DRAFTED") - accepted },
    },
    timing: { prefill_ms, first_token_ms, decode_ms, ms_per_token, prefill_tokens_per_second, tokens_per_second, mode, steps, tau, window, width, widths, probes, whole_steps, lost_steps, dispatches_per_step, submits },
    token_ids: engine.tokens(),
  };
}

// ---- facts

function info(): Info {
  const e = loaded();
  return {
    name: e.info("NAME"), architecture: e.info("ARCHITECTURE"), quantisation: e.info("QUANTISATION"), template: e.info("TEMPLATE"),
    tokenizer: e.info("TOKENIZER"), parameters: e.stat("PARAMETERS"), layers: e.stat("LAYERS"), vocabulary: e.stat("VOCABULARY"),
    context: e.stat("CONTEXT"), device_bytes: e.stat("DEVICE_BYTES"), host_bytes: e.hostBytes, adapter: e.adapter, cached: fromCache,
  };
}

/** Of each width, what is not 0. */
function byWidth(e: Core, what: "STEPS" | "COST"): Record<number, number> {
  const list: Record<number, number> = {};
  for (const width of [1, 2, 4, 8, 16, 32] as const) {
    const value = e.stat(`${what}_${width}`);
    if (value) list[width] = value;
  }
  return list;
}

function stats(): Stats {
  const e = loaded();
  const rate = (count: number, ms: number) => (ms > 0 ? (1000 * count) / ms : 0);
  const computed = e.stat("PROMPT_TOKENS") - e.stat("CACHED_TOKENS"), prefill = e.stat("PREFILL_MS"), perToken = e.stat("MS_PER_TOKEN");
  const steps = e.stat("STEPS");
  return {
    load_ms: e.stat("LOAD_MS"), compile_ms: e.stat("COMPILE_MS"), pipelines: e.stat("PIPELINES"), bytes_per_step: e.stat("BYTES_PER_STEP"),
    prompt_tokens: e.stat("PROMPT_TOKENS"), cached_tokens: e.stat("CACHED_TOKENS"), completion_tokens: e.stat("COMPLETION_TOKENS"),
    prefill_ms: prefill, first_token_ms: e.stat("FIRST_TOKEN_MS"), decode_ms: e.stat("DECODE_MS"), ms_per_token: perToken,
    prefill_tokens_per_second: rate(computed, prefill), tokens_per_second: rate(1, perToken),
    mode: lastMode, steps, tau: steps ? e.stat("COMPLETION_TOKENS") / steps : 0, window: e.stat("WINDOW"), width: e.stat("WIDTH"),
    widths: byWidth(e, "STEPS"), probes: e.stat("PROBES"), whole_steps: e.stat("WHOLE_STEPS"), lost_steps: e.stat("LOST_STEPS"), dispatches_per_step: e.stat("DISPATCHES_PER_STEP"), submits: e.stat("SUBMITS"),
    memory_tokens: e.stat("MEMORY_TOKENS"), memory_searched: e.stat("MEMORY_SEARCHED"), costs: byWidth(e, "COST"),
  };
}

// ---- calls

function loaded(): Core {
  if (!core) throw new DisposedError("the engine holds no model: load one");
  return core;
}

async function close(): Promise<void> {
  const closing = core;
  core = null;
  await closing?.close();
}

const handlers: { [N in CallName]: (body: Calls[N]["takes"], id: number) => Calls[N]["answers"] | Promise<Calls[N]["answers"]> } = {
  load, generate, info, stats,
  tokenize: ({ text, special }) => loaded().tokenize(text, special),
  detokenize: ({ ids }) => loaded().detokenize(ids),
  reset: () => { loaded().reset(); return null; },
  prepare: async ({ mode, width }) => { await loaded().prepare(mode, width); return null; },
  clearMemory: ({ conversation }) => { loaded().clearMemory(conversation); return null; },
  saveMemory: () => loaded().saveMemory(),
  loadMemory: ({ bytes }) => { loaded().loadMemory(bytes); return null; },
  dispose: async () => { await close(); return null; },
};

async function answer<N extends CallName>(type: N, id: number, body: Calls[N]["takes"]): Promise<void> {
  try {
    post({ type: "answer", id, body: await handlers[type](body, id) });
  } catch (e) {
    post({ type: "error", id, error: toWire(e) });
    if (type === "load" || !(e instanceof ForerunError)) await close().catch(() => undefined); // a trap leaves the module's memory in an unknown state
  } finally {
    running.delete(id);
  }
}

self.onmessage = ({ data }) => {
  if (data.type === "abort") running.get(data.id)?.();
  else void answer(data.type, data.id, data.body as never);
};
