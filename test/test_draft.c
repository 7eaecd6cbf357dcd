/* The drafter's twin against its definition in src/spec/draft.h, written a second time in the plainest way, and what every tree must be. */
#include "test/test.h"

#include "ref/ref_draft.h"

/* ---- the definition, word by word: whole lists, no tricks ---- */

enum { MOST = 256 }; /* tokens of memory and sequence together */

static uint32_t next_random(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    return *seed ^= *seed << 5;
}

typedef struct plain {
    uint32_t corpus[MOST]; /* memory, a break, the sequence; a break ends everything */
    uint32_t n; /* of the corpus */
    uint32_t memory; /* of these, in memory */
} plain;

/* The place in `corpus`, which has one break more between memory and sequence than places have. */
static uint32_t at(const plain *p, uint32_t place)
{
    return place < p->memory ? place : place + 1;
}

static plain lay_out(const fr_draft_corpus *c)
{
    plain p = {.memory = c->count};
    for (uint32_t i = 0; i < c->count; i++)
        p.corpus[p.n++] = c->ring[(c->head + c->capacity - c->count + i) % c->capacity];
    p.corpus[p.n++] = FR_DRAFT_BREAK;
    for (uint32_t i = 0; i < c->n; i++)
        p.corpus[p.n++] = c->tokens[i];
    return p;
}

static int falling(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

static uint32_t plain_keys(const plain *p, uint32_t keys[MOST])
{
    uint32_t n = 0;
    for (uint32_t place = 0; place < p->n - 1; place++) {
        uint32_t m = 0;
        const uint32_t i = at(p, place);
        while (m < 8 && m < i && m < p->n && p->corpus[i - 1 - m] != FR_DRAFT_BREAK && p->corpus[i - 1 - m] == p->corpus[p->n - 1 - m])
            m++;
        if (m && p->corpus[i] != FR_DRAFT_BREAK)
            keys[n++] = m << 28 | place;
    }
    qsort(keys, n, sizeof *keys, falling);
    return n < 64 ? n : 64;
}

typedef struct plain_node {
    uint32_t path[8], depth, score, first, match;
    bool taken;
} plain_node;

static bool begins(const plain *p, uint32_t key, const uint32_t *path, uint32_t length)
{
    const uint32_t i = at(p, key & 0xfffffff);
    for (uint32_t d = 0; d < length; d++)
        if (i + d >= p->n || p->corpus[i + d] == FR_DRAFT_BREAK || p->corpus[i + d] != path[d])
            return false;
    return true;
}

/* Weight of the candidates that begin with the path and have a token at `depth`; `*longest` is their longest match. */
static uint32_t weigh(const plain *p, const uint32_t *keys, uint32_t n, const uint32_t *path, uint32_t length, uint32_t depth,
                      uint32_t *longest)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t place = keys[i] & 0xfffffff, match = keys[i] >> 28, more = at(p, place) + depth - 1;
        if (!begins(p, keys[i], path, length) || more >= p->n || p->corpus[more] == FR_DRAFT_BREAK)
            continue;
        uint32_t weight = 512;
        for (uint32_t k = 0; k < match; k++)
            weight *= 2;
        sum += place < p->memory ? weight / (4 * i + 4) : weight / (i + 1);
        *longest = match > *longest ? match : *longest;
    }
    return sum;
}

static uint32_t add_children(const plain *p, const uint32_t *keys, uint32_t n, const plain_node *parent, plain_node *nodes, uint32_t count)
{
    const uint32_t depth = parent->depth + 1, start = count;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t place = at(p, keys[i] & 0xfffffff) + depth - 1;
        if (!begins(p, keys[i], parent->path, depth - 1) || place >= p->n || p->corpus[place] == FR_DRAFT_BREAK)
            continue;
        bool known = false;
        for (uint32_t k = start; k < count; k++)
            known |= nodes[k].path[depth - 1] == p->corpus[place];
        if (known)
            continue;
        plain_node node = *parent;
        node.path[depth - 1] = p->corpus[place];
        node.depth = depth;
        node.first = i;
        node.match = keys[i] >> 28;
        uint32_t longest = 0, ignored = 0, novel = 512;
        const uint32_t evidence = weigh(p, keys, n, node.path, depth, depth, &ignored);
        const uint32_t all = weigh(p, keys, n, parent->path, depth - 1, depth, &longest);
        for (uint32_t k = 0; k < longest; k++)
            novel *= 2;
        const uint64_t share = ((uint64_t)evidence << 12) / (all + novel);
        CHECK(evidence <= all && all + novel < 1 << 20);
        node.score = (uint32_t)(parent->score * share >> 12);
        nodes[count++] = node;
    }
    return count;
}

static uint32_t plain_tree(const fr_draft_corpus *c, uint32_t width, fr_draft_node *tree)
{
    static plain_node nodes[64 * 8 + 1];
    uint32_t keys[MOST], picked[FR_DRAFT_WIDTH], count = 1;
    const plain p = lay_out(c);
    const uint32_t n = plain_keys(&p, keys);
    nodes[0] = (plain_node){.score = (1 << 20) - 1};
    for (uint32_t k = 0; k < count; k++)
        if (nodes[k].depth < 8)
            count = add_children(&p, keys, n, &nodes[k], nodes, count);
    tree[0] = (fr_draft_node){c->tokens[c->n - 1], 0, 0, n ? keys[0] >> 28 : 0};
    picked[0] = 0;
    uint32_t size = 1;
    for (; size < width; size++) {
        uint32_t best = 0;
        for (uint32_t k = 1; k < count; k++) {
            const plain_node *a = &nodes[k], *b = &nodes[best];
            if (a->taken)
                continue;
            if (!best || a->score > b->score ||
                (a->score == b->score && (a->depth < b->depth || (a->depth == b->depth && a->first < b->first))))
                best = k;
        }
        if (!best)
            break;
        nodes[best].taken = true;
        picked[size] = best;
        uint32_t parent = FR_DRAFT_WIDTH;
        for (uint32_t k = 0; k < size; k++)
            if (nodes[picked[k]].depth + 1 == nodes[best].depth &&
                !memcmp(nodes[picked[k]].path, nodes[best].path, 4 * nodes[picked[k]].depth))
                parent = k;
        CHECK_MSG(parent < FR_DRAFT_WIDTH, "the definition puts a child before its parent");
        tree[size] = (fr_draft_node){nodes[best].path[nodes[best].depth - 1], parent, nodes[best].depth, nodes[best].match};
    }
    return size;
}

/* ---- random contexts ---- */

typedef struct context {
    uint32_t ring[MOST], tokens[MOST];
    fr_draft_corpus corpus;
} context;

/* Small alphabets and copied stretches, so that matches of all lengths come; memory of runs, in a ring that has wrapped or not. */
static void make_context(context *c, uint32_t *seed)
{
    const uint32_t alphabet = 1 + next_random(seed) % 6, capacity = 1 + next_random(seed) % 100;
    c->corpus = (fr_draft_corpus){
        c->ring, capacity, next_random(seed) % capacity, next_random(seed) % (capacity + 1), c->tokens, 1 + next_random(seed) % 120};
    for (uint32_t i = 0; i < capacity; i++)
        c->ring[i] = next_random(seed) % 12 == 0 ? FR_DRAFT_BREAK : next_random(seed) % alphabet;
    for (uint32_t i = 0; i < c->corpus.n; i++)
        c->tokens[i] = next_random(seed) % alphabet;
    for (uint32_t copies = next_random(seed) % 4, n = c->corpus.n; copies > 0 && n > 20; copies--) {
        const uint32_t from = next_random(seed) % (n - 20), to = next_random(seed) % (n - 20);
        memmove(c->tokens + to, c->tokens + from, 20 * sizeof *c->tokens);
    }
}

static void check_same(const fr_draft_node *a, uint32_t n, const fr_draft_node *b, uint32_t m, uint32_t round)
{
    CHECK_MSG(n == m, "context %u: %u nodes, by the definition %u", round, n, m);
    for (uint32_t k = 0; k < n; k++)
        CHECK_MSG(!memcmp(&a[k], &b[k], sizeof *a),
                  "context %u, node %u: token %u parent %u depth %u match %u, by the definition %u %u %u %u", round, k, a[k].token,
                  a[k].parent, a[k].depth, a[k].match, b[k].token, b[k].parent, b[k].depth, b[k].match);
}

static void as_defined(void)
{
    uint32_t seed = 1;
    static context c;
    for (uint32_t round = 0; round < 3000; round++) {
        fr_draft_node got[FR_DRAFT_WIDTH], want[FR_DRAFT_WIDTH];
        make_context(&c, &seed);
        const uint32_t width = 1 + next_random(&seed) % FR_DRAFT_WIDTH, n = ref_draft(&c.corpus, width, got);
        check_same(got, n, want, plain_tree(&c.corpus, width, want), round);
    }
}

static void properties(void)
{
    uint32_t seed = 2, deepest = 0, full = 0;
    static context c;
    for (uint32_t round = 0; round < 5000; round++) {
        fr_draft_node tree[FR_DRAFT_WIDTH];
        make_context(&c, &seed);
        const uint32_t width = 1 + next_random(&seed) % FR_DRAFT_WIDTH, n = ref_draft(&c.corpus, width, tree);
        CHECK(n >= 1 && n <= width);
        CHECK(tree[0].token == c.tokens[c.corpus.n - 1] && tree[0].depth == 0 && tree[0].parent == 0);
        for (uint32_t k = 1; k < n; k++) {
            CHECK(tree[k].parent < k);
            CHECK_INT(tree[k].depth, tree[tree[k].parent].depth + 1);
            CHECK(tree[k].depth <= FR_DRAFT_DEPTH);
            CHECK(tree[k].match >= 1 && tree[k].match <= tree[0].match && tree[k].token != FR_DRAFT_BREAK);
            CHECK(tree[k].parent == 0 || tree[k].match <= tree[tree[k].parent].match);
            for (uint32_t j = 1; j < k; j++)
                CHECK(tree[j].parent != tree[k].parent || tree[j].token != tree[k].token);
            deepest = tree[k].depth > deepest ? tree[k].depth : deepest;
        }
        full += n == FR_DRAFT_WIDTH;
    }
    CHECK_INT(deepest, FR_DRAFT_DEPTH);
    CHECK(full > 20); /* the contexts fill wide trees, too */
}

static void narrow_begins_wide(void)
{
    uint32_t seed = 3;
    static context c;
    for (uint32_t round = 0; round < 500; round++) {
        fr_draft_node wide[FR_DRAFT_WIDTH], tree[FR_DRAFT_WIDTH];
        make_context(&c, &seed);
        const uint32_t n = ref_draft(&c.corpus, FR_DRAFT_WIDTH, wide);
        for (uint32_t width = 1; width < FR_DRAFT_WIDTH; width++)
            check_same(tree, ref_draft(&c.corpus, width, tree), wide, n < width ? n : width, round);
    }
}

/* The same memory at every place of the ring. */
static void ring_turns(void)
{
    static const uint32_t memory[] = {7, 1, 2, 3, 4, FR_DRAFT_BREAK, 1, 2, 5, 6, FR_DRAFT_BREAK}, tokens[] = {9, 7, 1, 2};
    enum { COUNT = sizeof memory / sizeof *memory, CAPACITY = 16 };
    fr_draft_node want[FR_DRAFT_WIDTH], got[FR_DRAFT_WIDTH];
    const uint32_t n = ref_draft(&(fr_draft_corpus){memory, COUNT, 0, COUNT, tokens, 4}, FR_DRAFT_WIDTH, want);
    CHECK_INT(n, 5); /* 3 4 and 5 6 */
    for (uint32_t head = 0; head < CAPACITY; head++) {
        uint32_t ring[CAPACITY];
        for (uint32_t i = 0; i < CAPACITY; i++)
            ring[i] = 2; /* what lies outside of memory must not count */
        for (uint32_t i = 0; i < COUNT; i++)
            ring[(head + CAPACITY - COUNT + i) % CAPACITY] = memory[i];
        check_same(got, ref_draft(&(fr_draft_corpus){ring, CAPACITY, head, COUNT, tokens, 4}, FR_DRAFT_WIDTH, got), want, n, head);
    }
}

/* Worked by hand. Candidates: 4 (after 2 3, match 2, weight 2048), 5 (after 3, match 1, weight 1024 / 2). First level: 2048 and 512 of 2560
 * + 2048 = 4608: shares 1820 and 455, scores 465919 and 116479. Below 4 there is one candidate, and half the score at each level: 232959
 * and 116479. So 5 goes before the third level of 4, which has an equal score: it is shallower. Then the levels below 5. */
static void by_hand(void)
{
    static const uint32_t tokens[] = {3, 5, 2, 3, 4, 2, 3};
    static const fr_draft_node want[] = {{3, 0, 0, 2}, {4, 0, 1, 2}, {2, 1, 2, 2}, {5, 0, 1, 1}, {3, 2, 3, 2}, {2, 3, 2, 1}, {3, 5, 3, 1}};
    uint32_t keys[FR_DRAFT_CANDIDATES];
    fr_draft_node tree[FR_DRAFT_WIDTH];
    const fr_draft_corpus c = {NULL, 0, 0, 0, tokens, 7};
    CHECK_INT(ref_draft_match(&c, keys), 2);
    CHECK_INT(keys[0], 2u << 28 | 4);
    CHECK_INT(keys[1], 1u << 28 | 1);
    check_same(tree, ref_draft(&c, 7, tree), want, 7, 0);
}

static void nothing_known(void)
{
    static const uint32_t tokens[] = {4, 5, 6}, memory[] = {6, FR_DRAFT_BREAK};
    fr_draft_node tree[FR_DRAFT_WIDTH];
    CHECK_INT(ref_draft(&(fr_draft_corpus){NULL, 0, 0, 0, tokens, 3}, FR_DRAFT_WIDTH, tree), 1);
    CHECK_INT(tree[0].token, 6);
    CHECK_INT(tree[0].match, 0);
    CHECK_INT(ref_draft(&(fr_draft_corpus){NULL, 0, 0, 0, tokens, 1}, FR_DRAFT_WIDTH, tree), 1);
    CHECK_INT(ref_draft(&(fr_draft_corpus){memory, 2, 0, 2, tokens, 3}, FR_DRAFT_WIDTH, tree), 1); /* nothing behind the match */
}

/* The largest weights that can meet, and the width of every intermediate value. */
static void no_overflow(void)
{
    static uint32_t tokens[4096];
    fr_draft_node tree[FR_DRAFT_WIDTH];
    const uint32_t n = ref_draft(&(fr_draft_corpus){NULL, 0, 0, 0, tokens, 4096}, FR_DRAFT_WIDTH, tree);
    CHECK_INT(n, 9); /* a chain: one token over and over */
    for (uint32_t k = 1; k < n; k++)
        CHECK(tree[k].parent == k - 1 && tree[k].match == 8);
    uint64_t sum = (uint64_t)FR_DRAFT_WEIGHT << FR_DRAFT_ORDERS;
    for (uint32_t i = 0; i < FR_DRAFT_CANDIDATES; i++)
        sum += (FR_DRAFT_WEIGHT << FR_DRAFT_ORDERS) / (i + 1);
    CHECK(sum < 1 << FR_DRAFT_SUM_BITS);
    CHECK(FR_DRAFT_SUM_BITS + FR_DRAFT_SHARE_BITS == 32 && FR_DRAFT_ROOT_SCORE < 1 << FR_DRAFT_SUM_BITS);
}

const fr_test draft_tests[] = {
    {"draft.by_hand", "keys and tree of a short sequence, worked out on paper", by_hand},
    {"draft.as_defined", "3000 random contexts: the twin's trees are those of the definition, evaluated in the plainest way", as_defined},
    {"draft.properties", "parents first, no child twice, at most N nodes and 8 levels", properties},
    {"draft.narrow_begins_wide", "every narrower tree is the beginning of the widest", narrow_begins_wide},
    {"draft.ring_turns", "the place of memory in its ring does not matter", ring_turns},
    {"draft.nothing_known", "no match, one token, a match with nothing behind it: the root alone", nothing_known},
    {"draft.no_overflow", "the heaviest evidence stays in 32 bits", no_overflow},
    {0},
};
