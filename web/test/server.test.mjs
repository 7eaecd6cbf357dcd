// The development server: what it sends, in which pieces, and what it never sends.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { startServer } from "../tools/server.mjs";
import { scratch, web } from "./helpers.mjs";

const folder = join(scratch, "server"), root = join(folder, "root");
let server, logs = [];

before(async () => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(root, "sub"), { recursive: true });
  writeFileSync(join(root, "index.html"), "<p>hello");
  writeFileSync(join(root, "a b.js"), "1");
  writeFileSync(join(root, "forerun.wasm"), "\0asm");
  writeFileSync(join(folder, "secret.txt"), "secret");
  writeFileSync(join(folder, "model-Q4.gguf"), "GGUF0123456789");
  symlinkSync(join(folder, "secret.txt"), join(root, "link.txt"));
  server = await startServer({ root, model: join(folder, "model-Q4.gguf"), onLog: text => logs.push(text) });
});
after(() => server?.close());

const get = (path, headers = {}, method = "GET") => fetch(server.url + path, { headers, method });

/** A request as written: fetch() would tidy up the path. */
function raw(path) {
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = connect(Number(new URL(server.url).port), "127.0.0.1", () => socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`));
    socket.on("data", data => { answer += data; });
    socket.on("end", () => resolve(answer));
    socket.on("error", reject);
  });
}

test("server: files with their types", async () => {
  const page = await get("");
  assert.equal(await page.text(), "<p>hello");
  assert.match(page.headers.get("content-type"), /^text\/html/);
  assert.equal((await get("forerun.wasm")).headers.get("content-type"), "application/wasm");
  assert.match((await get("a%20b.js")).headers.get("content-type"), /^text\/javascript/);
});

test("server: the model, and what the page is told about it", async () => {
  assert.deepEqual(await (await get("demo.json")).json(), { model: "model.gguf", name: "model-Q4.gguf" });
  assert.equal(await (await get("model.gguf")).text(), "GGUF0123456789");
  const remote = await startServer({ root, model: "https://example.org/x/y.gguf?download=1" });
  assert.deepEqual(await (await fetch(`${remote.url}demo.json`)).json(), { model: "https://example.org/x/y.gguf?download=1", name: "y.gguf" });
  assert.equal((await fetch(`${remote.url}model.gguf`)).status, 404);
  await remote.close();
});

test("server: ranges", async () => {
  const part = await get("model.gguf", { range: "bytes=4-6" });
  assert.equal(part.status, 206);
  assert.equal(part.headers.get("content-range"), "bytes 4-6/14");
  assert.equal(await part.text(), "012");
  assert.equal(await (await get("model.gguf", { range: "bytes=12-" })).text(), "89");
  assert.equal(await (await get("model.gguf", { range: "bytes=-3" })).text(), "789");
  assert.equal(await (await get("model.gguf", { range: "bytes=10-99" })).text(), "6789");
  assert.equal((await get("model.gguf", { range: "bytes=14-" })).status, 416);
  assert.equal((await get("model.gguf", { range: "bytes=6-4" })).status, 416);
  assert.equal((await get("model.gguf", { range: "lines=1-2" })).status, 200);
});

test("server: validators and HEAD", async () => {
  const head = await get("model.gguf", {}, "HEAD");
  assert.equal(head.headers.get("content-length"), "14");
  assert.equal((await get("model.gguf", { "if-none-match": head.headers.get("etag") })).status, 304);
});

test("server: nothing outside the root", async () => {
  for (const path of ["/../secret.txt", "/sub/../../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "/..%5csecret.txt", "//../secret.txt", "/link.txt", "/%00", "/%", "/sub"]) {
    const answer = await raw(path);
    assert.doesNotMatch(answer, /^secret/m, path);
    assert.match(answer, /^HTTP\/1\.1 404/, path);
  }
});

test("server: reports of pages", async () => {
  assert.equal((await fetch(`${server.url}log`, { method: "POST", body: "line" })).status, 204);
  assert.deepEqual(logs, ["line"]);
  assert.equal((await fetch(`${server.url}log`, { method: "POST", body: "x".repeat(1 << 21) })).status, 413);
  assert.equal((await fetch(`${server.url}index.html`, { method: "DELETE" })).status, 405);
});

test("server: a model that isn't there, a port that is taken", async () => {
  await assert.rejects(startServer({ root, model: join(folder, "none.gguf") }), /none\.gguf is not a file/);
  await assert.rejects(startServer({ root, port: Number(new URL(server.url).port) }), /--port/);
});

const serve = (...args) => spawnSync(process.execPath, [join(web, "tools/serve.mjs"), ...args], { encoding: "utf8", timeout: 60_000 });

test("serve: a port that is taken, or none at all, is one line", () => {
  const { port } = new URL(server.url);
  const taken = serve("--port", port);
  assert.deepEqual([taken.status, taken.stdout], [1, ""]);
  assert.equal(taken.stderr, `serve: port ${port} is taken by another program: choose another one (make serve PORT=N, or --port N)\n`);
  for (const wrong of ["abc", "-1", "65536", "80.5", "1e3", "", " 80"]) {
    const r = serve("--port", wrong);
    assert.deepEqual([r.status, r.stdout], [2, ""], wrong);
    assert.match(r.stderr, /^--port takes the number of a port, 0 to 65535, not "[^\n]*"; usage: [^\n]*\n$/, wrong);
    assert.ok(r.stderr.includes(`not "${wrong}";`), wrong);
  }
});

test("serve: listens where it is told, and make passes PORT on", async () => {
  const child = spawn(process.execPath, [join(web, "tools/serve.mjs"), "--port", "0"], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    const [line] = await once(child.stdout.setEncoding("utf8"), "data");
    const url = /^Forerun's demo page: (http:\/\/127\.0\.0\.1:\d+\/)/.exec(line)[1];
    assert.match(await (await fetch(url)).text(), /<html|<!doctype/i);
  } finally {
    child.kill();
  }
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(MAKE.*|MFLAGS|PORT)$/.test(name)));
  const recipe = (...words) => spawnSync("make", ["-n", "-C", join(web, ".."), "serve", ...words], { env, encoding: "utf8" }).stdout;
  assert.match(recipe("PORT=8123"), /serve\.mjs --model ".+" --port "8123"$/m);
  assert.match(recipe(), /serve\.mjs --model ".+" --port "8080"$/m);
});
