// The functions of webgpu.h that wasm modules import from module "webgpu" (the engine's some of them, test/binding.c all), over a device of
// navigator.gpu or of any other implementation of the same interface, such as dawn.node.
//
// - A handle in C is an index into `objects`, with a reference count, as AddRef and Release expect.
// - Completions (maps, pipelines, scopes, finished work) wait in a queue; C is entered only from deliver(), never from the event loop.
// - An exception must not unwind C frames: calls that can throw are caught, reported to onError and answered with handle 0.
// - Setting pipelines and bind groups and dispatching allocate nothing.

import { layout as L, names } from "./webgpu_layout.js";

/** What the wasm module has to export for the binding. */
export interface BindingExports {
  memory: WebAssembly.Memory;
  __indirect_function_table: WebAssembly.Table;
  alloc(size: number): number;
  release(pointer: number): void;
}

export interface Binding {
  /** For WebAssembly.instantiate; more modules may be added beside it. */
  readonly imports: { webgpu: WebAssembly.ModuleImports };
  /** Must be called with the instance's exports before C runs. */
  attach(exports: BindingExports): void;
  /** Gives an object to C: a handle with one reference. */
  put(object: object): number;
  /** Drops a reference, as C's Release does. */
  release(handle: number): void;
  /** Runs the callbacks of everything that has completed; returns how many there were. */
  deliver(): number;
  /** Resolves when deliver() has something to do, for everyone who waits. */
  event(): Promise<void>;
  /** Queues a call of the host's own, in order with the completions (device lost, uncaptured errors). */
  post(event: () => void): void;
  /** Operations begun and not yet delivered. */
  readonly pending: number;
  /** Live handles (leak checks). */
  readonly live: number;
}

type Names = Record<string, readonly [number, string]>;
const toName = <T extends string>(t: Names) => new Map(Object.values(t).map(([n, s]) => [n, s as T]));
const toNumber = (t: Names) => new Map(Object.values(t).map(([n, s]) => [s, n]));

const featureName = toName<GPUFeatureName>(names.WGPUFeatureName);
const bindingType = toName<GPUBufferBindingType>(names.WGPUBufferBindingType);
const queryType = toName<GPUQueryType>(names.WGPUQueryType);
const errorFilter = toName<GPUErrorFilter>(names.WGPUErrorFilter);
const errorType = toNumber(names.WGPUErrorType);
const pipelineStatus = toNumber(names.WGPUCreatePipelineAsyncStatus);
const mapStatus = toNumber(names.WGPUMapAsyncStatus);
const wideLimits = new Set<string>(["maxUniformBufferBindingSize", "maxStorageBufferBindingSize", "maxBufferSize"]);

const NONE = 0xffffffff; // WGPU_STRLEN, WGPU_QUERY_SET_INDEX_UNDEFINED, half of WGPU_WHOLE_SIZE
const SUCCESS = 1, ERROR = 2; // WGPUStatus
const UNKNOWN_ERROR = names.WGPUErrorType.Unknown[0];
const counted = [
  "BindGroup", "BindGroupLayout", "Buffer", "CommandBuffer", "CommandEncoder", "ComputePassEncoder", "ComputePipeline", "Device",
  "PipelineLayout", "QuerySet", "Queue", "ShaderModule",
];

/** `onError` gets the messages of calls that threw. It is called from within C: it may only take notes. */
export function createBinding(onError: (message: string) => void): Binding {
  let wasm: BindingExports;

  // ---- memory. Growth detaches the buffer, so views are looked up at every use and renewed when it has changed.
  let view = new DataView(new ArrayBuffer(0));
  let offsets = new Uint32Array(0);
  const data = () => (view.buffer === wasm.memory.buffer ? view : (view = new DataView(wasm.memory.buffer)));
  const words = () => (offsets.buffer === wasm.memory.buffer ? offsets : (offsets = new Uint32Array(wasm.memory.buffer)));
  const bytes = (p: number, n: number) => new Uint8Array(wasm.memory.buffer, p >>> 0, n >>> 0);
  const u32 = (p: number) => data().getUint32(p >>> 0, true);
  const put32 = (p: number, v: number) => data().setUint32(p >>> 0, v, true);
  const u64 = (p: number) => u32(p) + u32(p + 4) * 2 ** 32; // exact below 2^53
  const sizeAt = (p: number) => (u32(p) === NONE && u32(p + 4) === NONE ? undefined : u64(p)); // undefined: WGPU_WHOLE_SIZE
  const size64 = (n: bigint) => (n < 0n ? undefined : Number(n)); // an i64 argument; WGPU_WHOLE_SIZE comes as -1
  const size32 = (n: number) => (n === -1 ? undefined : n >>> 0); // a size_t argument; WGPU_WHOLE_MAP_SIZE likewise
  const list = <T>(p: number, n: number, read: (p: number) => T, step = 4) => Array.from({ length: n }, (_, i) => read(p + i * step));

  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  const text = (p: number) => { // a WGPUStringView; undefined for the null string
    const start = u32(p + L.WGPUStringView.data);
    let n = u32(p + L.WGPUStringView.length);
    if (!start) return n === NONE || n === 0 ? undefined : "";
    if (n === NONE) n = new Uint8Array(wasm.memory.buffer).indexOf(0, start) - start;
    return decoder.decode(bytes(start, n));
  };
  const label = (p: number) => text(p) ?? "";

  // ---- handles
  const objects: (object | null)[] = [null];
  const counts = [0];
  const spare: number[] = [];
  const put = (object: object) => {
    const h = spare.pop() ?? objects.length;
    objects[h] = object;
    counts[h] = 1;
    return h;
  };
  const release = (h: number) => {
    if (!h || --counts[h]!) return;
    objects[h] = null;
    spare.push(h);
  };
  const at = <T>(h: number) => objects[h] as T;
  const atPointer = <T>(p: number) => objects[u32(p)] as T;
  const attempt = (make: () => object) => {
    try {
      return put(make());
    } catch (e) {
      onError(String((e as Error).message ?? e));
      return 0;
    }
  };

  // ---- completions
  const events: (() => void)[] = [];
  let pending = 0;
  let wake: (() => void) | undefined;
  let waiting: Promise<void> | undefined; // one for all
  let futures = 0n;
  const post = (event: () => void) => {
    events.push(event);
    wake?.();
    wake = waiting = undefined;
  };
  // Calls back (status..., WGPUStringView *message, userdata1, userdata2); the view is passed by pointer in wasm32.
  const callBack = (info: { callback: number; userdata1: number; userdata2: number }, results: number[], message: string) => {
    const utf8 = encoder.encode(message);
    const p = wasm.alloc(8 + utf8.length);
    bytes(p + 8, utf8.length).set(utf8);
    put32(p + L.WGPUStringView.data, p + 8);
    put32(p + L.WGPUStringView.length, utf8.length);
    (wasm.__indirect_function_table.get(info.callback) as (...a: number[]) => void)(...results, p, info.userdata1, info.userdata2);
    wasm.release(p);
  };
  // `results` are the callback's arguments before the message. The callback info is read now: it lies on C's stack.
  const settle = <T>(promise: Promise<T>, infoAt: number, results: (value: T) => number[], failed: (error: Error) => number[],
    message: (value: T) => string = () => "") => {
    const I = L.WGPUBufferMapCallbackInfo;
    const info = { callback: u32(infoAt + I.callback), userdata1: u32(infoAt + I.userdata1), userdata2: u32(infoAt + I.userdata2) };
    pending++;
    promise.then(
      value => post(() => { pending--; callBack(info, results(value), message(value)); }),
      (e: Error) => post(() => { pending--; callBack(info, failed(e), e.message ?? String(e)); }));
    return ++futures;
  };
  const rejected = (e: unknown) => Promise.reject(e instanceof Error ? e : new Error(String(e)));
  const promised = <T>(begin: () => Promise<T>) => { // a call that should reject may throw instead
    try {
      return begin();
    } catch (e) {
      return rejected(e) as Promise<T>;
    }
  };

  // ---- descriptors
  const bindGroupLayoutEntry = (p: number): GPUBindGroupLayoutEntry => {
    const E = L.WGPUBindGroupLayoutEntry, B = L.WGPUBufferBindingLayout;
    return {
      binding: u32(p + E.binding), visibility: u32(p + E.visibility),
      buffer: {
        type: bindingType.get(u32(p + E.buffer + B.type))!,
        hasDynamicOffset: u32(p + E.buffer + B.hasDynamicOffset) !== 0,
        minBindingSize: u64(p + E.buffer + B.minBindingSize),
      },
    };
  };
  const bindGroupEntry = (p: number): GPUBindGroupEntry => {
    const E = L.WGPUBindGroupEntry;
    const resource: GPUBufferBinding = { buffer: atPointer(p + E.buffer), offset: u64(p + E.offset) };
    const size = sizeAt(p + E.size);
    if (size !== undefined) resource.size = size;
    return { binding: u32(p + E.binding), resource };
  };
  const pipeline = (p: number): GPUComputePipelineDescriptor => {
    const D = L.WGPUComputePipelineDescriptor, C = L.WGPUComputeState, K = L.WGPUConstantEntry, s = p + D.compute;
    const constant = (k: number) => [label(k + K.key), data().getFloat64(k + K.value, true)] as const;
    const compute: GPUProgrammableStage = {
      module: atPointer(s + C.module),
      constants: Object.fromEntries(list(u32(s + C.constants), u32(s + C.constantCount), constant, K.sizeof)),
    };
    const entryPoint = text(s + C.entryPoint);
    if (entryPoint !== undefined) compute.entryPoint = entryPoint;
    return { label: label(p + D.label), layout: atPointer<GPUPipelineLayout | null>(p + D.layout) ?? "auto", compute };
  };
  const passDescriptor = (p: number): GPUComputePassDescriptor | undefined => {
    const t = p && u32(p + L.WGPUComputePassDescriptor.timestampWrites), T = L.WGPUPassTimestampWrites;
    if (!t) return undefined;
    const timestampWrites: GPUComputePassTimestampWrites = { querySet: atPointer(t + T.querySet) };
    const begin = u32(t + T.beginningOfPassWriteIndex), end = u32(t + T.endOfPassWriteIndex);
    if (begin !== NONE) timestampWrites.beginningOfPassWriteIndex = begin;
    if (end !== NONE) timestampWrites.endOfPassWriteIndex = end;
    return { timestampWrites };
  };
  const putLimits = (limits: GPUSupportedLimits, p: number) => {
    for (const [name, offset] of Object.entries(L.WGPULimits)) {
      const value = (limits as unknown as Record<string, number | undefined>)[name] ?? 0;
      if (wideLimits.has(name)) data().setBigUint64((p >>> 0) + offset, BigInt(value), true);
      else put32(p + offset, value);
    }
    return SUCCESS;
  };

  const webgpu = {
    // ---- device
    wgpuDeviceGetLimits: (d: number, p: number) => putLimits(at<GPUDevice>(d).limits, p),
    wgpuDeviceHasFeature: (d: number, f: number) => Number(at<GPUDevice>(d).features.has(featureName.get(f) ?? "")),
    wgpuDeviceGetQueue: (d: number) => put(at<GPUDevice>(d).queue),
    wgpuDeviceDestroy: (d: number) => at<GPUDevice>(d).destroy(),
    wgpuDevicePushErrorScope: (d: number, f: number) => at<GPUDevice>(d).pushErrorScope(errorFilter.get(f)!),
    wgpuDevicePopErrorScope: (d: number, info: number) =>
      settle(promised(() => at<GPUDevice>(d).popErrorScope()), info,
        e => [SUCCESS, e ? errorType.get(e.constructor.name) ?? UNKNOWN_ERROR : names.WGPUErrorType.NoError[0]],
        () => [names.WGPUPopErrorScopeStatus.Error[0], UNKNOWN_ERROR], e => e?.message ?? ""),
    wgpuDeviceCreateBuffer(d: number, p: number) {
      const B = L.WGPUBufferDescriptor;
      return attempt(() => at<GPUDevice>(d).createBuffer({
        label: label(p + B.label), usage: u32(p + B.usage), size: u64(p + B.size), mappedAtCreation: u32(p + B.mappedAtCreation) !== 0,
      }));
    },
    wgpuDeviceCreateShaderModule(d: number, p: number) {
      const source = u32(p + L.WGPUShaderModuleDescriptor.nextInChain);
      return attempt(() => {
        if (!source || u32(source + L.WGPUChainedStruct.sType) !== names.WGPUSType.ShaderSourceWGSL[0])
          throw new Error("a shader module without WGSL");
        return at<GPUDevice>(d).createShaderModule({
          label: label(p + L.WGPUShaderModuleDescriptor.label), code: label(source + L.WGPUShaderSourceWGSL.code),
        });
      });
    },
    wgpuDeviceCreateBindGroupLayout(d: number, p: number) {
      const G = L.WGPUBindGroupLayoutDescriptor;
      return attempt(() => at<GPUDevice>(d).createBindGroupLayout({
        label: label(p + G.label),
        entries: list(u32(p + G.entries), u32(p + G.entryCount), bindGroupLayoutEntry, L.WGPUBindGroupLayoutEntry.sizeof),
      }));
    },
    wgpuDeviceCreatePipelineLayout(d: number, p: number) {
      const P = L.WGPUPipelineLayoutDescriptor;
      return attempt(() => at<GPUDevice>(d).createPipelineLayout({
        label: label(p + P.label), bindGroupLayouts: list(u32(p + P.bindGroupLayouts), u32(p + P.bindGroupLayoutCount), atPointer<GPUBindGroupLayout>),
      }));
    },
    wgpuDeviceCreateBindGroup(d: number, p: number) {
      const G = L.WGPUBindGroupDescriptor;
      return attempt(() => at<GPUDevice>(d).createBindGroup({
        label: label(p + G.label), layout: atPointer(p + G.layout),
        entries: list(u32(p + G.entries), u32(p + G.entryCount), bindGroupEntry, L.WGPUBindGroupEntry.sizeof),
      }));
    },
    wgpuDeviceCreateComputePipeline: (d: number, p: number) => attempt(() => at<GPUDevice>(d).createComputePipeline(pipeline(p))),
    wgpuDeviceCreateComputePipelineAsync: (d: number, p: number, info: number) =>
      settle(promised(() => at<GPUDevice>(d).createComputePipelineAsync(pipeline(p))), info, o => [SUCCESS, put(o)],
        e => [pipelineStatus.get((e as GPUPipelineError).reason) ?? names.WGPUCreatePipelineAsyncStatus.InternalError[0], 0]),
    wgpuDeviceCreateQuerySet(d: number, p: number) {
      const Q = L.WGPUQuerySetDescriptor;
      return attempt(() => at<GPUDevice>(d).createQuerySet({
        label: label(p + Q.label), type: queryType.get(u32(p + Q.type))!, count: u32(p + Q.count),
      }));
    },
    wgpuDeviceCreateCommandEncoder: (d: number) => attempt(() => at<GPUDevice>(d).createCommandEncoder()),

    // ---- commands
    wgpuCommandEncoderBeginComputePass: (e: number, p: number) => attempt(() => at<GPUCommandEncoder>(e).beginComputePass(passDescriptor(p))),
    wgpuCommandEncoderCopyBufferToBuffer: (e: number, from: number, fromAt: bigint, to: number, toAt: bigint, size: bigint) =>
      at<GPUCommandEncoder>(e).copyBufferToBuffer(at(from), Number(fromAt), at(to), Number(toAt), size64(size)),
    wgpuCommandEncoderClearBuffer: (e: number, b: number, offset: bigint, size: bigint) =>
      at<GPUCommandEncoder>(e).clearBuffer(at(b), Number(offset), size64(size)),
    wgpuCommandEncoderResolveQuerySet: (e: number, q: number, first: number, count: number, to: number, toAt: bigint) =>
      at<GPUCommandEncoder>(e).resolveQuerySet(at(q), first >>> 0, count >>> 0, at(to), Number(toAt)),
    wgpuCommandEncoderFinish: (e: number) => attempt(() => at<GPUCommandEncoder>(e).finish()),

    // ---- the hot path
    wgpuComputePassEncoderSetPipeline: (c: number, p: number) => at<GPUComputePassEncoder>(c).setPipeline(at(p)),
    wgpuComputePassEncoderSetBindGroup(c: number, index: number, group: number, count: number, dynamic: number) {
      if (count === 0) at<GPUComputePassEncoder>(c).setBindGroup(index, at<GPUBindGroup>(group));
      else at<GPUComputePassEncoder>(c).setBindGroup(index, at<GPUBindGroup>(group), words(), dynamic >>> 2, count);
    },
    wgpuComputePassEncoderDispatchWorkgroups: (c: number, x: number, y: number, z: number) =>
      at<GPUComputePassEncoder>(c).dispatchWorkgroups(x >>> 0, y >>> 0, z >>> 0),
    wgpuComputePassEncoderEnd: (c: number) => at<GPUComputePassEncoder>(c).end(),

    // ---- queue
    wgpuQueueSubmit: (q: number, count: number, p: number) => at<GPUQueue>(q).submit(list(p, count, atPointer<GPUCommandBuffer>)),
    wgpuQueueWriteBuffer(q: number, b: number, offset: bigint, p: number, size: number) {
      try { // throws where offset and size aren't multiples of 4
        at<GPUQueue>(q).writeBuffer(at(b), Number(offset), wasm.memory.buffer, p >>> 0, size >>> 0);
      } catch (e) {
        onError(String((e as Error).message ?? e));
      }
    },
    wgpuQueueOnSubmittedWorkDone: (q: number, info: number) =>
      settle(promised(() => at<GPUQueue>(q).onSubmittedWorkDone()), info, () => [SUCCESS], () => [names.WGPUQueueWorkDoneStatus.Error[0]]),

    // ---- buffers
    wgpuBufferMapAsync: (b: number, mode: bigint, offset: number, size: number, info: number) =>
      settle(promised(() => at<GPUBuffer>(b).mapAsync(Number(mode), offset >>> 0, size32(size))), info, () => [SUCCESS],
        e => [mapStatus.get(e.name) ?? names.WGPUMapAsyncStatus.Error[0]]),
    wgpuBufferReadMappedRange(b: number, offset: number, p: number, size: number) {
      try {
        bytes(p, size).set(new Uint8Array(at<GPUBuffer>(b).getMappedRange(offset >>> 0, size >>> 0)));
        return SUCCESS;
      } catch {
        return ERROR;
      }
    },
    wgpuBufferUnmap: (b: number) => at<GPUBuffer>(b).unmap(),
    wgpuBufferDestroy: (b: number) => at<GPUBuffer>(b).destroy(),
    wgpuBufferGetSize: (b: number) => BigInt(at<GPUBuffer>(b).size),
    wgpuQuerySetDestroy: (q: number) => at<GPUQuerySet>(q).destroy(),
  };
  const references = Object.fromEntries(counted.flatMap(t => [
    [`wgpu${t}Release`, release], [`wgpu${t}AddRef`, (h: number) => { counts[h]!++; }],
  ]));

  return {
    imports: { webgpu: { ...webgpu, ...references } as WebAssembly.ModuleImports },
    attach(exports) { wasm = exports; },
    put,
    release,
    deliver() {
      const batch = events.splice(0); // what arrives meanwhile waits for the next call
      for (const event of batch) event();
      return batch.length;
    },
    event: () => (events.length ? Promise.resolve() : (waiting ??= new Promise(resolve => { wake = resolve; }))),
    post,
    get pending() { return pending; },
    get live() { return objects.length - 1 - spare.length; },
  };
}
