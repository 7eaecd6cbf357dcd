/* weights.h: where each weight of a model lies on the GPU. Written by the loader, read by the forward pass.
 *
 * Matrices. Every matrix is [rows][cols], cols a multiple of 32, cut in blocks of 32 along cols, and stored as codes and
 * scales in two buffers of one *pool*. A pool is as large as one storage binding may be; a matrix larger than a pool is
 * split by rows into parts.
 *
 *   FR_W_Q4S  16 bytes of codes (byte j: element j low nibble, element j+16 high), f16 scale d:      w = d * (code - 8)
 *   FR_W_Q4A  the same codes, f16 d and f16 m in one u32 (d low half):                               w = d * code + m
 *   FR_W_Q8   32 int8 codes, f16 scale d:                                                            w = d * code
 *
 * Reduction order (doc/reduction.md). A row's blocks are grouped in leaves of `leaf_blocks` neighbouring blocks; the last
 * leaf may be short. Storage order of a row is *transposed by leaf*, so that neighbouring lanes, which take neighbouring
 * leaves, read neighbouring memory: block b = leaf * leaf_blocks + j lies at index j * leaves + leaf of the row. Absent blocks of
 * the last leaf are stored as zeros (codes and scales all zero bytes); then one more zero block where that makes
 * row_blocks even, so that every row's 16-bit scales start on a u32.
 *
 *   row_blocks = leaves * leaf_blocks, rounded up to an even number
 *   codes of block index i of row r of a part: code_base + (r * row_blocks + i) * (1 for q4, 2 for q8)   in vec4<u32>
 *   scales: Q4A  scale_base + r * row_blocks + i                                                       in u32
 *           else 16-bit index 2 * scale_base + r * row_blocks + i                                      low half first
 *
 * Vectors (norms, biases) are f32 in one buffer. */
#ifndef FR_MODEL_WEIGHTS_H
#define FR_MODEL_WEIGHTS_H

#include "model/config.h"

enum { FR_BLOCK = 32, FR_MAX_PARTS = 8, FR_MAX_POOLS = 64 };

typedef enum fr_wtype { FR_W_Q4S, FR_W_Q4A, FR_W_Q8 } fr_wtype;

typedef struct fr_part {
    uint32_t pool;
    uint32_t code_base;  /* in vec4<u32> of the pool's code buffer */
    uint32_t scale_base; /* in u32 of the pool's scale buffer */
    uint32_t row0, rows; /* a multiple of 64 but for the last part */
} fr_part;

typedef struct fr_matrix {
    fr_wtype type;
    uint32_t rows, cols;
    uint32_t leaf_blocks; /* r */
    uint32_t leaves;      /* L = ceil(cols/32 / r) */
    uint32_t row_blocks;  /* blocks stored per row */
    uint32_t n_parts;
    fr_part parts[FR_MAX_PARTS];
} fr_matrix;

typedef struct fr_layer {
    fr_matrix qkv[3];   /* one matrix of q, k and v rows stacked if their types agree, else q, k, v */
    uint32_t n_qkv;     /* 1 or 3 */
    fr_matrix o;        /* [dim][n_heads * head_dim] */
    fr_matrix gate, up; /* [ffn_dim][dim], same type */
    fr_matrix down;     /* [dim][ffn_dim] */
} fr_layer;

typedef struct fr_pool {
    uint64_t code_bytes, scale_bytes; /* each at most the limit given to the plan, multiples of 256 */
} fr_pool;

typedef struct fr_weights {
    fr_matrix embed;          /* [vocab][dim] */
    fr_matrix head;           /* [vocab][dim]; the same place as embed if tied */
    fr_layer *layers;         /* [n_layers], owned */
    fr_pool pools[FR_MAX_POOLS];
    uint32_t n_pools;
    /* offsets into the vector buffer, in f32 */
    uint32_t norms_base;      /* [2 * n_layers + 1][dim]: attention and ffn norm of each layer, then the final norm */
    uint32_t bias_base;       /* [n_layers][qkv rows], only with config.qkv_bias; same row order as qkv */
    uint64_t vector_bytes;
    float *rope_factors; /* [head_dim / 2] divisors of the frequencies (rope_freqs.weight), or NULL; owned; filled while the file loads */
    uint64_t parameters;
    uint64_t matrix_bytes; /* codes and scales of everything but the embedding (unless it is the head): read by each step */
} fr_weights;

/* Shape of the sum over a row of `blocks` blocks: a function of the shape alone, the same for every kernel, bucket and
 * device (doc/reduction.md). */
void fr_reduction_shape(uint32_t blocks, uint32_t *leaf_blocks, uint32_t *leaves);

/* Stored types of one layer's matrices; gate and up share one. */
typedef struct fr_layer_types {
    fr_wtype q, k, v, o, gate_up, down;
} fr_layer_types;

/* Lays out a model: fills everything but rope_factors, which it leaves alone, into `w`, whose `layers` the caller has allocated
 * ([config->n_layers]). `types` is [n_layers]; `head` is ignored for a tied head. FR_NO_GPU: pools of `max_pool_bytes` are too
 * small for the model, the message says for what. */
fr_status fr_weights_plan(fr_weights *w, const fr_config *config, fr_wtype embed, fr_wtype head, const fr_layer_types *types,
                          uint64_t max_pool_bytes, fr_error_text *);

/* Bytes that one stored row takes in the code buffer and in the scale buffer. */
uint32_t fr_matrix_code_bytes(const fr_matrix *);
uint32_t fr_matrix_scale_bytes(const fr_matrix *);

#endif
