/* tensors.h: the tensors that a model of the Llama family has: names, shapes, and where each goes. */
#ifndef FR_LOAD_TENSORS_H
#define FR_LOAD_TENSORS_H

#include "load/gguf.h"
#include "model/weights.h"

typedef enum tensor_role {
    TENSOR_EMBED,
    TENSOR_HEAD,       /* absent: the embedding is the head */
    TENSOR_FINAL_NORM,
    TENSOR_ROPE,       /* optional */
    TENSOR_ATTN_NORM,  /* from here on one in each layer */
    TENSOR_Q,
    TENSOR_K,
    TENSOR_V,
    TENSOR_Q_BIAS,     /* biases: only with config.qkv_bias */
    TENSOR_K_BIAS,
    TENSOR_V_BIAS,
    TENSOR_O,
    TENSOR_FFN_NORM,
    TENSOR_GATE,
    TENSOR_UP,
    TENSOR_DOWN,
    TENSOR_ROLES
} tensor_role;

/* Where the rows of a tensor go: row i to row `row0 + i` of `matrix`, or, if there is no matrix, its only row as f32 to `vector_at` of the
 * vector buffer. */
typedef struct tensor_target {
    tensor_role role;
    uint32_t rows, cols;     /* a vector is one row */
    const fr_matrix *matrix;
    uint32_t row0;
    uint64_t vector_at;      /* in f32 */
    bool permute;            /* rows (or elements of a vector) of each head: i and i + head_dim/2 become neighbours */
} tensor_target;

/* Finds role and layer (0 outside of layers). False: no such tensor in this model. */
bool tensor_identify(const char *name, const fr_config *, tensor_role *, uint32_t *layer);

/* Whether every tensor that the configuration asks for is in the file, with its shape and a usable type, and no other one. */
fr_status tensor_check(const gguf_reader *, const fr_config *, fr_error_text *);

/* Of a tensor that tensor_check() has seen; NULL: an optional one that is absent. */
const gguf_tensor *tensor_find(const gguf_reader *, tensor_role, uint32_t layer);

bool tensor_is_matrix(tensor_role);

/* After fr_weights_plan(). */
tensor_target tensor_place(tensor_role, uint32_t layer, const fr_config *, const fr_weights *);

#endif
