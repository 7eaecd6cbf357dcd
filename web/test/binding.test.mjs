// The binding over dawn.node: test/binding.c calls everything once and knows the answers.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { linkWasm, nodeGpu, source, web } from "./helpers.mjs";

const { createBinding } = await source("webgpu");
const { describeAdapter, findAdapter } = await source("gpu");
let module, gpu, device, adapter;

before(async () => {
  module = await WebAssembly.compile(linkWasm("binding", [join(web, "test/binding.c"), join(web, "wasm/nostdio.c")]));
  gpu = await nodeGpu();
  const found = await findAdapter(gpu, undefined);
  adapter = describeAdapter(found);
  device = await found.requestDevice({ requiredFeatures: ["timestamp-query"].filter(name => found.features.has(name)) }); // the engine does without
});
after(() => device?.destroy());

async function open() {
  const reports = [];
  const binding = createBinding(message => reports.push(message));
  const instance = await WebAssembly.instantiate(module, binding.imports);
  binding.attach(instance.exports);
  instance.exports._initialize();
  return { binding, wasm: instance.exports, reports, handle: binding.put(device) };
}

test("binding: every call, with known answers", async () => {
  const { binding, wasm, handle, reports } = await open();
  wasm.start(handle);
  for (;;) {
    binding.deliver();
    if (wasm.poll()) break;
    assert.ok(binding.pending > 0, "waits for something that is under way");
    await binding.event();
  }
  const memory = new Uint8Array(wasm.memory.buffer), at = wasm.report();
  assert.equal(new TextDecoder().decode(memory.subarray(at, memory.indexOf(0, at))), "");
  assert.deepEqual(reports, []);
  assert.equal(binding.pending, 0);
  assert.equal(binding.live, 1, "only the device is left");
  binding.release(handle);
  assert.equal(binding.live, 0);
});

test("binding: a call that throws answers 0 and is reported", async () => {
  const { wasm, handle, reports } = await open();
  wasm.start(handle);
  assert.equal(wasm.oversized(), 1);
  assert.equal(reports.length, 1);
  assert.match(reports[0], /\w/);
});

test("binding: adapter facts", () => {
  assert.equal(typeof adapter.name, "string");
  if (process.env.VK_DRIVER_FILES?.includes("swiftshader")) assert.equal(adapter.isCpu, true);
});

test("binding: C is never entered outside deliver()", async () => {
  const { binding, wasm, handle } = await open();
  wasm.start(handle);
  await new Promise(resolve => setTimeout(resolve, 200)); // long enough for the pipelines
  assert.equal(wasm.poll(), 0);
  assert.equal(binding.pending, 2, "both pipelines wait to be delivered");
  assert.equal(binding.deliver(), 2);
  assert.equal(binding.pending, 0);
});
