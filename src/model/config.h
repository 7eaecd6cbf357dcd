/* config.h: what a model is. Read from GGUF metadata by load/read_config.h. */
#ifndef FR_MODEL_CONFIG_H
#define FR_MODEL_CONFIG_H

#include <stdint.h>

#include "base/error.h"

typedef struct fr_config {
    char architecture[32];    /* "llama" or "qwen2" */
    uint32_t n_layers;
    uint32_t dim;             /* embedding length; a multiple of 32 */
    uint32_t n_heads;         /* query heads */
    uint32_t n_kv_heads;      /* divides n_heads */
    uint32_t head_dim;        /* a multiple of 32, at most 256 */
    uint32_t ffn_dim;         /* a multiple of 32 */
    uint32_t vocab;
    uint32_t train_context;
    uint32_t rope_dims;       /* leading dimensions of a head that rotate; == head_dim in this family */
    float rope_base;
    float rope_scale;         /* position multiplier of linear scaling; 1 without */
    float norm_eps;
    bool rope_neox;           /* file order of pairs: (i, i + head_dim/2); the loader permutes rows so that pairs are neighbours */
    bool qkv_bias;            /* qwen2 */
    bool tied_head;           /* output.weight absent: the embedding is the head */
} fr_config;

#endif
