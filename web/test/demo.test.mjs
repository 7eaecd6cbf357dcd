// tools/demo.mjs as `make demo` runs it, on tiny random models.

import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { join } from "node:path";
import { before, test } from "node:test";
import { scratch, web } from "./helpers.mjs";
import { needed } from "./site.mjs";

function demo(args) {
  return new Promise(resolve => {
    execFile(process.execPath, [join(web, "tools/demo.mjs"), "--cpu", ...args], { timeout: 600_000 }, (error, stdout, stderr) => resolve({ status: error ? error.code : 0, stdout, stderr }));
  });
}

function model(context) {
  const path = join(scratch, `demo-${context}.gguf`);
  execFileSync(needed("tiny_model"), ["--out", path, "--layers", "1", "--untied", "--context", String(context), "--seed", "3"]);
  return path;
}

before(() => needed("tiny_model"));

test("demo: summarises and reports what it took", async () => {
  const { status, stdout, stderr } = await demo(["--model", model(4096)]);
  assert.deepEqual([status, stderr], [0, ""]);
  assert.match(stdout, /^Chromium [\d.]+, no GPU that WebGPU can use, so SwiftShader computes on the CPU/);
  for (const row of ["adapter", "model", "load", "prompt", "first token", "per token", "mode", "dispatches"]) assert.match(stdout, new RegExp(`^${row} +\\S`, "m"));
  const answer = /Summary of the article in the page:\n\n(.*?)\n\nadapter/s.exec(stdout)?.[1];
  assert.ok(answer?.length > 0, "the answer was streamed");
});

test("demo: what goes wrong in the page ends it with one line", async () => {
  const { status, stderr } = await demo(["--model", model(256)]); // the article doesn't fit
  assert.equal(status, 1);
  assert.match(stderr, /^demo: .*256[^\n]*\n$/);
});

test("demo: a model that isn't there, an argument that isn't known", async () => {
  const missing = await demo(["--model", join(scratch, "none.gguf")]);
  assert.equal(missing.status, 1);
  assert.match(missing.stderr, /^demo: .*none\.gguf[^\n]*\n$/);
  const unknown = await demo(["--moddel", "x"]);
  assert.equal(unknown.status, 2);
  assert.match(unknown.stderr, /--moddel/);
});
