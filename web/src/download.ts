// The bytes of a model, from wherever it is, in pieces that are asked for one at a time: nothing is read ahead of the GPU.

import { AbortError, DownloadError, ModelError } from "./errors.js";
import type { Source } from "./protocol.js";

export interface Bytes {
  /** Pieces in order. Stopping early cancels what is behind them. */
  chunks: AsyncIterable<Uint8Array>;
  /** A size to show until the file's header is read; 0 if unknown. */
  size: number;
  /** Where it came from, for messages. */
  from: string;
  /** What tells versions of the same URL apart. */
  version: Version | null;
}

/** Validators of an HTTP answer; "" and 0 where the server or CORS hides them. */
export interface Version { etag: string; modified: string; size: number }

const RETRIES = 3, RETRY_MS = 700;

export function open(source: Source, signal: AbortSignal): Promise<Bytes> {
  switch (source.kind) {
    case "url": return download(source.url, signal);
    case "blob": return Promise.resolve(fromBlob(source.blob, signal));
    case "stream": return Promise.resolve({ chunks: read(source.stream, signal, "the stream"), size: 0, from: "the stream", version: null });
  }
}

export function fromBlob(blob: Blob, signal: AbortSignal): Bytes {
  const from = blob instanceof File ? blob.name : "the given file";
  return { chunks: read(blob.stream(), signal, from), size: blob.size, from, version: null };
}

async function* read(stream: ReadableStream<Uint8Array>, signal: AbortSignal, from: string): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  const cancel = () => void reader.cancel().catch(() => undefined); // makes a read that waits return
  signal.addEventListener("abort", cancel);
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((e: Error) => {
        throw new DownloadError(`reading ${from} failed: ${e.message}`, { cause: e });
      });
      throwIfAborted(signal);
      if (done) return;
      if (!ArrayBuffer.isView(value)) throw new DownloadError(`${from} yielded something that isn't bytes`);
      yield value;
    }
  } finally {
    signal.removeEventListener("abort", cancel);
    cancel();
  }
}

export function throwIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new AbortError("the load was aborted");
}

// ---- HTTP

export function versionOf(response: Response): Version {
  const encoded = response.headers.has("content-encoding"); // then the length is of something else
  return {
    etag: response.headers.get("etag") ?? "",
    modified: response.headers.get("last-modified") ?? "",
    size: encoded ? 0 : Number(response.headers.get("content-length") ?? 0),
  };
}

/** A web page by its type, so no model. */
export function isPage(response: Response): boolean {
  return /^text\/html\b/i.test(response.headers.get("content-type") ?? "");
}

async function request(url: string, signal: AbortSignal, headers: Record<string, string> = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, { signal, headers });
  } catch (e) {
    throwIfAborted(signal);
    throw new DownloadError(`${url} can't be reached (network, or the server does not allow this page by CORS): ${(e as Error).message}`, { cause: e });
  }
  if (response.ok) return response;
  const what = response.status === 404 ? "there is no such file" : response.status === 401 || response.status === 403 ? "access is refused" : "the server failed";
  throw new DownloadError(`${url}: HTTP ${response.status}, ${what}; check the model's address`, { status: response.status });
}

async function download(url: string, signal: AbortSignal): Promise<Bytes> {
  const response = await request(url, signal);
  if (isPage(response)) {
    void response.body?.cancel();
    throw new ModelError(`${url} answers with a web page (HTML), not with a GGUF file: use the address of the file itself`);
  }
  const version = versionOf(response);
  return { chunks: resuming(url, response, version, signal), size: version.size, from: url, version };
}

/** The body of an answer; where the connection breaks, the rest is asked for by range. */
async function* resuming(url: string, first: Response, version: Version, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  let response = first, received = 0, skip = 0;
  for (let retries = 0; ;) {
    try {
      for await (const chunk of body(response, signal, url)) {
        if (skip >= chunk.length) { // a server that knows no ranges starts over
          skip -= chunk.length;
          continue;
        }
        const fresh = chunk.subarray(skip);
        skip = 0;
        received += fresh.length;
        retries = 0;
        yield fresh;
      }
      return;
    } catch (e) {
      throwIfAborted(signal);
      if (!(e instanceof BrokenConnection) || retries++ === RETRIES)
        throw e instanceof BrokenConnection ? new DownloadError(`the connection broke after ${received} bytes of ${url}: ${e.message}`, { cause: e }) : e;
    }
    await new Promise(resolve => setTimeout(resolve, RETRY_MS * retries));
    try {
      response = await request(url, signal, { range: `bytes=${received}-` });
    } catch (e) {
      if (e instanceof DownloadError && e.status !== undefined) throw e;
      throwIfAborted(signal);
      response = new Response(new ReadableStream({ start: c => c.error(e) })); // still no network: counts as a broken connection
      continue;
    }
    skip = response.status === 206 ? 0 : received;
    if (changed(version, response, received)) throw new DownloadError(`${url} changed while it was being downloaded: load it again`);
  }
}

class BrokenConnection extends Error {}

async function* body(response: Response, signal: AbortSignal, url: string): AsyncGenerator<Uint8Array> {
  if (!response.body) throw new DownloadError(`${url} answers with no content`);
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((e: Error) => { throw new BrokenConnection(e.message); });
      throwIfAborted(signal);
      if (done) return;
      yield value;
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

function changed(before: Version, response: Response, received: number): boolean {
  const now = versionOf(response);
  if (before.etag && now.etag) return before.etag !== now.etag;
  const size = response.status === 206 ? now.size + received : now.size;
  return (before.modified !== now.modified) || (before.size > 0 && now.size > 0 && size !== before.size);
}

/** Passes the bytes on once the first of them look like a GGUF file. */
export async function* checked(bytes: Bytes): AsyncGenerator<Uint8Array> {
  let head = new Uint8Array(0);
  for await (const chunk of bytes.chunks) {
    if (head.length < 4) {
      const joined = new Uint8Array(head.length + chunk.length);
      joined.set(head);
      joined.set(chunk, head.length);
      head = joined;
      if (head.length < 4) continue;
      checkMagic(head, bytes.from);
      yield head;
    } else {
      yield chunk;
    }
  }
  if (head.length < 4) throw new ModelError(`${bytes.from} is not a GGUF file: it has only ${head.length} bytes`);
}

function checkMagic(head: Uint8Array, from: string): void {
  const text = new TextDecoder("latin1").decode(head.subarray(0, 512));
  if (text.startsWith("GGUF")) return;
  if (/^\s*<(!doctype|html|\?xml)/i.test(text)) throw new ModelError(`${from} is a web page (HTML), not a GGUF file: use the address of the file itself`);
  if (/^version \S+git-lfs/.test(text)) throw new ModelError(`${from} is a Git LFS pointer, not the model: fetch the file itself`);
  throw new ModelError(`${from} is not a GGUF file (it begins with ${JSON.stringify(text.slice(0, 4))}): give a .gguf file`);
}
