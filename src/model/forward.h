/* forward.h: one step of the model over N nodes, as dispatches. Buffers, pipelines and parameter entries are made once; a step is a list
 * of dispatches that is replayed into a command buffer.
 *
 * A *bucket* is a number of nodes N with its pipelines. Buckets differ in their tiles only: the bits of every result are the same
 * (doc/reduction.md). */
#ifndef FR_MODEL_FORWARD_H
#define FR_MODEL_FORWARD_H

#include "gpu/gpu.h"
#include "model/weights.h"

typedef struct fr_forward fr_forward;

/* What a step ends with. */
typedef enum fr_tail {
    FR_TAIL_NONE,  /* prompt tokens that are not the last: no head */
    FR_TAIL_EMIT,  /* head for the last node, next token appended */
    FR_TAIL_SCORE, /* head for every node, results into the scores */
    FR_TAIL_TREE,  /* the nodes are a tree that the step drafts first; head for every node, the accepted ones stay */
    FR_N_TAILS
} fr_tail;

typedef struct fr_score_entry { /* one vec4f of SCORE in work */
    float id, margin, value, unused;
} fr_score_entry;

/* Makes buffers. `context`: tokens of the KV cache. The weights' structure must outlive it. */
fr_forward *fr_forward_new(fr_gpu *, const fr_config *, const fr_weights *, uint32_t context, fr_error_text *);
void fr_forward_free(fr_forward *);

/* The weights are complete: writes what is computed from them (the rotary table needs the factors of the file). To be called until *done:
 * it writes only as much as the device takes, and a call does not last long. */
fr_status fr_forward_loaded(fr_forward *, bool *done, fr_error_text *);

/* Buffers that the loader's sink fills (loader.h numbering). */
fr_buffer *fr_forward_weight_buffer(const fr_forward *, uint32_t sink_buffer);
fr_buffer *fr_forward_state(const fr_forward *);
uint64_t fr_forward_tokens_offset(void); /* of the token ids in the state buffer, bytes */

uint32_t fr_forward_prefill_nodes(const fr_forward *); /* N of the widest bucket */
/* Whether fr_forward_prepare() was called for such a step: its pipelines are ready, or compile. */
bool fr_forward_begun(fr_forward *, uint32_t nodes, fr_tail);
/* Whether every pipeline of such a step is ready; starts compiling what is missing. */
fr_status fr_forward_prepare(fr_forward *, uint32_t nodes, fr_tail, bool *ready, fr_error_text *);
/* Starts compiling what the first token of any answer needs. */
fr_status fr_forward_begin(fr_forward *, fr_error_text *);

/* All layers of a step in one dispatch (layers.wgsl), for steps of one token and trees of up to 8 nodes, where the model's matrices are
 * whole and alike and the context is not too long. The results are the same to the bit. A step whose workgroups could not run at the same
 * time is lost: it changes nothing, and Control.finished is FR_RUN_LOST. */
typedef enum fr_whole { FR_WHOLE_NONE, FR_WHOLE_COMPILING, FR_WHOLE_READY } fr_whole;
/* Whether such a step can be made; starts compiling its kernel if it has not been asked for before. */
fr_whole fr_forward_whole(fr_forward *, uint32_t nodes, fr_tail, uint32_t positions);
/* From now on steps that can be are made so, by `groups` workgroups at most; 0: none, as in the beginning. */
void fr_forward_set_groups(fr_forward *, uint32_t groups);
/* After a loss, once nothing is in flight. */
void fr_forward_forget_loss(fr_forward *);

/* What the drafter searches besides the sequence, for the steps recorded from now on: at most FR_MEMORY_TOKENS ids and breaks
 * (spec/draft.h), oldest first. Control.memory is the same number. */
void fr_forward_set_memory(fr_forward *, const uint32_t *tokens, uint32_t n);
/* N of the widest tree, a power of two from 2 on; less than 32 where contexts are long. */
uint32_t fr_forward_tree_nodes(const fr_forward *);

/* Records one step of a bucket (1, or fr_forward_prefill_nodes; for trees 2, 4, 8 and so on to fr_forward_tree_nodes) between fr_gpu_begin
 * and fr_gpu_submit. `positions`: upper bound of the cached and processed tokens after the step. Returns the dispatches recorded. */
uint32_t fr_forward_step(fr_forward *, uint32_t nodes, fr_tail, uint32_t positions);
/* Copies the scores of the step just recorded. */
void fr_forward_copy_scores(fr_forward *, fr_buffer *to, uint32_t nodes);

/* One dispatch at a time, for tests and the self-test: what a step of this bucket and tail records, in order. */
typedef struct fr_trace {
    const char *kernel; /* "qkv" */
    const fr_gpu_Params *params;
    const fr_matrix *matrix; /* of the tiled kernels and embed; gateup: gate; else NULL */
    uint32_t layer, kv_buffer;
    uint32_t x, y, z; /* workgroups; x is 0 where the dispatch is left out at these positions */
} fr_trace;
uint32_t fr_forward_trace_count(fr_forward *, uint32_t nodes, fr_tail); /* in a short context */
fr_trace fr_forward_trace(fr_forward *, uint32_t nodes, fr_tail, uint32_t index, uint32_t positions);
void fr_forward_trace_record(fr_forward *, uint32_t nodes, fr_tail, uint32_t index, uint32_t positions);
typedef enum fr_forward_part {
    FR_FORWARD_ACT,
    FR_FORWARD_WORK,
    FR_FORWARD_STATE,
    FR_FORWARD_VECTORS,
    FR_FORWARD_KV
} fr_forward_part; /* KV + i: buffer i */
fr_buffer *fr_forward_buffer(const fr_forward *, fr_forward_part);
const struct fr_shape *fr_forward_shape(const fr_forward *);

/* Bytes that a decode step reads: weights, and keys and values of `positions` tokens. */
uint64_t fr_forward_step_bytes(const fr_forward *, uint32_t positions);

#endif
