/* kernels.h: the pipelines of one bucket, and the sizes and places that their constants need. Which tile suits which device is decided
 * in kernels.c and nowhere else; the bits of the results don't depend on it. */
#ifndef FR_MODEL_KERNELS_H
#define FR_MODEL_KERNELS_H

#include "gpu/kernel.h"
#include "model/weights.h"

/* vec4u of a quantised block (kernels/lib/act.wgsl): x, the residual, has fine codes as well, for consumers that need them. */
enum { FR_ACT = 3, FR_ACT_FINE = 5 };

/* Part of the order of sums, as in lib/chunks.wgsl. */
enum {
    FR_CHUNK = 32, /* positions of a chunk of attention, and slots of a block of keys */
    FR_SPAN = 16   /* chunks */
};

/* Sizes, and where things lie in the act and work buffers (in vec4 elements). */
typedef struct fr_shape {
    uint32_t context;    /* slots of the cache, a multiple of 32 */
    uint32_t max_nodes;  /* N of the widest bucket */
    uint32_t tree_nodes; /* N of the widest tree */
    uint32_t memory_at;  /* session memory in the tokens of the state, [FR_MEMORY_TOKENS] */
    uint32_t kv_stride;  /* from a layer's keys to its values */
    uint32_t rope_at;    /* in f32 of the vectors */
    uint32_t act_x, act_a, act_h, draft_at, act_size;
    uint32_t x_at, q_at, part_at, ml_at, head_at, score_at, lost_at, work_size;
    uint32_t exchange_size; /* words; 0: this model or adapter has no kernel for all layers */
} fr_shape;
void fr_shape_init(fr_shape *, fr_gpu *, const fr_config *, const fr_weights *, uint32_t context);

typedef struct fr_tiled { /* a kernel over tiles of a matrix */
    fr_pipeline *pipeline;
    uint32_t rows;   /* of a matrix per workgroup */
    uint32_t tokens; /* per workgroup */
} fr_tiled;

typedef struct fr_attention {
    bool split; /* attend makes one chunk a workgroup and merge folds them; else attend goes through all chunks itself */
    fr_pipeline *attend, *merge;
    fr_pipeline
        *whole; /* beside split: does both, a workgroup for each head, in contexts of up to whole_positions; NULL if the adapter can't */
    uint32_t whole_positions;
    uint32_t merge_blocks; /* blocks of 32 values a workgroup of merge makes */
    uint32_t tile_nodes; /* nodes a workgroup of an attend that goes through all chunks takes */
} fr_attention;

/* How attend_tile cuts its work. */
typedef struct fr_attention_tile {
    uint32_t nodes;   /* of a workgroup */
    uint32_t chunks;  /* taken at a time: 1, 2, 4, 8 or 16 */
    uint32_t
        sharers; /* threads that share the chunks of four rows' and four dimensions' values, a power of two, as many as `chunks` at most */
    uint32_t threads; /* of a workgroup */
} fr_attention_tile;

/* Workgroup memory of attend_split, attend_stream and attend_tile in bytes: every workgroup variable of the kernel and its pieces. */
uint32_t fr_attention_split_bytes(const fr_config *, uint32_t threads);
uint32_t fr_attention_stream_bytes(const fr_config *, uint32_t nodes, uint32_t context);
uint32_t fr_attention_tile_bytes(const fr_config *, const fr_attention_tile *);

enum { FR_WHOLE_NODES = 8 }; /* most nodes of a step whose layers are one dispatch */

/* All layers of a step in one dispatch (layers.wgsl), and what has to run before it. */
typedef struct fr_all_layers {
    fr_pipeline *begin, *layers;
    uint32_t words, span_words; /* of the exchange: without spans of attention, and more for each (fr_all_layers_words) */
    uint32_t most_groups; /* workgroups that find something to do */
    uint32_t positions; /* of the longest context that it takes */
} fr_all_layers;

/* Words of the exchange that begin empties for so many positions. */
uint32_t fr_all_layers_words(const fr_all_layers *, uint32_t positions);

typedef struct fr_kernel_set fr_kernel_set;
/* `tree`: nodes are a tree of drafts, not a chain. */
fr_kernel_set *fr_kernel_set_new(fr_gpu *, const fr_config *, const fr_shape *, uint32_t nodes, bool tree);
void fr_kernel_set_free(fr_kernel_set *);
uint32_t fr_kernel_set_nodes(const fr_kernel_set *);

/* Pipelines are made when first asked for, one for each weight type. Their `pipeline` is NULL if memory ran out. */
const fr_tiled *fr_kernel_qkv(fr_kernel_set *, const fr_matrix *);
const fr_tiled *fr_kernel_o(fr_kernel_set *, const fr_matrix *);
const fr_tiled *fr_kernel_gateup(fr_kernel_set *, const fr_matrix *gate);
const fr_tiled *fr_kernel_down(fr_kernel_set *, const fr_matrix *);
const fr_tiled *fr_kernel_head(fr_kernel_set *, const fr_matrix *, bool every_node);
fr_pipeline *fr_kernel_embed(fr_kernel_set *, const fr_matrix *);
/* NULL with FR_NO_GPU in the error: too many query heads share a key head for the adapter's workgroup memory. */
const fr_attention *fr_kernel_attention(fr_kernel_set *, fr_error_text *);
/* NULL if this bucket has none: the model is cut in pieces, or its workgroups would need more memory than they may have. */
const fr_all_layers *fr_kernel_all_layers(fr_kernel_set *, const fr_weights *);
fr_pipeline *fr_kernel_score(fr_kernel_set *);
fr_pipeline *fr_kernel_advance(fr_kernel_set *, bool emit);
/* Of trees only. fr_kernel_accept: after the head's pipeline for every node. */
fr_pipeline *fr_kernel_draft_match(fr_kernel_set *);
fr_pipeline *fr_kernel_draft_tree(fr_kernel_set *);
fr_pipeline *fr_kernel_accept(fr_kernel_set *);
fr_pipeline *fr_kernel_compact(fr_kernel_set *);

#endif
