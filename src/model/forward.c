#include "model/forward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/kernels.h"
#include "spec/draft.h"

enum {
    ROPE_ROWS = 64,      /* positions written at once */
    ROPE_BYTES = 1 << 20 /* of the rotary table, computed in one call */
};

typedef enum span { SPAN_ALL, SPAN_SHORT, SPAN_LONG } span; /* up to fr_forward.short_context positions, and longer ones */

/* A recorded dispatch. */
typedef struct command {
    const fr_pipeline *pipeline;
    const fr_group *group;
    uint32_t entry; /* of the parameters */
    uint32_t x, y, z;
    bool per_chunk; /* x is the number of attention chunks */
    bool per_slice; /* x is the number of slices that the drafter searches */
    span span;      /* contexts it is for */
    uint32_t layer;
    const fr_matrix *matrix;
} command;

typedef struct command_list {
    command *items;
    uint32_t count, room;
    bool built;
} command_list;

typedef struct bucket {
    fr_kernel_set *kernels;
    command_list body, tails[FR_N_TAILS];
    command_list whole; /* what stands for the body where all layers are one dispatch */
    uint32_t before_layers;    /* commands of the body */
    uint32_t whole_positions;
} bucket;

enum { TREE_BUCKETS = 5 };
struct fr_forward {
    fr_gpu *gpu;
    const fr_config *config;
    const fr_weights *weights;
    fr_shape shape;
    fr_buffer *codes[FR_MAX_POOLS], *scales[FR_MAX_POOLS], *vectors, *act, *work, *params, *state;
    fr_group *whole_group; /* for kernels that go through all layers, made when first used; NULL: not yet, or it can't be */
    bool whole_tried;
    uint32_t most_groups; /* most workgroups of such a dispatch; 0: it is not used */
    fr_buffer **kv; /* [n_kv] */
    uint32_t n_kv, layers_per_kv;
    fr_group **groups; /* [n_pools * n_kv], made when first used */
    bucket decode, prefill, trees[TREE_BUCKETS]; /* trees[i]: of 2 << i nodes */
    uint32_t memory;        /* tokens of session memory */
    uint32_t short_context; /* positions up to which decode attention is one dispatch; the same for all buckets that have one */
    fr_gpu_Params *entries;
    uint32_t n_entries, entries_room;
    fr_error_text failure; /* of a command list that can't be built */
    double *frequencies;   /* [head_dim / 2], once the weights are complete */
    float *rope_rows;      /* [ROPE_ROWS][head_dim] to write next; rope_filled of them are computed */
    uint32_t rope_done, rope_filled;
};

/* ---- buffers ---- */

static uint64_t layer_kv_bytes(const fr_forward *f)
{
    return (uint64_t)2 * f->config->n_kv_heads * f->shape.context * f->config->head_dim * 2;
}

static fr_status make_weight_buffers(fr_forward *f, fr_error_text *e)
{
    for (uint32_t p = 0; p < f->weights->n_pools; p++) {
        f->codes[p] = fr_gpu_buffer(f->gpu, "weight codes", FR_BUFFER_STORAGE, f->weights->pools[p].code_bytes, e);
        if (!f->codes[p])
            return e->status;
        f->scales[p] = fr_gpu_buffer(f->gpu, "weight scales", FR_BUFFER_STORAGE, f->weights->pools[p].scale_bytes, e);
        if (!f->scales[p])
            return e->status;
    }
    return FR_OK;
}

static fr_status make_kv_buffers(fr_forward *f, fr_error_text *e)
{
    const uint64_t layer = layer_kv_bytes(f), limit = fr_gpu_get_limits(f->gpu)->binding;
    if (layer > limit)
        return fr_fail(e, FR_NO_GPU,
                       "a context of %u tokens needs %llu MiB a layer, the GPU's bindings hold %llu MiB: use a smaller context",
                       f->shape.context, (unsigned long long)(layer >> 20), (unsigned long long)(limit >> 20));
    f->layers_per_kv = (uint32_t)(limit / layer);
    if (f->layers_per_kv > f->config->n_layers)
        f->layers_per_kv = f->config->n_layers;
    f->n_kv = (f->config->n_layers + f->layers_per_kv - 1) / f->layers_per_kv;
    f->kv = calloc(f->n_kv, sizeof *f->kv);
    f->groups = calloc((size_t)f->n_kv * f->weights->n_pools, sizeof(fr_group *));
    if (!f->kv || !f->groups)
        return fr_fail(e, FR_FAILED, "out of memory");
    for (uint32_t i = 0; i < f->n_kv; i++) {
        const uint32_t left = f->config->n_layers - i * f->layers_per_kv;
        f->kv[i] = fr_gpu_buffer(f->gpu, "keys and values", FR_BUFFER_STORAGE, layer * (left < f->layers_per_kv ? left : f->layers_per_kv),
                                 e);
        if (!f->kv[i])
            return e->status;
    }
    return FR_OK;
}

/* ---- the rotary table ---- */

static bool start_rope(fr_forward *f)
{
    const uint32_t pairs = f->config->head_dim / 2;
    f->frequencies = malloc(sizeof *f->frequencies * pairs);
    f->rope_rows = malloc(sizeof *f->rope_rows * ROPE_ROWS * 2 * pairs);
    if (!f->frequencies || !f->rope_rows)
        return false;
    for (uint32_t i = 0; i < pairs; i++) {
        f->frequencies[i] = pow(f->config->rope_base, -2.0 * i / f->config->rope_dims) * f->config->rope_scale;
        if (f->weights->rope_factors)
            f->frequencies[i] /= f->weights->rope_factors[i];
    }
    return true;
}

static uint32_t fill_rope(fr_forward *f)
{
    const uint32_t pairs = f->config->head_dim / 2, left = f->shape.context - f->rope_done, rows = left < ROPE_ROWS ? left : ROPE_ROWS;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t i = 0; i < pairs; i++) {
            const double angle = (f->rope_done + r) * f->frequencies[i];
            f->rope_rows[2 * (r * pairs + i)] = (float)cos(angle);
            f->rope_rows[2 * (r * pairs + i) + 1] = (float)sin(angle);
        }
    return rows;
}

/* Cosine and sine of every position and pair, behind the vectors that come from the file. Double precision: the table is the same on every
 * device, and no shader's cos() is trusted with large angles. Some of it at a time: a table for 131,072 tokens has 64 MiB and takes a
 * second. */
fr_status fr_forward_loaded(fr_forward *f, bool *done, fr_error_text *e)
{
    const size_t row = sizeof(float) * f->config->head_dim;
    *done = false;
    if (!f->rope_rows && !start_rope(f))
        return fr_fail(e, FR_FAILED, "out of memory");
    for (size_t bytes = 0; f->rope_done < f->shape.context; f->rope_done += f->rope_filled, f->rope_filled = 0, bytes += ROPE_ROWS * row) {
        if (bytes >= ROPE_BYTES)
            return FR_OK;
        if (!f->rope_filled)
            f->rope_filled = fill_rope(f);
        if (!fr_gpu_upload(f->gpu, f->vectors, 4 * (uint64_t)f->shape.rope_at + f->rope_done * row, f->rope_rows, f->rope_filled * row))
            return FR_OK;
    }
    *done = true;
    return FR_OK;
}

/* ---- all buffers ---- */

static fr_status make_buffers(fr_forward *f, fr_error_text *e)
{
    const fr_shape *s = &f->shape;
    const uint64_t vectors = (uint64_t)(s->rope_at + (uint64_t)s->context * f->config->head_dim) * 4;
    const uint64_t state = fr_forward_tokens_offset() + ((uint64_t)s->memory_at + FR_MEMORY_TOKENS) * 4;
    if (make_weight_buffers(f, e) != FR_OK || make_kv_buffers(f, e) != FR_OK)
        return e->status;
    if (!(f->vectors = fr_gpu_buffer(f->gpu, "vectors", FR_BUFFER_STORAGE, vectors, e)) ||
        !(f->act = fr_gpu_buffer(f->gpu, "activations", FR_BUFFER_STORAGE, (uint64_t)s->act_size * 16, e)) ||
        !(f->work = fr_gpu_buffer(f->gpu, "work", FR_BUFFER_STORAGE, (uint64_t)s->work_size * 16, e)) ||
        !(f->state = fr_gpu_buffer(f->gpu, "state", FR_BUFFER_STORAGE, state, e)))
        return e->status;
    /* a layer shares one entry; matrices in several parts need one more for each further part */
    uint32_t entries = 2 * (f->config->n_layers + 1);
    for (uint32_t l = 0; l < f->config->n_layers; l++) {
        const fr_layer *layer = &f->weights->layers[l];
        entries += layer->qkv[0].n_parts + layer->qkv[1].n_parts + layer->qkv[2].n_parts + layer->o.n_parts + layer->gate.n_parts +
                   layer->down.n_parts;
    }
    entries += f->weights->embed.n_parts + f->weights->head.n_parts;
    f->entries_room = entries;
    f->entries = calloc(entries, sizeof *f->entries);
    f->params = fr_gpu_buffer(f->gpu, "parameters", FR_BUFFER_UNIFORM, (uint64_t)entries * FR_PARAMS_STRIDE, e);
    if (!f->params)
        return e->status;
    if (!f->entries)
        return fr_fail(e, FR_FAILED, "out of memory");
    return FR_OK;
}

uint64_t fr_forward_tokens_offset(void)
{
    return sizeof(fr_gpu_Control) + sizeof(uint32_t) * (FR_RING + 3 * FR_STATS) + sizeof(fr_gpu_Tree);
}

fr_buffer *fr_forward_state(const fr_forward *f)
{
    return f->state;
}

fr_buffer *fr_forward_weight_buffer(const fr_forward *f, uint32_t sink_buffer)
{
    if (sink_buffer >= 2 * FR_MAX_POOLS)
        return f->vectors;
    return sink_buffer % 2 ? f->scales[sink_buffer / 2] : f->codes[sink_buffer / 2];
}

/* ---- command lists ---- */

static fr_bindings bindings_of(const fr_forward *f, uint32_t pool, uint32_t kv)
{
    return (fr_bindings){.codes = f->codes[pool],
                         .scales = f->scales[pool],
                         .vectors = f->vectors,
                         .act = f->act,
                         .work = f->work,
                         .kv = f->kv[kv],
                         .params = f->params,
                         .state = f->state};
}

static const fr_group *group_of(fr_forward *f, uint32_t pool, uint32_t layer)
{
    const uint32_t kv = layer / f->layers_per_kv;
    fr_group **g = &f->groups[kv * f->weights->n_pools + pool];
    if (!*g) {
        const fr_bindings b = bindings_of(f, pool, kv);
        *g = fr_gpu_group(f->gpu, &b, &f->failure);
    }
    return *g;
}

/* Index of an entry with these parameters, made if there is none like it. */
static uint32_t entry_of(fr_forward *f, const fr_gpu_Params *p)
{
    for (uint32_t i = 0; i < f->n_entries; i++)
        if (!memcmp(&f->entries[i], p, sizeof *p))
            return i;
    if (f->n_entries == f->entries_room) {
        fr_fail(&f->failure, FR_FAILED, "more parameter entries than make_buffers counted");
        return 0;
    }
    f->entries[f->n_entries] = *p;
    fr_gpu_write(f->gpu, f->params, (uint64_t)f->n_entries * FR_PARAMS_STRIDE, p, sizeof *p);
    return f->n_entries++;
}

static void add(fr_forward *f, command_list *list, command c)
{
    if (list->count == list->room) {
        const uint32_t room = list->room ? 2 * list->room : 64;
        command *items = realloc(list->items, room * sizeof *items);
        if (!items) {
            fr_fail(&f->failure, FR_FAILED, "out of memory");
            return;
        }
        list->items = items;
        list->room = room;
    }
    list->items[list->count++] = c;
}

static uint32_t over(uint32_t n, uint32_t d)
{
    return (n + d - 1) / d;
}

static fr_gpu_vec4u part_of(const fr_matrix *m, uint32_t i, uint32_t row_offset)
{
    return (fr_gpu_vec4u){m->parts[i].code_base, m->parts[i].scale_base, row_offset + m->parts[i].row0, m->parts[i].rows};
}

static fr_gpu_Params layer_params(const fr_forward *f, uint32_t l)
{
    const fr_layer *layer = &f->weights->layers[l];
    const fr_config *c = f->config;
    const uint32_t norms = f->weights->norms_base, qkv_rows = (c->n_heads + 2 * c->n_kv_heads) * c->head_dim;
    return (fr_gpu_Params){
        .part = {[FR_PART_QKV] = part_of(&layer->qkv[0], 0, 0),
                 [FR_PART_O] = part_of(&layer->o, 0, 0),
                 [FR_PART_GATE] = part_of(&layer->gate, 0, 0),
                 [FR_PART_UP] = part_of(&layer->up, 0, 0),
                 [FR_PART_DOWN] = part_of(&layer->down, 0, 0)},
        .kv = (l % f->layers_per_kv) * f->shape.kv_stride * 2,
        .bias = f->weights->bias_base + l * qkv_rows,
        .norm_ffn = norms + (2 * l + 1) * c->dim,
        .norm_next = norms + (2 * l + 2) * c->dim,
    };
}

/* One dispatch for each part of a matrix; `tile_rows` rows of it a workgroup. */
static void add_matrix(fr_forward *f, command_list *list, const bucket *b, const fr_gpu_Params *base, uint32_t layer, const fr_matrix *m,
                       uint32_t slot, uint32_t row_offset, const fr_tiled *kernel)
{
    for (uint32_t i = 0; i < m->n_parts; i++) {
        fr_gpu_Params p = *base;
        p.part[slot] = part_of(m, i, row_offset);
        add(f, list,
            (command){.pipeline = kernel->pipeline,
                      .group = group_of(f, m->parts[i].pool, layer),
                      .entry = entry_of(f, &p),
                      .x = over(m->parts[i].rows, kernel->rows),
                      .y = over(fr_kernel_set_nodes(b->kernels), kernel->tokens),
                      .z = 1,
                      .layer = layer,
                      .matrix = m});
    }
}

static void add_layer(fr_forward *f, bucket *b, uint32_t l)
{
    const fr_layer *layer = &f->weights->layers[l];
    const fr_config *c = f->config;
    const uint32_t nodes = fr_kernel_set_nodes(b->kernels);
    const fr_gpu_Params base = layer_params(f, l);
    command_list *list = &b->body;
    for (uint32_t i = 0, row = 0; i < layer->n_qkv; row += layer->qkv[i++].rows)
        add_matrix(f, list, b, &base, l, &layer->qkv[i], FR_PART_QKV, row, fr_kernel_qkv(b->kernels, &layer->qkv[i]));

    const fr_group *group = group_of(f, layer->o.parts[0].pool, l);
    const fr_attention *a = fr_kernel_attention(b->kernels, &f->failure);
    const uint32_t entry = entry_of(f, &base);
    if (!a)
        return;
    if (a->whole) {
        f->short_context = a->whole_positions;
        add(f, list,
            (command){
                .pipeline = a->whole, .group = group, .entry = entry, .x = c->n_heads, .y = nodes, .z = 1, .span = SPAN_SHORT, .layer = l});
    }
    const span rest = a->whole ? SPAN_LONG : SPAN_ALL;
    if (a->split && (rest == SPAN_ALL || f->shape.context > f->short_context)) {
        add(f, list,
            (command){.pipeline = a->attend,
                      .group = group,
                      .entry = entry,
                      .x = 1,
                      .y = c->n_kv_heads,
                      .z = nodes,
                      .per_chunk = true,
                      .span = rest,
                      .layer = l});
        add(f, list,
            (command){.pipeline = a->merge,
                      .group = group,
                      .entry = entry,
                      .x = over(c->n_heads * c->head_dim / FR_BLOCK, a->merge_blocks),
                      .y = nodes,
                      .z = 1,
                      .span = rest,
                      .layer = l});
    } else if (!a->split) {
        add(f, list,
            (command){.pipeline = a->attend,
                      .group = group,
                      .entry = entry,
                      .x = c->n_kv_heads,
                      .y = over(nodes, a->tile_nodes),
                      .z = 1,
                      .layer = l});
    }
    add_matrix(f, list, b, &base, l, &layer->o, FR_PART_O, 0, fr_kernel_o(b->kernels, &layer->o));
    for (uint32_t i = 0; i < layer->gate.n_parts; i++) { /* the plan pairs the parts of gate and up */
        const fr_tiled *k = fr_kernel_gateup(b->kernels, &layer->gate);
        fr_gpu_Params p = base;
        p.part[FR_PART_GATE] = part_of(&layer->gate, i, 0);
        p.part[FR_PART_UP] = part_of(&layer->up, i, 0);
        add(f, list,
            (command){.pipeline = k->pipeline,
                      .group = group_of(f, layer->gate.parts[i].pool, l),
                      .entry = entry_of(f, &p),
                      .x = over(layer->gate.parts[i].rows, k->rows),
                      .y = over(nodes, k->tokens),
                      .z = 1,
                      .layer = l,
                      .matrix = &layer->gate});
    }
    add_matrix(f, list, b, &base, l, &layer->down, FR_PART_DOWN, 0, fr_kernel_down(b->kernels, &layer->down));
}

static void add_embedding(fr_forward *f, bucket *b)
{
    const fr_matrix *m = &f->weights->embed;
    for (uint32_t i = 0; i < m->n_parts; i++) {
        fr_gpu_Params p = {.norm_next = f->weights->norms_base};
        p.part[FR_PART_TABLE] = part_of(m, i, 0);
        add(f, &b->body,
            (command){.pipeline = fr_kernel_embed(b->kernels, m),
                      .group = group_of(f, m->parts[i].pool, 0),
                      .entry = entry_of(f, &p),
                      .x = over(f->config->dim / FR_BLOCK, 8),
                      .y = fr_kernel_set_nodes(b->kernels),
                      .z = 1,
                      .matrix = m});
    }
}

/* Head of the last node, or of every one; the group and entry of its last dispatch serve what follows. */
static command add_head(fr_forward *f, bucket *b, command_list *list, bool every_node)
{
    const fr_matrix *m = &f->weights->head;
    const uint32_t nodes = fr_kernel_set_nodes(b->kernels);
    command c = {0};
    uint32_t tile0 = 0;
    for (uint32_t i = 0; i < m->n_parts; i++) {
        const fr_tiled *k = fr_kernel_head(b->kernels, m, every_node);
        fr_gpu_Params p = {.tile0 = tile0};
        p.part[FR_PART_TABLE] = part_of(m, i, 0);
        c = (command){.pipeline = k->pipeline,
                      .group = group_of(f, m->parts[i].pool, f->config->n_layers - 1),
                      .entry = entry_of(f, &p),
                      .x = over(m->parts[i].rows, k->rows),
                      .y = every_node ? over(nodes, k->tokens) : 1,
                      .z = 1,
                      .layer = f->config->n_layers - 1,
                      .matrix = m};
        add(f, list, c);
        tile0 += c.x;
    }
    return c;
}

/* A dispatch of `x` workgroups that needs no matrix and no parameters. */
static void add_plain(fr_forward *f, command_list *list, const fr_pipeline *pipeline, const fr_group *group, uint32_t entry, uint32_t x)
{
    add(f, list, (command){.pipeline = pipeline, .group = group, .entry = entry, .x = x, .y = 1, .z = 1});
}

static void add_tree_tail(fr_forward *f, bucket *b, command_list *list, const command *head)
{
    const fr_config *c = f->config;
    add_plain(f, list, fr_kernel_accept(b->kernels), head->group, head->entry, 1);
    for (uint32_t i = 0; i < f->n_kv; i++) {
        const uint32_t first = i * f->layers_per_kv, left = c->n_layers - first;
        add(f, list,
            (command){.pipeline = fr_kernel_compact(f->trees[0].kernels),
                      .group = group_of(f, f->weights->head.parts[0].pool, first),
                      .entry = head->entry,
                      .x = over(2 * c->n_kv_heads * c->head_dim / 8, 64),
                      .y = left < f->layers_per_kv ? left : f->layers_per_kv,
                      .z = 1,
                      .layer = first});
    }
}

static void add_tail(fr_forward *f, bucket *b, fr_tail tail)
{
    command_list *list = &b->tails[tail];
    command head = {.group = group_of(f, f->weights->head.parts[0].pool, f->config->n_layers - 1)};
    if (tail != FR_TAIL_NONE)
        head = add_head(f, b, list, tail != FR_TAIL_EMIT);
    if (tail == FR_TAIL_TREE) {
        add_tree_tail(f, b, list, &head);
        return;
    }
    if (tail == FR_TAIL_SCORE)
        add_plain(f, list, fr_kernel_score(b->kernels), head.group, head.entry, fr_kernel_set_nodes(b->kernels));
    add_plain(f, list, fr_kernel_advance(b->kernels, tail == FR_TAIL_EMIT), head.group, head.entry, 1);
}

static void add_draft(fr_forward *f, bucket *b)
{
    const fr_group *group = group_of(f, f->weights->head.parts[0].pool, 0);
    add(f, &b->body,
        (command){.pipeline = fr_kernel_draft_match(f->trees[0].kernels), .group = group, .x = 1, .y = 1, .z = 1, .per_slice = true});
    add_plain(f, &b->body, fr_kernel_draft_tree(b->kernels), group, 0, 1);
}

/* The group of kernels for all layers. These are optional: if there is no memory for their buffers, there are none. */
static const fr_group *whole_group(fr_forward *f)
{
    fr_error_text ignored = {0};
    if (f->whole_tried || !f->shape.exchange_size || f->n_kv > 1)
        return f->whole_group;
    f->whole_tried = true;
    const uint64_t params = (uint64_t)f->config->n_layers * sizeof *f->entries;
    fr_buffer *layers = fr_gpu_buffer(f->gpu, "parameters of all layers", FR_BUFFER_UNIFORM, params, &ignored);
    fr_buffer *exchange = fr_gpu_buffer(f->gpu, "exchange", FR_BUFFER_STORAGE, (uint64_t)f->shape.exchange_size * 4, &ignored);
    if (!layers || !exchange)
        return NULL;
    for (uint32_t l = 0; l < f->config->n_layers; l++) {
        const fr_gpu_Params p = layer_params(f, l);
        fr_gpu_write(f->gpu, layers, l * sizeof p, &p, sizeof p);
    }
    fr_bindings b = bindings_of(f, f->weights->layers[0].o.parts[0].pool, 0);
    b.layers = layers;
    b.exchange = exchange;
    f->whole_group = fr_gpu_group(f->gpu, &b, &ignored);
    return f->whole_group;
}

/* The body with all layers in one dispatch. */
static void add_whole(fr_forward *f, bucket *b)
{
    const fr_group *group = whole_group(f);
    const fr_all_layers *a = group ? fr_kernel_all_layers(b->kernels, f->weights) : NULL;
    if (!a)
        return;
    for (uint32_t i = 0; i < b->before_layers; i++)
        add(f, &b->whole, b->body.items[i]);
    add(f, &b->whole, (command){.pipeline = a->begin, .group = group, .x = 1, .y = 1, .z = 1});
    add(f, &b->whole, (command){.pipeline = a->layers, .group = group, .x = a->most_groups, .y = 1, .z = 1});
    b->whole_positions = a->positions;
}

static bool ready(const command_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (!list->items[i].pipeline || !fr_pipeline_ready(list->items[i].pipeline))
            return false;
    return true;
}

static bool failed(const command_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (fr_pipeline_failed(list->items[i].pipeline))
            return true;
    return false;
}

static bucket *bucket_of(fr_forward *f, uint32_t nodes, fr_tail tail)
{
    uint32_t i = 0;
    if (tail != FR_TAIL_TREE)
        return nodes == 1 ? &f->decode : &f->prefill;
    while (2u << i < nodes)
        i++;
    return &f->trees[i];
}

static bool has_kernels(fr_forward *f, bucket *b, uint32_t nodes, bool tree)
{
    if (!b->kernels)
        b->kernels = fr_kernel_set_new(f->gpu, f->config, &f->shape, nodes, tree);
    return b->kernels != NULL;
}

bool fr_forward_begun(fr_forward *f, uint32_t nodes, fr_tail tail)
{
    return bucket_of(f, nodes, tail)->tails[tail].built;
}

fr_status fr_forward_prepare(fr_forward *f, uint32_t nodes, fr_tail tail, bool *is_ready, fr_error_text *e)
{
    bucket *b = bucket_of(f, nodes, tail);
    const bool tree = tail == FR_TAIL_TREE;
    *is_ready = false;
    /* the set of the narrowest tree has the kernels of trees that don't know N: they are compiled once */
    if (!has_kernels(f, b, nodes, tree) || (tree && !has_kernels(f, &f->trees[0], 2, true)))
        return fr_fail(e, FR_FAILED, "out of memory");
    if (!b->body.built) {
        b->body.built = true;
        if (tree)
            add_draft(f, b);
        add_embedding(f, b);
        b->before_layers = b->body.count;
        for (uint32_t l = 0; l < f->config->n_layers; l++)
            add_layer(f, b, l);
    }
    if (!b->tails[tail].built) {
        b->tails[tail].built = true;
        add_tail(f, b, tail);
    }
    if (f->failure.status != FR_OK)
        return fr_fail(e, f->failure.status, "%s", f->failure.text);
    *is_ready = ready(&b->body) && ready(&b->tails[tail]);
    return FR_OK;
}

fr_status fr_forward_begin(fr_forward *f, fr_error_text *e)
{
    const uint32_t widest = f->shape.max_nodes;
    bool is_ready;
    if (fr_forward_prepare(f, widest, FR_TAIL_EMIT, &is_ready, e) != FR_OK ||
        fr_forward_prepare(f, widest, FR_TAIL_NONE, &is_ready, e) != FR_OK)
        return e->status;
    return fr_forward_prepare(f, 1, FR_TAIL_EMIT, &is_ready, e);
}

/* Workgroups along x, 0 if it is left out; `positions`: tokens that are cached or processed at the end of the step. */
static uint32_t width_of(const fr_forward *f, const command *c, uint32_t positions)
{
    if (c->span == (positions > f->short_context ? SPAN_SHORT : SPAN_LONG))
        return 0;
    if (c->per_slice)
        return over(f->memory + positions, FR_DRAFT_SLICE);
    return c->per_chunk ? over(positions, FR_CHUNK) : c->x;
}

static uint32_t replay(fr_forward *f, const command_list *list, uint32_t positions)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const command *c = &list->items[i];
        const uint32_t x = width_of(f, c, positions);
        if (!x)
            continue;
        fr_gpu_dispatch(f->gpu, c->pipeline, c->group, c->entry, x, c->y, c->z);
        count++;
    }
    return count;
}

void fr_forward_set_groups(fr_forward *f, uint32_t groups)
{
    f->most_groups = groups;
}

fr_whole fr_forward_whole(fr_forward *f, uint32_t nodes, fr_tail tail, uint32_t positions)
{
    bucket *b = bucket_of(f, nodes, tail);
    if (nodes > 1 && tail != FR_TAIL_TREE)
        return FR_WHOLE_NONE;
    if (!b->whole.built && b->body.built) {
        b->whole.built = true;
        add_whole(f, b);
    }
    if (!b->whole.count || positions > b->whole_positions || failed(&b->whole))
        return FR_WHOLE_NONE;
    return ready(&b->whole) ? FR_WHOLE_READY : FR_WHOLE_COMPILING;
}

void fr_forward_forget_loss(fr_forward *f)
{
    const float zero = 0;
    fr_gpu_write(f->gpu, f->work, (uint64_t)f->shape.lost_at * 16, &zero, sizeof zero);
}

static const command_list *body_of(fr_forward *f, bucket *b, uint32_t nodes, fr_tail tail, uint32_t positions)
{
    if (!f->most_groups || fr_forward_whole(f, nodes, tail, positions) != FR_WHOLE_READY)
        return &b->body;
    command *layers = &b->whole.items[b->whole.count - 1], *begin = layers - 1;
    const fr_all_layers *a = fr_kernel_all_layers(b->kernels, f->weights);
    layers->x = f->most_groups < a->most_groups ? f->most_groups : a->most_groups;
    begin->x = over(fr_all_layers_words(a, positions), 4 * 256);
    return &b->whole;
}

uint32_t fr_forward_step(fr_forward *f, uint32_t nodes, fr_tail tail, uint32_t positions)
{
    bucket *b = bucket_of(f, nodes, tail);
    if (positions > f->shape.context)
        positions = f->shape.context;
    return replay(f, body_of(f, b, nodes, tail, positions), positions) + replay(f, &b->tails[tail], positions);
}

void fr_forward_set_memory(fr_forward *f, const uint32_t *tokens, uint32_t n)
{
    f->memory = n;
    if (n)
        fr_gpu_write(f->gpu, f->state, fr_forward_tokens_offset() + 4 * (uint64_t)f->shape.memory_at, tokens, 4 * (size_t)n);
}

void fr_forward_copy_scores(fr_forward *f, fr_buffer *to, uint32_t nodes)
{
    fr_gpu_copy(f->gpu, f->work, (uint64_t)f->shape.score_at * 16, to, 0, (uint64_t)nodes * sizeof(fr_score_entry));
}

uint32_t fr_forward_prefill_nodes(const fr_forward *f)
{
    return f->shape.max_nodes;
}

uint32_t fr_forward_tree_nodes(const fr_forward *f)
{
    return f->shape.tree_nodes;
}

uint64_t fr_forward_step_bytes(const fr_forward *f, uint32_t positions)
{
    return f->weights->matrix_bytes + f->weights->vector_bytes + layer_kv_bytes(f) / f->shape.context * positions * f->config->n_layers;
}

/* ---- one dispatch at a time ---- */

static const command *command_at(fr_forward *f, uint32_t nodes, fr_tail tail, uint32_t index, uint32_t positions)
{
    bucket *b = bucket_of(f, nodes, tail);
    const command_list *body = body_of(f, b, nodes, tail, positions);
    return index < body->count ? &body->items[index] : &b->tails[tail].items[index - body->count];
}

uint32_t fr_forward_trace_count(fr_forward *f, uint32_t nodes, fr_tail tail)
{
    bucket *b = bucket_of(f, nodes, tail);
    return body_of(f, b, nodes, tail, 1)->count + b->tails[tail].count;
}

fr_trace fr_forward_trace(fr_forward *f, uint32_t nodes, fr_tail tail, uint32_t index, uint32_t positions)
{
    const command *c = command_at(f, nodes, tail, index, positions);
    return (fr_trace){.kernel = fr_pipeline_name(c->pipeline),
                      .params = &f->entries[c->entry],
                      .matrix = c->matrix,
                      .layer = c->layer,
                      .kv_buffer = c->layer / f->layers_per_kv,
                      .x = width_of(f, c, positions),
                      .y = c->y,
                      .z = c->z};
}

void fr_forward_trace_record(fr_forward *f, uint32_t nodes, fr_tail tail, uint32_t index, uint32_t positions)
{
    const command *c = command_at(f, nodes, tail, index, positions);
    fr_gpu_dispatch(f->gpu, c->pipeline, c->group, c->entry, width_of(f, c, positions), c->y, c->z);
}

fr_buffer *fr_forward_buffer(const fr_forward *f, fr_forward_part part)
{
    switch (part) {
    case FR_FORWARD_ACT:
        return f->act;
    case FR_FORWARD_WORK:
        return f->work;
    case FR_FORWARD_STATE:
        return f->state;
    case FR_FORWARD_VECTORS:
        return f->vectors;
    default:
        return f->kv[part - FR_FORWARD_KV];
    }
}

const fr_shape *fr_forward_shape(const fr_forward *f)
{
    return &f->shape;
}

/* ---- life ---- */

fr_forward *fr_forward_new(fr_gpu *gpu, const fr_config *config, const fr_weights *weights, uint32_t context, fr_error_text *e)
{
    fr_forward *f = calloc(1, sizeof *f);
    if (!f) {
        fr_fail(e, FR_FAILED, "out of memory");
        return NULL;
    }
    f->gpu = gpu;
    f->config = config;
    f->weights = weights;
    fr_shape_init(&f->shape, gpu, config, weights, context);
    if (make_buffers(f, e) == FR_OK)
        return f;
    fr_forward_free(f);
    return NULL;
}

static void free_bucket(bucket *b)
{
    fr_kernel_set_free(b->kernels);
    free(b->body.items);
    free(b->whole.items);
    for (int t = 0; t < FR_N_TAILS; t++)
        free(b->tails[t].items);
}

void fr_forward_free(fr_forward *f)
{
    if (!f)
        return;
    free_bucket(&f->decode);
    free_bucket(&f->prefill);
    for (int i = 0; i < TREE_BUCKETS; i++)
        free_bucket(&f->trees[i]);
    free(f->entries);
    free(f->frequencies);
    free(f->rope_rows);
    free(f->groups);
    free(f->kv);
    free(f);
}
