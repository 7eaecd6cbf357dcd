/* rig.h: a small random model on a device, with copies of everything on the CPU, run one dispatch at a time. Used by the self-test and
 * by the tests of kernels. */
#ifndef FR_REF_RIG_H
#define FR_REF_RIG_H

#include "load/loader.h"
#include "model/forward.h"
#include "ref/ref.h"
#include "tools/tiny_model.h"

typedef struct rig_host {
    const fr_device *device;
    void (*pump)(void *user); /* delivers WebGPU's callbacks */
    void *user;
} rig_host;

typedef struct rig_options {
    tiny_model model;
    uint32_t context;
    uint64_t pool_bytes; /* most bytes of a weight buffer; 0: as the device allows */
    bool portable;       /* fr_options.portable */
    uint32_t groups;     /* rig.groups */
    bool gpu_tiles;      /* the kernels that GPUs get, on a CPU adapter too */
} rig_options;

typedef struct rig {
    rig_host host;
    fr_gpu *gpu;
    fr_loader *loader;
    fr_forward *forward;
    const fr_config *config;
    const fr_weights *weights;
    const fr_shape *shape;
    uint32_t groups; /* of steps over many nodes, as in fr_forward_set_groups(); single tokens are decoded without */
    uint32_t context, *pools[2 * FR_MAX_POOLS];
    float *vectors; /* as on the device; the rope table is what ref_rope says */
    fr_buffer *readback;
    uint32_t n_kv, kv_layers; /* cache buffers; layers in each but perhaps the last */
    bool fused;               /* fma() rounds once on this adapter */
    fr_error_text error;
} rig;

/* All buffers that kernels write, as words: act, work, state, then the cache buffers. */
typedef struct rig_snapshot {
    uint32_t *words;
    size_t n;
} rig_snapshot;

/* Builds the model and waits until everything is on the device. False: rig.error says why; rig_close() all the same. */
bool rig_open(rig *, const rig_host *, const rig_options *);
void rig_close(rig *);

/* A GPU's kernels on a CPU adapter, which compiles them for minutes. */
bool rig_is_slow(const rig *);
/* There, trees of 4 and 16 nodes are left out: kernels of 2, 8 and 32 differ in the same ways. */
bool rig_leaves_out(const rig *, uint32_t tree_nodes);

/* Waits for the pipelines of such a step. */
bool rig_prepare(rig *, uint32_t nodes, fr_tail);
/* Number of buffers that kernels write, and one of them. */
uint32_t rig_buffers(const rig *);
fr_buffer *rig_buffer(const rig *, uint32_t i);
size_t rig_words(const rig *, uint32_t i);          /* of one buffer */
uint32_t *rig_part(const rig *, rig_snapshot *, uint32_t i); /* its words in a snapshot */

bool rig_snapshot_new(rig *, rig_snapshot *);
bool rig_read(rig *, rig_snapshot *);        /* waits for the device */
void rig_write(rig *, const rig_snapshot *); /* sets all of the buffers */

/* Fills act and work with words that are no numbers and all differ, the cache with random keys and values, the sequence with random tokens.
 */
void rig_scramble(rig *, rig_snapshot *, uint64_t seed);
fr_gpu_Control *rig_control(const rig *, rig_snapshot *);
fr_gpu_Tree *rig_tree(const rig *, rig_snapshot *);
uint32_t *rig_tokens(const rig *, rig_snapshot *);

/* The n-th random word of a seed. */
uint32_t rig_random(uint64_t seed, uint64_t n);

/* The dispatch as its twin needs it; `buffers` are left alone. False: a kernel without a twin. */
bool rig_describe(rig *, uint32_t nodes, fr_tail, uint32_t index, uint32_t positions, ref_step *, void (**twin)(ref_step *));

#endif
