// Downloads against a server that misbehaves in the ways servers do.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { source } from "./helpers.mjs";

const { open, checked } = await source("download");
const file = Buffer.from("GGUF" + Array.from({ length: 5000 }, (_, i) => String(i)).join(","));
const html = "<!DOCTYPE html><html><body>Please sign in</body></html>";
let server, base, requests;

/** What the server does for each path; `n` counts the requests for it, from 0. */
const routes = {
  "/good": (q, r) => send(r, 200, file),
  "/html": (q, r) => send(r, 200, html, { "content-type": "text/html; charset=utf-8" }),
  "/html-as-octets": (q, r) => send(r, 200, html, { "content-type": "application/octet-stream" }),
  "/lfs": (q, r) => send(r, 200, "version https://git-lfs.github.com/spec/v1\noid sha256:00\n"),
  "/zip": (q, r) => send(r, 200, "PK\x03\x04rest"),
  "/empty": (q, r) => send(r, 200, ""),
  "/forbidden": (q, r) => send(r, 403, "no"),
  "/broken": (q, r) => send(r, 500, "no"),
  "/drops": (q, r, n) => dropping(q, r, n, 2, '"one"'),
  "/drops-always": (q, r, n) => dropping(q, r, n, Infinity, '"one"', 0),
  "/drops-no-range": (q, r, n) => (n < 1 ? half(r, file, { "content-length": file.length }) : send(r, 200, file)),
  "/drops-and-changes": (q, r, n) => dropping(q, r, n, 1, n ? '"two"' : '"one"'),
};

function send(response, status, body, headers = {}) {
  response.writeHead(status, { "content-length": Buffer.byteLength(body), ...headers });
  response.end(body);
}

function half(response, body, headers, status = 200, part = body.length >> 1) {
  response.writeHead(status, headers);
  response.write(body.subarray(0, part), () => setTimeout(() => response.destroy(), 20));
}

function dropping(request, response, n, times, etag, part) {
  const start = Number(/bytes=(\d+)-/.exec(request.headers.range ?? "")?.[1] ?? 0);
  const rest = file.subarray(start);
  const headers = { etag, "content-length": rest.length, ...(start && { "content-range": `bytes ${start}-${file.length - 1}/${file.length}` }) };
  if (n < times) return half(response, rest, headers, start ? 206 : 200, part);
  response.writeHead(start ? 206 : 200, headers);
  response.end(rest);
}

before(async () => {
  requests = new Map();
  server = createServer((request, response) => {
    const n = requests.get(request.url) ?? 0;
    requests.set(request.url, n + 1);
    (routes[request.url] ?? ((q, r) => send(r, 404, "nothing here")))(request, response, n);
  });
  await new Promise(resolve => server.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${server.address().port}`;
});
after(() => {
  server.close();
  server.closeAllConnections();
});

async function bytesOf(source, signal = new AbortController().signal) {
  const parts = [];
  for await (const chunk of checked(await open(source, signal))) parts.push(Buffer.from(chunk));
  return Buffer.concat(parts);
}
const url = path => ({ kind: "url", url: base + path });

const fails = (path, name, pattern, more = () => true) => assert.rejects(bytesOf(url(path)), e => {
  assert.equal(e.name, name, e.message);
  assert.match(e.message, pattern);
  assert.ok(more(e));
  return true;
});

test("download: a good file arrives whole", async () => {
  assert.deepEqual(await bytesOf(url("/good")), file);
});

test("download: HTML, by its type or by its text, is no model", async () => {
  await fails("/html", "ModelError", /web page \(HTML\)/);
  await fails("/html-as-octets", "ModelError", /web page \(HTML\)/);
});

test("download: other files are named for what they are", async () => {
  await fails("/lfs", "ModelError", /Git LFS pointer/);
  await fails("/zip", "ModelError", /begins with "PK/);
  await fails("/empty", "ModelError", /only 0 bytes/);
});

test("download: HTTP errors carry their status", async () => {
  await fails("/missing", "DownloadError", /404.*no such file/, e => e.status === 404);
  await fails("/forbidden", "DownloadError", /403.*refused/, e => e.status === 403);
  await fails("/broken", "DownloadError", /500/, e => e.status === 500);
});

test("download: an unreachable server", async () => {
  await assert.rejects(bytesOf({ kind: "url", url: "http://127.0.0.1:9/x.gguf" }), e => e.name === "DownloadError" && e.status === undefined);
});

test("download: a broken connection goes on where it stopped", async () => {
  assert.deepEqual(await bytesOf(url("/drops")), file);
  assert.equal(requests.get("/drops"), 3);
});

test("download: a server without ranges starts over, and nothing comes twice", async () => {
  assert.deepEqual(await bytesOf(url("/drops-no-range")), file);
});

test("download: a connection that always breaks is given up", async () => {
  await fails("/drops-always", "DownloadError", /broke after 0 bytes/);
});

test("download: a file that changes between two parts is noticed", async () => {
  await fails("/drops-and-changes", "DownloadError", /changed/);
});

test("download: streams and blobs, in any pieces", async () => {
  for (const size of [1, 3, 4, 1000]) {
    const stream = new ReadableStream({
      start(controller) {
        for (let at = 0; at < file.length; at += size) controller.enqueue(new Uint8Array(file.subarray(at, at + size)));
        controller.close();
      },
    });
    assert.deepEqual(await bytesOf({ kind: "stream", stream }), file);
  }
  assert.deepEqual(await bytesOf({ kind: "blob", blob: new Blob([file]) }), file);
});

test("download: abort ends it and the source", async () => {
  let cancelled = false;
  const stream = new ReadableStream({
    pull(controller) { controller.enqueue(new Uint8Array(file.subarray(0, 100))); },
    cancel() { cancelled = true; },
  });
  const stop = new AbortController();
  let chunks = 0;
  await assert.rejects(async () => {
    for await (const _ of checked(await open({ kind: "stream", stream }, stop.signal))) if (++chunks === 5) stop.abort();
  }, { name: "AbortError" });
  assert.equal(cancelled, true);
});
