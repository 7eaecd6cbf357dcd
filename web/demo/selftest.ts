// Runs the self-test (../ref/selftest.h) in this browser, over the package's own binding. Shows a line of JSON for each case and one for the
// whole run, and posts them to /log and then /done, for a server that listens (../bench/serve_page.py, test/selftest.test.mjs).

import { requestDevice } from "../src/gpu.js";
import { createBinding, type BindingExports } from "../src/webgpu.js";

/** web/wasm/selftest/selftest.c */
interface Exports extends BindingExports {
  _initialize(): void;
  run(device: number, name: number, cpu: number, subgroups: number, min: number, max: number, only: number): number;
}

/** JavaScript Promise Integration, which TypeScript's libraries do not have yet. */
interface PromiseIntegration {
  Suspending: new (call: () => Promise<void>) => WebAssembly.ImportValue;
  promising<A extends unknown[]>(call: (...args: A) => number): (...args: A) => Promise<number>;
}

const out = document.getElementById("out")!;
let posted = Promise.resolve<unknown>(undefined); // one after the other
function say(path: string, text: string): void {
  if (text) out.append(`${text}\n`);
  posted = posted.then(() => fetch(path, { method: "POST", body: text })).catch(() => undefined); // nobody listens: the page shows it
}

async function selftest(only: string): Promise<object> {
  const integration = WebAssembly as unknown as PromiseIntegration;
  if (!("Suspending" in WebAssembly)) throw new Error("this browser's WebAssembly can't wait for promises: use a Chrome or Edge of version 137 or later");
  const began = performance.now(), errors: string[] = [];
  const { device, adapter } = await requestDevice(navigator.gpu);
  device.onuncapturederror = event => errors.push(event.error.message);
  const binding = createBinding(message => errors.push(message));
  const host = {
    pump: new integration.Suspending(async () => {
      await (binding.pending ? binding.event() : new Promise(resolve => setTimeout(resolve)));
      binding.deliver();
    }),
    report: (name: number, ok: number, text: number) => say("/log", JSON.stringify({ case: read(name), ok: ok !== 0, text: read(text) })),
  };
  const { instance } = await WebAssembly.instantiateStreaming(fetch("selftest.wasm"), { ...binding.imports, host });
  const wasm = instance.exports as unknown as Exports;
  binding.attach(wasm);
  wasm._initialize();
  const read = (p: number) => {
    const all = new Uint8Array(wasm.memory.buffer);
    return new TextDecoder().decode(all.subarray(p >>> 0, all.indexOf(0, p >>> 0)));
  };
  const write = (text: string) => {
    const utf8 = new TextEncoder().encode(`${text}\0`), p = wasm.alloc(utf8.length) >>> 0;
    new Uint8Array(wasm.memory.buffer, p, utf8.length).set(utf8);
    return p;
  };
  const failures = await integration.promising(wasm.run)(binding.put(device), write(adapter.name), Number(adapter.isCpu), Number(adapter.hasSubgroups),
    adapter.subgroupMin, adapter.subgroupMax, write(only));
  if (failures < 0) throw new Error(`no case begins with "${only}"`);
  device.destroy();
  return { adapter: adapter.name, is_cpu: adapter.isCpu, browser: navigator.userAgent, failures, errors, seconds: Math.round((performance.now() - began) / 100) / 10 };
}

try {
  say("/log", JSON.stringify(await selftest(new URLSearchParams(location.search).get("only") ?? "")));
} catch (e) {
  say("/log", JSON.stringify({ error: (e as Error).message }));
}
say("/done", "");
