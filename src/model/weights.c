#include "model/weights.h"

#include <string.h>

enum {
    ALIGNMENT = 256,   /* of every part's base and of the pools' sizes: any part can be bound on its own */
    ROW_GROUP = 64     /* rows of a part but the last are a multiple of this */
};

/* Pool indices are u32 and 16-bit scales are counted, so a pool stays below 4 GiB whatever the device offers. */
static const uint64_t POOL_LIMIT = UINT64_C(0xffffff00);

/* Lanes to aim for: as many leaves as a full subgroup of 32 can take, unless rounding up the leaf size idles too many of
 * them. A step down to fewer leaves must raise the share of busy lanes, blocks / (r * lanes), by more than a quarter,
 * because fewer lanes a row also means more rows a workgroup and a longer chain of sums. */
void fr_reduction_shape(uint32_t blocks, uint32_t *leaf_blocks, uint32_t *leaves)
{
    uint32_t lanes = 32, r = 1;
    if (blocks > 8) {
        r = (blocks + 31) / 32;
        for (uint32_t fewer = 16; fewer >= 8; fewer /= 2) {
            uint32_t longer = (blocks + fewer - 1) / fewer;
            if ((uint64_t)4 * r * lanes > (uint64_t)5 * longer * fewer) {
                lanes = fewer;
                r = longer;
            }
        }
    }
    *leaf_blocks = r;
    *leaves = (blocks + r - 1) / r;
}

uint32_t fr_matrix_code_bytes(const fr_matrix *m)
{
    return m->row_blocks * (m->type == FR_W_Q8 ? 32 : 16);
}

uint32_t fr_matrix_scale_bytes(const fr_matrix *m)
{
    return m->row_blocks * (m->type == FR_W_Q4A ? 4 : 2);
}

static uint64_t align(uint64_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The plan in progress. Pools are filled one after the other, in the order in which a step reads them, so that neighbouring layers
 * share a pool and a bind group. */
typedef struct planner {
    fr_weights *w;
    uint64_t limit; /* bytes of each buffer of a pool */
    fr_error_text *error;
} planner;

static fr_pool *current_pool(planner *p)
{
    return p->w->n_pools ? &p->w->pools[p->w->n_pools - 1] : NULL;
}

/* Codes take at least four times the bytes of scales, so they alone decide. */
static bool fits(const planner *p, const fr_pool *pool, const fr_matrix *m, uint64_t rows, uint32_t twins)
{
    uint64_t code = pool ? pool->code_bytes : 0, scale = pool ? pool->scale_bytes : 0;
    return code + twins * align(rows * fr_matrix_code_bytes(m)) <= p->limit &&
           scale + twins * align(rows * fr_matrix_scale_bytes(m)) <= p->limit;
}

static fr_status open_pool(planner *p)
{
    if (p->w->n_pools == FR_MAX_POOLS)
        return fr_fail(
            p->error, FR_NO_GPU,
            "the weights do not fit %d buffers of %llu bytes (the device's largest storage binding); use a smaller model or a GPU with "
            "larger bindings",
            FR_MAX_POOLS, (unsigned long long)p->limit);
    p->w->pools[p->w->n_pools++] = (fr_pool){0};
    return FR_OK;
}

static fr_status add_part(planner *p, fr_matrix *m, uint32_t row0, uint32_t rows, const char *name)
{
    if (m->n_parts == FR_MAX_PARTS)
        return fr_fail(p->error, FR_NO_GPU,
                       "matrix %s (%u x %u) needs more than %d buffers of %llu bytes (the device's largest storage binding)", name, m->rows,
                       m->cols, FR_MAX_PARTS, (unsigned long long)p->limit);
    fr_pool *pool = current_pool(p);
    m->parts[m->n_parts++] = (fr_part){.pool = p->w->n_pools - 1,
                                       .code_base = (uint32_t)(pool->code_bytes / 16),
                                       .scale_base = (uint32_t)(pool->scale_bytes / 4),
                                       .row0 = row0,
                                       .rows = rows};
    pool->code_bytes = align(pool->code_bytes + (uint64_t)rows * fr_matrix_code_bytes(m));
    pool->scale_bytes = align(pool->scale_bytes + (uint64_t)rows * fr_matrix_scale_bytes(m));
    return FR_OK;
}

static fr_status add_parts(planner *p, fr_matrix *m, uint32_t twins, uint32_t row0, uint32_t rows, const char *name)
{
    fr_status s = FR_OK;
    for (uint32_t i = 0; i < twins && s == FR_OK; i++)
        s = add_part(p, &m[i], row0, rows, name);
    return s;
}

/* What is larger than a pool is cut into as few parts as there can be. The codes are always the larger buffer. */
static fr_status split(planner *p, fr_matrix *m, uint32_t twins, const char *name)
{
    uint32_t most = (uint32_t)(p->limit / twins / ALIGNMENT * ALIGNMENT / fr_matrix_code_bytes(m) / ROW_GROUP * ROW_GROUP);
    if (!most)
        return fr_fail(p->error, FR_NO_GPU, "%d rows of matrix %s take %llu bytes, the device's largest storage binding is %llu", ROW_GROUP,
                       name, (unsigned long long)twins * ROW_GROUP * fr_matrix_code_bytes(m), (unsigned long long)p->limit);
    for (uint32_t row = 0; row < m->rows; row += most) {
        fr_status s = open_pool(p);
        if (s == FR_OK)
            s = add_parts(p, m, twins, row, m->rows - row < most ? m->rows - row : most, name);
        if (s != FR_OK)
            return s;
    }
    return FR_OK;
}

/* Places `twins` matrices of one shape, cut alike, corresponding parts in one pool: a kernel that reads them together has one binding. */
static fr_status place(planner *p, fr_matrix *m, uint32_t twins, fr_wtype type, uint32_t rows, uint32_t cols, const char *name)
{
    fr_matrix shape = {.type = type, .rows = rows, .cols = cols};
    fr_reduction_shape(cols / FR_BLOCK, &shape.leaf_blocks, &shape.leaves);
    shape.row_blocks = (shape.leaves * shape.leaf_blocks + 1) / 2 * 2;
    for (uint32_t i = 0; i < twins; i++)
        m[i] = shape;
    p->w->parameters += (uint64_t)twins * rows * cols;
    p->w->matrix_bytes += (uint64_t)twins * rows * (fr_matrix_code_bytes(m) + fr_matrix_scale_bytes(m));
    if (!fits(p, NULL, m, rows, twins))
        return split(p, m, twins, name);
    if (!p->w->n_pools || !fits(p, current_pool(p), m, rows, twins)) {
        fr_status s = open_pool(p);
        if (s != FR_OK)
            return s;
    }
    return add_parts(p, m, twins, 0, rows, name);
}

static fr_status place_qkv(planner *p, fr_layer *layer, const fr_config *c, const fr_layer_types *t)
{
    uint32_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    if (t->q == t->k && t->q == t->v) {
        layer->n_qkv = 1;
        return place(p, &layer->qkv[0], 1, t->q, q + 2 * kv, c->dim, "qkv");
    }
    layer->n_qkv = 3;
    fr_status s = place(p, &layer->qkv[0], 1, t->q, q, c->dim, "q");
    if (s == FR_OK)
        s = place(p, &layer->qkv[1], 1, t->k, kv, c->dim, "k");
    return s == FR_OK ? place(p, &layer->qkv[2], 1, t->v, kv, c->dim, "v") : s;
}

static fr_status place_layer(planner *p, fr_layer *layer, const fr_config *c, const fr_layer_types *t)
{
    *layer = (fr_layer){0};
    fr_status s = place_qkv(p, layer, c, t);
    if (s == FR_OK)
        s = place(p, &layer->o, 1, t->o, c->dim, c->n_heads * c->head_dim, "o");
    fr_matrix twins[2] = {{0}};
    if (s == FR_OK)
        s = place(p, twins, 2, t->gate_up, c->ffn_dim, c->dim, "gate and up");
    layer->gate = twins[0];
    layer->up = twins[1];
    return s == FR_OK ? place(p, &layer->down, 1, t->down, c->dim, c->ffn_dim, "down") : s;
}

static void place_vectors(fr_weights *w, const fr_config *c)
{
    uint64_t norms = (uint64_t)(2 * c->n_layers + 1) * c->dim;
    uint64_t biases = c->qkv_bias ? (uint64_t)c->n_layers * (c->n_heads + 2 * c->n_kv_heads) * c->head_dim : 0;
    w->norms_base = 0;
    w->bias_base = (uint32_t)(align(norms * 4) / 4);
    w->vector_bytes = align(4 * (w->bias_base + biases));
    w->parameters += norms + biases;
}

fr_status fr_weights_plan(fr_weights *w, const fr_config *c, fr_wtype embed, fr_wtype head, const fr_layer_types *types,
                          uint64_t max_pool_bytes, fr_error_text *error)
{
    planner p = {w, (max_pool_bytes < POOL_LIMIT ? max_pool_bytes : POOL_LIMIT) / ALIGNMENT * ALIGNMENT, error};
    w->n_pools = 0;
    w->parameters = w->matrix_bytes = 0;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        fr_status s = place_layer(&p, &w->layers[i], c, &types[i]);
        if (s != FR_OK)
            return s;
    }
    fr_status s = FR_OK;
    if (!c->tied_head)
        s = place(&p, &w->head, 1, head, c->vocab, c->dim, "output.weight");
    uint64_t step_bytes = w->matrix_bytes;
    if (s == FR_OK)
        s = place(&p, &w->embed, 1, embed, c->vocab, c->dim, "token_embd.weight");
    if (c->tied_head)
        w->head = w->embed;
    else
        w->matrix_bytes = step_bytes;
    place_vectors(w, c);
    return s;
}
