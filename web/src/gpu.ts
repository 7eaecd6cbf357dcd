// Choosing an adapter and asking it for a device with everything the engine can use.

import { NoGpuError } from "./errors.js";
import type { Adapter } from "./types.js";

export interface AdapterRequest {
  powerPreference?: GPUPowerPreference | undefined;
  /** Optional features are left alone and the default limits kept (tests). */
  portable?: boolean | undefined;
}

const FEATURES = ["subgroups"] as const satisfies GPUFeatureName[];
const LIMITS = [
  "maxBufferSize", "maxStorageBufferBindingSize", "maxStorageBuffersPerShaderStage", "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup", "maxComputeWorkgroupSizeX", "maxComputeWorkgroupsPerDimension",
] as const;
const DOT_PRODUCT = "packed_4x8_integer_dot_product"; // every product of the kernels is one
const TRIES = 12, PAUSE_MS = 500; // a browser whose GPU process is still starting answers null at first

/** The browser's adapter, or NoGpuError. Answers null several times before it gives up. */
export async function findAdapter(gpu: GPU | undefined, powerPreference: GPUPowerPreference | undefined, tries = TRIES): Promise<GPUAdapter> {
  if (!gpu)
    throw new NoGpuError("WebGPU is not available here: use a browser that has it (Chrome, Edge, Safari 26, Firefox) over https or on localhost");
  if (gpu.wgslLanguageFeatures && !gpu.wgslLanguageFeatures.has(DOT_PRODUCT))
    throw new NoGpuError(`this browser's WebGPU lacks the language feature ${DOT_PRODUCT}: update the browser`);
  const options: GPURequestAdapterOptions = powerPreference ? { powerPreference } : {};
  for (let i = 0; i < tries; i++) {
    const adapter = await gpu.requestAdapter(options);
    if (adapter) return adapter;
    await new Promise(resolve => setTimeout(resolve, PAUSE_MS));
  }
  throw new NoGpuError("the browser has WebGPU but offers no GPU adapter: check that hardware acceleration is on and the driver up to date");
}

export function describeAdapter(adapter: GPUAdapter): Adapter {
  const info = adapter.info;
  const parts = [info.vendor, info.architecture, info.device, info.description].filter(Boolean);
  const name = [...new Set(parts)].join(" ") || "unnamed adapter";
  const isCpu = info.isFallbackAdapter || /swiftshader|llvmpipe|lavapipe|basic render/i.test(name);
  return {
    name,
    isCpu,
    isIntegrated: !isCpu && !/nvidia|radeon (rx|pro|vii)|rdna|gcn-[345]|xe-?hpg|\barc\b/i.test(name), // browsers don't tell; it is a first guess only
    hasSubgroups: adapter.features.has("subgroups"),
    subgroupMin: info.subgroupMinSize || 0,
    subgroupMax: info.subgroupMaxSize || 0,
  };
}

export async function requestDevice(gpu: GPU | undefined, request: AdapterRequest = {}): Promise<{ device: GPUDevice; adapter: Adapter }> {
  const found = await findAdapter(gpu, request.powerPreference ?? "high-performance");
  const adapter = describeAdapter(found);
  const requiredLimits: Record<string, number> = {};
  for (const name of LIMITS) requiredLimits[name] = found.limits[name];
  const requiredFeatures = FEATURES.filter(name => found.features.has(name));
  try {
    if (request.portable) return { device: await found.requestDevice(), adapter: { ...adapter, hasSubgroups: false } };
    return { device: await found.requestDevice({ requiredFeatures, requiredLimits }), adapter };
  } catch (e) {
    throw new NoGpuError(`${adapter.name} refused to make a device: ${(e as Error).message}`, { cause: e });
  }
}
