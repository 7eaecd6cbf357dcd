#include "ref/bits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spec/draft.h"

#define DIFFERS(b, ...) (fr_fail(&(b)->rig->error, FR_FAILED, __VA_ARGS__), false)

/* ---- what a node leaves ---- */

typedef struct area {
    bool work;
    uint32_t at, size; /* vec4, of the first node; words of a node */
} area;

void bits_take(const rig *r, rig_snapshot *s, uint32_t node, uint32_t *out)
{
    const fr_config *c = r->config;
    const uint32_t heads = c->n_heads * c->head_dim;
    const area areas[] = {
        {true, r->shape->x_at, c->dim},
        {false, r->shape->act_x, c->dim / FR_BLOCK * 4 * FR_ACT_FINE},
        {false, r->shape->act_a, heads / FR_BLOCK * 4 * FR_ACT},
        {false, r->shape->act_h, c->ffn_dim / FR_BLOCK * 4 * FR_ACT},
        {true, r->shape->q_at, heads},
    };
    for (size_t i = 0; i < sizeof areas / sizeof *areas; i++) {
        const area *a = &areas[i];
        memcpy(out, rig_part(r, s, a->work ? REF_WORK : REF_ACT) + 4 * (size_t)a->at + (size_t)node * a->size, 4 * (size_t)a->size);
        out += a->size;
    }
}

/* The first ones are all that a step in one dispatch leaves: x and its quantised form. */
static size_t whole_words(const rig *r)
{
    return r->config->dim + (size_t)r->config->dim / FR_BLOCK * 4 * FR_ACT_FINE;
}

size_t bits_words(const rig *r)
{
    const fr_config *c = r->config;
    return whole_words(r) + (size_t)c->n_heads * c->head_dim / 32 * 44 + c->ffn_dim / 32 * 12;
}

/* ---- running ---- */

static void write_control(rig *r, uint32_t pos, uint32_t end)
{
    const fr_gpu_Control c = {.pos = pos, .end = end, .limit = UINT32_MAX};
    fr_gpu_write(r->gpu, fr_forward_state(r->forward), 0, &c, sizeof c);
}

static void write_tokens(rig *r, uint32_t at, const uint32_t *tokens, uint32_t n)
{
    fr_gpu_write(r->gpu, fr_forward_state(r->forward), fr_forward_tokens_offset() + 4 * (uint64_t)at, tokens, 4 * (size_t)n);
}

/* Single steps over these tokens behind the first `pos`, which are cached; the last has a score. The result is in `single`. */
static bool decode(bits *b, uint32_t pos, const uint32_t *tokens, uint32_t n)
{
    rig *r = b->rig;
    write_tokens(r, pos, tokens, n);
    write_control(r, pos, pos + n);
    fr_gpu_begin(r->gpu);
    for (uint32_t i = 0; i < n; i++)
        fr_forward_step(r->forward, 1, i + 1 < n ? FR_TAIL_NONE : FR_TAIL_SCORE, pos + i + 1);
    fr_gpu_submit(r->gpu);
    if (!rig_read(r, &b->single))
        return false;
    const uint32_t reached = rig_control(r, &b->single)->pos;
    return reached == pos + n || DIFFERS(b, "decoding %u tokens from %u ends at %u", n, pos, reached);
}

bool bits_open(bits *b, rig *r)
{
    const size_t words = bits_words(r);
    *b = (bits){.rig = r};
    if (!rig_snapshot_new(r, &b->text) || !rig_snapshot_new(r, &b->wide) || !rig_snapshot_new(r, &b->single))
        return false;
    b->nodes = calloc((BITS_TEXT + 2) * words, sizeof *b->nodes);
    if (!b->nodes)
        return DIFFERS(b, "out of memory");
    b->node[0] = b->nodes + BITS_TEXT * words;
    b->node[1] = b->node[0] + words;
    if (!rig_prepare(r, 1, FR_TAIL_NONE) || !rig_prepare(r, 1, FR_TAIL_SCORE))
        return false;
    rig_scramble(r, &b->text, 3);
    rig_write(r, &b->text);
    for (uint32_t i = 0; i < BITS_TEXT; i++) {
        const uint32_t token = rig_random(11, i) % r->config->vocab;
        if (!decode(b, i, &token, 1))
            return false;
        bits_take(r, &b->single, 0, b->nodes + i * words);
    }
    memcpy(b->text.words, b->single.words, 4 * b->text.n);
    return true;
}

void bits_close(bits *b)
{
    free(b->text.words);
    free(b->wide.words);
    free(b->single.words);
    free(b->nodes);
}

/* ---- comparing `wide` with `single` ---- */

static bool same_node(bits *b, const char *what, uint32_t node, const uint32_t *want)
{
    const uint32_t *have = b->node[0];
    bits_take(b->rig, &b->wide, node, b->node[0]);
    const size_t words = b->rig->groups ? whole_words(b->rig) : bits_words(b->rig);
    for (size_t i = 0; i < words; i++)
        if (have[i] != want[i])
            return DIFFERS(b, "%s, node %u: word %zu is 0x%08x, decoding gives 0x%08x", what, node, i, have[i], want[i]);
    return true;
}

/* The word with dimensions d and d + 1 of a slot's key or value. */
static uint32_t cache_word(const rig *r, rig_snapshot *s, uint32_t layer, bool value, uint32_t head, uint32_t slot, uint32_t d)
{
    const fr_config *c = r->config;
    const size_t of_head = (size_t)r->shape->context * c->head_dim, area = 2 * (size_t)(layer % r->kv_layers) + value;
    const size_t half = (area * c->n_kv_heads + head) * of_head + ref_cache_place(value, c->head_dim, slot, d);
    return rig_part(r, s, REF_KV + layer / r->kv_layers)[half / 2];
}

static bool same_slot(bits *b, const char *what, uint32_t in_wide, uint32_t in_single)
{
    const fr_config *c = b->rig->config;
    for (uint32_t i = 0; i < c->n_layers * 2 * c->n_kv_heads * c->head_dim / 2; i++) {
        const uint32_t d = i % (c->head_dim / 2) * 2, head = i / (c->head_dim / 2) % c->n_kv_heads;
        const uint32_t kind = i / (c->head_dim / 2) / c->n_kv_heads, layer = kind / 2;
        const uint32_t have = cache_word(b->rig, &b->wide, layer, kind % 2, head, in_wide, d);
        const uint32_t want = cache_word(b->rig, &b->single, layer, kind % 2, head, in_single, d);
        if (have != want)
            return DIFFERS(b, "%s: layer %u, %s of head %u, slot %u, dimension %u: 0x%08x, decoding gives 0x%08x at slot %u", what, layer,
                           kind % 2 ? "value" : "key", head, in_wide, d, have, want, in_single);
    }
    return true;
}

static bool same_slots(bits *b, const char *what, uint32_t n)
{
    uint32_t slot = 0;
    while (slot < n && same_slot(b, what, slot, slot))
        slot++;
    return slot == n;
}

static const float *head_tiles(bits *b, rig_snapshot *s, uint32_t node, uint32_t tiles)
{
    return (const float *)rig_part(b->rig, s, REF_WORK) + 4 * ((size_t)b->rig->shape->head_at + (size_t)node * tiles);
}

/* Tiles of fewer rows lie in tiles of more, so the best of a large one is the best of the small one that has it. */
static bool same_logits(bits *b, const char *what, uint32_t node, uint32_t tiles)
{
    const uint32_t single_tiles = rig_head_tiles(b->rig, 1, FR_TAIL_SCORE);
    const float *wide = head_tiles(b, &b->wide, node, tiles), *single = head_tiles(b, &b->single, 0, single_tiles);
    const bool wide_has_more = tiles > single_tiles;
    const float *few = wide_has_more ? single : wide, *many = wide_has_more ? wide : single;
    const uint32_t n_few = wide_has_more ? single_tiles : tiles, n_many = wide_has_more ? tiles : single_tiles;
    for (uint32_t i = 0, k = 0; i < n_few; i++) {
        while (k < n_many && memcmp(&many[4 * k + 1], &few[4 * i + 1], sizeof *many) != 0)
            k++;
        const size_t size = n_few == n_many ? 3 * sizeof *many : sizeof *many; /* of equal tiles, the second best too */
        if (k == n_many || memcmp(&many[4 * k], &few[4 * i], size) != 0)
            return DIFFERS(b, "%s, node %u: the best logit of tile %u of %u is not that of decoding", what, node, i, n_few);
    }
    return true;
}

/* Positions where a second and a third span of attention begin within a step; the cache before them holds random numbers. */
static const uint32_t far_places[] = {FR_SPAN * FR_CHUNK - 3, 2 * FR_SPAN *FR_CHUNK - 2};
enum { N_FAR = sizeof far_places / sizeof *far_places };

static bool has_far(const bits *b)
{
    return b->rig->context > far_places[N_FAR - 1] + 32;
}

/* ---- prompts ---- */

static bool far_prompt(bits *b, uint32_t pos)
{
    enum { TOKENS = 9 };
    rig *r = b->rig;
    const uint32_t bucket = fr_forward_prefill_nodes(r->forward);
    rig_write(r, &b->text);
    write_control(r, pos, pos + TOKENS);
    fr_gpu_begin(r->gpu);
    fr_forward_step(r->forward, bucket, FR_TAIL_SCORE, pos + TOKENS);
    fr_gpu_submit(r->gpu);
    if (!rig_read(r, &b->wide))
        return false;
    rig_write(r, &b->text);
    for (uint32_t node = 0; node < TOKENS; node++) {
        if (!decode(b, pos + node, rig_tokens(r, &b->text) + pos + node, 1))
            return false;
        bits_take(r, &b->single, 0, b->node[1]);
        if (!same_node(b, "a prompt behind a long text", node, b->node[1]))
            return false;
    }
    return true;
}

bool bits_same_prompt(bits *b)
{
    static const uint32_t widths[] = {31, 5, 1, 2, 31, 30}; /* BITS_TEXT together */
    rig *r = b->rig;
    const uint32_t bucket = fr_forward_prefill_nodes(r->forward);
    rig_scramble(r, &b->wide, 4);
    memcpy(rig_tokens(r, &b->wide), rig_tokens(r, &b->text), 4 * (size_t)r->context);
    rig_write(r, &b->wide);
    if (!rig_prepare(r, bucket, FR_TAIL_SCORE))
        return false;
    for (uint32_t i = 0, pos = 0; i < sizeof widths / sizeof *widths; pos += widths[i++]) {
        write_control(r, pos, pos + widths[i]);
        fr_gpu_begin(r->gpu);
        fr_forward_step(r->forward, bucket, FR_TAIL_SCORE, pos + widths[i]);
        fr_gpu_submit(r->gpu);
        if (!rig_read(r, &b->wide))
            return false;
        char what[64];
        snprintf(what, sizeof what, "%u tokens of a prompt at %u", widths[i], pos);
        for (uint32_t node = 0; node < widths[i]; node++)
            if (!same_node(b, what, node, b->nodes + (pos + node) * bits_words(r)))
                return false;
    }
    memcpy(b->single.words, b->text.words, 4 * b->text.n); /* its logits are of the last token */
    if (!(same_logits(b, "a prompt", widths[sizeof widths / sizeof *widths - 1] - 1, rig_head_tiles(r, bucket, FR_TAIL_SCORE)) &&
          same_slots(b, "a prompt", BITS_TEXT)))
        return false;
    for (uint32_t i = 0; has_far(b) && i < N_FAR; i++)
        if (!far_prompt(b, far_places[i]))
            return false;
    return true;
}

/* ---- trees ---- */

/* Records the dispatches of a step over a tree from `first` to `last`, by the names of their kernels; NULL: the end. */
static void run_from(rig *r, uint32_t nodes, const char *first, const char *last, uint32_t positions)
{
    bool on = false;
    fr_forward_set_groups(r->forward, r->groups);
    fr_gpu_begin(r->gpu);
    for (uint32_t i = 0; i < fr_forward_trace_count(r->forward, nodes, FR_TAIL_TREE); i++) {
        const char *kernel = fr_forward_trace(r->forward, nodes, FR_TAIL_TREE, i, positions).kernel;
        on |= !strcmp(kernel, first);
        if (on && last && !strcmp(kernel, last))
            break;
        if (on)
            fr_forward_trace_record(r->forward, nodes, FR_TAIL_TREE, i, positions);
    }
    fr_gpu_submit(r->gpu);
    fr_forward_set_groups(r->forward, 0);
}

typedef struct planted {
    uint32_t bucket, count, pos;
    rig_shape shape;
    uint64_t seed;
} planted;

/* Decodes a node and then what is below it, behind its ancestors, which are decoded. */
static bool same_subtree(bits *b, const char *what, const planted *p, uint32_t node, uint32_t tiles)
{
    rig *r = b->rig;
    const uint32_t place = p->pos + rig_depth(r, &b->wide, node);
    if (!decode(b, place, &rig_tree(r, &b->wide)->token[node], 1))
        return false;
    bits_take(r, &b->single, 0, b->node[1]);
    if (!same_node(b, what, node, b->node[1]) || !same_slot(b, what, p->pos + node, place) || !same_logits(b, what, node, tiles))
        return false;
    for (uint32_t i = node + 1; i < p->count; i++)
        if (rig_parent(r, &b->wide, i) == node && !same_subtree(b, what, p, i, tiles))
            return false;
    return true;
}

/* A step over a tree, then what it would leave if the model chose the way to some node; drafts that it chooses itself go on from there. */
static bool same_tree(bits *b, const planted *p)
{
    rig *r = b->rig;
    const uint32_t tiles = rig_head_tiles(r, p->bucket, FR_TAIL_TREE), positions = p->pos + 1 + FR_DRAFT_DEPTH;
    char what[96];
    snprintf(what, sizeof what, "%u of %u nodes at %u, shape %d", p->count, p->bucket, p->pos, (int)p->shape);
    memcpy(b->wide.words, b->text.words, 4 * b->wide.n);
    *rig_control(r, &b->wide) = (fr_gpu_Control){.pos = p->pos, .end = p->pos + 1, .limit = UINT32_MAX};
    rig_plant_tree(r, &b->wide, p->shape, p->count, p->seed);
    rig_write(r, &b->wide);
    run_from(r, p->bucket, "embed", "accept", positions);
    if (!rig_read(r, &b->wide))
        return false;
    rig_write(r, &b->text);
    if (!same_subtree(b, what, p, 0, tiles))
        return false;

    for (uint32_t node = rig_random(p->seed, 1) % p->count, up; node; node = up) {
        up = rig_parent(r, &b->wide, node);
        rig_choose(r, &b->wide, tiles, up, rig_tree(r, &b->wide)->token[node]);
    }
    rig_write(r, &b->wide);
    run_from(r, p->bucket, "accept", NULL, positions);
    if (!rig_read(r, &b->wide))
        return false;
    const uint32_t end = rig_control(r, &b->wide)->pos;
    rig_write(r, &b->text);
    return decode(b, p->pos, rig_tokens(r, &b->wide) + p->pos, end - p->pos) && same_slots(b, what, end);
}

bool bits_same_whole(bits *b)
{
    rig *r = b->rig;
    if (fr_forward_whole(r->forward, 1, FR_TAIL_SCORE, BITS_TEXT) != FR_WHOLE_READY)
        return DIFFERS(b, "there is no kernel for all layers");
    rig_write(r, &b->text);
    fr_forward_set_groups(r->forward, r->groups);
    static const uint32_t places[] = {0, 1, 30, 31, 32, 33, 63, 64, 96, BITS_TEXT - 1};
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        const uint32_t i = places[p];
        write_control(r, i, i + 1);
        fr_gpu_begin(r->gpu);
        fr_forward_step(r->forward, 1, FR_TAIL_SCORE, i + 1);
        fr_gpu_submit(r->gpu);
        if (!rig_read(r, &b->wide) || !same_node(b, "all layers at once", 0, b->nodes + i * bits_words(r)))
            return false;
    }
    fr_forward_set_groups(r->forward, 0);
    memcpy(b->single.words, b->text.words, 4 * b->text.n);
    if (!same_slots(b, "all layers at once", BITS_TEXT))
        return false;
    for (uint32_t i = 0; has_far(b) && i < N_FAR; i++) {
        const uint32_t pos = far_places[i] + 3 * (i % 2);
        rig_write(r, &b->text);
        if (!decode(b, pos, rig_tokens(r, &b->text) + pos, 1))
            return false;
        bits_take(r, &b->single, 0, b->node[1]);
        fr_forward_set_groups(r->forward, r->groups);
        if (!decode(b, pos, rig_tokens(r, &b->text) + pos, 1))
            return false;
        fr_forward_set_groups(r->forward, 0);
        memcpy(b->wide.words, b->single.words, 4 * b->single.n);
        if (!same_node(b, "all layers at once behind a long text", 0, b->node[1]))
            return false;
    }
    return true;
}

bool bits_same_trees(bits *b, uint32_t *nodes)
{
    static const uint32_t places[] = {0, 29, 31, 61, 66, 33, 28, 30, 60, 64}; /* wide trees begin at the first of them only */
    uint32_t seed = 0;
    const uint32_t widest = b->rig->groups ? FR_WHOLE_NODES : fr_forward_tree_nodes(b->rig->forward);
    for (uint32_t bucket = 2; bucket <= widest; bucket *= b->rig->groups ? 4 : 2) { /* 4 and 8 nodes are made alike in one dispatch */
        if (rig_leaves_out(b->rig, bucket))
            continue;
        const uint32_t trees = b->rig->groups ? 3 : bucket < 16 ? sizeof places / sizeof *places : bucket < 32 ? 7 : 4;
        if (!rig_prepare(b->rig, bucket, FR_TAIL_TREE))
            return false;
        for (uint32_t i = 0; i < trees; i++, seed++) {
            const uint32_t count = i % 4 == 2 ? 1 + rig_random(5, seed) % bucket : bucket;
            if (!same_tree(b, &(planted){bucket, count, places[i], (rig_shape)(i % RIG_SHAPES), 100 + seed}))
                return false;
            *nodes += count;
        }
        for (uint32_t i = 0; has_far(b) && i < (bucket == 4 || bucket == 8 ? N_FAR : 0); i++, seed++) {
            if (!same_tree(b, &(planted){bucket, bucket, far_places[i], i ? RIG_BUSHY : RIG_DEEP, 100 + seed}))
                return false;
            *nodes += bucket;
        }
    }
    return true;
}

/* ---- whole steps ---- */

bool bits_same_steps(bits *b, uint32_t bucket, uint32_t *n_tokens)
{
    enum { FIRST = 20 };
    rig *r = b->rig;
    const uint32_t steps = r->groups ? 10 : 32;
    if (!rig_prepare(r, bucket, FR_TAIL_TREE) || !rig_prepare(r, 1, FR_TAIL_EMIT))
        return false;
    rig_write(r, &b->text);
    write_control(r, FIRST, FIRST + 1);
    fr_forward_set_groups(r->forward, r->groups);
    fr_gpu_begin(r->gpu);
    for (uint32_t i = 0; i < steps; i++)
        fr_forward_step(r->forward, bucket, FR_TAIL_TREE, FIRST + (i + 1) * (1 + FR_DRAFT_DEPTH));
    fr_gpu_submit(r->gpu);
    fr_forward_set_groups(r->forward, 0);
    if (!rig_read(r, &b->wide))
        return false;
    const fr_gpu_Control *control = rig_control(r, &b->wide);
    const uint32_t end = control->pos, *tokens = rig_tokens(r, &b->wide);
    if (end != FIRST + steps + control->accepted || control->end != end + 1)
        return DIFFERS(b, "%u steps from %u with %u drafts accepted end at %u, with %u tokens known", steps, (uint32_t)FIRST,
                       control->accepted, end, control->end);

    rig_write(r, &b->text);
    write_control(r, FIRST, FIRST + 1);
    fr_gpu_begin(r->gpu);
    for (uint32_t pos = FIRST; pos < end; pos++)
        fr_forward_step(r->forward, 1, FR_TAIL_EMIT, pos + 1);
    fr_gpu_submit(r->gpu);
    if (!rig_read(r, &b->single))
        return false;
    for (uint32_t i = 0; i <= end; i++)
        if (tokens[i] != rig_tokens(r, &b->single)[i])
            return DIFFERS(b, "token %u is %u with trees of %u, %u without", i, tokens[i], bucket, rig_tokens(r, &b->single)[i]);
    *n_tokens += end - FIRST;
    return same_slots(b, "whole steps", end);
}
