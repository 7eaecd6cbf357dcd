// Can this browser run the engine? Asks for an adapter and looks at it; makes no device and fetches nothing.

import { describeAdapter, findAdapter } from "./gpu.js";
import type { Support } from "./types.js";

const TRIES = 3;
const SHOWN = [
  "maxBufferSize", "maxStorageBufferBindingSize", "maxStorageBuffersPerShaderStage", "maxComputeWorkgroupStorageSize", "maxComputeInvocationsPerWorkgroup",
] as const;

export async function checkSupport(): Promise<Support> {
  const refused = (reason: string): Support => ({ supported: false, reason, adapter: null, limits: {}, features: [] });
  if (typeof WebAssembly === "undefined" || typeof Worker === "undefined") return refused("this browser has no WebAssembly or no workers");
  try {
    const adapter = await findAdapter(navigator.gpu, "high-performance", TRIES);
    const limits = Object.fromEntries(SHOWN.map(name => [name, adapter.limits[name]]));
    return { supported: true, reason: "", adapter: describeAdapter(adapter), limits, features: [...adapter.features].sort() };
  } catch (e) {
    return refused((e as Error).message);
  }
}
