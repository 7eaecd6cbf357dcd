// One engine: the wasm module on a GPU device, driven through forerun.h. Runs where its caller runs (the package's worker; a test in
// node); it knows neither messages nor downloads. Nothing here blocks: every wait is a promise for a WebGPU completion.

import { ArgumentError, ContextError, DeviceLostError, DisposedError, ForerunError, ModelError, NoGpuError } from "./errors.js";
import * as names from "./forerun_names.js";
import type { Adapter } from "./types.js";
import { createBinding, type Binding, type BindingExports } from "./webgpu.js";

/** web/wasm/exports.c; `engine` is a pointer throughout. */
interface Exports extends BindingExports {
  _initialize?(): void;
  open(device: number, name: number, driver: number, cpu: number, integrated: number, subgroups: number, min: number, max: number, context: number, portable: number): number;
  close(engine: number): void;
  error(engine: number): number;
  error_status(engine: number): number;
  feed(engine: number, bytes: number, size: number, used: number): number;
  feed_end(engine: number): number;
  expected_bytes(engine: number): number;
  poll(engine: number): number;
  device_lost(engine: number, message: number): void;
  device_error(engine: number, message: number): void;
  generate(engine: number, ids: number, n: number, mode: number, maxTokens: number, window: number, width: number, stop: number, nStop: number,
    ignoreEos: number, conversation: number, scope: number, budget: number, workgroups: number): number;
  prepare(engine: number, mode: number, width: number): number;
  clear_memory(engine: number): void;
  clear_conversation(engine: number, name: number): void;
  save_memory(engine: number, bytes: number, room: number): number;
  load_memory(engine: number, bytes: number, size: number): number;
  save_costs(engine: number, bytes: number, room: number): number;
  load_costs(engine: number, bytes: number, size: number): number;
  abort(engine: number): void;
  reset(engine: number): void;
  take_text(engine: number, out: number, size: number): number;
  tokens(engine: number, count: number): number;
  finish_reason(engine: number): number;
  tokenize(engine: number, text: number, size: number, special: number, ids: number, cap: number): number;
  token_bytes(engine: number, id: number, size: number): number;
  chat(engine: number, messages: number, n: number, ids: number, cap: number): number;
  stat(engine: number, id: number): number;
  info(engine: number, id: number): number;
}

export interface CoreOptions {
  context?: number | undefined;
  portable?: boolean | undefined;
}

const NEVER = 0xffffffff; // FR_NEVER

export interface CoreRequest {
  mode: keyof typeof names.mode;
  maxTokens: number; // 0: until the context is full
  window: number; // 0: the engine's choice
  width: number; // 0: the engine's choice
  stop: string[];
  ignoreEos: boolean;
  conversation: string; // "": the engine's default
  scope: keyof typeof names.scope;
  budget: number; // ms; 0: none
  workgroups?: number; // 0: no steps in one dispatch; default: the engine's choice
}

export type CoreFinish = "stop" | "length" | "abort";

const STAGING = 1 << 20; // bytes of the file handed to the engine at a time
const TEXT = 1 << 14;
const SIZE_MAX = 0xffffffff;
const STALL_POLLS = 2000; // polls in a row without anything in flight: the engine waits for nothing
const encoder = new TextEncoder();
const newDecoder = () => new TextDecoder("utf-8", { ignoreBOM: true }); // U+FEFF is a character like any other, wherever a piece begins

export class Core {
  readonly adapter: Adapter;
  readonly #device: GPUDevice;
  readonly #deviceHandle: number;
  readonly #binding: Binding;
  readonly #wasm: Exports;
  #engine = 0;
  #staging = 0; // [STAGING] bytes, also for text
  #scratch = 0; // one u32 for results by pointer
  #lost = "";
  #stalled = 0;
  #closed = false;

  private constructor(device: GPUDevice, adapter: Adapter, binding: Binding, wasm: Exports, deviceHandle: number) {
    this.#device = device;
    this.adapter = adapter;
    this.#binding = binding;
    this.#wasm = wasm;
    this.#deviceHandle = deviceHandle;
  }

  /** The core owns the device from now on, also when this rejects. */
  static async open(module: WebAssembly.Module, device: GPUDevice, adapter: Adapter, options: CoreOptions): Promise<Core> {
    const reports: string[] = []; // calls that threw: told to the engine at the next delivery, not from within C
    const binding = createBinding(message => {
      reports.push(message);
      binding.post(() => core.#report(reports.splice(0)));
    });
    const core: Core = await Core.#instantiate(module, device, adapter, binding);
    try {
      core.#watch();
      core.#start(options);
      return core;
    } catch (e) {
      await core.close();
      throw e;
    }
  }

  static async #instantiate(module: WebAssembly.Module, device: GPUDevice, adapter: Adapter, binding: Binding): Promise<Core> {
    try {
      const host = { now_ms: () => performance.now() };
      const instance = await WebAssembly.instantiate(module, { ...binding.imports, host });
      const wasm = instance.exports as unknown as Exports;
      binding.attach(wasm);
      wasm._initialize?.();
      return new Core(device, adapter, binding, wasm, binding.put(device));
    } catch (e) {
      device.destroy();
      throw new ForerunError(`forerun.wasm does not fit this version of the package (${(e as Error).message}): serve the files of one version`, { cause: e });
    }
  }

  #start(options: CoreOptions): void {
    const a = this.adapter;
    this.#staging = this.#alloc(STAGING);
    this.#scratch = this.#alloc(4);
    const name = this.#string(a.name), browser = this.#string(globalThis.navigator?.userAgent ?? ""); // what drivers a browser does not tell, its version stands for
    this.#engine = this.#wasm.open(this.#deviceHandle, name, browser, Number(a.isCpu), Number(a.isIntegrated), Number(a.hasSubgroups), a.subgroupMin, a.subgroupMax,
      options.context ?? 0, Number(options.portable ?? false));
    this.#wasm.release(name);
    this.#wasm.release(browser);
    if (!this.#engine) throw new ForerunError("out of memory");
    this.poll();
  }

  #watch(): void {
    void this.#device.lost.then(info => this.#binding.post(() => {
      this.#lost = info.message || info.reason || "no reason given";
      this.#tell(this.#wasm.device_lost, this.#lost);
    }));
    this.#device.onuncapturederror = event => this.#binding.post(() => this.#report([event.error.message]));
  }

  #report(messages: string[]): void {
    for (const message of messages) this.#tell(this.#wasm.device_error, message);
  }

  #tell(call: (engine: number, message: number) => void, message: string): void {
    if (!this.#engine) return;
    const p = this.#string(message);
    call(this.#engine, p);
    this.#wasm.release(p);
  }

  // ---- memory

  #alloc(size: number): number {
    const p = this.#wasm.alloc(size) >>> 0;
    if (!p) throw new ForerunError(`out of memory: WebAssembly could not get ${size} more bytes`);
    return p;
  }

  #bytes(p: number, n: number): Uint8Array {
    return new Uint8Array(this.#wasm.memory.buffer, p, n);
  }

  /** A NUL-terminated copy; the caller releases it. */
  #string(text: string): number {
    const utf8 = encoder.encode(text);
    const p = this.#alloc(utf8.length + 1);
    const to = this.#bytes(p, utf8.length + 1);
    to.set(utf8);
    to[utf8.length] = 0;
    return p;
  }

  #text(p: number): string {
    const all = new Uint8Array(this.#wasm.memory.buffer);
    return newDecoder().decode(all.subarray(p >>> 0, all.indexOf(0, p >>> 0)));
  }

  /** Calls with an array of pointers to NUL-terminated strings. */
  #withStrings<T>(texts: string[], use: (array: number) => T): T {
    const pointers = texts.map(text => this.#string(text));
    const array = this.#alloc(4 * pointers.length);
    new Uint32Array(this.#wasm.memory.buffer, array, pointers.length).set(pointers);
    try {
      return use(array);
    } finally {
      this.#wasm.release(array);
      for (const p of pointers) this.#wasm.release(p);
    }
  }

  /** Calls with room for ids, again with more if there were too many. */
  #ids(guess: number, call: (ids: number, cap: number) => number): Uint32Array | null {
    for (let cap = guess; ;) {
      const p = this.#alloc(4 * cap);
      try {
        const n = call(p, cap) >>> 0;
        if (n === SIZE_MAX) return null;
        if (n <= cap) return new Uint32Array(this.#wasm.memory.buffer, p, n).slice();
        cap = n;
      } finally {
        this.#wasm.release(p);
      }
    }
  }

  // ---- errors

  #failure(): ForerunError {
    const message = this.#text(this.#wasm.error(this.#engine)) || "the engine failed without saying why";
    if (this.#lost) return new DeviceLostError(`the GPU was lost (${this.#lost}): dispose the engine and load the model again`);
    switch (this.#wasm.error_status(this.#engine)) {
      case names.status.BAD_MODEL: return new ModelError(message);
      case names.status.NO_GPU: return new NoGpuError(message);
      case names.status.BAD_ARGUMENT: return new ArgumentError(message);
      default: return new ForerunError(message);
    }
  }

  #check(status: number): void {
    if (status !== names.status.OK) throw this.#failure();
  }

  // ---- driving

  /** Delivers completions and lets the engine move; throws once it has failed. */
  poll(): number {
    if (!this.#engine) throw new DisposedError("the engine was disposed");
    this.#binding.deliver();
    const state = this.#wasm.poll(this.#engine);
    if (state === names.state.FAILED) throw this.#failure();
    return state;
  }

  /** Resolves when a poll can achieve something. */
  async #progress(): Promise<void> {
    if (this.#binding.pending) {
      this.#stalled = 0;
      await this.#binding.event();
    } else if (++this.#stalled < STALL_POLLS) {
      await new Promise(resolve => setTimeout(resolve)); // nothing in flight: let messages in, then look again
    } else {
      throw new ForerunError("the engine waits, but the GPU has nothing to do (a bug; load the model again)");
    }
  }

  // ---- loading

  /** Gives the engine the next bytes of the file; resolves when it has taken them all. */
  async feed(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; at += STAGING) {
      const piece = bytes.subarray(at, at + STAGING);
      this.#bytes(this.#staging, piece.length).set(piece);
      for (let taken = 0; ;) {
        this.#check(this.#wasm.feed(this.#engine, this.#staging + taken, piece.length - taken, this.#scratch));
        taken += this.#result();
        this.poll();
        if (taken === piece.length) break;
        await this.#progress();
      }
    }
  }

  /** The file is complete; resolves when the engine takes requests. */
  async finish(): Promise<void> {
    this.#check(this.#wasm.feed_end(this.#engine));
    while (this.poll() !== names.state.READY) await this.#progress();
  }

  /** Bytes of the whole file by its own header; 0 while that is incomplete. */
  get expectedBytes(): number {
    return this.#wasm.expected_bytes(this.#engine);
  }

  #result(): number {
    return new Uint32Array(this.#wasm.memory.buffer, this.#scratch, 1)[0]!;
  }

  // ---- requests

  /** Starts a request over a prompt; throws if it can't be. The caller then awaits run(). */
  begin(ids: Uint32Array, request: CoreRequest): void {
    const p = this.#alloc(4 * ids.length);
    const conversation = this.#string(request.conversation);
    new Uint32Array(this.#wasm.memory.buffer, p, ids.length).set(ids);
    try {
      const status = this.#withStrings(request.stop, stop => this.#wasm.generate(this.#engine, p, ids.length, names.mode[request.mode],
        request.maxTokens, request.window, request.width, stop, request.stop.length, Number(request.ignoreEos), conversation, names.scope[request.scope],
        request.budget, request.workgroups === undefined ? 0 : request.workgroups || NEVER));
      if (status === names.status.BAD_ARGUMENT && ids.length >= this.stat("CONTEXT")) throw new ContextError(this.#failure().message);
      this.#check(status);
    } finally {
      this.#wasm.release(p);
      this.#wasm.release(conversation);
    }
  }

  /** Compiles the kernels of a mode and width; resolves when they are there. */
  async prepare(mode: CoreRequest["mode"], width: number): Promise<void> {
    this.#check(this.#wasm.prepare(this.#engine, names.mode[mode], width));
    while (this.poll() !== names.state.READY) await this.#progress();
  }

  /** Drives the request to its end; `onText` gets whole code points as they come. */
  async run(onText: (text: string) => void): Promise<CoreFinish> {
    const decoder = newDecoder();
    const take = () => {
      for (let n; (n = this.#wasm.take_text(this.#engine, this.#staging, TEXT) >>> 0);) onText(decoder.decode(this.#bytes(this.#staging, n)));
    };
    for (;;) {
      const ready = this.poll() === names.state.READY;
      take();
      if (ready) break;
      await this.#progress();
    }
    switch (this.#wasm.finish_reason(this.#engine)) {
      case names.finish.STOP: return "stop";
      case names.finish.LENGTH: return "length";
      case names.finish.ABORT: return "abort";
      default: throw this.#failure();
    }
  }

  abort(): void {
    this.#wasm.abort(this.#engine);
  }

  reset(): void {
    this.#wasm.reset(this.#engine);
  }

  tokens(): number[] {
    const p = this.#wasm.tokens(this.#engine, this.#scratch) >>> 0;
    return p ? Array.from(new Uint32Array(this.#wasm.memory.buffer, p, this.#result())) : [];
  }

  // ---- session memory

  /** Forgets all of it, or one conversation. */
  clearMemory(conversation: string | null): void {
    if (conversation === null) return this.#wasm.clear_memory(this.#engine);
    const name = this.#string(conversation);
    this.#wasm.clear_conversation(this.#engine, name);
    this.#wasm.release(name);
  }

  /** Also of an engine that has failed. */
  saveMemory(): Uint8Array<ArrayBuffer> {
    return this.#save(this.#wasm.save_memory);
  }

  loadMemory(bytes: Uint8Array): void {
    this.#load(bytes, this.#wasm.load_memory);
  }

  // ---- costs of steps, as `adaptive` has learnt them

  saveCosts(): Uint8Array<ArrayBuffer> {
    return this.#save(this.#wasm.save_costs);
  }

  /** Throws ArgumentError if they are not of this adapter, browser, model and context; nothing has changed then. */
  loadCosts(bytes: Uint8Array): void {
    this.#load(bytes, this.#wasm.load_costs);
  }

  #save(call: (engine: number, bytes: number, room: number) => number): Uint8Array<ArrayBuffer> {
    const size = call(this.#engine, 0, 0) >>> 0;
    if (!size) throw this.#failure();
    const p = this.#alloc(size);
    try {
      call(this.#engine, p, size);
      return this.#bytes(p, size).slice() as Uint8Array<ArrayBuffer>;
    } finally {
      this.#wasm.release(p);
    }
  }

  #load(bytes: Uint8Array, call: (engine: number, bytes: number, size: number) => number): void {
    const p = this.#alloc(bytes.length);
    this.#bytes(p, bytes.length).set(bytes);
    const status = call(this.#engine, p, bytes.length);
    this.#wasm.release(p);
    this.#check(status);
  }

  // ---- text

  tokenize(text: string, special: boolean): Uint32Array {
    const utf8 = encoder.encode(text);
    const p = this.#alloc(utf8.length);
    this.#bytes(p, utf8.length).set(utf8);
    try {
      const ids = this.#ids(utf8.length + 8, (out, cap) => this.#wasm.tokenize(this.#engine, p, utf8.length, Number(special), out, cap));
      if (!ids) throw this.#failure();
      return ids;
    } finally {
      this.#wasm.release(p);
    }
  }

  detokenize(ids: ArrayLike<number>): string {
    const parts: Uint8Array[] = [];
    for (const id of Array.from(ids)) {
      const p = this.#wasm.token_bytes(this.#engine, id, this.#scratch) >>> 0;
      parts.push(this.#bytes(p, this.#result()).slice());
    }
    const decoder = newDecoder();
    return parts.map(part => decoder.decode(part, { stream: true })).join("") + decoder.decode();
  }

  /** Messages to the ids of a prompt, by the model's template. */
  chat(messages: { role: string; content: string }[]): Uint32Array {
    const texts = messages.flatMap(m => [m.role, m.content]);
    const guess = texts.reduce((sum, text) => sum + text.length, 64);
    const ids = this.#withStrings(texts, array => this.#ids(guess, (out, cap) => this.#wasm.chat(this.#engine, array, messages.length, out, cap)));
    if (!ids) throw this.#failure();
    return ids;
  }

  // ---- facts

  stat(id: keyof typeof names.stat): number {
    return this.#wasm.stat(this.#engine, names.stat[id]);
  }

  info(id: keyof typeof names.info): string {
    return this.#text(this.#wasm.info(this.#engine, names.info[id]));
  }

  get hostBytes(): number {
    return this.#wasm.memory.buffer.byteLength;
  }

  /** Handles that the engine holds (leak checks). */
  get handles(): number {
    return this.#binding.live;
  }

  /** Frees the engine and destroys the device. Resolves when nothing is under way any more: what the engine began before still holds
   * memory until then. Harmless when repeated. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const engine = this.#engine;
    this.#engine = 0;
    try {
      if (engine) this.#wasm.close(engine);
    } finally { // even if the engine trapped
      this.#binding.release(this.#deviceHandle);
      this.#device.destroy();
    }
    while (this.#binding.pending) {
      await this.#binding.event();
      this.#binding.deliver();
    }
  }
}
