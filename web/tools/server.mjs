// A static server for the package and its pages, with the model beside them at /model.gguf. Files are sent with ranges and validators, and
// nothing outside the root is ever sent. POST /log and /done go to the caller, for pages that report.

import { createReadStream } from "node:fs";
import { realpath, stat } from "node:fs/promises";
import { createServer } from "node:http";
import { basename, extname, join, sep } from "node:path";
import { pipeline } from "node:stream/promises";

const TYPES = {
  ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8", ".json": "application/json; charset=utf-8", ".txt": "text/plain; charset=utf-8",
  ".md": "text/markdown; charset=utf-8", ".ts": "text/plain; charset=utf-8", ".wasm": "application/wasm", ".gguf": "application/octet-stream",
};
const MODEL = "/model.gguf";
const TAKEN = { EADDRINUSE: "is taken by another program", EACCES: "is not for ordinary users" };
const MAX_POST = 1 << 20;
const BASE_HEADERS = {
  // Cross-origin isolation is not needed by the engine; it makes the browser's clock finer.
  "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp", "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-cache", "x-content-type-options": "nosniff",
};

export const isUrl = text => /^https?:\/\//i.test(text);

/** Serves `root`; `model` is a file or a URL (then the page fetches it itself). Resolves to {url, close}; port 0 takes a free one. */
export async function startServer({ root, model, port = 0, host = "127.0.0.1", onLog = () => {}, onDone = () => {} }) {
  const base = await realpath(root);
  const where = model && !isUrl(model) ? await modelFile(model) : null;
  const demo = model ? { model: where ? MODEL.slice(1) : model, name: basename(where ?? new URL(model).pathname) } : null;
  const handle = async (request, response) => {
    const path = decodePath(request.url);
    if (request.method === "POST" && (path === "/log" || path === "/done")) return receive(request, response, path === "/log" ? onLog : onDone);
    if (request.method !== "GET" && request.method !== "HEAD") return refuse(response, 405, "method not allowed");
    if (path === "/demo.json" && demo) return sendText(request, response, JSON.stringify(demo), TYPES[".json"]);
    const file = path === null ? null : path === MODEL && where ? where : await inside(base, path);
    if (!file) return refuse(response, 404, "no such file");
    return sendFile(request, response, file);
  };
  const server = createServer((request, response) => {
    handle(request, response).catch(e => { // the browser went away, or the file did
      if (!response.headersSent) refuse(response, 500, e.message);
      else response.destroy();
    });
  });
  await new Promise((resolve, reject) => {
    server.once("error", e => reject(TAKEN[e.code] ? new Error(`port ${port} ${TAKEN[e.code]}: choose another one (make serve PORT=N, or --port N)`) : e));
    server.listen(port, host, resolve);
  });
  const close = () => new Promise(resolve => {
    server.close(resolve);
    server.closeAllConnections();
  });
  return { url: `http://${host}:${server.address().port}/`, close };
}

async function modelFile(path) {
  const info = await stat(path).catch(() => null);
  if (!info?.isFile()) throw new Error(`${path} is not a file: give a .gguf file or a URL`);
  return realpath(path);
}

function decodePath(url) {
  try {
    return decodeURIComponent(new URL(url, "http://localhost").pathname);
  } catch {
    return null;
  }
}

/** The real path of a file under `base`, or null. */
async function inside(base, path) {
  if (path.includes("\0") || path.includes("\\")) return null;
  const file = await realpath(join(base, path.endsWith("/") ? `${path}index.html` : path)).catch(() => null);
  return file?.startsWith(base + sep) && (await stat(file)).isFile() ? file : null;
}

/** "bytes=a-b" of one range; null: none, or one to ignore; undefined: outside the file. */
function parseRange(header, size) {
  const m = /^bytes=(\d*)-(\d*)$/.exec(header ?? "");
  if (!m || (!m[1] && !m[2])) return null;
  const start = m[1] ? Number(m[1]) : Math.max(0, size - Number(m[2]));
  const end = m[1] && m[2] ? Math.min(Number(m[2]), size - 1) : size - 1;
  return start < size && start <= end ? { start, end } : undefined;
}

async function sendFile(request, response, file) {
  const { size, mtime, mtimeMs } = await stat(file);
  const etag = `"${size.toString(36)}-${Math.round(mtimeMs).toString(36)}"`;
  const headers = {
    ...BASE_HEADERS, etag, "last-modified": mtime.toUTCString(), "accept-ranges": "bytes",
    "content-type": TYPES[extname(file).toLowerCase()] ?? "application/octet-stream",
  };
  if (request.headers["if-none-match"] === etag) return response.writeHead(304, headers).end();
  const range = parseRange(request.headers.range, size);
  if (range === undefined) return response.writeHead(416, { ...headers, "content-range": `bytes */${size}` }).end();
  const { start, end } = range ?? { start: 0, end: size - 1 };
  headers["content-length"] = end - start + 1;
  if (range) headers["content-range"] = `bytes ${start}-${end}/${size}`;
  response.writeHead(range ? 206 : 200, headers);
  if (request.method === "HEAD" || size === 0) return response.end();
  await pipeline(createReadStream(file, { start, end, highWaterMark: 1 << 20 }), response);
}

function sendText(request, response, text, type) {
  response.writeHead(200, { ...BASE_HEADERS, "content-type": type, "content-length": Buffer.byteLength(text) });
  response.end(request.method === "HEAD" ? undefined : text);
}

function refuse(response, status, message) {
  response.writeHead(status, { ...BASE_HEADERS, "content-type": TYPES[".txt"] });
  response.end(`${message}\n`);
}

async function receive(request, response, use) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > MAX_POST) return refuse(response, 413, "too long");
    parts.push(part);
  }
  use(Buffer.concat(parts).toString());
  response.writeHead(204, BASE_HEADERS).end();
}
