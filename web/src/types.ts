// What the package's users see. Names follow OpenAI's API where there is one (snake_case), the platform elsewhere.

/** `loop`: the decoding loop lives on the GPU. `greedy`: reads every token back. `tree`: the GPU drafts too, and a step verifies a tree of
 * guesses, for 1 to 9 tokens. `adaptive`: the faster of `loop` and `tree`, and the best width, as measured while the answer is made; the default.
 * All give the same tokens. */
export type Mode = "adaptive" | "loop" | "greedy" | "tree";

/** `session`: answers are remembered, and `tree` and `adaptive` draft from them; the default. `off`: neither. No answer depends on it. `persistent`, kept
 * from visit to visit, is not there yet: see Memory.save(). */
export type MemoryMode = "session" | "off";

/** Where a model comes from: the address of a .gguf file, the file itself, its bytes, or a stream of them. */
export type ModelSource = string | URL | Blob | ArrayBuffer | Uint8Array | ReadableStream<Uint8Array>;

/** The GPU as the browser describes it. */
export interface Adapter {
  /** For people: vendor, architecture, description. */
  name: string;
  /** A software adapter, such as SwiftShader. */
  isCpu: boolean;
  /** It seems to share the memory of the CPU. A guess: browsers don't tell. */
  isIntegrated: boolean;
  hasSubgroups: boolean;
  subgroupMin: number;
  subgroupMax: number;
}

export interface Progress {
  /** `start`: WebAssembly and GPU; `download` or `read` (from a file, memory or the cache); `compile`: pipelines; `ready`. */
  phase: "start" | "download" | "read" | "compile" | "ready";
  /** Bytes of the model so far, and in all (0 while unknown; from the file's own header, so never off by compression). */
  loaded: number;
  total: number;
  /** The whole load, 0 to 1, never falling. */
  ratio: number;
}

export interface LoadOptions {
  onProgress?: (progress: Progress) => void;
  /** Ends the load; load() then rejects with AbortError. */
  signal?: AbortSignal;
  /** Keep a downloaded file (of an http or https address), and what `adaptive` learns of the device, in the origin's private file system for
   * the next visit; default true. */
  cache?: boolean;
  /** Tokens of context, prompt and answer together; at most what the model was trained for, which is also the default, up to 4096. */
  context?: number;
  /** Mode of requests that name none; default "adaptive". */
  mode?: Mode;
  /** Steps per command buffer but in `greedy`, 1 to 16, of requests that name none; default: the engine's choice. */
  window?: number;
  /** Nodes of a `tree`, 2, 4, 8, 16 or 32, of requests that name none; default 8. In `adaptive` the most there may be; default 32. */
  width?: number;
  /** Frame budget in milliseconds, of requests that name none: see RequestOptions; default: none. */
  budget?: number;
  /** Memory of requests that don't say; default "session". */
  memory?: MemoryMode;
  /** Default "high-performance". */
  powerPreference?: "high-performance" | "low-power";
  /** Only default limits and no optional features of WebGPU (to try what a weaker device would do). */
  portable?: boolean;
  /** Where worker.js and forerun.wasm are served, if not beside index.js. */
  workerUrl?: string | URL;
  wasmUrl?: string | URL;
}

/** What requests that don't say it take; window and width 0: the engine's choice; budget 0: none. */
export interface Defaults { mode: Mode; window: number; width: number; budget: number; memory: MemoryMode }

export interface TextPart { type: "text"; text: string }
export interface ChatMessage {
  role: "system" | "user" | "assistant";
  content: string | TextPart[];
}

export interface RequestOptions {
  /** Default: until the context is full. */
  max_tokens?: number | null;
  /** Another name for max_tokens. */
  max_completion_tokens?: number | null;
  /** Strings that end the answer; not part of it. At most 16. */
  stop?: string | string[] | null;
  mode?: Mode;
  window?: number;
  width?: number;
  /** Milliseconds, up to 1000: what the page draws waits no longer than about that for the engine, which is slower then. 0: no budget. */
  budget?: number;
  /**
   * Of steps that have all layers of the model in one dispatch, whose workgroups run at the same time: at most so many, up to 1024. 0: no such steps.
   * Default: the engine finds out whether the GPU can, and if it is faster. The answer is the same.
   */
  workgroups?: number;
  /** "off": this answer is not remembered, and drafts from nothing that is. */
  memory?: MemoryMode;
  /** Whose answer it is in memory; a name of yours. */
  conversation?: string;
  /** What drafts may come from: answers of all conversations (the default), or of this one only. */
  scope?: "all" | "conversation";
  /** Ends the request: its last chunk then has finish_reason "abort". Before it has begun, create() rejects with AbortError. */
  signal?: AbortSignal;
  stream_options?: { include_usage?: boolean } | null;
  /** An end token is an ordinary token (benchmarks). */
  ignore_eos?: boolean;
  /** Decoding is greedy: 0 is the only temperature. */
  temperature?: 0 | null;
  /** Any name is accepted and echoed: an engine holds one model. */
  model?: string;
}

export interface ChatRequest extends RequestOptions {
  messages: ChatMessage[];
  /** Text of a page, put in front of the last user message, with an empty line between (see withPage). */
  page?: string | string[];
  stream?: boolean | null;
}

export interface CompletionRequest extends RequestOptions {
  /** Text (special tokens written out in it are recognised) or token ids; no chat template. */
  prompt: string | ArrayLike<number>;
  stream?: boolean | null;
}

export type FinishReason = "stop" | "length" | "abort";

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: { cached_tokens: number };
  completion_tokens_details: { accepted_prediction_tokens: number; rejected_prediction_tokens: number };
}

/** Milliseconds unless the name says otherwise. */
export interface Timing {
  prefill_ms: number;
  first_token_ms: number;
  decode_ms: number;
  ms_per_token: number;
  prefill_tokens_per_second: number;
  tokens_per_second: number;
  mode: Mode;
  /** Steps that chose tokens, end token included: the prompt's last one and all behind it, also those behind a stop string or an abort. */
  steps: number;
  /** Tokens of the answer per step. */
  tau: number;
  /** Steps of a command buffer; in `adaptive`, of the last one. */
  window: number;
  /** Nodes of a step: of the tree in `tree`, of the last one's in `adaptive`, else 1. */
  width: number;
  /** Steps by their nodes: { 1: 3, 8: 20 }. */
  widths: Record<number, number>;
  /** Command buffers in which `adaptive` tried a width. */
  probes: number;
  /** Of the steps, those that had all layers in one dispatch. */
  whole_steps: number;
  /** Steps of this kind, of all requests, that had to be made again: the GPU did not run their workgroups at the same time. */
  lost_steps: number;
  dispatches_per_step: number;
  submits: number;
}

/** What the end of a request adds to OpenAI's fields. */
export interface Outcome {
  usage: Usage;
  timing: Timing;
  /** The generated tokens, end token not included. */
  token_ids: number[];
}

export interface ChatChunk {
  id: string;
  object: "chat.completion.chunk";
  created: number;
  model: string;
  /** Empty in the chunk that carries `usage` (stream_options.include_usage). */
  choices: { index: 0; delta: { role?: "assistant"; content?: string }; logprobs: null; finish_reason: FinishReason | null }[];
  usage?: Usage | null;
  /** Only in the chunk that has the finish_reason. */
  timing?: Timing;
  token_ids?: number[];
}

export interface ChatCompletion extends Outcome {
  id: string;
  object: "chat.completion";
  created: number;
  model: string;
  choices: { index: 0; message: { role: "assistant"; content: string; refusal: null }; logprobs: null; finish_reason: FinishReason }[];
}

export interface CompletionChunk {
  id: string;
  object: "text_completion";
  created: number;
  model: string;
  choices: { index: 0; text: string; logprobs: null; finish_reason: FinishReason | null }[];
  usage?: Usage | null;
  timing?: Timing;
  token_ids?: number[];
}

export interface Completion extends Outcome {
  id: string;
  object: "text_completion";
  created: number;
  model: string;
  choices: { index: 0; text: string; logprobs: null; finish_reason: FinishReason }[];
}

/** Facts about the model and the device. */
export interface Info {
  name: string;
  architecture: string;
  quantisation: string;
  template: string;
  tokenizer: string;
  parameters: number;
  layers: number;
  vocabulary: number;
  context: number;
  /** GPU memory that the engine holds. */
  device_bytes: number;
  /** The engine's WebAssembly memory. */
  host_bytes: number;
  adapter: Adapter;
  /** The file came from the origin's cache. */
  cached: boolean;
}

/** Numbers of the load and of the last request. */
export interface Stats extends Timing {
  load_ms: number;
  compile_ms: number;
  pipelines: number;
  bytes_per_step: number;
  prompt_tokens: number;
  cached_tokens: number;
  completion_tokens: number;
  /** Tokens in session memory now, and those that the last request could draft from. */
  memory_tokens: number;
  memory_searched: number;
  /** Milliseconds of a step by its nodes, as `adaptive` takes them to be; empty until it has measured. */
  costs: Record<number, number>;
}

/** What the engine remembers of earlier answers, to draft from: 32,768 tokens at most, the oldest go first. Each call waits for the requests
 * before it. */
export interface Memory {
  /** Forgets everything, or one conversation. */
  clear(conversation?: string): Promise<void>;
  /** Everything as bytes, for a store of yours. They hold what was asked and told. */
  save(): Promise<Uint8Array<ArrayBuffer>>;
  /** Puts saved answers in place of those here. ArgumentError: damaged, or of a model with another vocabulary; then nothing has changed. */
  load(bytes: Uint8Array | ArrayBuffer): Promise<void>;
}

export interface Support {
  supported: boolean;
  /** Why not; "" if supported. */
  reason: string;
  adapter: Adapter | null;
  limits: Record<string, number>;
  features: string[];
}
