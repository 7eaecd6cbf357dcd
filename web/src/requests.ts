// OpenAI-shaped requests to what the engine takes, and back. What is not supported is refused by name: an option that is ignored would
// give answers that the caller did not ask for.

import type { CoreRequest } from "./core.js";
import { ArgumentError } from "./errors.js";
import type { GenerateCall, Prompt } from "./protocol.js";
import { content, text, withPage } from "./page.js";
import type { ChatMessage, ChatRequest, CompletionRequest, Defaults, LoadOptions, MemoryMode, Mode, RequestOptions } from "./types.js";

const SHARED = new Set(["max_tokens", "max_completion_tokens", "stop", "mode", "window", "width", "budget", "workgroups", "memory", "conversation", "scope", "signal", "stream", "stream_options", "ignore_eos", "temperature", "model"]);
/** Values of options that aren't supported but ask for nothing. */
const NEUTRAL: Record<string, unknown> = {
  top_p: 1, n: 1, frequency_penalty: 0, presence_penalty: 0, logprobs: false, top_logprobs: 0, best_of: 1, echo: false, tool_choice: "none",
};
const ROLES = new Set(["system", "user", "assistant"]);
const MODES = new Set(["adaptive", "loop", "greedy", "tree"]), WIDTHS = new Set([2, 4, 8, 16, 32]);
const MAX_STOP = 16, MAX_WINDOW = 16, MAX_WIDTH = 32, MAX_BUDGET = 1000, MAX_WORKGROUPS = 1024;

function refuseUnknown(request: object, own: string[]): void {
  for (const [key, value] of Object.entries(request)) {
    if (value === undefined || value === null || SHARED.has(key) || own.includes(key)) continue;
    if (key in NEUTRAL && value === NEUTRAL[key]) continue;
    throw new ArgumentError(key in NEUTRAL
      ? `"${key}": ${JSON.stringify(value)} is not supported: decoding is greedy, one answer at a time; leave it out`
      : `"${key}" is not supported: leave it out`);
  }
}

function count(name: string, value: unknown, least: number, most: number): number {
  if (value === undefined || value === null) return 0; // the engine's default
  if (typeof value !== "number" || !Number.isInteger(value) || value < least || value > most)
    throw new ArgumentError(`"${name}" must be a whole number from ${least} to ${most}, not ${JSON.stringify(value)}`);
  return value;
}

/** 0: the engine's default. */
export function checkWidth(value: unknown): number {
  const width = count("width", value, 2, MAX_WIDTH);
  if (width && !WIDTHS.has(width)) throw new ArgumentError(`"width" must be 2, 4, 8, 16 or 32, not ${width}`);
  return width;
}

export function checkMode(mode: unknown): Mode {
  if (!MODES.has(mode as string)) throw new ArgumentError(`"mode": ${JSON.stringify(mode)} is not supported: use "adaptive", "loop", "tree" or "greedy"`);
  return mode as Mode;
}

/** 0: none. */
function checkBudget(value: unknown): number {
  if (value === undefined || value === null) return 0;
  if (typeof value !== "number" || !(value >= 0 && value <= MAX_BUDGET))
    throw new ArgumentError(`"budget" must be 0 to ${MAX_BUDGET} milliseconds, not ${JSON.stringify(value)}`);
  return value;
}

function checkMemory(memory: unknown): MemoryMode {
  if (memory === "persistent") throw new ArgumentError('"memory": "persistent" is not supported yet: use "session", and keep what engine.memory.save() gives');
  if (memory !== "session" && memory !== "off") throw new ArgumentError(`"memory": ${JSON.stringify(memory)} is not supported: use "session" or "off"`);
  return memory;
}

/** A name; it ends at a NUL in C, so it may have none. */
export function checkConversation(name: unknown): string {
  const checked = text('"conversation"', name);
  if (!checked) throw new ArgumentError('"conversation" is empty: give it a name, or leave it out');
  return checked;
}

function scope(request: RequestOptions, memory: MemoryMode): CoreRequest["scope"] {
  const of = request.scope ?? "all";
  if (of !== "all" && of !== "conversation") throw new ArgumentError(`"scope": ${JSON.stringify(of)} is not supported: use "all" or "conversation"`);
  return memory === "off" ? "NONE" : of === "all" ? "ALL" : "CONVERSATION";
}

function options(request: RequestOptions, defaults: Defaults): CoreRequest {
  if (request.temperature) throw new ArgumentError(`"temperature": ${JSON.stringify(request.temperature)} is not supported: decoding is greedy; use 0`);
  const mode = checkMode(request.mode ?? defaults.mode);
  const stop = request.stop === undefined || request.stop === null ? [] : [request.stop].flat();
  if (stop.length > MAX_STOP) throw new ArgumentError(`"stop" has ${stop.length} strings: at most ${MAX_STOP}`);
  return {
    mode: mode.toUpperCase() as CoreRequest["mode"],
    maxTokens: count("max_tokens", request.max_tokens ?? request.max_completion_tokens, 1, 2 ** 31 - 1),
    window: count("window", request.window, 1, MAX_WINDOW) || defaults.window,
    width: checkWidth(request.width) || defaults.width,
    stop: stop.map((s, i) => text(`"stop"[${i}]`, s)),
    ignoreEos: request.ignore_eos ?? false,
    conversation: (request.conversation ?? null) === null ? "" : checkConversation(request.conversation),
    scope: scope(request, checkMemory(request.memory ?? defaults.memory)),
    budget: checkBudget(request.budget ?? defaults.budget),
    ...((request.workgroups ?? null) === null ? {} : { workgroups: count("workgroups", request.workgroups, 0, MAX_WORKGROUPS) }),
  };
}

export function checkDefaults(given: Pick<LoadOptions, "mode" | "window" | "width" | "budget" | "memory">): Defaults {
  return {
    mode: checkMode(given.mode ?? "adaptive"), window: count("window", given.window, 1, MAX_WINDOW), width: checkWidth(given.width),
    budget: checkBudget(given.budget), memory: checkMemory(given.memory ?? "session"),
  };
}

export function chatCall(request: ChatRequest, defaults: Defaults): GenerateCall {
  refuseUnknown(request, ["messages", "page"]);
  if (!Array.isArray(request.messages) || !request.messages.length) throw new ArgumentError('"messages" must be a list of at least one message');
  request.messages.forEach((m, i) => {
    if (!ROLES.has(m?.role)) throw new ArgumentError(`"messages"[${i}].role is ${JSON.stringify(m?.role)}: use "system", "user" or "assistant"`);
    refuseMessageKeys(m, i);
  });
  const page = [request.page ?? []].flat().map((p, i) => text(`"page"[${i}]`, p));
  const messages = withPage(request.messages, page).map((m, i) => ({ role: m.role, content: content(m, `"messages"[${i}]`) }));
  return { prompt: { kind: "chat", messages }, request: options(request, defaults) };
}

function refuseMessageKeys(message: ChatMessage, i: number): void {
  for (const [key, value] of Object.entries(message))
    if (key !== "role" && key !== "content" && value !== undefined && value !== null && !(key === "refusal"))
      throw new ArgumentError(`"messages"[${i}].${key} is not supported: leave it out`);
}

export function tokenIds(what: string, ids: ArrayLike<number>): Uint32Array {
  const list = Array.from(ids);
  const wrong = list.find(id => !Number.isInteger(id) || id < 0 || id > 0xffffffff);
  if (wrong !== undefined) throw new ArgumentError(`${what} holds ${JSON.stringify(wrong)}, which is no token id`);
  return Uint32Array.from(list);
}

export function completionCall(request: CompletionRequest, defaults: Defaults): GenerateCall {
  refuseUnknown(request, ["prompt"]);
  const prompt: Prompt = typeof request.prompt === "string"
    ? { kind: "text", text: request.prompt }
    : { kind: "ids", ids: tokenIds('"prompt"', request.prompt ?? []) };
  if (prompt.kind === "text" ? !prompt.text : !prompt.ids.length) throw new ArgumentError('"prompt" is empty: give text or token ids');
  return { prompt, request: options(request, defaults) };
}
