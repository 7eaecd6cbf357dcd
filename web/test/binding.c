/* binding.c: everything of webgpu.h that the engine may use, called once with answers that are known. Compiled for wasm32 by
 * binding.test.mjs, which runs it over src/webgpu.ts; a check that fails leaves its name in report(). */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/webgpu.h"

#define EXPORT(name) __attribute__((export_name(name)))
#define TEXT(s) ((WGPUStringView){.data = (s), .length = WGPU_STRLEN})
#define EXPECT(cond) expect(cond, #cond)

enum { N = 1024, ROUNDS = 3, SLOT = 256 };

static const char wgsl[] = "override SCALE: u32 = 1u;\n"
                           "@group(0) @binding(0) var<storage, read> a: array<u32>;\n"
                           "@group(0) @binding(1) var<storage, read_write> sum: array<u32>;\n"
                           "@group(0) @binding(2) var<uniform> add: vec4u;\n"
                           "@compute @workgroup_size(64) fn accumulate(@builtin(global_invocation_id) id: vec3u) {\n"
                           "  sum[id.x] = sum[id.x] + SCALE * a[id.x] + add.x;\n"
                           "}\n";

static struct {
    WGPUDevice device;
    WGPUQueue queue;
    WGPUShaderModule module;
    WGPUBindGroupLayout group_layout;
    WGPUPipelineLayout layout;
    WGPUComputePipeline pipeline;
    WGPUBindGroup group;
    WGPUBuffer a, sum, adds, read, stamps, stamps_read;
    WGPUQuerySet queries;
    int stage, pipelines, mapped, mapped_twice, scopes, worked, aborted;
    bool timestamps;
    char report[2000];
} T;

static void expect(bool ok, const char *what)
{
    if (ok)
        return;
    size_t used = strlen(T.report);
    snprintf(T.report + used, sizeof T.report - used, "%s\n", what);
}

static void on_pipeline(WGPUCreatePipelineAsyncStatus status, WGPUComputePipeline p, WGPUStringView message, void *u1, void *u2)
{
    EXPECT(u2 == &T.stage);
    if (u1) { /* the one with an entry point that does not exist */
        EXPECT(status == WGPUCreatePipelineAsyncStatus_ValidationError);
        EXPECT(!p);
        EXPECT(message.length > 0 && message.data != NULL);
    } else {
        EXPECT(status == WGPUCreatePipelineAsyncStatus_Success);
        T.pipeline = p;
    }
    T.pipelines++;
}

static void on_scope(WGPUPopErrorScopeStatus status, WGPUErrorType type, WGPUStringView message, void *wanted, void *u2)
{
    EXPECT(u2 == NULL);
    EXPECT(status == WGPUPopErrorScopeStatus_Success);
    EXPECT(type == (WGPUErrorType)(size_t)wanted);
    EXPECT((message.length > 0) == (type != WGPUErrorType_NoError));
    T.scopes++;
}

static void on_map(WGPUMapAsyncStatus status, WGPUStringView message, void *counter, void *wanted)
{
    (void)message;
    EXPECT(status == (WGPUMapAsyncStatus)(size_t)wanted);
    ++*(int *)counter;
}

static void on_work(WGPUQueueWorkDoneStatus status, WGPUStringView message, void *u1, void *u2)
{
    (void)message, (void)u1, (void)u2;
    EXPECT(status == WGPUQueueWorkDoneStatus_Success);
    T.worked++;
}

static WGPUBuffer buffer(WGPUBufferUsage usage, uint64_t size)
{
    WGPUBufferDescriptor d = WGPU_BUFFER_DESCRIPTOR_INIT;
    d.label = TEXT("buffer of the test");
    d.usage = usage;
    d.size = size;
    return wgpuDeviceCreateBuffer(T.device, &d);
}

static void map(WGPUBuffer b, size_t size, int *counter, WGPUMapAsyncStatus wanted)
{
    WGPUBufferMapCallbackInfo info = WGPU_BUFFER_MAP_CALLBACK_INFO_INIT;
    info.mode = WGPUCallbackMode_AllowProcessEvents;
    info.callback = on_map;
    info.userdata1 = counter;
    info.userdata2 = (void *)(size_t)wanted;
    wgpuBufferMapAsync(b, WGPUMapMode_Read, 0, size, info);
}

static void pop_scope(WGPUErrorType wanted)
{
    WGPUPopErrorScopeCallbackInfo info = WGPU_POP_ERROR_SCOPE_CALLBACK_INFO_INIT;
    info.mode = WGPUCallbackMode_AllowProcessEvents;
    info.callback = on_scope;
    info.userdata1 = (void *)(size_t)wanted;
    wgpuDevicePopErrorScope(T.device, info);
}

static void make_layouts(void)
{
    WGPUBindGroupLayoutEntry e[3];
    const WGPUBufferBindingType types[3] = {WGPUBufferBindingType_ReadOnlyStorage, WGPUBufferBindingType_Storage,
                                            WGPUBufferBindingType_Uniform};
    for (uint32_t i = 0; i < 3; i++) {
        e[i] = (WGPUBindGroupLayoutEntry){0};
        e[i].binding = i;
        e[i].visibility = WGPUShaderStage_Compute;
        e[i].buffer.type = types[i];
        e[i].buffer.hasDynamicOffset = i == 2;
        e[i].buffer.minBindingSize = i == 2 ? 16 : 0;
    }
    WGPUBindGroupLayoutDescriptor g = WGPU_BIND_GROUP_LAYOUT_DESCRIPTOR_INIT;
    g.entryCount = 3;
    g.entries = e;
    T.group_layout = wgpuDeviceCreateBindGroupLayout(T.device, &g);
    WGPUPipelineLayoutDescriptor p = WGPU_PIPELINE_LAYOUT_DESCRIPTOR_INIT;
    p.bindGroupLayoutCount = 1;
    p.bindGroupLayouts = &T.group_layout;
    T.layout = wgpuDeviceCreatePipelineLayout(T.device, &p);
}

static void make_pipelines(void)
{
    WGPUShaderSourceWGSL source = WGPU_SHADER_SOURCE_WGSL_INIT;
    source.code = TEXT(wgsl);
    WGPUShaderModuleDescriptor m = WGPU_SHADER_MODULE_DESCRIPTOR_INIT;
    m.nextInChain = &source.chain;
    T.module = wgpuDeviceCreateShaderModule(T.device, &m);
    WGPUConstantEntry scale = WGPU_CONSTANT_ENTRY_INIT;
    scale.key = TEXT("SCALE");
    scale.value = 5;
    WGPUComputePipelineDescriptor d = WGPU_COMPUTE_PIPELINE_DESCRIPTOR_INIT;
    d.layout = T.layout;
    d.compute.module = T.module;
    d.compute.entryPoint = (WGPUStringView){.data = "accumulate, and no further", .length = 10};
    d.compute.constantCount = 1;
    d.compute.constants = &scale;
    WGPUCreateComputePipelineAsyncCallbackInfo info = WGPU_CREATE_COMPUTE_PIPELINE_ASYNC_CALLBACK_INFO_INIT;
    info.mode = WGPUCallbackMode_AllowProcessEvents;
    info.callback = on_pipeline;
    info.userdata2 = &T.stage;
    wgpuDeviceCreateComputePipelineAsync(T.device, &d, info);
    d.compute.entryPoint = TEXT("missing");
    info.userdata1 = &T;
    wgpuDeviceCreateComputePipelineAsync(T.device, &d, info);
}

static void make_buffers(void)
{
    const WGPUBufferUsage storage = WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst;
    T.a = buffer(storage, N * 4);
    T.sum = buffer(storage, N * 4);
    T.adds = buffer(WGPUBufferUsage_Uniform | WGPUBufferUsage_CopyDst, ROUNDS * SLOT);
    T.read = buffer(WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst, N * 4);
    EXPECT(wgpuBufferGetSize(T.adds) == ROUNDS * SLOT);
    WGPUBindGroupEntry e[3];
    for (uint32_t i = 0; i < 3; i++) {
        e[i] = (WGPUBindGroupEntry){0};
        e[i].binding = i;
        e[i].size = WGPU_WHOLE_SIZE;
    }
    e[0].buffer = T.a;
    e[1].buffer = T.sum;
    e[2].buffer = T.adds;
    e[2].size = 16;
    WGPUBindGroupDescriptor d = WGPU_BIND_GROUP_DESCRIPTOR_INIT;
    d.layout = T.group_layout;
    d.entryCount = 3;
    d.entries = e;
    T.group = wgpuDeviceCreateBindGroup(T.device, &d);
}

static void make_queries(void)
{
    T.timestamps = wgpuDeviceHasFeature(T.device, WGPUFeatureName_TimestampQuery);
    if (!T.timestamps)
        return;
    WGPUQuerySetDescriptor d = WGPU_QUERY_SET_DESCRIPTOR_INIT;
    d.type = WGPUQueryType_Timestamp;
    d.count = 2;
    T.queries = wgpuDeviceCreateQuerySet(T.device, &d);
    T.stamps = buffer(WGPUBufferUsage_QueryResolve | WGPUBufferUsage_CopySrc, 16);
    T.stamps_read = buffer(WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst, 16);
}

static uint32_t value(uint32_t i)
{
    return i * 2654435761u >> 8;
}

static void write_buffers(void)
{
    uint32_t *words = malloc(8 << 20); /* grows the memory, which detaches every view that JavaScript holds of it */
    for (uint32_t i = 0; i < N; i++)
        words[i] = value(i);
    wgpuQueueWriteBuffer(T.queue, T.a, 0, words, N * 4);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const uint32_t add[4] = {100u + i, 0, 0, 0};
        wgpuQueueWriteBuffer(T.queue, T.adds, i * SLOT, add, sizeof add);
    }
    memset(words, 0xff, N * 4);
    wgpuQueueWriteBuffer(T.queue, T.sum, 0, words, N * 4); /* which the clear must undo */
    free(words);
}

static void submit(void)
{
    WGPUCommandEncoder e = wgpuDeviceCreateCommandEncoder(T.device, NULL);
    wgpuCommandEncoderClearBuffer(e, T.sum, 0, WGPU_WHOLE_SIZE);
    WGPUPassTimestampWrites stamps = WGPU_PASS_TIMESTAMP_WRITES_INIT;
    stamps.querySet = T.queries;
    stamps.beginningOfPassWriteIndex = 0;
    stamps.endOfPassWriteIndex = 1;
    WGPUComputePassDescriptor d = WGPU_COMPUTE_PASS_DESCRIPTOR_INIT;
    d.timestampWrites = T.timestamps ? &stamps : NULL;
    WGPUComputePassEncoder pass = wgpuCommandEncoderBeginComputePass(e, &d);
    wgpuComputePassEncoderSetPipeline(pass, T.pipeline);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const uint32_t offset = i * SLOT;
        wgpuComputePassEncoderSetBindGroup(pass, 0, T.group, 1, &offset);
        wgpuComputePassEncoderDispatchWorkgroups(pass, N / 64, 1, 1);
    }
    wgpuComputePassEncoderEnd(pass);
    wgpuComputePassEncoderRelease(pass);
    if (T.timestamps) {
        wgpuCommandEncoderResolveQuerySet(e, T.queries, 0, 2, T.stamps, 0);
        wgpuCommandEncoderCopyBufferToBuffer(e, T.stamps, 0, T.stamps_read, 0, 16);
    }
    wgpuCommandEncoderCopyBufferToBuffer(e, T.sum, 0, T.read, 0, N * 4);
    WGPUCommandBuffer commands = wgpuCommandEncoderFinish(e, NULL);
    wgpuQueueSubmit(T.queue, 1, &commands);
    wgpuCommandBufferRelease(commands);
    wgpuCommandEncoderRelease(e);
    WGPUQueueWorkDoneCallbackInfo info = WGPU_QUEUE_WORK_DONE_CALLBACK_INFO_INIT;
    info.mode = WGPUCallbackMode_AllowProcessEvents;
    info.callback = on_work;
    wgpuQueueOnSubmittedWorkDone(T.queue, info);
    map(T.read, N * 4, &T.mapped, WGPUMapAsyncStatus_Success);
    map(T.read, N * 4, &T.mapped_twice, WGPUMapAsyncStatus_Error);
    if (T.timestamps)
        map(T.stamps_read, 16, &T.mapped, WGPUMapAsyncStatus_Success);
}

static void scopes(void)
{
    wgpuDevicePushErrorScope(T.device, WGPUErrorFilter_Validation);
    wgpuBufferRelease(buffer(WGPUBufferUsage_MapRead | WGPUBufferUsage_Storage, 64));
    pop_scope(WGPUErrorType_Validation);
    wgpuDevicePushErrorScope(T.device, WGPUErrorFilter_OutOfMemory);
    pop_scope(WGPUErrorType_NoError);
}

static void check_results(void)
{
    uint32_t got[N];
    EXPECT(wgpuBufferReadMappedRange(T.read, 0, got, sizeof got) == WGPUStatus_Success);
    EXPECT(wgpuBufferReadMappedRange(T.read, 0, got, N * 8) == WGPUStatus_Error);
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < N; i++)
        wrong += got[i] != ROUNDS * 5 * value(i) + 100 + 101 + 102;
    EXPECT(wrong == 0);
    wgpuBufferUnmap(T.read);
    if (!T.timestamps)
        return;
    uint64_t stamps[2];
    EXPECT(wgpuBufferReadMappedRange(T.stamps_read, 0, stamps, sizeof stamps) == WGPUStatus_Success);
    EXPECT(stamps[1] >= stamps[0]);
    wgpuBufferUnmap(T.stamps_read);
}

static void release(void)
{
    wgpuDeviceAddRef(T.device); /* counts: the host's own reference must outlive this */
    wgpuDeviceRelease(T.device);
    wgpuBufferDestroy(T.read); /* a map is under way: it ends as aborted */
    wgpuBufferRelease(T.read);
    const WGPUBuffer buffers[] = {T.a, T.sum, T.adds, T.stamps, T.stamps_read};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (buffers[i])
            wgpuBufferRelease(buffers[i]);
    if (T.queries) {
        wgpuQuerySetDestroy(T.queries);
        wgpuQuerySetRelease(T.queries);
    }
    wgpuBindGroupRelease(T.group);
    wgpuBindGroupLayoutRelease(T.group_layout);
    wgpuPipelineLayoutRelease(T.layout);
    wgpuComputePipelineRelease(T.pipeline);
    wgpuShaderModuleRelease(T.module);
    wgpuQueueRelease(T.queue);
}

EXPORT("alloc") void *test_alloc(size_t size);
EXPORT("release") void test_release(void *);
EXPORT("start") void test_start(size_t device);
EXPORT("poll") int test_poll(void);
EXPORT("report") const char *test_report(void);
EXPORT("oversized") bool test_oversized(void);

void *test_alloc(size_t size)
{
    return malloc(size);
}
void test_release(void *p)
{
    free(p);
}
const char *test_report(void)
{
    return T.report;
}

void test_start(size_t device)
{
    T.device = (WGPUDevice)device;
    T.queue = wgpuDeviceGetQueue(T.device);
    WGPULimits limits = WGPU_LIMITS_INIT;
    EXPECT(wgpuDeviceGetLimits(T.device, &limits) == WGPUStatus_Success);
    EXPECT(limits.maxBufferSize >= 268435456 && limits.maxStorageBufferBindingSize >= 134217728);
    EXPECT(limits.maxStorageBuffersPerShaderStage >= 8 && limits.maxComputeWorkgroupStorageSize >= 16384);
    EXPECT(limits.maxComputeInvocationsPerWorkgroup >= 256 && limits.maxComputeWorkgroupsPerDimension >= 65535);
    EXPECT(!wgpuDeviceHasFeature(T.device, WGPUFeatureName_ShaderF16)); /* was not asked for */
    make_layouts();
    make_pipelines();
    make_buffers();
    make_queries();
}

/* 0: waiting; 1: done, with a report that is empty if all went well. */
int test_poll(void)
{
    switch (T.stage) {
    case 0:
        if (T.pipelines < 2)
            return 0;
        write_buffers();
        submit();
        scopes();
        T.stage = 1;
        return 0;
    case 1:
        if (T.mapped < 1 + T.timestamps || T.mapped_twice < 1 || T.scopes < 2 || T.worked < 1)
            return 0;
        check_results();
        map(T.read, N * 4, &T.aborted, WGPUMapAsyncStatus_Aborted);
        release();
        T.stage = 2;
        return 0;
    default:
        return T.aborted == 1;
    }
}

/* A call that throws in JavaScript must answer NULL. */
bool test_oversized(void)
{
    WGPUBufferDescriptor d = WGPU_BUFFER_DESCRIPTOR_INIT;
    d.usage = WGPUBufferUsage_CopyDst;
    d.size = (uint64_t)1 << 52;
    d.mappedAtCreation = true;
    return wgpuDeviceCreateBuffer(T.device, &d) == NULL;
}
