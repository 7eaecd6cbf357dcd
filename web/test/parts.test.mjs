// Parts of the package alone, with stand-ins for what browsers have: no GPU, no browser.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { source } from "./helpers.mjs";

const { createBinding } = await source("webgpu");
const { findAdapter, requestDevice } = await source("gpu");
const { Link } = await source("link");
const { rising } = await source("progress");
const { cacheWriter, findCached } = await source("cache");

test("parts: an event wakes everyone who waits for one", async () => {
  const binding = createBinding(() => {});
  const waits = [binding.event(), binding.event()];
  binding.post(() => {});
  await Promise.all(waits);
  assert.equal(binding.deliver(), 1);
});

test("parts: progress never falls", () => {
  const seen = [], tell = rising(p => seen.push([p.phase, p.ratio]));
  for (const [phase, ratio] of [["start", 0], ["read", 0.3], ["read", 0.6], ["start", 0], ["download", 0.1], ["download", 0.9]]) tell({ phase, loaded: 1, total: 2, ratio });
  assert.deepEqual(seen, [["start", 0], ["read", 0.3], ["read", 0.6], ["start", 0.6], ["download", 0.6], ["download", 0.9]]);
});

// ---- adapters

const adapter = (more = {}) => ({ info: { vendor: "test" }, features: new Set(), limits: {}, ...more });
const gpu = (found, features = ["packed_4x8_integer_dot_product"]) => ({ wgslLanguageFeatures: new Set(features), requestAdapter: async () => found });

test("parts: a browser without the dot product of the kernels is refused by name", async () => {
  await assert.rejects(findAdapter(gpu(adapter(), ["unrestricted_pointer_parameters"]), undefined, 1), { name: "NoGpuError", message: /packed_4x8_integer_dot_product/ });
  assert.ok(await findAdapter(gpu(adapter()), undefined, 1));
});

test("parts: a device that is refused is a NoGpuError, portable or not", async () => {
  const refusing = adapter({ requestDevice: async () => { throw new TypeError("no more devices"); } });
  for (const portable of [false, true]) await assert.rejects(requestDevice(gpu(refusing), { portable }), { name: "NoGpuError", message: /no more devices/ });
});

// ---- the worker's link

test("parts: what can't be sent to the worker is an ArgumentError", async () => {
  globalThis.Worker = class {
    postMessage(message, transfer) { structuredClone(message, { transfer }); }
    terminate() {}
  };
  try {
    const link = new Link("/worker.js"), stream = new ReadableStream();
    stream.getReader(); // a locked stream can't be given away
    await assert.rejects(link.call("load", { source: { kind: "stream", stream } }, {}, [stream]).answer, { name: "ArgumentError", message: /load/ });
    link.terminate();
  } finally {
    delete globalThis.Worker;
  }
});

// ---- the cache, over a file system in memory

let server, url, head;
const files = new Map();
const missing = name => Object.assign(new Error(name), { name: "NotFoundError" });
let room = Infinity; // bytes that a write takes

const handle = name => ({
  getFile: async () => new Blob([files.get(name)]),
  createSyncAccessHandle: async () => ({
    write(bytes, { at = 0 } = {}) {
      const n = Math.min(bytes.length, room), old = files.get(name), all = new Uint8Array(Math.max(old.length, at + n));
      all.set(old);
      all.set(bytes.subarray(0, n), at);
      files.set(name, all);
      return n;
    },
    truncate: size => files.set(name, files.get(name).slice(0, size)),
    flush() {},
    close() {},
  }),
});
const folder = {
  getDirectoryHandle: async () => folder,
  async getFileHandle(name, { create = false } = {}) {
    if (!files.has(name) && !create) throw missing(name);
    if (!files.has(name)) files.set(name, new Uint8Array(0));
    return handle(name);
  },
  async removeEntry(name) { if (!files.delete(name)) throw missing(name); },
  keys: () => files.keys(),
};

before(async () => {
  Object.defineProperty(globalThis, "navigator", { configurable: true, value: { storage: { getDirectory: async () => folder, estimate: async () => ({ quota: 1e12, usage: 0 }) } } });
  server = createServer((request, response) => {
    response.writeHead(200, head);
    response.end();
  });
  await new Promise(resolve => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${server.address().port}/m.gguf`;
});
after(() => {
  server.close();
  server.closeAllConnections();
});

const version = { etag: '"one"', modified: "", size: 8 };
async function store() {
  files.clear();
  const writer = await cacheWriter(url, 8);
  writer.write(Uint8Array.from([1, 2, 3, 4]));
  writer.write(Uint8Array.from([5, 6, 7, 8]));
  await writer.commit(version);
}
const found = async () => (await findCached(url, new AbortController().signal))?.size ?? null;

test("parts: a cached file is taken as long as the server has the same", async () => {
  await store();
  head = { etag: '"one"' };
  assert.equal(await found(), 8);
  head = { etag: '"two"' };
  assert.equal(await found(), null);
  assert.equal(files.size, 0, "and forgotten");
});

test("parts: a web page instead of the file says nothing about the cached one", async () => {
  await store();
  head = { etag: '"login"', "content-type": "text/html; charset=utf-8", "content-length": "0" };
  assert.equal(await found(), 8);
});

test("parts: a write that is cut short leaves no entry", async () => {
  for (room of [0, 3]) await store();
  room = Infinity;
  head = { etag: '"one"' };
  assert.equal(files.size, 0);
  assert.equal(await found(), null);
});
