// The page's side of the worker: calls as promises, events to the caller that began them, and one answer to everything if the worker dies.

import { ArgumentError, DisposedError, ForerunError, fromWire } from "./errors.js";
import type { CallName, Calls, FromWorker } from "./protocol.js";

export interface Listener {
  progress?: (message: Extract<FromWorker, { type: "progress" }>["progress"]) => void;
  started?: () => void;
  text?: (text: string) => void;
}

interface Call extends Listener {
  resolve(body: unknown): void;
  reject(error: Error): void;
}

export class Link {
  readonly #worker: Worker;
  readonly #calls = new Map<number, Call>();
  #next = 1;
  #dead: Error | null = null;

  constructor(workerUrl: string | URL | undefined) {
    this.#worker = startWorker(workerUrl);
    this.#worker.onmessage = (event: MessageEvent<FromWorker>) => this.#receive(event.data);
    this.#worker.onerror = event => {
      event.preventDefault();
      this.#die(new ForerunError(`the worker failed: ${event.message || "its script could not be loaded (check that worker.js is served beside index.js)"}`));
    };
  }

  /** `id` tells abort() which call is meant. */
  call<N extends CallName>(type: N, body: Calls[N]["takes"], listener: Listener = {}, transfer: Transferable[] = []): { id: number; answer: Promise<Calls[N]["answers"]> } {
    const id = this.#next++;
    const answer = new Promise<unknown>((resolve, reject) => {
      if (this.#dead) return reject(this.#dead);
      try {
        this.#worker.postMessage({ type, id, body }, transfer);
      } catch (e) { // such as a stream that someone else reads
        return reject(new ArgumentError(`what was given to ${type} can't be sent to the worker: ${(e as Error).message}`, { cause: e }));
      }
      this.#calls.set(id, { ...listener, resolve, reject });
    });
    return { id, answer: answer as Promise<Calls[N]["answers"]> };
  }

  abort(id: number): void {
    if (this.#calls.has(id)) this.#worker.postMessage({ type: "abort", id });
  }

  /** Ends the worker at once; calls in flight reject. */
  terminate(): void {
    this.#die(new DisposedError("the engine was disposed"));
  }

  #die(error: Error): void {
    this.#dead ??= error;
    this.#worker.terminate();
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const call of calls) call.reject(this.#dead);
  }

  #receive(message: FromWorker): void {
    const call = this.#calls.get(message.id);
    if (!call) return;
    switch (message.type) {
      case "progress": return call.progress?.(message.progress);
      case "started": return call.started?.();
      case "text": return call.text?.(message.text);
      case "answer":
        this.#calls.delete(message.id);
        return call.resolve(message.body);
      case "error":
        this.#calls.delete(message.id);
        return call.reject(fromWire(message.error));
    }
  }
}

function startWorker(workerUrl: string | URL | undefined): Worker {
  if (typeof Worker === "undefined") throw new ForerunError("there are no Web Workers here: the package runs in browsers");
  if (workerUrl !== undefined) return new Worker(workerUrl, { type: "module" });
  try { // written out literally: bundlers look for exactly this
    return new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  } catch (e) { // a page may not start a worker of another origin (a CDN), but it may import one
    if ((e as Error).name !== "SecurityError") throw e;
    const script = `import ${JSON.stringify(new URL("./worker.js", import.meta.url).href)};`;
    const local = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    try {
      return new Worker(local, { type: "module" });
    } finally {
      setTimeout(() => URL.revokeObjectURL(local), 60_000); // the worker reads it after this returns
    }
  }
}
