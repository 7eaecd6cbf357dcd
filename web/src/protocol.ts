// Every message between the page and the worker. A call carries an id; its answer, and what comes before the answer, carry the same.

import type { CoreRequest, CoreFinish } from "./core.js";
import type { WireError } from "./errors.js";
import type { Info, Outcome, Progress, Stats } from "./types.js";

export type Source =
  | { kind: "url"; url: string }
  | { kind: "blob"; blob: Blob }
  | { kind: "stream"; stream: ReadableStream<Uint8Array> };

export interface LoadCall {
  source: Source;
  wasmUrl: string | undefined;
  cache: boolean; // of the model
  costs: boolean; // what is learnt of the device is kept
  context: number | undefined;
  portable: boolean;
  powerPreference: GPUPowerPreference | undefined;
}

export type Prompt =
  | { kind: "chat"; messages: { role: string; content: string }[] }
  | { kind: "text"; text: string }
  | { kind: "ids"; ids: Uint32Array };

export interface GenerateCall {
  prompt: Prompt;
  request: CoreRequest;
}

/** Calls by name: what they take and what they answer. */
export interface Calls {
  load: { takes: LoadCall; answers: Info };
  generate: { takes: GenerateCall; answers: Outcome & { finish: CoreFinish } };
  tokenize: { takes: { text: string; special: boolean }; answers: Uint32Array };
  detokenize: { takes: { ids: Uint32Array }; answers: string };
  info: { takes: null; answers: Info };
  stats: { takes: null; answers: Stats };
  reset: { takes: null; answers: null };
  prepare: { takes: { mode: CoreRequest["mode"]; width: number }; answers: null };
  clearMemory: { takes: { conversation: string | null }; answers: null };
  saveMemory: { takes: null; answers: Uint8Array };
  loadMemory: { takes: { bytes: Uint8Array }; answers: null };
  dispose: { takes: null; answers: null };
}
export type CallName = keyof Calls;

export type ToWorker =
  | { [N in CallName]: { type: N; id: number; body: Calls[N]["takes"] } }[CallName]
  | { type: "abort"; id: number }; // of a load or a generate; it still answers

export type FromWorker =
  | { type: "progress"; id: number; progress: Progress }
  | { type: "started"; id: number } // the engine has accepted the request
  | { type: "text"; id: number; text: string }
  | { type: "answer"; id: number; body: unknown }
  | { type: "error"; id: number; error: WireError };
