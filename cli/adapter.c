#include "cli/adapter.h"

#include <string.h>

#include "gpu/webgpu.h"

enum {
    FR_PROBE_DISPATCHES = 300, /* about a step's */
    FR_PROBE_SUBMITS = 4,      /* in flight together, as the engine's windows are */
    FR_PROBE_ROUNDS = 5,       /* the fastest counts; the first ones find the clocks low */
    FR_PROBE_READS = 4         /* passes over the buffer in a submit */
};

bool fr_adapter_limits(const fr_host *host, fr_limit out[FR_LIMITS])
{
    WGPULimits l = WGPU_LIMITS_INIT;
    if (wgpuDeviceGetLimits(fr_host_device(host)->device, &l) != WGPUStatus_Success)
        return false;
    const fr_limit limits[FR_LIMITS] = {
        {"maxBufferSize", l.maxBufferSize},
        {"maxStorageBufferBindingSize", l.maxStorageBufferBindingSize},
        {"maxStorageBuffersPerShaderStage", l.maxStorageBuffersPerShaderStage},
        {"maxBindGroups", l.maxBindGroups},
        {"maxUniformBufferBindingSize", l.maxUniformBufferBindingSize},
        {"maxComputeWorkgroupStorageSize", l.maxComputeWorkgroupStorageSize},
        {"maxComputeInvocationsPerWorkgroup", l.maxComputeInvocationsPerWorkgroup},
        {"maxComputeWorkgroupsPerDimension", l.maxComputeWorkgroupsPerDimension},
        {"maxImmediateSize", l.maxImmediateSize == WGPU_LIMIT_U32_UNDEFINED ? 0 : l.maxImmediateSize},
    };
    memcpy(out, limits, sizeof limits);
    return true;
}

/* `touch` is the cheapest dispatch that depends on the one before. `scan` reads all of x once: a thread takes every `threads`-th vector,
 * and the write, which never happens, keeps the compiler from dropping the reads. */
static const char wgsl[] =
    "@group(0) @binding(0) var<storage, read_write> x: array<vec4u>;\n"
    "@compute @workgroup_size(1) fn touch() { x[0].x = x[0].x + 1u; }\n"
    "@compute @workgroup_size(256) fn scan(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {\n"
    "    let threads = groups.x * 256u;\n"
    "    var sum = vec4u(0u);\n"
    "    for (var i = id.x; i < arrayLength(&x); i += threads) { sum += x[i]; }\n"
    "    if (all(sum == vec4u(0x9e3779b9u))) { x[1] = sum; }\n"
    "}\n";

typedef struct probe {
    fr_host *host;
    WGPUDevice device;
    WGPUQueue queue;
    WGPUBuffer buffer;
    WGPUComputePipeline touch, scan;
    WGPUBindGroup group;
} probe;

static WGPUComputePipeline pipeline(WGPUDevice device, WGPUPipelineLayout layout, WGPUShaderModule module, const char *entry)
{
    WGPUComputePipelineDescriptor d = WGPU_COMPUTE_PIPELINE_DESCRIPTOR_INIT;
    d.layout = layout;
    d.compute.module = module;
    d.compute.entryPoint = (WGPUStringView){entry, WGPU_STRLEN};
    return wgpuDeviceCreateComputePipeline(device, &d);
}

static void probe_open(probe *p, fr_host *host, uint64_t bytes)
{
    p->host = host;
    p->device = fr_host_device(host)->device;
    p->queue = wgpuDeviceGetQueue(p->device);

    WGPUBufferDescriptor b = WGPU_BUFFER_DESCRIPTOR_INIT;
    b.size = bytes;
    b.usage = WGPUBufferUsage_Storage;
    p->buffer = wgpuDeviceCreateBuffer(p->device, &b);

    WGPUBindGroupLayoutEntry slot = WGPU_BIND_GROUP_LAYOUT_ENTRY_INIT;
    slot.visibility = WGPUShaderStage_Compute;
    slot.buffer.type = WGPUBufferBindingType_Storage;
    WGPUBindGroupLayoutDescriptor ld = WGPU_BIND_GROUP_LAYOUT_DESCRIPTOR_INIT;
    ld.entryCount = 1;
    ld.entries = &slot;
    WGPUBindGroupLayout bindings = wgpuDeviceCreateBindGroupLayout(p->device, &ld);
    WGPUPipelineLayoutDescriptor pd = WGPU_PIPELINE_LAYOUT_DESCRIPTOR_INIT;
    pd.bindGroupLayoutCount = 1;
    pd.bindGroupLayouts = &bindings;
    WGPUPipelineLayout layout = wgpuDeviceCreatePipelineLayout(p->device, &pd);

    WGPUShaderSourceWGSL source = WGPU_SHADER_SOURCE_WGSL_INIT;
    source.code = (WGPUStringView){wgsl, sizeof wgsl - 1};
    WGPUShaderModuleDescriptor sd = WGPU_SHADER_MODULE_DESCRIPTOR_INIT;
    sd.nextInChain = &source.chain;
    WGPUShaderModule module = wgpuDeviceCreateShaderModule(p->device, &sd);
    p->touch = pipeline(p->device, layout, module, "touch");
    p->scan = pipeline(p->device, layout, module, "scan");

    WGPUBindGroupEntry entry = WGPU_BIND_GROUP_ENTRY_INIT;
    entry.buffer = p->buffer;
    WGPUBindGroupDescriptor gd = WGPU_BIND_GROUP_DESCRIPTOR_INIT;
    gd.layout = bindings;
    gd.entryCount = 1;
    gd.entries = &entry;
    p->group = wgpuDeviceCreateBindGroup(p->device, &gd);

    wgpuShaderModuleRelease(module);
    wgpuPipelineLayoutRelease(layout);
    wgpuBindGroupLayoutRelease(bindings);
}

static void probe_close(probe *p)
{
    wgpuBindGroupRelease(p->group);
    wgpuComputePipelineRelease(p->touch);
    wgpuComputePipelineRelease(p->scan);
    wgpuBufferDestroy(p->buffer);
    wgpuBufferRelease(p->buffer);
    wgpuQueueRelease(p->queue);
}

static void submit(const probe *p, WGPUComputePipeline what, uint32_t workgroups, int dispatches)
{
    WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(p->device, NULL);
    WGPUComputePassEncoder pass = wgpuCommandEncoderBeginComputePass(encoder, NULL);
    wgpuComputePassEncoderSetPipeline(pass, what);
    wgpuComputePassEncoderSetBindGroup(pass, 0, p->group, 0, NULL);
    for (int i = 0; i < dispatches; i++)
        wgpuComputePassEncoderDispatchWorkgroups(pass, workgroups, 1, 1);
    wgpuComputePassEncoderEnd(pass);
    wgpuComputePassEncoderRelease(pass);
    WGPUCommandBuffer commands = wgpuCommandEncoderFinish(encoder, NULL);
    wgpuCommandEncoderRelease(encoder);
    wgpuQueueSubmit(p->queue, 1, &commands);
    wgpuCommandBufferRelease(commands);
}

static void on_done(WGPUQueueWorkDoneStatus status, WGPUStringView message, void *user, void *unused)
{
    (void)status, (void)message, (void)unused;
    *(bool *)user = true;
}

/* Milliseconds of the fastest of a few rounds of FR_PROBE_SUBMITS submits; below 0 if the device failed. */
static double fastest(const probe *p, WGPUComputePipeline what, uint32_t workgroups, int dispatches)
{
    const fr_device *device = fr_host_device(p->host);
    double best = -1;
    for (int round = 0; round < FR_PROBE_ROUNDS; round++) {
        bool done = false;
        double start = device->now_ms(device->now_user);
        for (int i = 0; i < FR_PROBE_SUBMITS; i++)
            submit(p, what, workgroups, dispatches);
        WGPUQueueWorkDoneCallbackInfo callback = WGPU_QUEUE_WORK_DONE_CALLBACK_INFO_INIT;
        callback.mode = WGPUCallbackMode_AllowProcessEvents;
        callback.callback = on_done;
        callback.userdata1 = &done;
        wgpuQueueOnSubmittedWorkDone(p->queue, callback);
        while (!done)
            fr_host_pump(p->host);
        double ms = device->now_ms(device->now_user) - start;
        if (best < 0 || ms < best)
            best = ms;
    }
    return fr_host_error(p->host)[0] ? -1 : best;
}

fr_status fr_adapter_measure(fr_host *host, fr_costs *costs, fr_error_text *err)
{
    const fr_device *device = fr_host_device(host);
    WGPULimits limits = WGPU_LIMITS_INIT;
    wgpuDeviceGetLimits(device->device, &limits);
    uint64_t most = limits.maxStorageBufferBindingSize < limits.maxBufferSize ? limits.maxStorageBufferBindingSize : limits.maxBufferSize;
    uint64_t bytes = UINT64_C(1) << (device->is_cpu ? 24 : 29);
    while (bytes > most)
        bytes /= 2;
    probe p;
    probe_open(&p, host, bytes);
    double touch = fastest(&p, p.touch, 1, FR_PROBE_DISPATCHES);
    double scan = fastest(&p, p.scan, device->is_cpu ? 16 : 2048, FR_PROBE_READS);
    probe_close(&p);
    if (touch < 0 || scan < 0)
        return fr_fail(err, FR_FAILED, "measuring %s failed: %s", device->name, fr_host_error(host));
    costs->dispatch_us = 1000 * touch / (FR_PROBE_SUBMITS * FR_PROBE_DISPATCHES);
    costs->bytes_per_ms = (double)(bytes * FR_PROBE_READS * FR_PROBE_SUBMITS) / scan;
    return FR_OK;
}
