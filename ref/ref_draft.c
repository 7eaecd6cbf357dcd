/* ref_draft.c: twin of the drafter, see src/spec/draft.h. */
#include <stdbool.h>
#include <string.h>

#include "ref/ref_draft.h"

static uint32_t memory_token(const fr_draft_corpus *c, uint32_t i)
{
    return c->ring[(c->head + c->capacity - c->count + i) % c->capacity];
}

/* Tokens before the first `place` tokens' end that equal the end of the sequence. */
static uint32_t match_in_memory(const fr_draft_corpus *c, uint32_t place)
{
    uint32_t m = 0;
    while (m < FR_DRAFT_ORDERS && m < place && m < c->n && memory_token(c, place - 1 - m) == c->tokens[c->n - 1 - m])
        m++;
    return m;
}

static uint32_t match_in_sequence(const fr_draft_corpus *c, uint32_t at)
{
    uint32_t m = 0;
    while (m < FR_DRAFT_ORDERS && m < at && c->tokens[at - 1 - m] == c->tokens[c->n - 1 - m])
        m++;
    return m;
}

uint32_t ref_draft_key(const fr_draft_corpus *c, uint32_t place)
{
    const bool in_memory = place < c->count;
    const uint32_t m = in_memory ? match_in_memory(c, place) : match_in_sequence(c, place - c->count);
    return m == 0 || (in_memory && memory_token(c, place) == FR_DRAFT_BREAK) ? 0 : m << FR_DRAFT_PLACE_BITS | place;
}

uint32_t ref_draft_match(const fr_draft_corpus *c, uint32_t keys[FR_DRAFT_CANDIDATES])
{
    /* From the latest place to the first, so every list is in the order of the keys. */
    uint32_t lists[FR_DRAFT_ORDERS + 1][FR_DRAFT_CANDIDATES], sizes[FR_DRAFT_ORDERS + 1] = {0};
    for (uint32_t place = c->count + c->n; place-- > 0;) {
        const uint32_t key = ref_draft_key(c, place), m = key >> FR_DRAFT_PLACE_BITS;
        if (key && sizes[m] < FR_DRAFT_CANDIDATES)
            lists[m][sizes[m]++] = key;
    }
    uint32_t n = 0;
    for (uint32_t m = FR_DRAFT_ORDERS; m > 0; m--)
        for (uint32_t i = 0; i < sizes[m] && n < FR_DRAFT_CANDIDATES; i++)
            keys[n++] = lists[m][i];
    return n;
}

typedef struct candidate {
    uint32_t match, weight, length, tokens[FR_DRAFT_DEPTH];
} candidate;

static candidate read_candidate(const fr_draft_corpus *c, uint32_t key, uint32_t i)
{
    const uint32_t place = key & ((1u << FR_DRAFT_PLACE_BITS) - 1);
    const bool in_memory = place < c->count;
    const uint32_t match = key >> FR_DRAFT_PLACE_BITS, end = in_memory ? c->count : c->count + c->n;
    candidate r = {.match = match, .weight = (FR_DRAFT_WEIGHT << match) / ((i + 1) << (in_memory ? FR_DRAFT_MEMORY_SHIFT : 0))};
    while (r.length < FR_DRAFT_DEPTH && place + r.length < end) {
        const uint32_t at = place + r.length, token = in_memory ? memory_token(c, at) : c->tokens[at - c->count];
        if (token == FR_DRAFT_BREAK)
            break;
        r.tokens[r.length++] = token;
    }
    return r;
}

/* Tokens that two continuations begin with alike. */
static uint32_t common(const candidate *a, const candidate *b)
{
    uint32_t d = 0;
    while (d < a->length && d < b->length && a->tokens[d] == b->tokens[d])
        d++;
    return d;
}

/* A node is named by its first candidate and its depth; others with the same prefix are the same node. */
typedef struct scored {
    uint32_t score, candidate, depth;
} scored;

static uint32_t share_of(const candidate *list, uint32_t n, const uint32_t *alike, uint32_t depth)
{
    uint32_t evidence = 0, all = 0, best = 0;
    for (uint32_t j = 0; j < n; j++) {
        if (alike[j] < depth - 1 || list[j].length < depth)
            continue;
        best = list[j].match > best ? list[j].match : best;
        all += list[j].weight;
        evidence += alike[j] >= depth ? list[j].weight : 0;
    }
    return (evidence << FR_DRAFT_SHARE_BITS) / (all + (FR_DRAFT_WEIGHT << best));
}

static bool before(const scored *a, const scored *b)
{
    if (a->score != b->score)
        return a->score > b->score;
    return a->depth != b->depth ? a->depth < b->depth : a->candidate < b->candidate;
}

/* Puts a node into the list of the best `room` at its place. */
static uint32_t insert(scored *list, uint32_t n, uint32_t room, scored s)
{
    uint32_t at = n;
    while (at > 0 && before(&s, &list[at - 1]))
        at--;
    if (at >= room)
        return n;
    n = n < room ? n + 1 : room;
    memmove(list + at + 1, list + at, (n - 1 - at) * sizeof *list);
    list[at] = s;
    return n;
}

uint32_t ref_draft_tree(const fr_draft_corpus *c, const uint32_t *keys, uint32_t n_keys, uint32_t width, fr_draft_node *tree)
{
    candidate list[FR_DRAFT_CANDIDATES];
    uint32_t first[FR_DRAFT_CANDIDATES][FR_DRAFT_DEPTH + 1]; /* first candidate with this prefix: the node's name */
    for (uint32_t i = 0; i < n_keys; i++)
        list[i] = read_candidate(c, keys[i], i);

    scored best[FR_DRAFT_WIDTH];
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_keys; i++) {
        uint32_t alike[FR_DRAFT_CANDIDATES], score = FR_DRAFT_ROOT_SCORE;
        for (uint32_t j = 0; j < n_keys; j++)
            alike[j] = common(&list[i], &list[j]);
        for (uint32_t depth = 1; depth <= list[i].length; depth++) {
            first[i][depth] = 0;
            while (alike[first[i][depth]] < depth)
                first[i][depth]++;
            score = score * share_of(list, n_keys, alike, depth) >> FR_DRAFT_SHARE_BITS;
            if (first[i][depth] == i)
                n = insert(best, n, width - 1, (scored){score, i, depth});
        }
    }

    uint32_t index[FR_DRAFT_CANDIDATES][FR_DRAFT_DEPTH + 1]; /* in the tree, by name */
    tree[0] = (fr_draft_node){c->tokens[c->n - 1], 0, 0, n_keys ? list[0].match : 0};
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t i = best[k].candidate, depth = best[k].depth;
        index[i][depth] = k + 1;
        tree[k + 1] = (fr_draft_node){list[i].tokens[depth - 1], depth > 1 ? index[first[i][depth - 1]][depth - 1] : 0, depth,
                                      list[i].match};
    }
    return n + 1;
}

uint32_t ref_draft(const fr_draft_corpus *c, uint32_t width, fr_draft_node *tree)
{
    uint32_t keys[FR_DRAFT_CANDIDATES];
    const uint32_t n = ref_draft_match(c, keys);
    return ref_draft_tree(c, keys, n, width, tree);
}
