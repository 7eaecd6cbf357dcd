#include "model/kernel_set.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "spec/draft.h"

enum {
    ROWS_MIN = 32,
    MOST_WHOLE = 2048, /* positions of a step whose layers are one dispatch */
    TRIES = 1 << 16,   /* of a workgroup of it that waits, some 50 ms; by then it counts as lost */
    CPU_TRIES = 200,
    DRAFT_SIZE = FR_DRAFT_CANDIDATES / 4 + 1, /* vec4u that draft_match leaves for a slice */
    MOST_PARTS = 1 << 24 /* vec4f: 256 MiB of partial results of attention; fewer nodes where contexts are longer */
};

/* How a kernel cuts its work: a workgroup makes `rows` x `tokens` products; a thread four rows and t tokens of them, with `lanes` threads
 * to a row. */
typedef struct tile {
    uint32_t rows, tokens, t, lanes;
} tile;

/* ---- sizes ---- */

static uint32_t take(uint32_t *end, uint32_t size)
{
    const uint32_t at = *end;
    *end += size;
    return at;
}

/* Words of the exchange for a layer, as in layers.wgsl; a multiple of 4. */
static uint32_t exchange_words(const fr_config *c, uint32_t nodes)
{
    const uint32_t block = 4 * FR_ACT_FINE, attended = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    return nodes * (block * (2 * c->dim + c->ffn_dim + attended) / FR_BLOCK + attended + kv);
}

/* Words of the exchange for each span of attention, of all layers (lib/layers_attend). */
static uint32_t span_words(const fr_config *c, uint32_t nodes)
{
    return c->n_layers * nodes * c->n_heads * (c->head_dim + 4);
}

/* Of a context; the only span of a short one is not handed on. */
static uint32_t spans_of(uint32_t positions)
{
    const uint32_t spans = over(positions, FR_SPAN * FR_CHUNK);
    return spans > 1 ? spans : 0;
}

uint32_t fr_all_layers_words(const fr_all_layers *a, uint32_t positions)
{
    return a->words + spans_of(positions) * a->span_words;
}

/* Words for the widest step, or the longest context, that get along with 64 MiB. */
static uint32_t exchange_size(const fr_config *c, uint32_t context)
{
    const uint64_t most = 16 << 20, spans = spans_of(context < MOST_WHOLE ? context : MOST_WHOLE);
    uint64_t words = most + 1;
    for (uint32_t n = FR_WHOLE_NODES; n && words > most; n /= 2)
        words = 4 + (uint64_t)c->n_layers * exchange_words(c, n) + spans * span_words(c, n);
    return (uint32_t)(words < most ? words : most);
}

/* Whether one bind group has all layers, and each matrix is whole and of the one type. */
static bool in_one_piece(const fr_weights *w, const fr_config *c)
{
    const fr_matrix *first = &w->layers[0].o;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        const fr_layer *y = &w->layers[l];
        const fr_matrix *all[] = {&y->qkv[0], &y->o, &y->gate, &y->up, &y->down};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            if (y->n_qkv > 1 || all[i]->type != first->type || all[i]->n_parts > 1 || all[i]->parts[0].pool != first->parts[0].pool)
                return false;
    }
    return c->n_layers <= 512; /* their parameters fill a uniform binding */
}

void fr_shape_init(fr_shape *s, fr_gpu *gpu, const fr_config *c, const fr_weights *w, uint32_t context)
{
    context = over(context, FR_CHUNK) * FR_CHUNK; /* keys lie in blocks of 32 slots */
    *s = (fr_shape){.context = context};
    s->max_nodes = fr_gpu_get_limits(gpu)->is_cpu ? 32 : 256;
    s->kv_stride = c->n_kv_heads * context * (c->head_dim / 8);
    s->rope_at = (uint32_t)(w->vector_bytes / 4);
    const uint32_t n = s->max_nodes, heads = c->n_heads * c->head_dim;
    s->act_x = take(&s->act_size, n * (c->dim / FR_BLOCK) * FR_ACT_FINE);
    s->act_a = take(&s->act_size, n * (heads / FR_BLOCK) * FR_ACT);
    s->act_h = take(&s->act_size, n * (c->ffn_dim / FR_BLOCK) * FR_ACT);
    s->memory_at = context + n;
    s->draft_at = take(&s->act_size, over(FR_MEMORY_TOKENS + context, FR_DRAFT_SLICE) * DRAFT_SIZE);
    s->x_at = take(&s->work_size, n * (c->dim / 4));
    s->q_at = take(&s->work_size, n * (heads / 4));
    const uint32_t chunk = context / FR_CHUNK * (heads / 4 + c->n_heads); /* of all chunks, for a node */
    s->tree_nodes = FR_DRAFT_WIDTH;
    const uint64_t half = fr_gpu_get_limits(gpu)->binding / 2 / 16, most = half < MOST_PARTS ? half : MOST_PARTS;
    const bool cpu = fr_gpu_get_limits(gpu)->is_cpu; /* its attention leaves no partial results */
    while (!cpu && s->tree_nodes > 2 && (uint64_t)chunk * s->tree_nodes > most)
        s->tree_nodes /= 2;
    s->part_at = take(&s->work_size, cpu ? 0 : s->tree_nodes * (context / FR_CHUNK) * (heads / 4));
    s->ml_at = take(&s->work_size, cpu ? 0 : s->tree_nodes * (context / FR_CHUNK) * c->n_heads);
    s->head_at = take(&s->work_size, n * (over(c->vocab, ROWS_MIN) + 8));
    s->score_at = take(&s->work_size, n);
    s->lost_at = take(&s->work_size, 1);
    if (in_one_piece(w, c))
        s->exchange_size = exchange_size(c, context);
}

/* ---- choice of tiles ---- */

/* The smallest that is not less. */
static uint32_t power_of_2(uint32_t n)
{
    uint32_t p = 1;
    while (p < n)
        p *= 2;
    return p;
}

/* Decode on a GPU: many lanes a row, so that a step's few bytes are under way at once; trees likewise, with fewer lanes the more tokens,
 * for workgroups of 256 threads. On a CPU adapter a thread takes whole rows, and workgroups are small: SwiftShader switches between the
 * SIMD groups of a workgroup at every barrier, and in a browser clears workgroup memory word by word in generated code, which takes longer
 * to compile than all else (0.4 ms a word). Loads are dear everywhere, so four rows share those of activations, and four tokens, where
 * there are so many, those of weights. */
static tile choose_tile(const fr_kernel_set *k, const fr_matrix *m, uint32_t tokens)
{
    const uint32_t t = tokens < 4 ? 1 : 4;
    if (fr_gpu_get_limits(k->gpu)->is_cpu)
        return (tile){.rows = tokens == 1 ? 64 : 32, .tokens = tokens < 4 ? tokens : 4, .t = t, .lanes = 1};
    if (tokens > 1 && !k->tree)
        return (tile){.rows = 64, .tokens = 32, .t = 4, .lanes = 1};
    const uint32_t most = power_of_2(m->leaves), lanes = 32 / (tokens / t);
    return (tile){.rows = 32, .tokens = tokens, .t = t, .lanes = most < lanes ? most : lanes};
}

/* ---- building ---- */

/* Eight neighbours of a subgroup quantise a block, 16 share a token's norm. */
bool fr_kernel_has_lanes(const fr_kernel_set *k, uint32_t lanes)
{
    return !fr_gpu_get_limits(k->gpu)->is_cpu && fr_gpu_get_limits(k->gpu)->subgroup >= lanes;
}

static void constants(fr_kernel *b, const fr_kernel_set *k, uint32_t threads, bool subgroups)
{
    const fr_config *c = k->config;
    const fr_shape *s = k->shape;
    fr_kernel_begin(b, subgroups);
    fr_kernel_u32(b, "WG", threads);
    fr_kernel_u32(b, "N", k->nodes);
    fr_kernel_u32(b, "DIM", c->dim);
    fr_kernel_u32(b, "FFN", c->ffn_dim);
    fr_kernel_u32(b, "HEADS", c->n_heads);
    fr_kernel_u32(b, "KV_HEADS", c->n_kv_heads);
    fr_kernel_u32(b, "HEAD_DIM", c->head_dim);
    fr_kernel_u32(b, "CTX", s->context);
    fr_kernel_u32(b, "KV_STRIDE", s->kv_stride);
    fr_kernel_u32(b, "ROPE_AT", s->rope_at);
    fr_kernel_u32(b, "ACT_X", s->act_x);
    fr_kernel_u32(b, "ACT_A", s->act_a);
    fr_kernel_u32(b, "ACT_H", s->act_h);
    fr_kernel_u32(b, "X_AT", s->x_at);
    fr_kernel_u32(b, "Q_AT", s->q_at);
    fr_kernel_u32(b, "PART_AT", s->part_at);
    fr_kernel_u32(b, "ML_AT", s->ml_at);
    fr_kernel_u32(b, "HEAD_AT", s->head_at);
    fr_kernel_u32(b, "SCORE_AT", s->score_at);
    fr_kernel_u32(b, "LOST_FLAG_AT", s->lost_at);
    fr_kernel_piece(b, "shared");
    fr_kernel_piece(b, "lib/bindings");
    fr_kernel_piece(b, k->tree ? "lib/nodes_tree" : "lib/nodes_chain");
}

void fr_kernel_common(fr_kernel *b, const fr_kernel_set *k, uint32_t threads, bool subgroups)
{
    constants(b, k, threads, subgroups);
    fr_kernel_piece(b, "lib/params");
}

static const char *const stored[FR_WTYPES] = {[FR_W_Q4S] = "lib/q4s", [FR_W_Q4A] = "lib/q4a", [FR_W_Q8] = "lib/q8"};

static void matrix_constants(fr_kernel *b, const fr_matrix *m, bool wide)
{
    fr_kernel_u32(b, "BLOCKS", m->cols / FR_BLOCK);
    fr_kernel_u32(b, "LEAF", m->leaf_blocks);
    fr_kernel_u32(b, "LEAVES", m->leaves);
    fr_kernel_u32(b, "ROW_BLOCKS", m->row_blocks);
    fr_kernel_bool(b, "WIDE", wide);
    fr_kernel_piece(b, "lib/act");
    fr_kernel_piece(b, "lib/dot32");
    fr_kernel_piece(b, stored[m->type]);
}

/* Workgroup memory of such a kernel but for its lanes: the products, and for each token what norm and head need at most. */
static uint32_t tile_bytes(tile t)
{
    return t.rows * t.tokens * 4 + t.tokens * 160;
}

/* Whether a workgroup of `groups` times t.lanes threads is allowed, and has room for the lanes' sums if these go through memory. */
static bool lanes_fit(const fr_gpu_limits *l, tile t, uint32_t groups)
{
    const bool in_memory = t.lanes > 1 && l->subgroup < t.lanes;
    const uint32_t threads = groups * t.lanes, sums = in_memory ? threads * 4 * t.t * 4 : 0;
    return threads <= l->threads && tile_bytes(t) + sums <= l->workgroup_bytes;
}

/* Prelude and pieces of a kernel over tiles of a matrix. */
static void begin_tiled(fr_kernel *b, const fr_kernel_set *k, const fr_matrix *m, tile t, uint32_t slot)
{
    const fr_gpu_limits *l = fr_gpu_get_limits(k->gpu);
    const uint32_t groups = t.rows / 4 * (t.tokens / t.t); /* of `lanes` threads */
    while (t.lanes > 1 && !lanes_fit(l, t, groups)) /* the default limits are 256 threads and 16 KB */
        t.lanes /= 2;
    const bool shuffles = t.lanes > 1 && l->subgroup >= t.lanes;
    const uint32_t threads = groups * t.lanes;
    const bool quads = l->is_cpu && l->subgroup >= 4 && t.t > 1;
    fr_kernel_common(b, k, threads, shuffles || quads || fr_kernel_has_lanes(k, 8));
    fr_kernel_piece(b, "lib/state_read");
    const bool from_x = slot != FR_PART_O && slot != FR_PART_DOWN, wide = from_x && slot != FR_PART_TABLE;
    fr_kernel_u32(b, "PART", slot);
    fr_kernel_u32(b, "IN_SIZE", from_x ? FR_ACT_FINE : FR_ACT);
    fr_kernel_u32(b, "ROWS", t.rows);
    fr_kernel_u32(b, "TOKS", t.tokens);
    fr_kernel_u32(b, "LANES", t.lanes);
    fr_kernel_u32(b, "LANE_LEAVES", power_of_2(over(m->leaves, t.lanes)));
    fr_kernel_u32(b, "TILE_BYTES", tile_bytes(t));
    fr_kernel_u32(b, "WORKGROUP_BYTES", l->workgroup_bytes);
    matrix_constants(b, m, wide);
    fr_kernel_piece(b, "lib/tile_rows");
    if (t.t > 1)
        fr_kernel_piece(b, "lib/tile_tokens");
    fr_kernel_piece(b, "lib/products");
    if (t.t > 1 && l->is_cpu)
        fr_kernel_piece(b, "lib/outer");
    fr_kernel_piece(b, t.t == 1 ? "lib/tile_r4t1" : quads ? "lib/tile_quad" : l->is_cpu ? "lib/tile_outer" : "lib/tile_r4t4");
    if (l->is_cpu) {
        uint32_t levels = 1;
        while (1u << (levels - 1) < m->leaves)
            levels++;
        fr_kernel_u32(b, "LEVELS", levels);
    }
    fr_kernel_piece(b, l->is_cpu ? "lib/tree_memory" : "lib/tree_registers");
    const char *by_shuffles = t.t > 1 ? "lib/lanes_subgroup_r4t4" : "lib/lanes_subgroup";
    fr_kernel_piece(b, t.lanes == 1 ? "lib/lanes_one" : shuffles ? by_shuffles : "lib/lanes_workgroup");
    if (!from_x) {
        fr_kernel_piece(b, "lib/rms_none");
        return;
    }
    fr_kernel_f32(b, "INV_DIM", 1.0f / (float)k->config->dim);
    fr_kernel_f32(b, "EPS", k->config->norm_eps);
    fr_kernel_piece(b, fr_kernel_has_lanes(k, 16) && t.tokens * 16 <= threads ? "lib/rms_lanes" : "lib/rms");
}

/* `size`: vec4u of a block. */
void fr_kernel_quantise(fr_kernel *b, const fr_kernel_set *k, uint32_t size)
{
    fr_kernel_u32(b, "OUT_SIZE", size);
    fr_kernel_piece(b, "lib/put_act");
    fr_kernel_piece(b, "lib/codes");
    fr_kernel_piece(b, fr_kernel_has_lanes(k, 8) ? "lib/quantise_lanes" : "lib/quantise_thread");
}

/* What rows of q, k and v become. */
static void add_heads(fr_kernel *b, const fr_kernel_set *k)
{
    fr_kernel_f32(b, "Q_SCALE", 1.0f / sqrtf((float)k->config->head_dim));
    fr_kernel_piece(b, "lib/heads");
    fr_kernel_piece(b, k->config->qkv_bias ? "lib/bias" : "lib/bias_none");
}

const fr_tiled *fr_kernel_qkv(fr_kernel_set *k, const fr_matrix *m)
{
    fr_tiled *out = &k->qkv[m->type];
    if (out->pipeline)
        return out;
    const tile t = choose_tile(k, m, k->nodes);
    fr_kernel b;
    begin_tiled(&b, k, m, t, FR_PART_QKV);
    add_heads(&b, k);
    *out = (fr_tiled){fr_kernel_build(&b, k->gpu, "qkv", FR_READS_STATE), t.rows, t.tokens};
    return out;
}

static const fr_tiled *residual(fr_kernel_set *k, fr_tiled *out, const fr_matrix *m, bool down)
{
    if (out->pipeline)
        return out;
    const tile t = choose_tile(k, m, k->nodes);
    fr_kernel b;
    begin_tiled(&b, k, m, t, down ? FR_PART_DOWN : FR_PART_O);
    fr_kernel_u32(&b, "ACT_IN", down ? k->shape->act_h : k->shape->act_a);
    fr_kernel_bool(&b, "NORM_NEXT", down);
    fr_kernel_quantise(&b, k, FR_ACT_FINE);
    *out = (fr_tiled){fr_kernel_build(&b, k->gpu, "residual", FR_READS_STATE), t.rows, t.tokens};
    return out;
}

const fr_tiled *fr_kernel_o(fr_kernel_set *k, const fr_matrix *m)
{
    return residual(k, &k->o[m->type], m, false);
}

const fr_tiled *fr_kernel_down(fr_kernel_set *k, const fr_matrix *m)
{
    return residual(k, &k->down[m->type], m, true);
}

const fr_tiled *fr_kernel_gateup(fr_kernel_set *k, const fr_matrix *gate)
{
    fr_tiled *out = &k->gateup[gate->type];
    if (out->pipeline)
        return out;
    tile t = choose_tile(k, gate, k->nodes);
    t.rows = 64; /* 32 of gate and 32 of up: the quantised block of the hidden layer needs them together */
    fr_kernel b;
    begin_tiled(&b, k, gate, t, FR_PART_GATE);
    fr_kernel_quantise(&b, k, FR_ACT);
    *out = (fr_tiled){fr_kernel_build(&b, k->gpu, "gateup", FR_READS_STATE), t.rows / 2, t.tokens};
    return out;
}

const fr_tiled *fr_kernel_head(fr_kernel_set *k, const fr_matrix *m, bool every_node)
{
    fr_tiled *out = &k->head[m->type][every_node];
    if (out->pipeline)
        return out;
    const tile t = choose_tile(k, m, every_node ? k->nodes : 1);
    fr_kernel b;
    begin_tiled(&b, k, m, t, FR_PART_TABLE);
    fr_kernel_bool(&b, "LAST", !every_node);
    fr_kernel_u32(&b, "HEAD_TILES", over(m->rows, t.rows));
    fr_kernel_piece(&b, "lib/best");
    *out = (fr_tiled){fr_kernel_build(&b, k->gpu, "head", FR_READS_STATE), t.rows, t.tokens};
    return out;
}

fr_pipeline *fr_kernel_embed(fr_kernel_set *k, const fr_matrix *m)
{
    if (!k->embed[m->type]) {
        fr_kernel b;
        fr_kernel_common(&b, k, 64, fr_kernel_has_lanes(k, 8));
        fr_kernel_piece(&b, "lib/state_read");
        fr_kernel_u32(&b, "PART", FR_PART_TABLE);
        matrix_constants(&b, m, false);
        fr_kernel_quantise(&b, k, FR_ACT_FINE);
        k->embed[m->type] = fr_kernel_build(&b, k->gpu, "embed", FR_READS_STATE);
    }
    return k->embed[m->type];
}

/* ---- all layers at once ---- */

static void shape_constants(fr_kernel *b, const char *name, const fr_matrix *m)
{
    const struct {
        const char *suffix;
        uint32_t value;
    } all[] = {{"LEAF", m->leaf_blocks}, {"LEAVES", m->leaves}, {"LANES", power_of_2(m->leaves)}, {"ROW_BLOCKS", m->row_blocks}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[32];
        snprintf(text, sizeof text, "%s_%s", name, all[i].suffix);
        fr_kernel_u32(b, text, all[i].value);
    }
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void common_to_layers(fr_kernel *b, const fr_kernel_set *k, uint32_t threads, bool subgroups)
{
    constants(b, k, threads, subgroups);
    fr_kernel_u32(b, "LAYERS", k->config->n_layers);
    fr_kernel_piece(b, "lib/params_layers");
    fr_kernel_piece(b, "lib/state_read");
}

typedef struct all_sizes {
    uint32_t threads; /* a workgroup */
    uint32_t inbox;   /* vec4u */
    uint32_t spans;   /* of the longest context; 0: there is no room for any */
} all_sizes;

/* The longest context that exchange and workgroup memory have room for. */
static all_sizes size_all_layers(const fr_kernel_set *k, const fr_all_layers *a)
{
    const fr_gpu_limits *l = fr_gpu_get_limits(k->gpu);
    const fr_config *c = k->config;
    const uint32_t n = k->nodes, widest = larger(c->n_heads * c->head_dim, c->ffn_dim);
    all_sizes z = {.threads = l->is_cpu ? 128 : l->threads < 512 ? 256 : 512}; /* 16 for each of FR_WHOLE_NODES at least */
    const uint32_t swap = fr_kernel_has_lanes(k, FR_CHUNK) ? 0 : z.threads * 16,
                   products = n * larger(c->dim * FR_ACT_FINE, widest * FR_ACT) / FR_BLOCK;
    const uint32_t others = 16 * n * 16 + n * 4 + 16 + swap, room = (l->workgroup_bytes - smaller(others, l->workgroup_bytes)) / 16,
                   one = larger(products / n, n * c->head_dim / 4 + 2 * n * c->head_dim / 8 + FR_SPAN * (c->head_dim + 4) / 4),
                   context = k->shape->context;
    z.inbox = smaller(larger(products, one), room); /* what does not fit comes for fewer nodes at a time */
    if (z.inbox >= one)
        z.spans = over(context < MOST_WHOLE ? context : MOST_WHOLE, FR_SPAN * FR_CHUNK);
    while (z.spans && fr_all_layers_words(a, z.spans * FR_SPAN * FR_CHUNK) > k->shape->exchange_size)
        z.spans--;
    return z;
}

static fr_pipeline *build_all_layers(fr_kernel_set *k, const fr_layer *y, all_sizes z)
{
    const fr_config *c = k->config;
    const bool lanes = fr_kernel_has_lanes(k, FR_CHUNK);
    fr_kernel b;
    common_to_layers(&b, k, z.threads, lanes);
    fr_kernel_u32(&b, "INBOX", z.inbox);
    fr_kernel_u32(&b, "MOST_SPANS", z.spans);
    fr_kernel_u32(&b, "TRIES", fr_gpu_get_limits(k->gpu)->is_cpu ? CPU_TRIES : TRIES);
    shape_constants(&b, "X", &y->gate);
    shape_constants(&b, "A", &y->o);
    shape_constants(&b, "H", &y->down);
    fr_kernel_f32(&b, "INV_DIM", 1.0f / (float)c->dim);
    fr_kernel_f32(&b, "EPS", c->norm_eps);
    add_heads(&b, k);
    fr_kernel_bool(&b, "WIDE", false); /* for what is not used of the pieces */
    fr_kernel_u32(&b, "ROW_BLOCKS", 0);
    fr_kernel_u32(&b, "OUT_SIZE", FR_ACT_FINE);
    fr_kernel_piece(&b, "lib/act");
    fr_kernel_piece(&b, "lib/dot32");
    fr_kernel_piece(&b, stored[y->o.type]);
    fr_kernel_piece(&b, lanes ? "lib/lend_subgroup" : "lib/lend_workgroup");
    fr_kernel_piece(&b, "lib/exchange");
    fr_kernel_piece(&b, "lib/codes");
    fr_kernel_piece(&b, "lib/layers_products");
    fr_kernel_piece(&b, "lib/chunks");
    fr_kernel_piece(&b, "lib/weigh");
    fr_kernel_piece(&b, "lib/layers_attend");
    return fr_kernel_build(&b, k->gpu, "layers", FR_ALL_LAYERS);
}

const fr_all_layers *fr_kernel_all_layers(fr_kernel_set *k, const fr_weights *w)
{
    const fr_config *c = k->config;
    const uint32_t n = k->nodes, heads = c->n_heads * c->head_dim;
    fr_all_layers *a = &k->all;
    if (a->layers || !k->shape->exchange_size || n > FR_WHOLE_NODES)
        return a->layers ? a : NULL;
    a->words = 4 + c->n_layers * exchange_words(c, n);
    a->span_words = span_words(c, n);
    const all_sizes z = size_all_layers(k, a);
    if (!z.spans)
        return NULL;
    fr_kernel b;
    common_to_layers(&b, k, 256, false);
    a->begin = fr_kernel_build(&b, k->gpu, "layers_begin", FR_ALL_LAYERS);
    a->layers = build_all_layers(k, &w->layers[0], z);
    if (!a->begin || !a->layers)
        return NULL;
    fr_pipeline_optional(a->begin);
    fr_pipeline_optional(a->layers);
    a->positions = z.spans * FR_SPAN * FR_CHUNK;
    a->most_groups = over(heads + 2 * c->n_kv_heads * c->head_dim, 64) + c->n_heads * z.spans * n + c->dim / FR_BLOCK +
                     c->ffn_dim / FR_BLOCK;
    return a;
}

/* The tiles of head.wgsl as the last head pipeline was built; score, advance and accept read what it wrote. */
static void add_tiles(fr_kernel *b, const fr_kernel_set *k, bool every_node)
{
    for (int t = 0; t < FR_WTYPES; t++)
        if (k->head[t][every_node].pipeline)
            fr_kernel_u32(b, "HEAD_TILES", over(k->config->vocab, k->head[t][every_node].rows));
    fr_kernel_piece(b, "lib/best");
    fr_kernel_piece(b, "lib/best_tiles");
}

static uint32_t best_threads(const fr_kernel_set *k)
{
    return fr_gpu_get_limits(k->gpu)->is_cpu ? 64 : 256;
}

fr_pipeline *fr_kernel_score(fr_kernel_set *k)
{
    if (!k->score) {
        fr_kernel b;
        fr_kernel_common(&b, k, best_threads(k), false);
        fr_kernel_piece(&b, "lib/state_read");
        add_tiles(&b, k, true);
        k->score = fr_kernel_build(&b, k->gpu, "score", FR_READS_STATE);
    }
    return k->score;
}

fr_pipeline *fr_kernel_advance(fr_kernel_set *k, bool emit)
{
    if (!k->advance[emit]) {
        fr_kernel b;
        fr_kernel_common(&b, k, best_threads(k), false);
        fr_kernel_piece(&b, "lib/state_write");
        fr_kernel_piece(&b, "lib/append");
        fr_kernel_bool(&b, "EMIT", emit);
        if (emit) {
            add_tiles(&b, k, false);
        } else {
            fr_kernel_u32(&b, "HEAD_TILES", 1);
            fr_kernel_piece(&b, "lib/best");
            fr_kernel_piece(&b, "lib/best_tiles");
        }
        k->advance[emit] = fr_kernel_build(&b, k->gpu, "advance", FR_WRITES_STATE);
    }
    return k->advance[emit];
}

/* ---- trees ---- */

static void draft_constants(fr_kernel *b, const fr_kernel_set *k, uint32_t threads)
{
    fr_kernel_common(b, k, threads, false);
    fr_kernel_u32(b, "MEMORY_AT", k->shape->memory_at);
    fr_kernel_u32(b, "DRAFT_AT", k->shape->draft_at);
    fr_kernel_u32(b, "SLICE", FR_DRAFT_SLICE);
    fr_kernel_u32(b, "SLICES", over(FR_MEMORY_TOKENS + k->shape->context, FR_DRAFT_SLICE));
    fr_kernel_u32(b, "DRAFT_SIZE", DRAFT_SIZE);
    fr_kernel_u32(b, "ORDERS", FR_DRAFT_ORDERS);
    fr_kernel_u32(b, "DEPTH", FR_DRAFT_DEPTH);
    fr_kernel_u32(b, "CANDIDATES", FR_DRAFT_CANDIDATES);
    fr_kernel_u32(b, "PLACE_BITS", FR_DRAFT_PLACE_BITS);
    fr_kernel_u32(b, "SHARE_BITS", FR_DRAFT_SHARE_BITS);
    fr_kernel_u32(b, "ROOT_SCORE", FR_DRAFT_ROOT_SCORE);
    fr_kernel_u32(b, "WEIGHT", FR_DRAFT_WEIGHT);
    fr_kernel_u32(b, "MEMORY_SHIFT", FR_DRAFT_MEMORY_SHIFT);
    fr_kernel_piece(b, "lib/corpus");
}

fr_pipeline *fr_kernel_draft_match(fr_kernel_set *k)
{
    if (!k->match) {
        fr_kernel b;
        draft_constants(&b, k, fr_gpu_get_limits(k->gpu)->is_cpu ? 16 : 128);
        fr_kernel_piece(&b, "lib/state_read");
        k->match = fr_kernel_build(&b, k->gpu, "draft_match", FR_READS_STATE);
    }
    return k->match;
}

fr_pipeline *fr_kernel_draft_tree(fr_kernel_set *k)
{
    if (!k->draft) {
        fr_kernel b;
        draft_constants(&b, k, fr_gpu_get_limits(k->gpu)->is_cpu ? 16 : 256);
        fr_kernel_piece(&b, "lib/state_write");
        fr_kernel_piece(&b, "lib/draft_merge");
        k->draft = fr_kernel_build(&b, k->gpu, "draft_tree", FR_WRITES_STATE);
    }
    return k->draft;
}

fr_pipeline *fr_kernel_accept(fr_kernel_set *k)
{
    if (!k->accept) {
        fr_kernel b;
        fr_kernel_common(&b, k, best_threads(k), false);
        fr_kernel_piece(&b, "lib/state_write");
        fr_kernel_piece(&b, "lib/append");
        add_tiles(&b, k, true);
        k->accept = fr_kernel_build(&b, k->gpu, "accept", FR_WRITES_STATE);
    }
    return k->accept;
}

fr_pipeline *fr_kernel_compact(fr_kernel_set *k)
{
    if (!k->compact) {
        fr_kernel b;
        fr_kernel_common(&b, k, 64, false);
        fr_kernel_piece(&b, "lib/state_read");
        k->compact = fr_kernel_build(&b, k->gpu, "compact", FR_READS_STATE);
    }
    return k->compact;
}

/* ---- life ---- */

fr_kernel_set *fr_kernel_set_new(fr_gpu *gpu, const fr_config *config, const fr_shape *shape, uint32_t nodes, bool tree)
{
    fr_kernel_set *k = calloc(1, sizeof *k);
    if (k) {
        k->gpu = gpu;
        k->config = config;
        k->shape = shape;
        k->nodes = nodes;
        k->tree = tree;
    }
    return k;
}

void fr_kernel_set_free(fr_kernel_set *k)
{
    free(k);
}

uint32_t fr_kernel_set_nodes(const fr_kernel_set *k)
{
    return k->nodes;
}
