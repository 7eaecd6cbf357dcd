/* ref.h: CPU twins of the kernels. A twin says what one dispatch must leave in the buffers that kernels write, from what they held before
 * it. It is written from the formulas and from doc/reduction.md, loop by loop, and shares only types with src/.
 *
 * A twin gives a range for every word that its kernel writes. Where a kernel uses only exact arithmetic (integers, + - * fma, max) in the
 * canonical order, the range is one value: the bits must be equal. Where WGSL leaves freedom (exp, inverseSqrt, division, packing to
 * f16), the range is as wide as that freedom, carried through the steps that follow. Every other word must stay as it was, so all of a
 * buffer that a twin does not mention guards against stray writes. */
#ifndef FR_REF_REF_H
#define FR_REF_REF_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/shared.h"
#include "model/kernels.h"
#include "model/weights.h"

typedef enum ref_kind {
    REF_BITS,   /* the word equals `low` */
    REF_F32,    /* a float between the floats `low` and `high` */
    REF_HALVES, /* two f16, each between those of `low` and `high` */
    REF_CODES   /* four int8, each between those of `low` and `high` */
} ref_kind;

typedef struct ref_words {
    uint32_t *was, *low, *high;
    uint8_t *kind; /* ref_kind */
    size_t n;
} ref_words;

typedef enum ref_buffer { REF_ACT, REF_WORK, REF_STATE, REF_KV, REF_BUFFERS } ref_buffer;

enum { /* words of the state, where the parts behind the control block begin */
       REF_RING_AT = sizeof(fr_gpu_Control) / 4,
       REF_STATS_AT = REF_RING_AT + FR_RING,
       REF_TREE_AT = REF_STATS_AT + 3 * FR_STATS,
       REF_TOKENS_AT = REF_TREE_AT + sizeof(fr_gpu_Tree) / 4
};

/* One dispatch, in the words of the model: which layer, matrix and part it is for. Twins find weights through weights.h, not through the
 * parameters that the kernel gets, so these are checked too. */
typedef struct ref_step {
    const fr_config *config;
    const fr_weights *weights;
    const fr_shape *shape;
    const uint32_t *const *pools; /* words as the loader wrote them: codes at 2 * pool, scales at 2 * pool + 1 */
    const float *vectors;         /* norms, biases, rope table */
    uint32_t n;                   /* nodes of the bucket */
    uint32_t layer;
    uint32_t layer_in_kv;         /* index of the layer in the cache buffer at hand */
    uint32_t matrix;              /* qkv: index into fr_layer.qkv */
    uint32_t part;                /* of the matrix */
    uint32_t head_rows;           /* rows of the head that one partial maximum covers */
    uint32_t chunks;              /* attend_split: chunks in the grid */
    bool down;                    /* residual: of the hidden layer, else of attention */
    bool every_node;              /* head: all nodes, else the last */
    bool emit;                    /* advance: the step had a head */
    bool tree;                    /* the nodes are a tree of drafts, else a chain */
    uint32_t kv_layers;           /* compact: layers of the cache buffer at hand */
    bool fused;                   /* the adapter's fma() rounds once; WGSL also allows twice, if only everywhere */
    ref_words buffers[REF_BUFFERS];
} ref_step;

void ref_embed(ref_step *);
void ref_qkv(ref_step *);
void ref_attend_split(ref_step *);
void ref_attend_stream(ref_step *);
void ref_merge(ref_step *);
void ref_residual(ref_step *);
void ref_gateup(ref_step *);
void ref_head(ref_step *);
void ref_score(ref_step *);
void ref_advance(ref_step *);
void ref_match(ref_step *);   /* draft_match; its part of the definition is in ref_draft.h */
void ref_tree(ref_step *);    /* draft_tree */
void ref_accept(ref_step *);
void ref_compact(ref_step *);

/* Cosine and sine of pair i at a position, as the rope table holds them. */
void ref_rope(const fr_config *, const float *factors, uint32_t position, uint32_t pair, float out[2]);

/* Index of the first word that is outside its range, or n. */
size_t ref_first_wrong(const ref_words *, const uint32_t *now);

/* ---- what twins are made of ---- */

/* A value and how far a right one may be from it. */
typedef struct ref_near {
    float v;
    double e;
} ref_near;

/* Freedom of WGSL's built-in functions, relative to the result, with the rounding of one product behind it. */
#define REF_ROUNDING 0x1p-23
#define REF_INVERSE_SQRT (4 * REF_ROUNDING)
#define REF_DIVISION (4 * REF_ROUNDING)
static inline double ref_exp_freedom(double x)
{
    return (4 + 2 * (x < 0 ? -x : x)) * REF_ROUNDING;
}

float ref_fma(const ref_step *, float a, float b, float c); /* a b + c as the adapter computes it */
uint32_t ref_control(const ref_step *, size_t offset); /* a u32 of Control by its offset in bytes */
void ref_put_control(ref_step *, size_t offset, uint32_t);
const fr_gpu_Tree *ref_tree_was(const ref_step *);
/* Nodes of the step. In a tree all but the token follows from the parents alone, not from the paths that the kernels read. */
uint32_t ref_node_count(const ref_step *);
uint32_t ref_depth(const ref_step *, uint32_t node);    /* 0 for the root, and for every node of a chain */
uint32_t ref_position(const ref_step *, uint32_t node); /* in the text */
uint32_t ref_token(const ref_step *, uint32_t node);
uint32_t ref_slot(const ref_step *, uint32_t node);                       /* place in the cache */
uint32_t ref_slot_of(const ref_step *, uint32_t node, uint32_t position); /* place of its ancestor, or of itself */
/* Index, in f16, of a dimension of a key or value in the cache buffer: [layer][keys, values][kv head], values [slot][dimension], keys
 * [slot / 32][dimension / 8][slot % 32][dimension % 8]. */
size_t ref_cache_at(const ref_step *, bool value, uint32_t kv_head, uint32_t slot, uint32_t d);
float ref_work_was(const ref_step *, uint32_t at, size_t i); /* float i behind vec4 `at` */

/* Place of dimension d of a slot among the keys (transposed within blocks of 32 slots by groups of 8 dimensions) or the values (row by row)
 * of a key head. */
static inline size_t ref_cache_place(bool value, size_t head_dim, size_t slot, size_t d)
{
    return value ? slot * head_dim + d : ((slot / 32 * (head_dim / 8) + d / 8) * 32 + slot % 32) * 8 + d % 8;
}

void ref_put_bits(ref_words *, size_t word, uint32_t bits);
void ref_put_float(ref_words *, size_t word, float);
void ref_put_near(ref_words *, size_t word, ref_near);
void ref_put_half(ref_words *, size_t half, ref_near); /* 16-bit index; the other half of the word stays in its range */

float ref_from_half(uint32_t bits);
float ref_bits_float(uint32_t bits);
uint32_t ref_float_bits(float);

/* Quantised blocks in the act buffer: the first one's place and the size of each, in vec4; whether a product uses the fine codes. */
typedef struct ref_act {
    uint32_t at, size;
    bool wide;
} ref_act;

/* Element of a matrix; col < cols. */
float ref_element(const ref_step *, const fr_matrix *, uint32_t row, uint32_t col);
/* Row times quantised activations, in the canonical order. */
float ref_product(const ref_step *, const fr_matrix *, uint32_t row, ref_act);
/* Sum of the squares beside `blocks` quantised blocks, in the canonical order, and RMSNorm's factor of it. */
ref_near ref_norm_factor(const ref_step *, ref_act, uint32_t blocks);
/* Expects a block to hold x * gain quantised, with fine codes if its size is FR_ACT_FINE. */
void ref_quantise(ref_step *, ref_act, const ref_near x[FR_BLOCK], const float *gain);

#endif
