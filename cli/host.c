/* host.c: the native host. See host.h.
 *
 * What one has to know about the pinned Dawn (deps/) is all in this file:
 *  - the library is older than the header and numbers WGPUFeatureName differently: every feature goes through feature();
 *  - WGPUInstanceDescriptor differs between the two: NULL is the only descriptor that both agree on;
 *  - without a Vulkan driver that it likes, Dawn hands out its Null backend, whose buffers read garbage: refused here;
 *  - the Vulkan loader reads the environment when an instance is made, so SwiftShader is brought in with a new instance;
 *  - workgroup memory that the Vulkan driver is asked to clear costs SwiftShader an instruction for each word: Dawn's own loop instead. */
#include "cli/host.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "gpu/webgpu.h"

enum {
    FR_NAP_GPU_US = 20,       /* the kernel adds about as much again */
    FR_NAP_CPU_US = 200,      /* a software adapter needs the cores that a tighter loop would take from it */
    FR_ADAPTER_TRIES = 4,     /* the first request after a start may find nothing */
    FR_ADAPTER_WAIT_MS = 20,
    FR_QUIET_ROUNDS = 5       /* of events behind the lost callback */
};
static const double request_timeout_ms = 60000, close_timeout_ms = 2000;

struct fr_host {
    WGPUInstance instance;
    WGPUAdapter adapter;
    WGPUDevice device;
    fr_device facts;
    char name[160], driver[200];
    long nap_us;
    bool can_time;
    bool closing, gone; /* the device is being destroyed; the lost callback has come */
    fr_engine *engine;
    char error[400]; /* first device event since the host was opened */
    char found[400]; /* names of the adapters that were seen, for messages */
};

/* Where a WebGPU request leaves its outcome. */
typedef struct fr_reply {
    bool done;
    void *object;
    char text[200];
} fr_reply;

static double now_ms(void *user)
{
    struct timespec t;
    (void)user;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void nap(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

/* A string view as one line; messages of the shader compiler have many. */
static void one_line(char *out, size_t size, WGPUStringView s)
{
    size_t n = 0, length = !s.data ? 0 : s.length == WGPU_STRLEN ? strlen(s.data) : s.length;
    for (size_t i = 0; i < length && n + 1 < size; i++) {
        char c = (unsigned char)s.data[i] < ' ' ? ' ' : s.data[i];
        if (c != ' ' || (n && out[n - 1] != ' '))
            out[n++] = c;
    }
    out[n] = 0;
}

/* The library's number of a feature. A Dawn that has wgpuGetInstanceCapabilities predates the renumbering. */
extern WGPUStatus wgpuGetInstanceCapabilities(void *) __attribute__((weak));
static WGPUFeatureName feature(WGPUFeatureName name)
{
    static const unsigned char old[] = {0, 0x12, 1, 2, 4, 5, 6, 7, 8, 3, 9, 10, 11, 12, 13, 14, 15, 16, 17};
    if (!wgpuGetInstanceCapabilities || (size_t)name >= sizeof old)
        return name;
    return (WGPUFeatureName)old[name];
}

/* ---- adapters ---- */

static bool contains(const char *text, const char *part)
{
    size_t n = strlen(part);
    for (; *text; text++)
        if (!strncasecmp(text, part, n))
            return true;
    return n == 0;
}

static void append(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *out, size_t size, const char *format, ...)
{
    size_t n = strlen(out);
    va_list list;
    va_start(list, format);
    vsnprintf(out + n, size - n, format, list);
    va_end(list);
}

/* "NVIDIA H200 (hopper)", "SwiftShader (CPU)": the device without what drivers put in brackets behind it, then the architecture. */
static void tidy_name(char *out, size_t size, const WGPUAdapterInfo *info)
{
    char vendor[64], architecture[64], device[120];
    one_line(vendor, sizeof vendor, info->vendor);
    one_line(architecture, sizeof architecture, info->architecture);
    one_line(device, sizeof device, info->device);
    char *bracket = strstr(device, " (");
    if (bracket)
        *bracket = 0;
    size_t n = strlen(device);
    if (n > 7 && !strcmp(device + n - 7, " Device"))
        device[n - 7] = 0;

    out[0] = 0;
    append(out, size, "%s", device[0] ? device : vendor[0] ? vendor : "unnamed adapter");
    if (architecture[0] && !contains(out, architecture))
        append(out, size, " (%s)", architecture);
    if (info->adapterType == WGPUAdapterType_CPU)
        append(out, size, " (CPU)");
}

/* The user's word against everything the adapter says of itself, and "cpu" or "gpu" for its kind. */
static bool matches(const WGPUAdapterInfo *info, const char *name, const char *wanted)
{
    char part[160];
    const WGPUStringView texts[] = {info->vendor, info->architecture, info->device, info->description};
    bool cpu = info->adapterType == WGPUAdapterType_CPU;
    if (!strcasecmp(wanted, "gpu") || !strcasecmp(wanted, "cpu"))
        return cpu == !strcasecmp(wanted, "cpu");
    if (contains(name, wanted))
        return true;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        one_line(part, sizeof part, texts[i]);
        if (contains(part, wanted))
            return true;
    }
    return false;
}

static void on_adapter(WGPURequestAdapterStatus status, WGPUAdapter adapter, WGPUStringView message, void *user, void *unused)
{
    fr_reply *reply = user;
    (void)unused;
    reply->done = true;
    reply->object = status == WGPURequestAdapterStatus_Success ? adapter : NULL;
    one_line(reply->text, sizeof reply->text, message);
}

static bool wait_for(fr_host *host, const fr_reply *reply)
{
    double start = now_ms(NULL);
    while (!reply->done && now_ms(NULL) - start < request_timeout_ms) {
        wgpuInstanceProcessEvents(host->instance);
        if (!reply->done)
            nap(FR_NAP_CPU_US);
    }
    return reply->done;
}

/* An adapter that is not Dawn's Null backend, or NULL. */
static WGPUAdapter request_adapter(fr_host *host, const WGPURequestAdapterOptions *options)
{
    for (int i = 0; i < FR_ADAPTER_TRIES; i++) {
        static fr_reply reply; /* outlives a request that never answers */
        reply = (fr_reply){0};
        WGPURequestAdapterCallbackInfo callback = WGPU_REQUEST_ADAPTER_CALLBACK_INFO_INIT;
        callback.mode = WGPUCallbackMode_AllowProcessEvents;
        callback.callback = on_adapter;
        callback.userdata1 = &reply;
        wgpuInstanceRequestAdapter(host->instance, options, callback);
        if (!wait_for(host, &reply))
            return NULL;
        if (reply.object)
            return reply.object;
        nap(FR_ADAPTER_WAIT_MS * 1000);
    }
    return NULL;
}

/* Keeps the adapter if it works and is the wanted one, else releases it and notes its name. */
static void consider(fr_host *host, WGPUAdapter adapter, const char *wanted)
{
    WGPUAdapterInfo info = WGPU_ADAPTER_INFO_INIT;
    if (wgpuAdapterGetInfo(adapter, &info) != WGPUStatus_Success || info.backendType == WGPUBackendType_Null) {
        wgpuAdapterInfoFreeMembers(info);
        wgpuAdapterRelease(adapter);
        return;
    }
    char name[sizeof host->name];
    tidy_name(name, sizeof name, &info);
    if (!contains(host->found, name))
        append(host->found, sizeof host->found, "%s%s", host->found[0] ? ", " : "", name);
    if (!wanted[0] || matches(&info, name, wanted)) {
        host->adapter = adapter;
        memcpy(host->name, name, sizeof name);
        one_line(host->driver, sizeof host->driver, info.description);
        host->facts.is_cpu = info.adapterType == WGPUAdapterType_CPU;
        host->facts.is_integrated = info.adapterType == WGPUAdapterType_IntegratedGPU;
        host->facts.subgroup_min = info.subgroupMinSize;
        host->facts.subgroup_max = info.subgroupMaxSize;
    } else {
        wgpuAdapterRelease(adapter);
    }
    wgpuAdapterInfoFreeMembers(info);
}

/* webgpu.h has no list of adapters: each preference gives one, and together they reach the usual two GPUs of a laptop. */
static void find_adapter(fr_host *host, const char *wanted)
{
    static const WGPUPowerPreference preferences[] = {WGPUPowerPreference_HighPerformance, WGPUPowerPreference_LowPower};
    if (host->instance)
        wgpuInstanceRelease(host->instance);
    host->instance = wgpuCreateInstance(NULL);
    if (!host->instance)
        return;
    for (size_t i = 0; i < 3 && !host->adapter; i++) {
        WGPURequestAdapterOptions options = WGPU_REQUEST_ADAPTER_OPTIONS_INIT;
        options.forceFallbackAdapter = i == 2;
        options.powerPreference = i < 2 ? preferences[i] : WGPUPowerPreference_Undefined;
        WGPUAdapter adapter = request_adapter(host, &options);
        if (!adapter)
            return;
        consider(host, adapter, wanted);
    }
}

/* Chromium and its relatives ship SwiftShader with a driver description. */
static bool swiftshader_path(char *path, size_t size)
{
    static const char *const places[] = {
        "/usr/lib/chromium/vk_swiftshader_icd.json",
        "/usr/lib/chromium-browser/vk_swiftshader_icd.json",
        "/usr/lib64/chromium-browser/vk_swiftshader_icd.json",
        "/opt/google/chrome/vk_swiftshader_icd.json",
        "/opt/chromium/vk_swiftshader_icd.json",
    };
    const char *own = getenv("FORERUN_SWIFTSHADER");
    if (own && own[0]) {
        snprintf(path, size, "%s", own);
        return access(path, R_OK) == 0;
    }
    /* Beside the program. */
    static const char file[] = "vk_swiftshader_icd.json";
    ssize_t n = readlink("/proc/self/exe", path, size - sizeof file);
    if (n > 0) {
        path[n] = 0;
        char *slash = strrchr(path, '/');
        if (slash) {
            memcpy(slash + 1, file, sizeof file);
            if (access(path, R_OK) == 0)
                return true;
        }
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (access(places[i], R_OK) == 0) {
            snprintf(path, size, "%s", places[i]);
            return true;
        }
    return false;
}

static void find_swiftshader(fr_host *host, const char *wanted)
{
    char path[4096];
    if (!swiftshader_path(path, sizeof path))
        return;
    setenv("VK_DRIVER_FILES", path, 1);
    setenv("VK_ICD_FILENAMES", path, 1); /* what loaders before 1.3.207 read */
    find_adapter(host, wanted);
}

/* While it looks for adapters, Dawn prints its reasons for refusing drivers, and the Vulkan loader and drivers print what they miss
 * (a display, a runtime folder). None of it is this program's error line. */
static int mute_stderr(void)
{
    fflush(stderr);
    int saved = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (saved >= 0 && null >= 0)
        dup2(null, STDERR_FILENO);
    if (null >= 0)
        close(null);
    return saved;
}

static void unmute_stderr(int saved)
{
    fflush(stderr);
    if (saved < 0)
        return;
    dup2(saved, STDERR_FILENO);
    close(saved);
}

static bool pick_adapter(fr_host *host, const char *wanted, fr_error_text *err)
{
    bool software = !strcasecmp(wanted, "cpu") || !strcasecmp(wanted, "swiftshader");
    if (software)
        find_swiftshader(host, wanted);
    if (!host->adapter)
        find_adapter(host, wanted);
    if (!host->adapter && !software)
        find_swiftshader(host, wanted);
    if (host->adapter)
        return true;
    if (host->found[0])
        fr_fail(err, FR_NO_GPU, "no adapter matches \"%s\"; this machine has: %s; use a part of one of these names, or \"cpu\"", wanted,
                host->found);
    else
        fr_fail(err, FR_NO_GPU,
                "no usable GPU: Vulkan shows no adapter and SwiftShader was not found; install a Vulkan driver and libvulkan1, or "
                "Chromium, or set "
                "FORERUN_SWIFTSHADER to a vk_swiftshader_icd.json");
    return false;
}

/* ---- device ---- */

static void on_lost(WGPUDevice const *device, WGPUDeviceLostReason reason, WGPUStringView message, void *user, void *unused)
{
    fr_host *host = user;
    char text[300];
    (void)device, (void)reason, (void)unused;
    host->gone = true;
    if (host->closing)
        return;
    one_line(text, sizeof text, message);
    if (!host->error[0])
        append(host->error, sizeof host->error, "the GPU device was lost: %s", text);
    if (host->engine)
        fr_device_lost(host->engine, text);
}

static void on_error(WGPUDevice const *device, WGPUErrorType type, WGPUStringView message, void *user, void *unused)
{
    fr_host *host = user;
    char text[300];
    (void)device, (void)type, (void)unused;
    one_line(text, sizeof text, message);
    if (!host->error[0])
        append(host->error, sizeof host->error, "GPU error: %s", text);
    if (host->engine)
        fr_device_error(host->engine, text);
}

static void on_device(WGPURequestDeviceStatus status, WGPUDevice device, WGPUStringView message, void *user, void *unused)
{
    fr_reply *reply = user;
    (void)unused;
    reply->done = true;
    reply->object = status == WGPURequestDeviceStatus_Success ? device : NULL;
    one_line(reply->text, sizeof reply->text, message);
}

/* Everything the adapter offers: the core reads the device's limits and uses what it can. */
static bool make_device(fr_host *host, fr_error_text *err)
{
    WGPULimits limits = WGPU_LIMITS_INIT;
    if (wgpuAdapterGetLimits(host->adapter, &limits) != WGPUStatus_Success) {
        fr_fail(err, FR_NO_GPU, "%s does not report its limits; update its driver, or use --adapter cpu", host->name);
        return false;
    }
    limits.nextInChain = NULL;

    const WGPUFeatureName wanted[] = {feature(WGPUFeatureName_Subgroups), feature(WGPUFeatureName_TimestampQuery)};
    WGPUFeatureName features[2];
    size_t n = 0;
    for (size_t i = 0; i < 2; i++)
        if (wgpuAdapterHasFeature(host->adapter, wanted[i]))
            features[n++] = wanted[i];

    static fr_reply reply;
    reply = (fr_reply){0};
    WGPUDeviceDescriptor descriptor = WGPU_DEVICE_DESCRIPTOR_INIT;
    descriptor.requiredLimits = &limits;
    descriptor.requiredFeatureCount = n;
    descriptor.requiredFeatures = features;
    static const char *const slow_to_compile[] = {"use_vulkan_zero_initialize_workgroup_memory_extension"};
    WGPUDawnTogglesDescriptor toggles = WGPU_DAWN_TOGGLES_DESCRIPTOR_INIT;
    toggles.disabledToggleCount = 1;
    toggles.disabledToggles = slow_to_compile;
    if (host->facts.is_cpu)
        descriptor.nextInChain = &toggles.chain;
    descriptor.deviceLostCallbackInfo.mode = WGPUCallbackMode_AllowProcessEvents;
    descriptor.deviceLostCallbackInfo.callback = on_lost;
    descriptor.deviceLostCallbackInfo.userdata1 = host;
    descriptor.uncapturedErrorCallbackInfo.callback = on_error;
    descriptor.uncapturedErrorCallbackInfo.userdata1 = host;
    WGPURequestDeviceCallbackInfo callback = WGPU_REQUEST_DEVICE_CALLBACK_INFO_INIT;
    callback.mode = WGPUCallbackMode_AllowProcessEvents;
    callback.callback = on_device;
    callback.userdata1 = &reply;
    wgpuAdapterRequestDevice(host->adapter, &descriptor, callback);
    if (!wait_for(host, &reply) || !reply.object) {
        fr_fail(err, FR_NO_GPU, "%s gives no device: %s; try --adapter cpu", host->name,
                reply.done ? reply.text : "no answer within a minute");
        return false;
    }
    host->device = reply.object;
    host->facts.has_subgroups = wgpuDeviceHasFeature(host->device, wanted[0]);
    host->can_time = wgpuDeviceHasFeature(host->device, wanted[1]);
    return true;
}

/* ---- host.h ---- */

fr_host *fr_host_open(const char *adapter, fr_error_text *err)
{
    fr_host *host = calloc(1, sizeof *host);
    if (!host) {
        fr_fail(err, FR_FAILED, "out of memory opening the GPU");
        return NULL;
    }
    int saved = mute_stderr();
    bool picked = pick_adapter(host, adapter ? adapter : "", err);
    unmute_stderr(saved);
    if (!picked || !make_device(host, err)) {
        fr_host_close(host);
        return NULL;
    }
    host->nap_us = host->facts.is_cpu ? FR_NAP_CPU_US : FR_NAP_GPU_US;
    host->facts.device = host->device;
    host->facts.name = host->name;
    host->facts.driver = host->driver;
    host->facts.now_ms = now_ms;
    return host;
}

/* Callbacks of what was under way (pipelines, maps) come once the device is destroyed, and free what they belong to. */
static void deliver_rest(fr_host *host)
{
    const double start = now_ms(NULL);
    for (int quiet = 0; quiet < FR_QUIET_ROUNDS && now_ms(NULL) - start < close_timeout_ms; quiet = host->gone ? quiet + 1 : 0) {
        wgpuInstanceProcessEvents(host->instance);
        nap(FR_NAP_CPU_US);
    }
}

void fr_host_close(fr_host *host)
{
    if (!host)
        return;
    host->closing = true;
    if (host->device) {
        wgpuDeviceDestroy(host->device);
        deliver_rest(host);
        wgpuDeviceRelease(host->device);
    }
    if (host->adapter)
        wgpuAdapterRelease(host->adapter);
    if (host->instance)
        wgpuInstanceRelease(host->instance);
    free(host);
}

const fr_device *fr_host_device(const fr_host *host)
{
    return &host->facts;
}

bool fr_host_can_time(const fr_host *host)
{
    return host->can_time;
}

const char *fr_host_error(const fr_host *host)
{
    return host->error;
}

void fr_host_attach(fr_host *host, fr_engine *engine)
{
    host->engine = engine;
}

/* Sleeps before it delivers, so that what comes in is worked on at once. With a window in flight behind the one that is
 * waited for, the GPU does not notice the nap. */
void fr_host_pump(fr_host *host)
{
    nap(host->nap_us);
    wgpuInstanceProcessEvents(host->instance);
}
