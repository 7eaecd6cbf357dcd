// Where the fields of webgpu.h's structs lie in wasm32, and which numbers its enums have. Both are plain tables so that a test can
// hold every entry against the header (test/layout.test.mjs turns them into _Static_asserts): a wrong number fails there, by name.

export const layout = {
  WGPUStringView: { data: 0, length: 4 },
  WGPUChainedStruct: { next: 0, sType: 4 },
  WGPUBufferMapCallbackInfo: { mode: 4, callback: 8, userdata1: 12, userdata2: 16 }, // and every other callback info that is used
  WGPULimits: {
    maxBindGroups: 20, maxBindingsPerBindGroup: 28, maxDynamicUniformBuffersPerPipelineLayout: 32,
    maxDynamicStorageBuffersPerPipelineLayout: 36, maxStorageBuffersPerShaderStage: 48, maxUniformBuffersPerShaderStage: 56,
    maxUniformBufferBindingSize: 64, maxStorageBufferBindingSize: 72, minUniformBufferOffsetAlignment: 80,
    minStorageBufferOffsetAlignment: 84, maxBufferSize: 96, maxComputeWorkgroupStorageSize: 124, maxComputeInvocationsPerWorkgroup: 128,
    maxComputeWorkgroupSizeX: 132, maxComputeWorkgroupSizeY: 136, maxComputeWorkgroupSizeZ: 140, maxComputeWorkgroupsPerDimension: 144,
    maxImmediateSize: 148,
  },
  WGPUBufferDescriptor: { label: 4, usage: 16, size: 24, mappedAtCreation: 32 },
  WGPUShaderModuleDescriptor: { nextInChain: 0, label: 4 },
  WGPUShaderSourceWGSL: { chain: 0, code: 8 },
  WGPUBindGroupLayoutDescriptor: { label: 4, entryCount: 12, entries: 16 },
  WGPUBindGroupLayoutEntry: { binding: 4, visibility: 8, buffer: 24, sizeof: 88 },
  WGPUBufferBindingLayout: { type: 4, hasDynamicOffset: 8, minBindingSize: 16 },
  WGPUPipelineLayoutDescriptor: { label: 4, bindGroupLayoutCount: 12, bindGroupLayouts: 16 },
  WGPUBindGroupDescriptor: { label: 4, layout: 12, entryCount: 16, entries: 20 },
  WGPUBindGroupEntry: { binding: 4, buffer: 8, offset: 16, size: 24, sizeof: 40 },
  WGPUComputePipelineDescriptor: { label: 4, layout: 12, compute: 16 },
  WGPUComputeState: { module: 4, entryPoint: 8, constantCount: 16, constants: 20 },
  WGPUConstantEntry: { key: 4, value: 16, sizeof: 24 },
  WGPUQuerySetDescriptor: { label: 4, type: 12, count: 16 },
  WGPUComputePassDescriptor: { label: 4, timestampWrites: 12 },
  WGPUPassTimestampWrites: { querySet: 4, beginningOfPassWriteIndex: 8, endOfPassWriteIndex: 12 },
} as const;

/** Callback infos that must agree with WGPUBufferMapCallbackInfo, since one function reads them all. */
export const callbackInfos = [
  "WGPUCreateComputePipelineAsyncCallbackInfo", "WGPUPopErrorScopeCallbackInfo", "WGPUQueueWorkDoneCallbackInfo",
] as const;

/** enum > name in C > [number in C, name in JavaScript ("" where there is none)] */
export const names = {
  WGPUFeatureName: { TimestampQuery: [9, "timestamp-query"], ShaderF16: [11, "shader-f16"], Subgroups: [18, "subgroups"] },
  WGPUBufferBindingType: { Uniform: [2, "uniform"], Storage: [3, "storage"], ReadOnlyStorage: [4, "read-only-storage"] },
  WGPUQueryType: { Occlusion: [1, "occlusion"], Timestamp: [2, "timestamp"] },
  WGPUErrorFilter: { Validation: [1, "validation"], OutOfMemory: [2, "out-of-memory"], Internal: [3, "internal"] },
  WGPUErrorType: {
    NoError: [1, ""], Validation: [2, "GPUValidationError"], OutOfMemory: [3, "GPUOutOfMemoryError"], Internal: [4, "GPUInternalError"],
    Unknown: [5, ""],
  },
  WGPUCreatePipelineAsyncStatus: { Success: [1, ""], ValidationError: [3, "validation"], InternalError: [4, "internal"] },
  WGPUMapAsyncStatus: { Success: [1, ""], Error: [3, "OperationError"], Aborted: [4, "AbortError"] },
  WGPUPopErrorScopeStatus: { Success: [1, ""], Error: [3, ""] },
  WGPUQueueWorkDoneStatus: { Success: [1, ""], Error: [3, ""] },
  WGPUStatus: { Success: [1, ""], Error: [2, ""] },
  WGPUSType: { ShaderSourceWGSL: [2, ""] },
} as const satisfies Record<string, Record<string, readonly [number, string]>>;
