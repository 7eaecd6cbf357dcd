// The public class. The engine itself works in a worker of its own, so that the page stays responsive whatever it does.

import { removeCached } from "./cache_folder.js";
import { AbortError, ArgumentError, DisposedError, ForerunError } from "./errors.js";
import { Link } from "./link.js";
import type { CallName, Calls, GenerateCall, LoadCall, Source } from "./protocol.js";
import { chatCall, checkConversation, checkDefaults, checkMode, checkWidth, completionCall, tokenIds } from "./requests.js";
import { Running, type Answer } from "./running.js";
import { checkSupport } from "./support.js";
import type {
  ChatChunk, ChatCompletion, ChatRequest, Completion, CompletionChunk, CompletionRequest, Defaults, FinishReason, Info, LoadOptions, Memory, Mode, ModelSource,
  RequestOptions, Stats, Support,
} from "./types.js";

/** Chunks as they come. Leaving the loop, or abort(), ends the request; the engine then takes the next one. Can be read once. */
export interface Stream<T> extends AsyncIterable<T> {
  abort(): void;
}

interface Create<Request, Chunk, Whole> {
  (request: Request & { stream: true }): Promise<Stream<Chunk>>;
  (request: Request & { stream?: false | null }): Promise<Whole>;
  (request: Request): Promise<Stream<Chunk> | Whole>;
}

/** How the two kinds of completion present the same run. */
interface Shape<Chunk, Whole> {
  first: Chunk[];
  text(text: string): Chunk;
  end(reason: FinishReason, answer: Answer): Chunk;
  usage(answer: Answer): Chunk;
  whole(text: string, answer: Answer): Whole;
}

const CLOSE_MS = 2000; // how long a worker may take to put the GPU's memory back before it is ended regardless

export class Forerun {
  readonly chat: { completions: { create: Create<ChatRequest, ChatChunk, ChatCompletion> } };
  readonly completions: { create: Create<CompletionRequest, CompletionChunk, Completion> };
  readonly memory: Memory;
  readonly #link: Link;
  readonly #defaults: Defaults;
  readonly #name: string;
  #turn: Promise<void> = Promise.resolve();
  #disposed: Promise<void> | null = null;

  private constructor(link: Link, defaults: Defaults, name: string) {
    this.#link = link;
    this.#defaults = defaults;
    this.#name = name;
    const chat = (request: ChatRequest) => this.#create(request, () => chatCall(request, defaults), chatShape(request.model ?? name));
    const raw = (request: CompletionRequest) => this.#create(request, () => completionCall(request, defaults), completionShape(request.model ?? name));
    this.chat = { completions: { create: chat as Create<ChatRequest, ChatChunk, ChatCompletion> } };
    this.completions = { create: raw as Create<CompletionRequest, CompletionChunk, Completion> };
    this.memory = {
      clear: async conversation => {
        await this.#inTurn("clearMemory", { conversation: conversation === undefined ? null : checkConversation(conversation) });
      },
      save: async () => await this.#inTurn("saveMemory", null) as Uint8Array<ArrayBuffer>,
      load: async bytes => { await this.#inTurn("loadMemory", { bytes: toBytes(bytes) }); },
    };
  }

  /** Fetches a model, uploads it to the GPU and compiles its kernels. One worker and one GPU device per engine. */
  static async load(source: ModelSource, options: LoadOptions = {}): Promise<Forerun> {
    const { signal, onProgress } = options;
    const defaults = checkDefaults(options);
    if (options.context !== undefined && !(Number.isInteger(options.context) && options.context > 0 && options.context < 2 ** 31))
      throw new ArgumentError(`"context" must be a whole number of tokens from 1 to ${2 ** 31 - 1}, not ${JSON.stringify(options.context)}`);
    if (signal?.aborted) throw new AbortError("the load was aborted");
    const { source: from, transfer } = await toSource(source);
    const call: LoadCall = {
      source: from,
      wasmUrl: options.wasmUrl === undefined ? undefined : absolute(options.wasmUrl),
      cache: (options.cache ?? true) && from.kind === "url" && /^https?:/.test(from.url),
      costs: options.cache ?? true, context: options.context, portable: options.portable ?? false, powerPreference: options.powerPreference,
    };
    const link = new Link(options.workerUrl);
    try {
      const info = await abortable(link, call, transfer, signal, onProgress);
      return new Forerun(link, defaults, info.name);
    } catch (e) {
      if (!(e instanceof AbortError)) link.terminate(); // an aborted load is cleaned up by abortable()
      throw e;
    }
  }

  /** Whether this browser can run the engine, without downloading anything. */
  static checkSupport(): Promise<Support> {
    return checkSupport();
  }

  /** Forgets a cached model, or all of them. */
  static clearCache(url?: string | URL): Promise<void> {
    return removeCached(url === undefined ? undefined : absolute(url));
  }

  async tokenize(text: string, options: { special?: boolean } = {}): Promise<number[]> {
    if (typeof text !== "string") throw new ArgumentError("tokenize() takes text");
    return Array.from(await this.#link.call("tokenize", { text, special: options.special ?? false }).answer);
  }

  async detokenize(ids: ArrayLike<number>): Promise<string> {
    return this.#link.call("detokenize", { ids: tokenIds("detokenize()", ids) }).answer;
  }

  /** Facts about the model and the device. */
  async info(): Promise<Info> {
    return this.#link.call("info", null).answer;
  }

  /** Numbers of the load and of the last request. */
  async stats(): Promise<Stats> {
    return this.#link.call("stats", null).answer;
  }

  /** Forgets the KV cache once the requests before this have ended: the next prompt is computed from its beginning. */
  async reset(): Promise<void> {
    await this.#inTurn("reset", null);
  }

  /** Compiles the kernels of a mode (default: the engine's) and width ahead. Without it a request compiles them while plain steps go on. */
  async prepare(options: { mode?: Mode; width?: number } = {}): Promise<void> {
    const mode = checkMode(options.mode ?? this.#defaults.mode), width = checkWidth(options.width) || this.#defaults.width;
    await this.#inTurn("prepare", { mode: mode.toUpperCase() as Calls["prepare"]["takes"]["mode"], width });
  }

  /** Gives back the worker and all GPU memory. What is in flight rejects with DisposedError. Calling it again is harmless. */
  dispose(): Promise<void> {
    return (this.#disposed ??= close(this.#link));
  }

  /** A call behind the requests before it. */
  async #inTurn<N extends CallName>(type: N, body: Calls[N]["takes"]): Promise<Calls[N]["answers"]> {
    const release = await this.#takeTurn(undefined);
    try {
      return await this.#link.call(type, body).answer;
    } finally {
      release();
    }
  }

  async #takeTurn(signal: AbortSignal | undefined): Promise<() => void> {
    const before = this.#turn;
    let release = () => {};
    const mine = new Promise<void>(resolve => { release = resolve; });
    this.#turn = before.then(() => mine);
    try {
      await orAborted(before, signal);
    } catch (e) {
      release();
      throw e;
    }
    return release;
  }

  async #create<Chunk, Whole>(request: RequestOptions & { stream?: boolean | null }, call: () => GenerateCall, shape: Shape<Chunk, Whole>): Promise<Stream<Chunk> | Whole> {
    if (this.#disposed) throw new DisposedError("the engine was disposed");
    const checked = call();
    const signal = request.signal ?? undefined;
    const release = await this.#takeTurn(signal);
    const running = new Running(this.#link, checked, signal);
    void running.done.then(release);
    await running.started;
    return request.stream ? stream(running, shape, request.stream_options?.include_usage ?? false) : whole(running, shape);
  }

  /** What requests that don't say it take. */
  get defaults(): Readonly<Defaults> {
    return this.#defaults;
  }

  /** The model's own name. */
  get model(): string {
    return this.#name;
  }
}

// ---- loading

async function toSource(source: ModelSource): Promise<{ source: Source; transfer: Transferable[] }> {
  if (typeof source === "string" || source instanceof URL) return { source: { kind: "url", url: absolute(source) }, transfer: [] };
  if (source instanceof Blob) return { source: { kind: "blob", blob: source }, transfer: [] };
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source))
    return { source: { kind: "blob", blob: new Blob([source as BlobPart]) }, transfer: [] }; // a Blob is read in pieces, and leaves the caller's buffer alone
  if (source instanceof ReadableStream)
    return streamsTravel() ? { source: { kind: "stream", stream: source }, transfer: [source] } : { source: { kind: "blob", blob: await new Response(source).blob() }, transfer: [] };
  throw new ArgumentError("load() takes a URL, a File or Blob, an ArrayBuffer or a ReadableStream of bytes");
}

function absolute(url: string | URL): string {
  try {
    return new URL(url, globalThis.document?.baseURI ?? globalThis.location?.href).href;
  } catch {
    throw new ArgumentError(`${JSON.stringify(String(url))} is not a URL`);
  }
}

function toBytes(bytes: Uint8Array | ArrayBuffer): Uint8Array {
  if (bytes instanceof ArrayBuffer) return new Uint8Array(bytes);
  if (bytes instanceof Uint8Array) return bytes;
  throw new ArgumentError("memory.load() takes the bytes that memory.save() gave");
}

/** Safari can't give a stream to a worker. */
function streamsTravel(): boolean {
  try {
    const probe = new ReadableStream();
    structuredClone(probe, { transfer: [probe] });
    return true;
  } catch {
    return false;
  }
}

async function abortable(link: Link, call: LoadCall, transfer: Transferable[], signal: AbortSignal | undefined, onProgress: LoadOptions["onProgress"]): Promise<Info> {
  const { id, answer } = link.call("load", call, { progress: p => { if (!signal?.aborted) onProgress?.(p); } }, transfer);
  try {
    return await orAborted(answer, signal);
  } catch (e) {
    if (e instanceof AbortError) {
      link.abort(id); // lets the worker drop the unfinished cache file
      void Promise.race([answer, new Promise(resolve => setTimeout(resolve, CLOSE_MS))]).catch(() => undefined).then(() => link.terminate());
    }
    throw e;
  }
}

/** The promise's outcome, or AbortError as soon as the signal says so. */
async function orAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  if (signal.aborted) {
    promise.catch(() => undefined);
    throw new AbortError("aborted", { cause: signal.reason });
  }
  let abort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(new AbortError("aborted", { cause: signal.reason }));
  });
  signal.addEventListener("abort", abort);
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
    promise.catch(() => undefined);
    aborted.catch(() => undefined);
  }
}

async function close(link: Link): Promise<void> {
  const { answer } = link.call("dispose", null);
  await Promise.race([answer.catch(() => undefined), new Promise(resolve => setTimeout(resolve, CLOSE_MS))]);
  link.terminate();
}

// ---- presenting a run

function stream<Chunk, Whole>(running: Running, shape: Shape<Chunk, Whole>, includeUsage: boolean): Stream<Chunk> {
  let taken = false;
  async function* chunks(): AsyncGenerator<Chunk> {
    let ended = false;
    try {
      yield* shape.first;
      for (let text; (text = await running.next()) !== null;) yield shape.text(text);
      ended = true;
      const answer = running.answer;
      yield shape.end(answer.finish, answer);
      if (includeUsage) yield shape.usage(answer);
    } finally {
      if (!ended) running.abort();
    }
  }
  return {
    abort: () => running.abort(),
    [Symbol.asyncIterator]() {
      if (taken) throw new ForerunError("a stream can be read only once");
      taken = true;
      return chunks();
    },
  };
}

async function whole<Chunk, Whole>(running: Running, shape: Shape<Chunk, Whole>): Promise<Whole> {
  let all = "";
  for (let text; (text = await running.next()) !== null;) all += text;
  return shape.whole(all, running.answer);
}

function head(prefix: string, model: string): { id: string; created: number; model: string } {
  return { id: `${prefix}-${crypto.randomUUID()}`, created: Math.floor(Date.now() / 1000), model };
}

function extras({ timing, token_ids, usage }: Answer): Pick<Answer, "timing" | "token_ids" | "usage"> {
  return { usage, timing, token_ids };
}

function chatShape(model: string): Shape<ChatChunk, ChatCompletion> {
  const top = head("chatcmpl", model);
  const chunk = (delta: ChatChunk["choices"][0]["delta"], finish_reason: FinishReason | null): ChatChunk =>
    ({ ...top, object: "chat.completion.chunk", choices: [{ index: 0, delta, logprobs: null, finish_reason }] });
  return {
    first: [chunk({ role: "assistant", content: "" }, null)],
    text: content => chunk({ content }, null),
    end: (reason, { timing, token_ids }) => ({ ...chunk({}, reason), timing, token_ids }),
    usage: ({ usage }) => ({ ...top, object: "chat.completion.chunk", choices: [], usage }),
    whole: (content, answer) => ({
      ...top, object: "chat.completion",
      choices: [{ index: 0, message: { role: "assistant", content, refusal: null }, logprobs: null, finish_reason: answer.finish }], ...extras(answer),
    }),
  };
}

function completionShape(model: string): Shape<CompletionChunk, Completion> {
  const top = head("cmpl", model);
  const chunk = (text: string, finish_reason: FinishReason | null): CompletionChunk =>
    ({ ...top, object: "text_completion", choices: [{ index: 0, text, logprobs: null, finish_reason }] });
  return {
    first: [],
    text: text => chunk(text, null),
    end: (reason, { timing, token_ids }) => ({ ...chunk("", reason), timing, token_ids }),
    usage: ({ usage }) => ({ ...top, object: "text_completion", choices: [], usage } as CompletionChunk),
    whole: (text, answer) => ({
      ...top, object: "text_completion", choices: [{ index: 0, text, logprobs: null, finish_reason: answer.finish }], ...extras(answer),
    }),
  };
}
