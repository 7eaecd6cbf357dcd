/* kernel_set.h: what the files that build a bucket's kernels share. */
#ifndef FR_MODEL_KERNEL_SET_H
#define FR_MODEL_KERNEL_SET_H

#include "model/kernels.h"

enum { FR_WTYPES = 3 };

struct fr_kernel_set {
    fr_gpu *gpu;
    const fr_config *config;
    const fr_shape *shape;
    uint32_t nodes;
    bool tree;
    fr_tiled qkv[FR_WTYPES], o[FR_WTYPES], gateup[FR_WTYPES], down[FR_WTYPES], head[FR_WTYPES][2];
    fr_pipeline *embed[FR_WTYPES], *score, *advance[2], *match, *draft, *accept, *compact;
    fr_attention attention;
    fr_all_layers all;
};

static inline uint32_t over(uint32_t n, uint32_t d)
{
    return (n + d - 1) / d;
}

static inline uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Subgroups of at least so many neighbouring threads, whose values a kernel may shuffle. */
bool fr_kernel_has_lanes(const fr_kernel_set *k, uint32_t lanes);
/* Begins a kernel with the constants and bindings that all have. */
void fr_kernel_common(fr_kernel *b, const fr_kernel_set *k, uint32_t threads, bool subgroups);
/* Quantising into blocks of `size` vec4u in act. */
void fr_kernel_quantise(fr_kernel *b, const fr_kernel_set *k, uint32_t size);

#endif
