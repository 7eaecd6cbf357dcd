/* gpu.h: the device as the engine sees it. Only src/gpu/ knows webgpu.h.
 *
 * Everything is asynchronous and nothing blocks: pipelines become ready, uploads drain and read-backs arrive between two calls, when
 * the host lets WebGPU deliver its callbacks. Errors of the device end in fr_gpu_error(). */
#ifndef FR_GPU_GPU_H
#define FR_GPU_GPU_H

#include "base/error.h"
#include "gpu/shared.h"

typedef struct fr_gpu fr_gpu;
typedef struct fr_buffer fr_buffer;     /* a GPU buffer */
typedef struct fr_pipeline fr_pipeline; /* a compute pipeline, ready or not yet */
typedef struct fr_group fr_group;       /* bind group 0: the buffers of bindings.wgsl */

typedef struct fr_gpu_limits {
    uint64_t binding;        /* bytes of the largest storage binding: min(maxStorageBufferBindingSize, maxBufferSize) */
    uint32_t threads;        /* per workgroup */
    uint32_t workgroup_bytes;
    uint32_t workgroups;     /* per dimension of a dispatch */
    uint32_t subgroup;       /* lanes of a subgroup if it is the same everywhere and may be used, else 0 */
    bool is_cpu;
} fr_gpu_limits;

/* Takes a reference of the device. NULL with the error if the device lacks what the engine needs, or memory is short. */
fr_gpu *fr_gpu_new(const fr_device *, bool portable, fr_error_text *);
void fr_gpu_free(fr_gpu *);
const fr_gpu_limits *fr_gpu_get_limits(const fr_gpu *);
uint64_t fr_gpu_bytes(const fr_gpu *); /* in buffers that live */
uint32_t fr_gpu_pipelines(const fr_gpu *); /* made so far */
uint64_t fr_gpu_submits(const fr_gpu *);

/* Buffers belong to the gpu and live as long as it. Storage buffers start as zeros. NULL: out of memory or over a limit (error set). */
typedef enum fr_buffer_kind { FR_BUFFER_STORAGE, FR_BUFFER_UNIFORM, FR_BUFFER_READBACK } fr_buffer_kind;
fr_buffer *fr_gpu_buffer(fr_gpu *, const char *name, fr_buffer_kind, uint64_t bytes, fr_error_text *);
uint64_t fr_buffer_bytes(const fr_buffer *);

/* Queues a write; offset and size multiples of 4. */
void fr_gpu_write(fr_gpu *, fr_buffer *, uint64_t offset, const void *, size_t);
/* The same for bulk data: false if too much is under way already (poll, then again). */
bool fr_gpu_upload(fr_gpu *, fr_buffer *, uint64_t offset, const void *, size_t);
bool fr_gpu_upload_idle(const fr_gpu *); /* everything uploaded has arrived */

/* Bind groups: all of bindings.wgsl and the state. Which kernels see: */
typedef enum fr_layout {
    FR_READS_STATE,
    FR_WRITES_STATE,
    FR_ALL_LAYERS, /* read the state, have the parameters of all layers, and the exchange (params_layers.wgsl, exchange.wgsl) */
    FR_N_LAYOUTS
} fr_layout;
typedef struct fr_bindings {
    fr_buffer *codes, *scales, *vectors, *act, *work, *kv, *params, *state;
    fr_buffer *layers, *exchange; /* for FR_ALL_LAYERS; NULL where no such kernel is used with the group */
} fr_bindings;
fr_group *fr_gpu_group(fr_gpu *, const fr_bindings *, fr_error_text *);

/* A pipeline of WGSL text (kernel.h builds it) with entry point `name`. Compiles in the background. NULL: out of memory. */
fr_pipeline *fr_gpu_pipeline(fr_gpu *, const char *name, const char *wgsl, fr_layout);
/* From now on it is no error of the device if it can't be made. */
void fr_pipeline_optional(fr_pipeline *);
bool fr_pipeline_failed(const fr_pipeline *); /* an optional one */
bool fr_pipeline_ready(const fr_pipeline *);
const char *fr_pipeline_name(const fr_pipeline *);
uint32_t fr_gpu_compiling(const fr_gpu *); /* pipelines not ready yet */

/* Recording. One command buffer with one compute pass at a time; bind groups are set only where they change. */
enum { FR_PARAMS_STRIDE = 256 };
void fr_gpu_begin(fr_gpu *);
void fr_gpu_dispatch(fr_gpu *, const fr_pipeline *, const fr_group *, uint32_t params_entry, uint32_t x, uint32_t y, uint32_t z);
/* Ends the pass; copies and the submission follow. */
void fr_gpu_copy(fr_gpu *, fr_buffer *from, uint64_t from_offset, fr_buffer *to, uint64_t to_offset, uint64_t bytes);
void fr_gpu_submit(fr_gpu *);

/* The GPU's own clock, for benchmarks; only with a device that has the feature "timestamp-query". Between fr_gpu_begin and fr_gpu_submit,
 * around the dispatches of one pass: `to`, a read-back buffer, gets its start and its end in nanoseconds, two u64. */
void fr_gpu_start_clock(fr_gpu *);
void fr_gpu_stop_clock(fr_gpu *, fr_buffer *to);

/* Read-back buffers: ask after the submission that fills one; poll; take the bytes, which frees it for the next use. */
void fr_gpu_map(fr_gpu *, fr_buffer *);
bool fr_gpu_mapped(const fr_buffer *); /* also true after an error, which fr_gpu_error reports */
bool fr_gpu_take(fr_gpu *, fr_buffer *, void *out, size_t bytes);

/* First error of the device or of a pipeline; FR_OK if none. */
const fr_error_text *fr_gpu_error(const fr_gpu *);
void fr_gpu_set_error(fr_gpu *, fr_status, const char *what, const char *detail);

#endif
