/* test_kernels.c: every kernel against its CPU twin, dispatch by dispatch, and the bits of whole steps against each other. */
#include <math.h>

#include "cli/host.h"
#include "ref/case.h"
#include "spec/draft.h"
#include "test/kernels_help.h"
#include "test/test.h"

/* ---- the table ---- */

static void llama(void)
{
    run_cases("llama.");
}

static void qwen2(void)
{
    run_cases("qwen2.");
}

static void pools(void)
{
    run_cases("pools.");
}

/* ---- what twins and comparison can see ---- */

enum { CODES, SCALES, VECTORS, ACT, WORK, KV, TREE, TOKENS, SOURCES };

typedef struct sight {
    const char *kernel;
    bool reads[SOURCES];
} sight;

static const sight sights[] = {
    {"embed", {[CODES] = true, [SCALES] = true, [VECTORS] = true}},
    {"qkv", {[CODES] = true, [SCALES] = true, [VECTORS] = true, [ACT] = true}},
    {"attend_split", {[WORK] = true, [KV] = true}},
    {"merge", {[WORK] = true}},
    {"attend_stream", {[WORK] = true, [KV] = true}},
    {"attend_head", {[WORK] = true, [KV] = true}},
    {"residual", {[CODES] = true, [SCALES] = true, [VECTORS] = true, [ACT] = true, [WORK] = true}},
    {"gateup", {[CODES] = true, [SCALES] = true, [ACT] = true}},
    {"head", {[CODES] = true, [SCALES] = true, [ACT] = true}},
    {"advance", {[WORK] = true}},
    {"draft_match", {[TOKENS] = true}},
    {"draft_tree", {[ACT] = true, [TOKENS] = true}},
    {"accept", {[WORK] = true, [TREE] = true}},
    {"compact", {[KV] = true, [TREE] = true}},
};

static uint32_t *source_of(checker *c, int source, size_t *n)
{
    rig *r = c->rig;
    const fr_pool *pool = &r->weights->pools[0];
    switch (source) {
    case CODES:
        *n = (size_t)(pool->code_bytes / 4);
        return r->pools[0];
    case SCALES:
        *n = (size_t)(pool->scale_bytes / 4);
        return r->pools[1];
    case VECTORS:
        *n = r->shape->rope_at + (size_t)r->shape->context * r->config->head_dim;
        return (uint32_t *)r->vectors;
    case TREE: /* but its size, the words before: of more nodes there is nothing */
        *n = (sizeof(fr_gpu_Tree) - offsetof(fr_gpu_Tree, came_from)) / 4;
        return rig_tree(r, &c->was)->came_from;
    case TOKENS:
        *n = r->context;
        return rig_tokens(r, &c->was);
    default:
        *n = rig_words(r, source == ACT ? REF_ACT : source == WORK ? REF_WORK : REF_KV);
        return rig_part(r, &c->was, source == ACT ? REF_ACT : source == WORK ? REF_WORK : REF_KV);
    }
}

/* Changes a bit of each word of a source, a span of words after the other, until the twin of the dispatch just run disagrees with the
 * kernel because of a word that it has to write: the changed words themselves do not count. */
static bool seen(checker *c, int source, uint32_t nodes, fr_tail tail, uint32_t index, uint32_t positions)
{
    size_t n;
    uint32_t *words = source_of(c, source, &n);
    const bool is_float = source == VECTORS || source == WORK, halves = source == SCALES || source == KV;
    const uint32_t change = is_float ? 0x00400000 : halves ? 0x0204 : 0x04; /* half a float; a few steps of an f16; two of a code */
    const size_t span = source == TREE ? 1 : n / 64 + 1; /* trees must stay trees */
    for (size_t from = 0, end; from < n; from = end) {
        end = n - from < span ? n : from + span;
        for (size_t i = from; i < end; i++)
            words[i] ^= change;
        CHECK(checker_expect(c, nodes, tail, index, positions));
        for (size_t i = from; i < end; i++) {
            const size_t place = source >= ACT ? (size_t)(words + i - c->was.words) : c->was.n;
            words[i] ^= change;
            if (place < c->was.n && c->kind[place] == REF_BITS && c->low[place] == (words[i] ^ change))
                c->low[place] = words[i]; /* what the kernel did not touch */
        }
        if (checker_wrong(c) < c->was.n)
            return true;
    }
    return false;
}

/* The dispatches of a step at position `POS`, one after the other. What the step drafts gives way to a tree that compact has work with. */
static void see_step(checker *c, uint32_t nodes, fr_tail tail)
{
    enum { POS = 40, CHILD = 3, POSITIONS = POS + 1 + FR_DRAFT_DEPTH };
    static const char *const names[SOURCES] = {"codes", "scales", "vectors", "act", "work", "kv", "the tree", "tokens"};
    rig *r = c->rig;
    CHECK(rig_prepare(r, nodes, tail));
    rig_scramble(r, &c->was, 1);
    rig_control(r, &c->was)->pos = POS;
    rig_control(r, &c->was)->end = POS + 1;
    for (uint32_t i = 0; i <= POS; i++)
        rig_tokens(r, &c->was)[i] = i % 8;
    rig_write(r, &c->was);
    for (uint32_t i = 0; i < fr_forward_trace_count(r->forward, nodes, tail); i++) {
        const fr_trace t = fr_forward_trace(r->forward, nodes, tail, i, POSITIONS);
        if (!t.x) /* left out at these positions */
            continue;
        size_t n = 0;
        while (n < sizeof sights / sizeof *sights && strcmp(sights[n].kernel, t.kernel))
            n++;
        CHECK_MSG(n < sizeof sights / sizeof *sights, "what %s reads is not in the table", t.kernel);
        if (!strcmp(t.kernel, "embed") && tail == FR_TAIL_TREE)
            rig_plant_tree(r, &c->was, RIG_STAR, nodes, 1);
        if (!strcmp(t.kernel, "accept"))
            rig_choose(r, &c->was, rig_head_tiles(r, nodes, tail), 0, rig_tree(r, &c->was)->token[CHILD]);
        rig_write(r, &c->was);
        CHECK_MSG(checker_run(c, "a step", nodes, tail, i, POSITIONS), "%s", r->error.text);
        for (int k = 0; k < SOURCES; k++)
            CHECK_MSG(!sights[n].reads[k] || seen(c, k, nodes, tail, i, POSITIONS), "%s: its twin does not look at %s", t.kernel, names[k]);
        checker_next(c);
    }
}

static void see_inputs(const rig_host *host, bool gpu_tiles)
{
    const rig_options options = {
        .model = {.type = "q4_1", .layers = 1, .dim = 32, .heads = 1, .ffn = 32, .vocab = 260}, .context = 64, .gpu_tiles = gpu_tiles};
    rig r;
    checker c;
    open_rig(&r, host, &options);
    CHECK(checker_open(&c, &r));
    see_step(&c, 1, FR_TAIL_EMIT);
    see_step(&c, 4, FR_TAIL_TREE);
    checker_close(&c);
    rig_close(&r);
}

static void twins_see_their_inputs(void)
{
    const rig_host host = open_host();
    see_inputs(&host, true);
    see_inputs(&host, false);
    fr_host_close(host.user);
}

static void every_stray_word_is_found(void)
{
    enum { N = 4 };
    const float half = 0.5f;
    uint32_t was[N] = {1, 2, 3, 4}, low[N], high[N], now[N];
    uint8_t kind[N] = {REF_BITS, REF_F32, REF_HALVES, REF_CODES};
    const ref_words w = {was, low, high, kind, N};
    memcpy(&low[1], &half, 4);
    high[0] = low[0] = 1;
    high[1] = low[1] + 8;
    low[2] = 0x3c00bc00; /* 1 and -1 */
    high[2] = 0x3c01bbff;
    low[3] = 0x80ff017f; /* -128, -1, 1, 127 */
    high[3] = 0x8100027f;
    memcpy(now, low, sizeof now);
    CHECK_INT(ref_first_wrong(&w, now), N);
    memcpy(now, high, sizeof now);
    CHECK_INT(ref_first_wrong(&w, now), N);
    static const struct {
        size_t word;
        uint32_t value;
    } wrong[] = {
        {0, 0},          {0, 2},          {1, 0x3effffff}, {1, 0x3f000009}, {1, 0x7fc00000}, {1, 0xbf000000},
        {2, 0x3c02bc00}, {2, 0x3bffbc00}, {2, 0x3c00bbfe}, {2, 0x3c00bc01}, {2, 0x7e00bc00}, {3, 0x80fe017f},
        {3, 0x7fff017f}, {3, 0x82ff017f}, {3, 0x80ff037f}, {3, 0x80ff017e},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy(now, low, sizeof now);
        now[wrong[i].word] = wrong[i].value;
        CHECK_MSG(ref_first_wrong(&w, now) == wrong[i].word, "0x%08x passes for word %zu", wrong[i].value, wrong[i].word);
    }
}

/* ---- the end of a step ---- */

typedef struct ending {
    const char *what;
    struct {
        uint32_t tile;
        float value, id, second;
    } tiles[2];
    uint32_t end_token, limit, emitted; /* 0: none; the context; 0 */
    uint32_t finished, token;        /* expected */
    float others;                    /* value of all other tiles; 0: -1000 */
} ending;

static const ending endings[] = {
    {"the largest wins", {{3, 2.5f, 200, 2}, {1, 2, 70, 1}}, 0, 0, 0, FR_RUN_ON, 200, 0},
    {"of equals the lower id", {{0, 2.5f, 9, 2.5f}, {4, 2.5f, 258, 1}}, 0, 0, 0, FR_RUN_ON, 9, 0},
    {"negative logits", {{2, -3, 150, -4}, {1, -2, 80, -5}}, 0, 0, 0, FR_RUN_ON, 80, 0},
    {"an end token is not appended", {{3, 2.5f, 200, 2}}, 200, 0, 0, FR_RUN_END, 0, 0},
    {"the limit", {{3, 2.5f, 200, 2}}, 0, 42, 0, FR_RUN_LIMIT, 200, 0},
    {"one before the limit", {{3, 2.5f, 200, 2}}, 0, 43, 0, FR_RUN_ON, 200, 0},
    {"the last place of the ring", {{3, 2.5f, 200, 2}}, 0, 0, FR_RING - 1, FR_RUN_ON, 200, 0},
    {"the ring begins again", {{3, 2.5f, 200, 2}}, 0, 0, FR_RING, FR_RUN_ON, 200, 0},
    {"infinity is no logit", {{3, INFINITY, 200, 2}}, 0, 0, 0, FR_RUN_NOT_FINITE, 0, 0},
    {"NaN is no logit", {{0}}, 0, 0, 0, FR_RUN_NOT_FINITE, 0, NAN},
};

static void set_tiles(rig *r, rig_snapshot *s, const ending *e)
{
    const uint32_t tiles = (r->config->vocab + 31) / 32; /* as many as there can be */
    float *head = (float *)rig_part(r, s, REF_WORK) + 4 * (size_t)r->shape->head_at;
    for (uint32_t i = 0; i < tiles; i++) {
        head[4 * i] = head[4 * i + 2] = e->others == 0 ? -1000 : e->others;
        head[4 * i + 1] = (float)(32 * i);
    }
    for (uint32_t i = 0; i < 2 && e->tiles[i].id > 0; i++) {
        float *tile = head + 4 * (size_t)e->tiles[i].tile;
        tile[0] = e->tiles[i].value;
        tile[1] = e->tiles[i].id;
        tile[2] = e->tiles[i].second;
    }
}

static void check_ending(checker *c, const ending *e)
{
    rig *r = c->rig;
    rig_scramble(r, &c->was, 5);
    set_tiles(r, &c->was, e);
    fr_gpu_Control *control = rig_control(r, &c->was);
    *control = (fr_gpu_Control){
        .pos = 40, .end = 41, .limit = e->limit ? e->limit : r->context, .emitted = e->emitted, .steps = 7, .n_ends = 8};
    for (uint32_t i = 0; i < 8; i++)
        control->ends[i] = e->end_token && i == 7 ? e->end_token : 300 + i;
    rig_write(r, &c->was);
    const uint32_t last = fr_forward_trace_count(r->forward, 1, FR_TAIL_EMIT) - 1;
    CHECK_MSG(checker_run(c, e->what, 1, FR_TAIL_EMIT, last, 41), "%s", r->error.text);
    const fr_gpu_Control *after = rig_control(r, &c->now);
    const bool appended = e->token != 0;
    CHECK_INT(after->finished, e->finished);
    CHECK_INT(after->pos, 41);
    CHECK_INT(after->steps, 8);
    CHECK_INT(after->end, appended ? 42 : 41);
    CHECK_INT(after->emitted, e->emitted + appended);
    if (appended) {
        CHECK_INT(rig_tokens(r, &c->now)[41], e->token);
        CHECK_INT(rig_part(r, &c->now, REF_STATE)[sizeof *after / 4 + e->emitted % FR_RING], e->token);
    }
}

static void endings_of_a_step(void)
{
    const rig_host host = open_host();
    const rig_options options = {.model = {.type = "q8_0", .layers = 1, .dim = 32, .heads = 1, .ffn = 32, .vocab = 331}, .context = 64};
    rig r;
    checker c;
    open_rig(&r, &host, &options);
    CHECK(checker_open(&c, &r) && rig_prepare(&r, 1, FR_TAIL_EMIT));
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        check_ending(&c, &endings[i]);
    checker_close(&c);
    rig_close(&r);
    fr_host_close(host.user);
}

/* ---- the invariant ---- */

enum { TEXT = 70 }; /* tokens: two chunks and a bit */

/* What a run over the text leaves: for every token x, its quantised forms and its score, then the cache. */
typedef struct record {
    uint32_t *words;
    size_t n, per_token;
} record;

static size_t words_per_token(const rig *r)
{
    return bits_words(r) + 4;
}

static void take_token(const rig *r, rig_snapshot *s, uint32_t node, uint32_t *out)
{
    bits_take(r, s, node, out);
    memcpy(out + bits_words(r), rig_part(r, s, REF_WORK) + 4 * ((size_t)r->shape->score_at + node), 16);
}

static void one_step(rig *r, rig_snapshot *s, uint32_t pos, uint32_t count, bool wide, fr_tail tail)
{
    const uint32_t nodes = wide ? fr_forward_prefill_nodes(r->forward) : 1;
    const fr_gpu_Control control = {.pos = pos, .end = pos + count, .limit = UINT32_MAX};
    CHECK_MSG(rig_prepare(r, nodes, tail), "%s", r->error.text);
    fr_gpu_write(r->gpu, fr_forward_state(r->forward), 0, &control, sizeof control);
    fr_gpu_begin(r->gpu);
    fr_forward_step(r->forward, nodes, tail, pos + count);
    fr_gpu_submit(r->gpu);
    CHECK_MSG(rig_read(r, s), "%s", r->error.text);
    CHECK_INT(rig_control(r, s)->pos, pos + count);
}

/* Runs over the text in steps of `widths` tokens, which add up to TEXT; all 1 is decoding. */
static record run_text(rig *r, const uint32_t *widths, fr_tail tail)
{
    rig_snapshot s;
    uint32_t tokens[TEXT];
    CHECK(rig_snapshot_new(r, &s));
    rig_write(r, &s); /* all zero: places that no token fills must be equal too */
    for (uint32_t i = 0; i < TEXT; i++)
        tokens[i] = rig_random(11, i) % r->config->vocab;
    fr_gpu_write(r->gpu, fr_forward_state(r->forward), fr_forward_tokens_offset(), tokens, sizeof tokens);
    const size_t cache = r->n_kv * rig_words(r, REF_KV);
    record out = {.per_token = words_per_token(r), .n = TEXT * words_per_token(r) + cache};
    out.words = calloc(out.n, sizeof *out.words);
    CHECK(out.words);
    for (uint32_t pos = 0; pos < TEXT;) {
        const uint32_t count = widths ? *widths++ : 1;
        one_step(r, &s, pos, count, widths != NULL, tail);
        for (uint32_t node = 0; node < count; node++)
            take_token(r, &s, node, out.words + (pos + node) * out.per_token);
        pos += count;
    }
    memcpy(out.words + TEXT * out.per_token, rig_part(r, &s, REF_KV), 4 * cache);
    free(s.words);
    return out;
}

static void check_same(const char *what, const record *a, const record *b)
{
    CHECK(a->n == b->n && a->per_token == b->per_token);
    for (size_t i = 0; i < a->n; i++) {
        if (a->words[i] == b->words[i])
            continue;
        if (i >= TEXT * a->per_token)
            test_fail(__FILE__, __LINE__, "%s: word %zu of the cache is 0x%08x, decoding gives 0x%08x", what, i - TEXT * a->per_token,
                      b->words[i], a->words[i]);
        test_fail(__FILE__, __LINE__, "%s: token %zu, word %zu of its results is 0x%08x, decoding gives 0x%08x", what, i / a->per_token,
                  i % a->per_token, b->words[i], a->words[i]);
    }
}

static const uint32_t widths[] = {31, 5, 1, 2, 31}; /* of the steps of a prompt, TEXT together */

/* Compares the model's dispatches with their twins; then decodes the text and runs over it in wide steps. Both must give the bits of
 * `decoded`, or set it if it is empty. */
static void all_ways(const rig_host *host, const char *name, const kernel_case *k, record *decoded)
{
    uint32_t dispatches = 0;
    rig r;
    open_rig(&r, host, &k->options);
    CHECK_MSG(kernel_case_steps(&r, k, &dispatches), "%s: %s", name, r.error.text);
    printf("  %s: %u dispatches\n", name, dispatches);
    for (int wide = 0; wide < 2; wide++) {
        char what[96];
        record now = run_text(&r, wide ? widths : NULL, FR_TAIL_SCORE);
        if (!decoded->words) {
            *decoded = now;
            continue;
        }
        snprintf(what, sizeof what, "%s, %s", name, wide ? "prefill" : "decode");
        check_same(what, decoded, &now);
        free(now.words);
    }
    rig_close(&r);
}

/* A model with matrices of all stored types, with the kernels that GPUs get and with those that CPU adapters get, which have their weights
 * in one place. */
static void prefill_equals_decode(void)
{
    const rig_host host = open_host();
    const kernel_case *found = kernel_cases;
    while (strcmp(found->name, "gpu.lanes"))
        found++;
    kernel_case k = *found;
    record decoded = {0};
    all_ways(&host, "kernels of GPUs, weights in parts", &k, &decoded);
    CHECK(memcmp(decoded.words + 50 * decoded.per_token, decoded.words + 51 * decoded.per_token, 4 * decoded.per_token) != 0);
    k.options.gpu_tiles = false;
    k.options.pool_bytes = 0;
    all_ways(&host, "kernels of the adapter, weights in one place", &k, &decoded);
    free(decoded.words);
    fr_host_close(host.user);
}

/* An accepted draft moves in all of them, across a block of slots. */
static void moves_in_every_buffer(rig *r)
{
    enum { N = 4, POS = 30, TAKEN = 3 };
    checker c;
    CHECK_MSG(checker_open(&c, r) && rig_prepare(r, N, FR_TAIL_TREE), "%s", r->error.text);
    rig_scramble(r, &c.was, 9);
    rig_control(r, &c.was)->pos = POS;
    rig_control(r, &c.was)->end = POS + 1;
    rig_plant_tree(r, &c.was, RIG_STAR, N, 9);
    rig_tree(r, &c.was)->base = POS;
    rig_tree(r, &c.was)->moved = 1;
    rig_tree(r, &c.was)->came_from[0] = TAKEN;
    rig_write(r, &c.was);
    const uint32_t n = fr_forward_trace_count(r->forward, N, FR_TAIL_TREE);
    for (uint32_t i = n - r->n_kv; i < n; i++) {
        CHECK(!strcmp(fr_forward_trace(r->forward, N, FR_TAIL_TREE, i, POS + 9).kernel, "compact"));
        CHECK_MSG(checker_run(&c, "two buffers", N, FR_TAIL_TREE, i, POS + 9), "%s", r->error.text);
        checker_next(&c);
    }
    checker_close(&c);
}

/* A cache too large for one binding, 70 MiB a layer where 128 MiB are allowed: other buffers, other places, equal results. */
static void cache_in_several_buffers(void)
{
    const rig_host host = open_host();
    rig_options o = {
        .model = {.type = "q8_0", .dim = 64, .heads = 8, .kv_heads = 8, .head_dim = 128, .ffn = 64}, .context = 128, .portable = true};
    record records[2];
    for (int large = 0; large < 2; large++) {
        rig r;
        o.context = large ? 17920 : 128;
        o.model.context = 32768;
        open_rig(&r, &host, &o);
        CHECK_INT(r.n_kv, large ? 2 : 1);
        records[large] = run_text(&r, widths, FR_TAIL_NONE);
        records[large].n = TEXT * records[large].per_token; /* the caches have other shapes */
        if (large)
            moves_in_every_buffer(&r);
        rig_close(&r);
    }
    check_same("a large context", &records[0], &records[1]);
    free(records[0].words);
    free(records[1].words);
    fr_host_close(host.user);
}

const fr_test kernels_tests[] = {
    {"kernels.llama", "every kernel of Llama models against its CPU twin", llama},
    {"kernels.qwen2", "every kernel of Qwen2 models against its CPU twin", qwen2},
    {"kernels.pools", "the same where each matrix lies in several buffers", pools},
    {"kernels.endings_of_a_step", "next token, end tokens, limit, ring, and logits that are no numbers", endings_of_a_step},
    {"kernels.prefill_equals_decode", "twins agree; steps of any width, tiles and weight layouts give the bits of single tokens",
     prefill_equals_decode},
    {"kernels.cache_in_several_buffers",
     "a context whose keys and values need several buffers gives the bits of a small one; drafts move in each", cache_in_several_buffers},
    {"kernels.twins_see_their_inputs", "a twin disagrees with its kernel where an input is changed", twins_see_their_inputs},
    {"kernels.every_stray_word_is_found", "the comparison finds whatever is out of its range", every_stray_word_is_found},
    {0},
};
