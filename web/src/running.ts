// A request that the engine is working on: its text as it comes, then its outcome. It goes on whether or not anyone reads.

import type { Link } from "./link.js";
import type { Calls, GenerateCall } from "./protocol.js";

export type Answer = Calls["generate"]["answers"];

export class Running {
  /** Resolves when the engine has accepted the request; rejects with why it has not. */
  readonly started: Promise<void>;
  /** Settles when the engine is free again; never rejects. */
  readonly done: Promise<void>;
  readonly #link: Link;
  readonly #id: number;
  #texts: string[] = [];
  #answer: Answer | null = null;
  #error: Error | null = null;
  #wake: (() => void) | null = null;

  constructor(link: Link, call: GenerateCall, signal: AbortSignal | undefined) {
    this.#link = link;
    let started = () => {};
    const accepted = new Promise<void>(resolve => { started = resolve; });
    const { id, answer } = link.call("generate", call, {
      started,
      text: text => {
        this.#texts.push(text);
        this.#notify();
      },
    });
    this.#id = id;
    const abort = () => this.abort();
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) abort();
    this.done = answer.then(value => { this.#answer = value; }, (e: Error) => { this.#error = e; }).then(() => {
      signal?.removeEventListener("abort", abort);
      this.#notify();
    });
    this.started = Promise.race([accepted, answer.then(() => undefined)]);
    this.started.catch(() => undefined); // whoever awaits it sees the error
  }

  #notify(): void {
    this.#wake?.();
    this.#wake = null;
  }

  /** The next text, or null when there is no more; then `answer` is there. Throws if the request failed. */
  async next(): Promise<string | null> {
    while (!this.#texts.length && !this.#answer && !this.#error) await new Promise<void>(resolve => { this.#wake = resolve; });
    if (this.#texts.length) return this.#texts.splice(0).join("");
    if (this.#error) throw this.#error;
    return null;
  }

  get answer(): Answer {
    return this.#answer!;
  }

  abort(): void {
    this.#link.abort(this.#id);
  }
}
