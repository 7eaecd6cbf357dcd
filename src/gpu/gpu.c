#include "gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/webgpu.h"

enum {
    FR_BINDINGS = 8, /* and one more with FR_ALL_LAYERS */
    UPLOAD_FENCE = 4 << 20, /* bytes between two fences of the upload: small enough that staging stays out of the way */
    UPLOAD_FENCES = 4       /* fences under way at once */
};

struct fr_buffer {
    fr_buffer *next;
    fr_gpu *gpu;
    WGPUBuffer handle;
    uint64_t bytes;
    bool mapping, mapped;
};

struct fr_pipeline {
    fr_pipeline *next;
    fr_gpu *gpu;
    WGPUComputePipeline handle;
    fr_layout layout;
    bool optional, failed;
    char name[48];
};

struct fr_group {
    fr_group *next;
    WGPUBindGroup handle[FR_N_LAYOUTS]; /* NULL: nothing was given for it */
};

struct fr_gpu {
    WGPUDevice device;
    WGPUQueue queue;
    fr_gpu_limits limits;
    fr_error_text error;
    fr_buffer *buffers;
    fr_pipeline *pipelines;
    fr_group *groups;
    WGPUBindGroupLayout layout[FR_N_LAYOUTS];
    WGPUPipelineLayout pipeline_layout[FR_N_LAYOUTS];
    uint64_t bytes, submits;
    uint32_t n_pipelines, compiling;
    size_t unfenced;
    uint32_t fences;
    uint32_t callbacks; /* outstanding, all with this struct as user data */
    bool closing;       /* fr_gpu_free waits for the last callback */
    /* recording */
    WGPUCommandEncoder encoder;
    WGPUComputePassEncoder pass;
    const fr_pipeline *current;
    const fr_group *group;
    uint32_t entry;
    fr_layout group_layout; /* of the group that is set */
    WGPUQuerySet clock;  /* made when first used */
    WGPUBuffer clock_at; /* its two values */
    bool timing;
};

static const WGPUStringView no_label = {NULL, WGPU_STRLEN};

static WGPUStringView view(const char *s)
{
    return (WGPUStringView){s, strlen(s)};
}

static void destroy(fr_gpu *g);

/* Every callback ends here, so that a gpu that was freed with callbacks under way goes when the last one has come. */
static void callback_done(fr_gpu *g)
{
    g->callbacks--;
    if (g->closing && !g->callbacks)
        destroy(g);
}

const fr_error_text *fr_gpu_error(const fr_gpu *g)
{
    return &g->error;
}

void fr_gpu_set_error(fr_gpu *g, fr_status status, const char *what, const char *detail)
{
    fr_fail(&g->error, status, "%s: %.300s", what, detail);
}

static void set_error(fr_gpu *g, const char *what, WGPUStringView detail)
{
    char text[320];
    size_t n = detail.data ? (detail.length == WGPU_STRLEN ? strlen(detail.data) : detail.length) : 0;
    if (n >= sizeof text)
        n = sizeof text - 1;
    if (n)
        memcpy(text, detail.data, n);
    text[n] = 0;
    fr_gpu_set_error(g, FR_FAILED, what, text);
}

/* ---- device ---- */

static bool need(fr_error_text *e, const char *limit, uint64_t have, uint64_t want)
{
    if (have >= want)
        return true;
    fr_fail(e, FR_NO_GPU, "the GPU's %s is %llu, %llu are needed: try another adapter or a newer browser or driver", limit,
            (unsigned long long)have, (unsigned long long)want);
    return false;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool read_limits(fr_gpu *g, const fr_device *d, bool portable, fr_error_text *e)
{
    WGPULimits l = WGPU_LIMITS_INIT;
    if (wgpuDeviceGetLimits(g->device, &l) != WGPUStatus_Success) {
        fr_fail(e, FR_NO_GPU, "the GPU does not tell its limits: try another adapter");
        return false;
    }
    if (portable) { /* the defaults of the WebGPU specification */
        l.maxStorageBufferBindingSize = smaller(l.maxStorageBufferBindingSize, 128u << 20);
        l.maxBufferSize = smaller(l.maxBufferSize, 256u << 20);
        l.maxComputeInvocationsPerWorkgroup = (uint32_t)smaller(l.maxComputeInvocationsPerWorkgroup, 256);
        l.maxComputeWorkgroupStorageSize = (uint32_t)smaller(l.maxComputeWorkgroupStorageSize, 16384);
    }
    g->limits = (fr_gpu_limits){.binding = smaller(l.maxStorageBufferBindingSize, l.maxBufferSize) & ~(uint64_t)255,
                                .threads = (uint32_t)smaller(l.maxComputeInvocationsPerWorkgroup, l.maxComputeWorkgroupSizeX),
                                .workgroup_bytes = l.maxComputeWorkgroupStorageSize,
                                .workgroups = l.maxComputeWorkgroupsPerDimension,
                                .is_cpu = d->is_cpu};
    if (!portable && d->has_subgroups && d->subgroup_min == d->subgroup_max)
        g->limits.subgroup = d->subgroup_min;
    return need(e, "maxStorageBuffersPerShaderStage", l.maxStorageBuffersPerShaderStage, 8) &&
           need(e, "maxComputeInvocationsPerWorkgroup", g->limits.threads, 256) &&
           need(e, "maxComputeWorkgroupStorageSize", g->limits.workgroup_bytes, 16384) &&
           need(e, "maxStorageBufferBindingSize", g->limits.binding, 128u << 20) &&
           need(e, "maxComputeWorkgroupsPerDimension", g->limits.workgroups, 65535);
}

static WGPUBindGroupLayoutEntry entry(uint32_t binding, WGPUBufferBindingType type, bool dynamic, uint64_t size)
{
    WGPUBindGroupLayoutEntry e = WGPU_BIND_GROUP_LAYOUT_ENTRY_INIT;
    e.binding = binding;
    e.visibility = WGPUShaderStage_Compute;
    e.buffer.type = type;
    e.buffer.hasDynamicOffset = dynamic;
    e.buffer.minBindingSize = size;
    return e;
}

static WGPUBindGroupLayout layout(fr_gpu *g, const WGPUBindGroupLayoutEntry *entries, size_t n)
{
    WGPUBindGroupLayoutDescriptor d = WGPU_BIND_GROUP_LAYOUT_DESCRIPTOR_INIT;
    d.entries = entries;
    d.entryCount = n;
    return wgpuDeviceCreateBindGroupLayout(g->device, &d);
}

static WGPUPipelineLayout pipeline_layout(fr_gpu *g, WGPUBindGroupLayout group)
{
    WGPUPipelineLayoutDescriptor d = WGPU_PIPELINE_LAYOUT_DESCRIPTOR_INIT;
    d.bindGroupLayouts = &group;
    d.bindGroupLayoutCount = 1;
    return wgpuDeviceCreatePipelineLayout(g->device, &d);
}

fr_gpu *fr_gpu_new(const fr_device *d, bool portable, fr_error_text *e)
{
    fr_gpu *g = calloc(1, sizeof *g);
    if (!g) {
        fr_fail(e, FR_FAILED, "out of memory");
        return NULL;
    }
    g->device = d->device;
    wgpuDeviceAddRef(g->device);
    g->queue = wgpuDeviceGetQueue(g->device);
    if (!read_limits(g, d, portable, e)) {
        fr_gpu_free(g);
        return NULL;
    }
    for (int kind = 0; kind < FR_N_LAYOUTS; kind++) {
        const bool writes = kind == FR_WRITES_STATE, all = kind == FR_ALL_LAYERS;
        const WGPUBindGroupLayoutEntry entries[FR_BINDINGS + 1] = {
            entry(0, WGPUBufferBindingType_ReadOnlyStorage, false, 0),
            entry(1, WGPUBufferBindingType_ReadOnlyStorage, false, 0),
            entry(2, WGPUBufferBindingType_ReadOnlyStorage, false, 0),
            entry(3, WGPUBufferBindingType_Storage, false, 0),
            entry(4, WGPUBufferBindingType_Storage, false, 0),
            entry(5, WGPUBufferBindingType_Storage, false, 0),
            entry(6, WGPUBufferBindingType_Uniform, !all, all ? 0 : sizeof(fr_gpu_Params)),
            entry(7, writes ? WGPUBufferBindingType_Storage : WGPUBufferBindingType_ReadOnlyStorage, false, 0),
            entry(8, WGPUBufferBindingType_Storage, false, 0),
        };
        g->layout[kind] = layout(g, entries, FR_BINDINGS + all);
        g->pipeline_layout[kind] = pipeline_layout(g, g->layout[kind]);
    }
    return g;
}

static void destroy(fr_gpu *g)
{
    for (fr_buffer *b = g->buffers, *next; b; b = next) {
        next = b->next;
        wgpuBufferDestroy(b->handle);
        wgpuBufferRelease(b->handle);
        free(b);
    }
    for (fr_pipeline *p = g->pipelines, *next; p; p = next) {
        next = p->next;
        if (p->handle)
            wgpuComputePipelineRelease(p->handle);
        free(p);
    }
    for (fr_group *b = g->groups, *next; b; b = next) {
        next = b->next;
        for (int kind = 0; kind < FR_N_LAYOUTS; kind++)
            if (b->handle[kind])
                wgpuBindGroupRelease(b->handle[kind]);
        free(b);
    }
    for (int kind = 0; kind < FR_N_LAYOUTS && g->layout[kind]; kind++) {
        wgpuPipelineLayoutRelease(g->pipeline_layout[kind]);
        wgpuBindGroupLayoutRelease(g->layout[kind]);
    }
    wgpuQueueRelease(g->queue);
    wgpuDeviceRelease(g->device);
    free(g);
}

void fr_gpu_free(fr_gpu *g)
{
    if (!g)
        return;
    g->closing = true;
    if (g->callbacks)
        return; /* the last callback frees it; the host delivers callbacks until its device is gone */
    destroy(g);
}

const fr_gpu_limits *fr_gpu_get_limits(const fr_gpu *g)
{
    return &g->limits;
}
uint64_t fr_gpu_bytes(const fr_gpu *g)
{
    return g->bytes;
}
uint32_t fr_gpu_pipelines(const fr_gpu *g)
{
    return g->n_pipelines;
}
uint64_t fr_gpu_submits(const fr_gpu *g)
{
    return g->submits;
}
uint32_t fr_gpu_compiling(const fr_gpu *g)
{
    return g->compiling;
}

/* ---- buffers ---- */

fr_buffer *fr_gpu_buffer(fr_gpu *g, const char *name, fr_buffer_kind kind, uint64_t bytes, fr_error_text *e)
{
    static const WGPUBufferUsage usage[] = {
        [FR_BUFFER_STORAGE] = WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst,
        [FR_BUFFER_UNIFORM] = WGPUBufferUsage_Uniform | WGPUBufferUsage_CopyDst,
        [FR_BUFFER_READBACK] = WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst,
    };
    bytes = bytes < 256 ? 256 : (bytes + 255) & ~(uint64_t)255;
    if (bytes > g->limits.binding) {
        fr_fail(e, FR_NO_GPU,
                "buffer \"%s\" needs %llu MiB, the GPU's bindings hold %llu MiB: use a smaller context or model, or another GPU", name,
                (unsigned long long)(bytes >> 20), (unsigned long long)(g->limits.binding >> 20));
        return NULL;
    }
    fr_buffer *b = calloc(1, sizeof *b);
    WGPUBufferDescriptor d = WGPU_BUFFER_DESCRIPTOR_INIT;
    d.label = view(name);
    d.usage = usage[kind];
    d.size = bytes;
    if (b)
        b->handle = wgpuDeviceCreateBuffer(g->device, &d);
    if (!b || !b->handle) {
        free(b);
        fr_fail(e, FR_FAILED, "no memory for buffer \"%s\" of %llu MiB on the GPU: use a smaller context or model", name,
                (unsigned long long)(bytes >> 20));
        return NULL;
    }
    b->gpu = g;
    b->bytes = bytes;
    b->next = g->buffers;
    g->buffers = b;
    g->bytes += bytes;
    return b;
}

uint64_t fr_buffer_bytes(const fr_buffer *b)
{
    return b->bytes;
}

void fr_gpu_write(fr_gpu *g, fr_buffer *b, uint64_t offset, const void *bytes, size_t n)
{
    wgpuQueueWriteBuffer(g->queue, b->handle, offset, bytes, n);
}

static void on_fence(WGPUQueueWorkDoneStatus status, WGPUStringView message, void *user, void *unused)
{
    (void)unused;
    fr_gpu *g = user;
    g->fences--;
    if (status != WGPUQueueWorkDoneStatus_Success && !g->closing)
        set_error(g, "upload to the GPU failed", message);
    callback_done(g);
}

static void fence(fr_gpu *g)
{
    WGPUQueueWorkDoneCallbackInfo info = WGPU_QUEUE_WORK_DONE_CALLBACK_INFO_INIT;
    info.mode = WGPUCallbackMode_AllowProcessEvents;
    info.callback = on_fence;
    info.userdata1 = g;
    g->unfenced = 0;
    g->fences++;
    g->callbacks++;
    wgpuQueueSubmit(g->queue, 0, NULL); /* sends the staged writes on their way */
    wgpuQueueOnSubmittedWorkDone(g->queue, info);
}

bool fr_gpu_upload(fr_gpu *g, fr_buffer *b, uint64_t offset, const void *bytes, size_t n)
{
    if (g->fences >= UPLOAD_FENCES)
        return false;
    fr_gpu_write(g, b, offset, bytes, n);
    g->unfenced += n;
    if (g->unfenced >= UPLOAD_FENCE)
        fence(g);
    return true;
}

bool fr_gpu_upload_idle(const fr_gpu *g)
{
    return !g->fences; /* what is behind the last fence is ordered before later submissions anyway */
}

/* ---- bind groups ---- */

static WGPUBindGroupEntry bound(uint32_t binding, const fr_buffer *b, uint64_t size)
{
    WGPUBindGroupEntry e = WGPU_BIND_GROUP_ENTRY_INIT;
    e.binding = binding;
    e.buffer = b->handle;
    e.size = size;
    return e;
}

static WGPUBindGroup bind_group(fr_gpu *g, WGPUBindGroupLayout l, const WGPUBindGroupEntry *entries, size_t n)
{
    WGPUBindGroupDescriptor d = WGPU_BIND_GROUP_DESCRIPTOR_INIT;
    d.layout = l;
    d.entries = entries;
    d.entryCount = n;
    return wgpuDeviceCreateBindGroup(g->device, &d);
}

fr_group *fr_gpu_group(fr_gpu *g, const fr_bindings *b, fr_error_text *e)
{
    WGPUBindGroupEntry entries[FR_BINDINGS + 1] = {
        bound(0, b->codes, b->codes->bytes),        bound(1, b->scales, b->scales->bytes),
        bound(2, b->vectors, b->vectors->bytes),    bound(3, b->act, b->act->bytes),
        bound(4, b->work, b->work->bytes),          bound(5, b->kv, b->kv->bytes),
        bound(6, b->params, sizeof(fr_gpu_Params)), bound(7, b->state, b->state->bytes),
    };
    fr_group *group = calloc(1, sizeof *group);
    if (!group) {
        fr_fail(e, FR_FAILED, "out of memory");
        return NULL;
    }
    group->handle[FR_READS_STATE] = bind_group(g, g->layout[FR_READS_STATE], entries, FR_BINDINGS);
    group->handle[FR_WRITES_STATE] = bind_group(g, g->layout[FR_WRITES_STATE], entries, FR_BINDINGS);
    if (b->exchange) {
        entries[6] = bound(6, b->layers, b->layers->bytes);
        entries[FR_BINDINGS] = bound(FR_BINDINGS, b->exchange, b->exchange->bytes);
        group->handle[FR_ALL_LAYERS] = bind_group(g, g->layout[FR_ALL_LAYERS], entries, FR_BINDINGS + 1);
    }
    group->next = g->groups;
    g->groups = group;
    return group;
}

/* ---- pipelines ---- */

static void on_pipeline(WGPUCreatePipelineAsyncStatus status, WGPUComputePipeline handle, WGPUStringView message, void *user, void *unused)
{
    (void)unused;
    fr_pipeline *p = user;
    fr_gpu *g = p->gpu;
    g->compiling--;
    if (status == WGPUCreatePipelineAsyncStatus_Success) {
        p->handle = handle;
    } else if (p->optional) {
        p->failed = true;
    } else if (!g->closing) {
        char what[96];
        snprintf(what, sizeof what, "kernel \"%s\" does not compile on this GPU", p->name);
        set_error(g, what, message);
    }
    callback_done(g);
}

fr_pipeline *fr_gpu_pipeline(fr_gpu *g, const char *name, const char *wgsl, fr_layout layout)
{
    fr_pipeline *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->gpu = g;
    p->layout = layout;
    snprintf(p->name, sizeof p->name, "%s", name);
    p->next = g->pipelines;
    g->pipelines = p;
    g->n_pipelines++;

    WGPUShaderSourceWGSL source = WGPU_SHADER_SOURCE_WGSL_INIT;
    source.code = view(wgsl);
    WGPUShaderModuleDescriptor m = WGPU_SHADER_MODULE_DESCRIPTOR_INIT;
    m.nextInChain = &source.chain;
    m.label = view(name);
    WGPUShaderModule module = wgpuDeviceCreateShaderModule(g->device, &m);

    WGPUComputePipelineDescriptor d = WGPU_COMPUTE_PIPELINE_DESCRIPTOR_INIT;
    d.label = view(name);
    d.layout = g->pipeline_layout[layout];
    d.compute.module = module;
    d.compute.entryPoint = view(p->name);
    WGPUCreateComputePipelineAsyncCallbackInfo info = WGPU_CREATE_COMPUTE_PIPELINE_ASYNC_CALLBACK_INFO_INIT;
    info.mode = WGPUCallbackMode_AllowProcessEvents;
    info.callback = on_pipeline;
    info.userdata1 = p;
    g->compiling++;
    g->callbacks++;
    wgpuDeviceCreateComputePipelineAsync(g->device, &d, info);
    wgpuShaderModuleRelease(module);
    return p;
}

void fr_pipeline_optional(fr_pipeline *p)
{
    p->optional = true;
}

bool fr_pipeline_failed(const fr_pipeline *p)
{
    return p->failed;
}

bool fr_pipeline_ready(const fr_pipeline *p)
{
    return p->handle != NULL;
}

const char *fr_pipeline_name(const fr_pipeline *p)
{
    return p->name;
}

/* ---- recording ---- */

void fr_gpu_begin(fr_gpu *g)
{
    g->encoder = wgpuDeviceCreateCommandEncoder(g->device, NULL);
    g->pass = NULL;
}

static void end_pass(fr_gpu *g)
{
    if (!g->pass)
        return;
    wgpuComputePassEncoderEnd(g->pass);
    wgpuComputePassEncoderRelease(g->pass);
    g->pass = NULL;
}

static void begin_pass(fr_gpu *g)
{
    WGPUComputePassDescriptor d = WGPU_COMPUTE_PASS_DESCRIPTOR_INIT;
    WGPUPassTimestampWrites times = WGPU_PASS_TIMESTAMP_WRITES_INIT;
    times.querySet = g->clock;
    times.beginningOfPassWriteIndex = 0;
    times.endOfPassWriteIndex = 1;
    if (g->timing)
        d.timestampWrites = &times;
    g->pass = wgpuCommandEncoderBeginComputePass(g->encoder, &d);
    g->current = NULL;
    g->group = NULL;
}

void fr_gpu_dispatch(fr_gpu *g, const fr_pipeline *p, const fr_group *group, uint32_t params_entry, uint32_t x, uint32_t y, uint32_t z)
{
    if (!g->pass)
        begin_pass(g);
    if (p != g->current)
        wgpuComputePassEncoderSetPipeline(g->pass, p->handle);
    g->current = p;
    if (group != g->group || params_entry != g->entry || p->layout != g->group_layout) {
        const uint32_t offset = params_entry * FR_PARAMS_STRIDE;
        wgpuComputePassEncoderSetBindGroup(g->pass, 0, group->handle[p->layout], p->layout != FR_ALL_LAYERS, &offset);
        g->group = group;
        g->entry = params_entry;
        g->group_layout = p->layout;
    }
    wgpuComputePassEncoderDispatchWorkgroups(g->pass, x, y, z);
}

void fr_gpu_copy(fr_gpu *g, fr_buffer *from, uint64_t from_offset, fr_buffer *to, uint64_t to_offset, uint64_t bytes)
{
    end_pass(g);
    wgpuCommandEncoderCopyBufferToBuffer(g->encoder, from->handle, from_offset, to->handle, to_offset, bytes);
}

void fr_gpu_submit(fr_gpu *g)
{
    end_pass(g);
    WGPUCommandBuffer commands = wgpuCommandEncoderFinish(g->encoder, NULL);
    wgpuQueueSubmit(g->queue, 1, &commands);
    wgpuCommandBufferRelease(commands);
    wgpuCommandEncoderRelease(g->encoder);
    g->encoder = NULL;
    g->submits++;
}

void fr_gpu_start_clock(fr_gpu *g)
{
    if (!g->clock) {
        WGPUQuerySetDescriptor q = WGPU_QUERY_SET_DESCRIPTOR_INIT;
        q.type = WGPUQueryType_Timestamp;
        q.count = 2;
        g->clock = wgpuDeviceCreateQuerySet(g->device, &q);
        WGPUBufferDescriptor b = WGPU_BUFFER_DESCRIPTOR_INIT;
        b.size = 256;
        b.usage = WGPUBufferUsage_QueryResolve | WGPUBufferUsage_CopySrc;
        g->clock_at = wgpuDeviceCreateBuffer(g->device, &b);
    }
    g->timing = true;
}

void fr_gpu_stop_clock(fr_gpu *g, fr_buffer *to)
{
    end_pass(g);
    g->timing = false;
    wgpuCommandEncoderResolveQuerySet(g->encoder, g->clock, 0, 2, g->clock_at, 0);
    wgpuCommandEncoderCopyBufferToBuffer(g->encoder, g->clock_at, 0, to->handle, 0, 2 * sizeof(uint64_t));
}

/* ---- read-back ---- */

static void on_map(WGPUMapAsyncStatus status, WGPUStringView message, void *user, void *unused)
{
    (void)unused;
    fr_buffer *b = user;
    fr_gpu *g = b->gpu;
    b->mapping = false;
    b->mapped = status == WGPUMapAsyncStatus_Success;
    if (!b->mapped && !g->closing)
        set_error(g, "reading from the GPU failed", message);
    callback_done(g);
}

void fr_gpu_map(fr_gpu *g, fr_buffer *b)
{
    WGPUBufferMapCallbackInfo info = WGPU_BUFFER_MAP_CALLBACK_INFO_INIT;
    info.mode = WGPUCallbackMode_AllowProcessEvents;
    info.callback = on_map;
    info.userdata1 = b;
    b->mapping = true;
    b->mapped = false;
    g->callbacks++;
    wgpuBufferMapAsync(b->handle, WGPUMapMode_Read, 0, (size_t)b->bytes, info);
}

bool fr_gpu_mapped(const fr_buffer *b)
{
    return !b->mapping;
}

bool fr_gpu_take(fr_gpu *g, fr_buffer *b, void *out, size_t bytes)
{
    if (!b->mapped)
        return false;
    const WGPUStatus status = wgpuBufferReadMappedRange(b->handle, 0, out, bytes);
    wgpuBufferUnmap(b->handle);
    b->mapped = false;
    if (status != WGPUStatus_Success)
        set_error(g, "reading from the GPU failed", no_label);
    return status == WGPUStatus_Success;
}
