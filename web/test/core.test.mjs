// The engine's module in node, over dawn.node: what a browser test can't see or do, such as losing the device.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { nodeGpu, source, dist } from "./helpers.mjs";
import { tinyModel } from "./site.mjs";

const { Core } = await source("core");
const { requestDevice } = await source("gpu");
let module, model, core;

async function open(options = {}) {
  const { device, adapter } = await requestDevice(await nodeGpu(), options);
  return { core: await Core.open(module, device, adapter, options), device };
}

before(async () => {
  module = await WebAssembly.compile(readFileSync(`${dist}/forerun.wasm`));
  model = new Uint8Array(readFileSync(tinyModel()));
  ({ core } = await open());
  for (let at = 0; at < model.length; at += 7919) await core.feed(model.subarray(at, at + 7919));
  await core.finish();
});
after(() => core?.close());

const request = { mode: "LOOP", maxTokens: 24, window: 0, width: 0, stop: [], ignoreEos: true, conversation: "", scope: "ALL", budget: 0 };
async function tokens(engine, ids, change = {}) {
  engine.begin(Uint32Array.from(ids), { ...request, ...change });
  let text = "";
  const finish = await engine.run(piece => { text += piece; });
  return { finish, text, tokens: engine.tokens() };
}

test("core: the module imports the binding and a clock, nothing else", async () => {
  const { createBinding } = await source("webgpu");
  const known = createBinding(() => {}).imports.webgpu;
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    if (from === "host") assert.equal(name, "now_ms");
    else assert.ok(from === "webgpu" && name in known, `${from}.${name} is not in src/webgpu.ts`);
  }
});

test("core: loop equals greedy; text is what the tokens say", async () => {
  const greedy = await tokens(core, [3, 1, 4, 1, 5], { mode: "GREEDY" });
  assert.equal(greedy.tokens.length, 24);
  for (const window of [1, 3, 8, 16]) {
    core.reset();
    assert.deepEqual(await tokens(core, [3, 1, 4, 1, 5], { window }), greedy);
  }
  assert.equal(greedy.text, core.detokenize(greedy.tokens));
});

test("core: requests leave no handles and no memory behind", async () => {
  await tokens(core, [1, 2, 3]);
  const { handles, hostBytes } = core;
  for (let i = 0; i < 5; i++) await tokens(core, [i, 2, 3], { stop: ["x".repeat(100)] });
  assert.deepEqual([core.handles, core.hostBytes], [handles, hostBytes]);
});

test("core: memory is cleared, saved and given to another engine, which may have lost its device", async () => {
  const kept = () => core.stat("MEMORY_TOKENS");
  core.clearMemory(null);
  await tokens(core, [1, 2, 3], { conversation: "tea" });
  await tokens(core, [1, 2, 3], { scope: "NONE" });
  assert.equal(kept(), 27);
  const tea = core.saveMemory();
  await tokens(core, [1, 2, 3]);
  core.clearMemory("tea");
  assert.equal(kept(), 27);
  core.clearMemory("");
  assert.equal(kept(), 0);
  core.loadMemory(tea);
  assert.equal(kept(), 27);
  const damaged = tea.slice();
  damaged[50] ^= 1;
  assert.throws(() => core.loadMemory(damaged), { name: "ArgumentError", message: /damaged/ });
  assert.deepEqual(core.saveMemory(), tea);
  const { core: other, device } = await open();
  assert.throws(() => other.saveMemory(), { name: "ArgumentError", message: /vocabulary/ });
  await other.feed(model.subarray(0, model.length - 1)); // the header suffices
  other.loadMemory(tea);
  device.destroy();
  await assert.rejects(async () => { for (;;) { other.poll(); await new Promise(resolve => setTimeout(resolve)); } }, { name: "DeviceLostError" });
  assert.deepEqual(other.saveMemory(), tea);
  await other.close();
});

test("core: abort between two polls, then the next request", async () => {
  const reference = await tokens(core, [8, 8, 9]);
  core.begin(Uint32Array.from([5, 5]), { ...request, maxTokens: 300 });
  const run = core.run(() => core.abort());
  assert.equal(await run, "abort");
  assert.ok(core.tokens().length < 300);
  assert.deepEqual(await tokens(core, [8, 8, 9]), reference);
});

test("core: a prompt that is too long or empty is refused, and the engine goes on", async () => {
  const long = Uint32Array.from({ length: 512 }, () => 1);
  assert.throws(() => core.begin(long, request), { name: "ContextError", message: /512 tokens.*512, answer included/ });
  assert.throws(() => core.begin(new Uint32Array(0), request), { name: "ArgumentError" });
  assert.equal((await tokens(core, [1])).tokens.length, 24);
});

test("core: a file that is no model, whatever the pieces", async () => {
  for (const size of [1, 100, 100_000]) {
    const { core: other } = await open();
    await assert.rejects(async () => {
      const bytes = new TextEncoder().encode("GGUF" + "x".repeat(400));
      for (let at = 0; at < bytes.length; at += size) await other.feed(bytes.subarray(at, at + size));
      await other.finish();
    }, { name: "ModelError" });
    await other.close();
    assert.equal(other.handles, 0);
  }
});

test("core: a truncated model", async () => {
  const { core: other } = await open();
  await assert.rejects(async () => {
    await other.feed(model.subarray(0, model.length - 1));
    await other.finish();
  }, { name: "ModelError" });
  await other.close();
  assert.equal(other.handles, 0);
});

test("core: a lost device ends requests with its own error", async () => {
  const { core: other, device } = await open();
  await other.feed(model.subarray(0, 1000));
  device.destroy();
  await assert.rejects(async () => {
    await other.feed(model.subarray(1000));
    await other.finish();
  }, { name: "DeviceLostError" });
  assert.throws(() => other.poll(), { name: "DeviceLostError" });
  const closed = other.close();
  await other.close();
  await closed;
  assert.throws(() => other.poll(), { name: "DisposedError" });
});

test("core: U+FEFF is a character like any other", () => {
  const text = "\ufeffa\ufeff\ufeff";
  assert.equal(core.detokenize(core.tokenize(text, false)), text);
});

test("core: closing ends a request that waits, and gives every handle back", async () => {
  core.begin(Uint32Array.from([5, 5]), { ...request, maxTokens: 300 });
  const run = assert.rejects(core.run(() => {}), { name: "DisposedError" });
  await new Promise(resolve => setTimeout(resolve, 50)); // it waits for the GPU now
  await core.close();
  await run;
  assert.equal(core.handles, 0);
});
