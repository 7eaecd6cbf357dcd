/* ref_tree.c: drafting a tree on the device, and what accepted drafts leave in the cache. */
#include <stdlib.h>

#include "ref/ref.h"
#include "ref/ref_draft.h"

enum { SLICE_WORDS = FR_DRAFT_CANDIDATES + 4 }; /* of a slice's result: keys, then a byte for each match, then nothing */

/* What the drafter searches, as it lies in the state: memory in the order of time behind the tokens. */
static fr_draft_corpus corpus_of(const ref_step *s)
{
    const uint32_t *tokens = s->buffers[REF_STATE].was + REF_TOKENS_AT, memory = ref_control(s, offsetof(fr_gpu_Control, memory));
    return (fr_draft_corpus){.ring = tokens + s->shape->memory_at,
                             .capacity = memory ? memory : 1,
                             .count = memory,
                             .tokens = tokens,
                             .n = ref_control(s, offsetof(fr_gpu_Control, pos)) + 1};
}

static size_t slice_at(const ref_step *s, uint32_t slice)
{
    return 4 * (size_t)s->shape->draft_at + (size_t)slice * SLICE_WORDS;
}

static int falling(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

void ref_match(ref_step *s)
{
    const fr_draft_corpus c = corpus_of(s);
    if (ref_control(s, offsetof(fr_gpu_Control, finished)))
        return;
    for (uint32_t first = 0; first < c.count + c.n; first += FR_DRAFT_SLICE) {
        const size_t at = slice_at(s, first / FR_DRAFT_SLICE);
        uint32_t keys[FR_DRAFT_SLICE] = {0}, matches[FR_DRAFT_ORDERS] = {0}; /* keys that stay, by match */
        for (uint32_t i = 0; i < FR_DRAFT_SLICE && first + i < c.count + c.n; i++)
            keys[i] = ref_draft_key(&c, first + i);
        qsort(keys, FR_DRAFT_SLICE, sizeof *keys, falling);
        for (uint32_t i = 0; i < FR_DRAFT_CANDIDATES; i++) {
            ref_put_bits(&s->buffers[REF_ACT], at + i, keys[i]);
            if (keys[i])
                matches[(keys[i] >> FR_DRAFT_PLACE_BITS) - 1]++;
        }
        for (uint32_t i = 0; i < FR_DRAFT_ORDERS; i += 4)
            ref_put_bits(&s->buffers[REF_ACT], at + FR_DRAFT_CANDIDATES + i / 4,
                         matches[i] | matches[i + 1] << 8 | matches[i + 2] << 16 | matches[i + 3] << 24);
    }
}

/* The largest keys of all slices. */
static uint32_t merged(const ref_step *s, const fr_draft_corpus *c, uint32_t *keys)
{
    enum { MOST = 1 << 16 };
    static uint32_t all[MOST];
    uint32_t n = 0;
    for (uint32_t slice = 0; slice * FR_DRAFT_SLICE < c->count + c->n && n + FR_DRAFT_CANDIDATES <= MOST; slice++)
        for (uint32_t i = 0; i < FR_DRAFT_CANDIDATES; i++) {
            const uint32_t key = s->buffers[REF_ACT].was[slice_at(s, slice) + i];
            if (key)
                all[n++] = key;
        }
    qsort(all, n, sizeof *all, falling);
    for (uint32_t i = 0; i < n && i < FR_DRAFT_CANDIDATES; i++)
        keys[i] = all[i];
    return n < FR_DRAFT_CANDIDATES ? n : FR_DRAFT_CANDIDATES;
}

void ref_tree(ref_step *s)
{
    ref_words *state = &s->buffers[REF_STATE];
    const fr_draft_corpus c = corpus_of(s);
    const uint32_t room = s->shape->context - (c.n - 1); /* slots for the root and its drafts */
    if (ref_control(s, offsetof(fr_gpu_Control, finished)))
        return;
    uint32_t keys[FR_DRAFT_CANDIDATES];
    fr_draft_node tree[FR_DRAFT_WIDTH];
    const uint32_t n = ref_draft_tree(&c, keys, merged(s, &c, keys), room < s->n ? room : s->n, tree);
    ref_put_bits(state, REF_TREE_AT + offsetof(fr_gpu_Tree, count) / 4, n);
    ref_put_bits(state, REF_TREE_AT + offsetof(fr_gpu_Tree, matched) / 4, tree[0].match);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t path = 0; /* byte d: the ancestor at depth d + 1 */
        for (uint32_t a = i; a; a = tree[a].parent)
            path |= (uint64_t)a << (8 * (tree[a].depth - 1));
        ref_put_bits(state, REF_TREE_AT + offsetof(fr_gpu_Tree, token) / 4 + i, tree[i].token);
        ref_put_bits(state, REF_TREE_AT + offsetof(fr_gpu_Tree, info) / 4 + i, tree[i].parent | tree[i].depth << 8);
        ref_put_bits(state, REF_TREE_AT + offsetof(fr_gpu_Tree, path_lo) / 4 + i, (uint32_t)path);
        ref_put_bits(state, REF_TREE_AT + offsetof(fr_gpu_Tree, path_hi) / 4 + i, (uint32_t)(path >> 32));
    }
}

/* A slot's key or value of one head, two dimensions a word. */
static void move(ref_step *s, bool value, uint32_t head, uint32_t from, uint32_t to)
{
    ref_words *kv = &s->buffers[REF_KV];
    for (uint32_t d = 0; d < s->config->head_dim; d += 2)
        ref_put_bits(kv, ref_cache_at(s, value, head, to, d) / 2, kv->was[ref_cache_at(s, value, head, from, d) / 2]);
}

void ref_compact(ref_step *s)
{
    const fr_gpu_Tree *t = ref_tree_was(s);
    for (s->layer_in_kv = 0; s->layer_in_kv < s->kv_layers; s->layer_in_kv++)
        for (uint32_t i = 0; i < t->moved; i++)
            for (uint32_t head = 0; head < s->config->n_kv_heads; head++) {
                move(s, false, head, t->base + t->came_from[i], t->base + 1 + i);
                move(s, true, head, t->base + t->came_from[i], t->base + 1 + i);
            }
}
