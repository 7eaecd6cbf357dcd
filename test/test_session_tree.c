/* test_session_tree.c: mode tree gives the tokens of greedy, whatever ends a request and wherever. Prompts repeat themselves, so that
 * drafts are often accepted; the model is random, so that as many are not. */
#include "test/session_rig.h"

enum { PROMPTS = 200, MOST = 100 };

/* The kernels of every width, compiled: else plain steps would be taken meanwhile, and short requests see no tree. */
static void prepare(session_rig *r, uint32_t step)
{
    for (uint32_t width = 2; width <= 32; width *= step)
        session_prepare(r, width);
}

static uint32_t next(uint32_t *seed)
{
    return (*seed = *seed * 1664525u + 1013904223u) >> 16;
}

/* Of 1 to MOST tokens, from an alphabet of 2 to 17. */
static size_t repetitive(uint32_t *ids, uint32_t seed)
{
    const uint32_t letters = 2 + next(&seed) % 16;
    const size_t n = 1 + next(&seed) % MOST;
    for (size_t i = 0; i < n; i++)
        ids[i] = i > 8 && next(&seed) % 4 ? ids[i - 1 - next(&seed) % 8] : 32 + next(&seed) % letters;
    return n;
}

typedef struct counts {
    uint32_t accepted, rejected, ended, limited; /* the last two: while drafts of the same request were accepted */
} counts;

static void one_prompt(session_rig *r, uint32_t i, uint32_t width, counts *c)
{
    uint32_t ids[CONTEXT], want[CONTEXT], got[CONTEXT], seed = i * 77 + 5;
    const size_t n = repetitive(ids, i);
    const uint32_t most = 1 + next(&seed) % 40;
    const fr_request greedy = {
        .mode = FR_MODE_GREEDY, .max_tokens = most, .ignore_eos = i % 3 == 0, .scope = i / 2 % 2 ? FR_SCOPE_NONE : FR_SCOPE_ALL};
    const size_t n_want = session_generate(r, ids, n, &greedy, want);
    const fr_finish finish = fr_finish_reason(r->engine);
    fr_request tree = greedy;
    tree.mode = FR_MODE_TREE;
    tree.width = width;
    tree.window = 1u << i / 5 % 4;
    if (i % 2)
        fr_reset(r->engine);
    char what[96];
    snprintf(what, sizeof what, "prompt %u of %zu tokens, %u nodes, W = %u", i, n, tree.width, tree.window);
    session_same(want, n_want, got, session_generate(r, ids, n, &tree, got), what);
    CHECK_MSG(fr_finish_reason(r->engine) == finish, "%s: finish reason %d instead of %d", what, fr_finish_reason(r->engine), finish);
    const uint32_t accepted = (uint32_t)fr_stat(r->engine, FR_STAT_ACCEPTED), drafted = (uint32_t)fr_stat(r->engine, FR_STAT_DRAFTED);
    CHECK_INT(fr_stat(r->engine, FR_STAT_STEPS) + accepted, n_want + (finish == FR_FINISH_STOP));
    c->accepted += accepted;
    c->rejected += drafted - accepted;
    c->ended += accepted && finish == FR_FINISH_STOP;
    c->limited += accepted && finish == FR_FINISH_LENGTH;
}

static void many_prompts(session_rig *r)
{
    counts c = {0};
    for (uint32_t i = 0; i < PROMPTS; i++)
        one_prompt(r, i, 2u << i % 5, &c);
    printf("  %u drafts accepted, %u not; with accepted drafts %u ended by themselves, %u at their limit\n", c.accepted, c.rejected,
           c.ended, c.limited);
    CHECK(c.accepted > 100 && c.rejected > 100 && c.ended > 0 && c.limited > 20);
}

/* On WebGPU's default limits, without subgroups, with biases and sizes that no tile divides. */
static void portable(void)
{
    session_rig r = session_open(&session_portable, true);
    counts c = {0};
    prepare(&r, 4);
    for (uint32_t i = 0; i < 20; i++)
        one_prompt(&r, i, 2u << i % 3 * 2, &c);
    CHECK(c.accepted > 0 && c.rejected > 0);
    session_close(&r);
}

/* Up to the last token of the context, where a tree has less and less room. */
static void full_context(session_rig *r)
{
    for (uint32_t left = 1; left <= 12; left++) {
        uint32_t ids[CONTEXT], want[CONTEXT], got[CONTEXT];
        for (uint32_t i = 0; i < CONTEXT - left; i++)
            ids[i] = 40 + i % 3;
        const fr_request greedy = {.mode = FR_MODE_GREEDY, .ignore_eos = true};
        const fr_request tree = {.mode = FR_MODE_TREE, .ignore_eos = true, .width = 2u << left % 5, .window = 4};
        CHECK_INT(session_generate(r, ids, CONTEXT - left, &greedy, want), left);
        session_same(want, left, got, session_generate(r, ids, CONTEXT - left, &tree, got), "a full context");
        CHECK_INT(fr_finish_reason(r->engine), FR_FINISH_LENGTH);
    }
}

/* What a tree leaves in the cache is what a linear decode leaves: the next request builds on it. */
static void cache_afterwards(session_rig *r)
{
    uint32_t ids[CONTEXT], first[CONTEXT], want[CONTEXT], got[CONTEXT];
    const fr_request greedy = {.mode = FR_MODE_GREEDY, .max_tokens = 30, .ignore_eos = true};
    const fr_request tree = {.mode = FR_MODE_TREE, .max_tokens = 30, .ignore_eos = true, .width = 8, .window = 2};
    for (uint32_t i = 0; i < 6; i++) {
        const size_t n = repetitive(ids, 1000 + i);
        fr_reset(r->engine);
        CHECK_INT(session_generate(r, ids, n, &tree, first), 30);
        memcpy(ids + n, first, sizeof *first * 30);
        const size_t n_want = session_generate(r, ids, n + 20, &greedy, want); /* goes on where the tree was */
        CHECK(fr_stat(r->engine, FR_STAT_CACHED_TOKENS) == (double)(n + 19));
        fr_reset(r->engine);
        session_same(want, n_want, got, session_generate(r, ids, n + 20, &greedy, got), "on the cache of a tree");
    }
}

static void aborts(session_rig *r)
{
    uint32_t ids[CONTEXT], want[CONTEXT], got[CONTEXT];
    const size_t n = repetitive(ids, 12);
    const fr_request greedy = {.mode = FR_MODE_GREEDY, .max_tokens = 40, .ignore_eos = true};
    const fr_request tree = {.mode = FR_MODE_TREE, .max_tokens = 40, .ignore_eos = true, .window = 2};
    session_generate(r, ids, n, &greedy, want);
    for (int polls = 0; polls < 30; polls += 5) {
        fr_reset(r->engine);
        CHECK_INT(fr_generate(r->engine, ids, n, &tree), FR_OK);
        session_abort(r, polls);
        size_t so_far;
        const uint32_t *tokens = fr_tokens(r->engine, &so_far);
        CHECK(so_far <= 40);
        session_same(want, so_far, tokens, so_far, "before the abort");
        session_same(want, 40, got, session_generate(r, ids, n, &tree, got), "after the abort");
    }
}

/* Without fr_prepare() a request begins with plain steps and goes on with trees once their kernels are there, somewhere in the middle.
 * Those of a model that no other test has, so that they are not there yet. */
static void mixed_steps(void)
{
    static const tiny_model own = {.layers = 1, .ffn = 128, .vocab = 340, .seed = 4};
    session_rig opened = session_engine(session_device(), CONTEXT, false), *r = &opened;
    session_feed_model(r, &own);
    enum { TRIES = 5000 };
    uint32_t ids[CONTEXT], want[CONTEXT], got[CONTEXT];
    const size_t n = repetitive(ids, 31);
    const fr_request greedy = {.mode = FR_MODE_GREEDY, .max_tokens = 50, .ignore_eos = true};
    const fr_request tree = {.mode = FR_MODE_TREE, .max_tokens = 50, .ignore_eos = true, .width = 4, .window = 2};
    session_generate(r, ids, n, &greedy, want);
    double trees = 0;
    for (int i = 0; i < TRIES && trees == 0; i++) {
        session_same(want, 50, got, session_generate(r, ids, n, &tree, got), "plain steps, then trees");
        trees = fr_stat(r->engine, FR_STAT_TREE_STEPS);
    }
    CHECK(trees > 0 && fr_stat(r->engine, FR_STAT_STEPS) > trees);
    session_close(r);
}

/* One engine for all: five widths take longer to compile than the requests run. */
static void equals_greedy(void)
{
    mixed_steps();
    session_rig r = session_open(&session_small, false);
    prepare(&r, 2);
    many_prompts(&r);
    full_context(&r);
    cache_afterwards(&r);
    aborts(&r);
    session_close(&r);
}

static void refused(void)
{
    session_rig r = session_open(&session_small, false);
    const uint32_t ids[2] = {40, 41};
    static const uint32_t widths[] = {1, 3, 12, 33, 64};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const fr_request q = {.mode = FR_MODE_TREE, .width = widths[i]};
        CHECK_INT(fr_generate(r.engine, ids, 2, &q), FR_BAD_ARGUMENT);
        CHECK_MSG(strstr(fr_error(r.engine), "2, 4, 8, 16 or 32"), "%s", fr_error(r.engine));
        CHECK_INT(fr_prepare(r.engine, FR_MODE_TREE, widths[i]), FR_BAD_ARGUMENT);
        CHECK_INT(fr_poll(r.engine), FR_STATE_READY);
    }
    session_close(&r);
}

/* On a GPU a long context leaves memory for trees of a few nodes only: the default width is one of them, wider ones are refused. */
static void long_context(void)
{
    static const tiny_model model = {.layers = 1,
                                     .heads = 32,
                                     .kv_heads = 4,
                                     .head_dim = 64,
                                     .ffn = 64,
                                     .context = 32768,
                                     .type = "q4_1",
                                     .head_type = "q8_0",
                                     .seed = 7};
    fr_device device = *session_device();
    device.is_cpu = false;
    session_rig r = session_engine(&device, 31000, true);
    session_feed_model(&r, &model);
    uint32_t ids[CONTEXT], want[CONTEXT], got[CONTEXT];
    const size_t n = repetitive(ids, 31);
    for (uint32_t width = 8; width <= 32; width *= 2) {
        const fr_request q = {.mode = FR_MODE_TREE, .width = width};
        CHECK_INT(fr_prepare(r.engine, FR_MODE_TREE, width), FR_BAD_ARGUMENT);
        CHECK_INT(fr_generate(r.engine, ids, n, &q), FR_BAD_ARGUMENT);
        CHECK_MSG(strstr(fr_error(r.engine), "fewer nodes, or load with less context"), "%s", fr_error(r.engine));
    }
    const fr_request greedy = {.mode = FR_MODE_GREEDY, .max_tokens = TOKENS, .ignore_eos = true};
    const fr_request tree = {.mode = FR_MODE_TREE, .max_tokens = TOKENS, .ignore_eos = true};
    session_prepare(&r, 0);
    CHECK_INT(session_generate(&r, ids, n, &greedy, want), TOKENS);
    session_same(want, TOKENS, got, session_generate(&r, ids, n, &tree, got), "a tree where memory is short");
    CHECK_INT(fr_stat(r.engine, FR_STAT_WIDTH), 4);
    CHECK(fr_stat(r.engine, FR_STAT_ACCEPTED) > 0 && fr_stat(r.engine, FR_STAT_TREE_STEPS) + 1 == fr_stat(r.engine, FR_STAT_STEPS));
    session_close(&r);
}

const fr_test session_tree_tests[] = {
    {"session_tree.equals_greedy",
     "200 prompts, 2 to 32 nodes, W = 1 to 8, whatever ends them; full contexts, caches, aborts: the tokens of greedy", equals_greedy},
    {"session_tree.portable", "the same on default limits, without subgroups, with biases and odd sizes", portable},
    {"session_tree.long_context", "a context that leaves memory for four nodes: the default width, and refusals of wider trees",
     long_context},
    {"session_tree.refused", "widths that are none", refused},
    {0},
};
