/* test_session_adaptive.c: mode adaptive gives the tokens of greedy, whatever it decides. The clock of the engine is the host's, so a test
 * makes it decide anything: clocks that jump, stand still, go back, or are not there. */
#include <math.h>

#include "spec/costs.h"
#include "test/session_rig.h"

enum { PROMPTS = 40, MOST = 100, WIDTHS = 6 };

static uint32_t next(uint32_t *seed)
{
    return (*seed = *seed * 1664525u + 1013904223u) >> 16;
}

/* Mostly some milliseconds further; by chance not at all, back, or hours. */
static double odd_clock(void *user)
{
    static double now = 1e6;
    static uint32_t seed = 1;
    (void)user;
    const uint32_t kind = next(&seed) % 16;
    now += kind < 10 ? 0.01 * (next(&seed) % 3000) : kind < 13 ? 0 : kind == 13 ? -50 : kind == 14 ? 5000 : 1e7;
    return now;
}

static session_rig open_with(double (*clock)(void *), uint32_t context, const tiny_model *m, bool portable)
{
    fr_device device = *session_device();
    device.now_ms = clock;
    return session_open_as(&device, context, m, portable);
}

static size_t repetitive(uint32_t *ids, uint32_t seed)
{
    const uint32_t letters = 2 + next(&seed) % 16;
    const size_t n = 1 + next(&seed) % MOST;
    for (size_t i = 0; i < n; i++)
        ids[i] = i > 8 && next(&seed) % 4 ? ids[i - 1 - next(&seed) % 8] : 32 + next(&seed) % letters;
    return n;
}

/* Costs of no device, as if they had been kept from an earlier visit: any width may be the cheapest. */
static void odd_costs(session_rig *r, uint32_t seed)
{
    uint8_t bytes[FR_COSTS_BYTES];
    fr_step_costs c;
    fr_costs_open(&c, FR_ADAPTER_DISCRETE);
    for (int k = 0; k < WIDTHS; k++) {
        fr_costs_sample(&c, (uint32_t)k, 1, 1);
        c.mean[k] = k ? log(0.2 + 0.01 * (next(&seed) % 200)) : 1; /* the level, then what a width costs over a plain step */
    }
    fr_costs_save(&c, strtoull(fr_info(r->engine, FR_INFO_COSTS), NULL, 16), bytes);
    CHECK_MSG(fr_load_costs(r->engine, bytes, sizeof bytes, NULL) == FR_OK, "%s", fr_error(r->engine));
}

typedef struct counts {
    double steps[WIDTHS], mixed, accepted,
        rejected; /* mixed: requests with steps over trees of several widths, and plain ones behind them */
} counts;

static void one_prompt(session_rig *r, uint32_t i, counts *c)
{
    uint32_t ids[CONTEXT], want[CONTEXT], got[CONTEXT], seed = i * 77 + 5;
    const size_t n = repetitive(ids, i);
    const fr_request greedy = {.mode = FR_MODE_GREEDY,
                               .max_tokens = 1 + next(&seed) % 60,
                               .ignore_eos = i % 3 == 0,
                               .scope = i / 2 % 2 ? FR_SCOPE_NONE : FR_SCOPE_ALL};
    const size_t n_want = session_generate(r, ids, n, &greedy, want);
    const fr_finish finish = fr_finish_reason(r->engine);
    fr_request adaptive = greedy;
    adaptive.mode = FR_MODE_ADAPTIVE;
    adaptive.window = i % 5 ? 0 : 1u << i / 5 % 4;
    adaptive.width = i % 7 ? 0 : 2u << i / 7 % 5;
    if (i % 2)
        fr_reset(r->engine);
    char what[96];
    snprintf(what, sizeof what, "prompt %u of %zu tokens", i, n);
    session_same(want, n_want, got, session_generate(r, ids, n, &adaptive, got), what);
    CHECK_MSG(fr_finish_reason(r->engine) == finish, "%s: finish reason %d instead of %d", what, fr_finish_reason(r->engine), finish);
    double sum = 0, kinds = 0;
    for (int k = 0; k < WIDTHS; k++) {
        const double steps = fr_stat(r->engine, (fr_stat_id)(FR_STAT_STEPS_1 + k));
        CHECK_MSG(steps == 0 || !adaptive.width || 1u << k <= adaptive.width, "%s: %g steps over %d nodes", what, steps, 1 << k);
        c->steps[k] += steps;
        sum += steps;
        kinds += k && steps > 0;
    }
    CHECK_INT(sum, fr_stat(r->engine, FR_STAT_STEPS));
    CHECK_INT(sum + fr_stat(r->engine, FR_STAT_ACCEPTED), n_want + (finish == FR_FINISH_STOP));
    c->mixed += kinds > 1;
    c->accepted += fr_stat(r->engine, FR_STAT_ACCEPTED);
    c->rejected += fr_stat(r->engine, FR_STAT_DRAFTED) - fr_stat(r->engine, FR_STAT_ACCEPTED);
}

static void prepare(session_rig *r)
{
    for (uint32_t width = 2; width <= 32; width *= 2)
        session_prepare(r, width);
}

static bool every_width(const counts *c)
{
    for (int k = 0; k < WIDTHS; k++)
        if (c->steps[k] == 0)
            return false;
    return true;
}

/* The clock ticks as often as it is read, and how often that is depends on the machine; so a width may come late, but it comes. */
static void many_prompts(session_rig *r)
{
    counts c = {0};
    for (uint32_t i = 0; i < PROMPTS || (i < 20 * PROMPTS && !every_width(&c)); i++) {
        if (i % 3)
            odd_costs(r, i);
        one_prompt(r, i, &c);
    }
    printf("  steps over 1 to 32 nodes:");
    for (int k = 0; k < WIDTHS; k++) {
        printf(" %.0f", c.steps[k]);
        CHECK(c.steps[k] > 0);
    }
    printf("; %.0f requests with several widths; %.0f drafts accepted, %.0f not\n", c.mixed, c.accepted, c.rejected);
    CHECK(c.mixed > PROMPTS / 10 && c.accepted > 100 && c.rejected > 100);
}

static void full_context(session_rig *r)
{
    for (uint32_t left = 1; left <= 12; left++) {
        uint32_t ids[CONTEXT], want[CONTEXT], got[CONTEXT];
        for (uint32_t i = 0; i < CONTEXT - left; i++)
            ids[i] = 40 + i % 3;
        const fr_request greedy = {.mode = FR_MODE_GREEDY, .ignore_eos = true};
        const fr_request adaptive = {.mode = FR_MODE_ADAPTIVE, .ignore_eos = true};
        CHECK_INT(session_generate(r, ids, CONTEXT - left, &greedy, want), left);
        session_same(want, left, got, session_generate(r, ids, CONTEXT - left, &adaptive, got), "a full context");
        CHECK_INT(fr_finish_reason(r->engine), FR_FINISH_LENGTH);
    }
}

static void cache_afterwards(session_rig *r)
{
    uint32_t ids[CONTEXT], first[CONTEXT], want[CONTEXT], got[CONTEXT];
    const fr_request greedy = {.mode = FR_MODE_GREEDY, .max_tokens = 30, .ignore_eos = true};
    const fr_request adaptive = {.mode = FR_MODE_ADAPTIVE, .max_tokens = 30, .ignore_eos = true};
    for (uint32_t i = 0; i < 6; i++) {
        const size_t n = repetitive(ids, 1000 + i);
        fr_reset(r->engine);
        CHECK_INT(session_generate(r, ids, n, &adaptive, first), 30);
        memcpy(ids + n, first, sizeof *first * 30);
        const size_t n_want = session_generate(r, ids, n + 20, &greedy, want);
        CHECK(fr_stat(r->engine, FR_STAT_CACHED_TOKENS) == (double)(n + 19));
        fr_reset(r->engine);
        session_same(want, n_want, got, session_generate(r, ids, n + 20, &greedy, got), "on the cache of mixed widths");
    }
}

static void aborts(session_rig *r)
{
    uint32_t ids[CONTEXT], want[CONTEXT], got[CONTEXT];
    const size_t n = repetitive(ids, 12);
    const fr_request greedy = {.mode = FR_MODE_GREEDY, .max_tokens = 40, .ignore_eos = true};
    const fr_request adaptive = {.mode = FR_MODE_ADAPTIVE, .max_tokens = 40, .ignore_eos = true};
    session_generate(r, ids, n, &greedy, want);
    for (int polls = 0; polls < 30; polls += 5) {
        fr_reset(r->engine);
        CHECK_INT(fr_generate(r->engine, ids, n, &adaptive), FR_OK);
        session_abort(r, polls);
        size_t so_far;
        const uint32_t *tokens = fr_tokens(r->engine, &so_far);
        session_same(want, so_far, tokens, so_far, "before the abort");
        session_same(want, 40, got, session_generate(r, ids, n, &adaptive, got), "after the abort");
    }
}

/* Without fr_prepare() kernels compile while a request runs, one width at a time, behind its first token. Those of a model that no other
 * test has, so that they are not there yet. */
static void compiles_meanwhile(void)
{
    static const tiny_model own = {.layers = 1, .ffn = 96, .vocab = 330, .seed = 5};
    fr_device device = *session_device();
    device.now_ms = odd_clock;
    session_rig opened = session_engine(&device, CONTEXT, false), *r = &opened;
    session_feed_model(r, &own);
    enum { TRIES = 5000 };
    uint32_t ids[CONTEXT], want[CONTEXT], got[CONTEXT];
    const size_t n = repetitive(ids, 31);
    const fr_request greedy = {.mode = FR_MODE_GREEDY, .max_tokens = 50, .ignore_eos = true};
    const fr_request adaptive = {.mode = FR_MODE_ADAPTIVE, .max_tokens = 50, .ignore_eos = true};
    session_generate(r, ids, n, &greedy, want);
    session_same(want, 50, got, session_generate(r, ids, n, &adaptive, got), "while kernels compile");
    CHECK(fr_stat(r->engine, FR_STAT_STEPS_1) > 1);
    double trees = 0;
    for (int i = 0; i < TRIES && trees == 0; i++) {
        session_same(want, 50, got, session_generate(r, ids, n, &adaptive, got), "while kernels compile");
        trees = fr_stat(r->engine, FR_STAT_TREE_STEPS);
    }
    CHECK(trees > 0);
    session_close(r);
}

static void equals_greedy(void)
{
    compiles_meanwhile();
    session_rig r = open_with(odd_clock, CONTEXT, &session_small, false);
    prepare(&r);
    many_prompts(&r);
    full_context(&r);
    cache_afterwards(&r);
    aborts(&r);
    session_close(&r);
}

/* On the true clock, on default limits; and without any clock, where all that is known are guesses. */
static void other_clocks(void)
{
    double (*true_clock)(void *) = session_device()->now_ms;
    for (int i = 0; i < 2; i++) {
        session_rig r = open_with(i ? NULL : true_clock, CONTEXT, &session_portable, true);
        counts c = {0};
        session_prepare(&r, 4);
        session_prepare(&r, 8);
        for (uint32_t k = 0; k < 12; k++)
            one_prompt(&r, k, &c);
        CHECK((fr_stat(r.engine, FR_STAT_COST_1) > 0) == (i == 0));
        session_close(&r);
    }
}

/* ---- costs ---- */

static double steady_clock(void *user)
{
    static double now;
    (void)user;
    return now += 0.7;
}

static size_t learn(session_rig *r, uint8_t *bytes, size_t room)
{
    uint32_t ids[CONTEXT], got[CONTEXT];
    const size_t n = repetitive(ids, 31);
    const fr_request adaptive = {.mode = FR_MODE_ADAPTIVE, .max_tokens = 50, .ignore_eos = true};
    session_generate(r, ids, n, &adaptive, got);
    return fr_save_costs(r->engine, bytes, room);
}

static void refuses(session_rig *r, const uint8_t *bytes, size_t size, const char *why)
{
    const double before = fr_stat(r->engine, FR_STAT_COST_1);
    CHECK_INT(fr_load_costs(r->engine, bytes, size, "costs"), FR_BAD_ARGUMENT);
    CHECK_MSG(strstr(fr_error(r->engine), why) && !strncmp(fr_error(r->engine), "costs: ", 7), "%s", fr_error(r->engine));
    CHECK(fr_stat(r->engine, FR_STAT_COST_1) == before && fr_poll(r->engine) == FR_STATE_READY);
}

static void costs(void)
{
    uint8_t bytes[2048], again[2048];
    session_rig r = open_with(steady_clock, CONTEXT, &session_small, false);
    const size_t size = learn(&r, bytes, sizeof bytes);
    CHECK(size > 100 && size <= sizeof bytes);
    CHECK_INT(strlen(fr_info(r.engine, FR_INFO_COSTS)), 16);
    const double cost = fr_stat(r.engine, FR_STAT_COST_1);
    CHECK(cost > 0);
    for (size_t i = 0; i < size; i += 7) {
        bytes[i] ^= 4;
        refuses(&r, bytes, size, i < 8 ? "no costs" : "damaged");
        bytes[i] ^= 4;
    }
    refuses(&r, bytes, size - 1, "damaged");
    refuses(&r, bytes, 0, "no costs");
    CHECK_INT(fr_load_costs(r.engine, bytes, size, NULL), FR_OK);
    CHECK(fr_stat(r.engine, FR_STAT_COST_1) == cost);
    char name[32];
    snprintf(name, sizeof name, "%s", fr_info(r.engine, FR_INFO_COSTS));
    session_close(&r);

    r = open_with(steady_clock, CONTEXT, &session_small, false); /* a second visit */
    CHECK_STR(fr_info(r.engine, FR_INFO_COSTS), name);
    CHECK(fr_stat(r.engine, FR_STAT_COST_1) == 0);
    CHECK_INT(fr_load_costs(r.engine, bytes, size, NULL), FR_OK);
    CHECK(fr_stat(r.engine, FR_STAT_COST_1) == cost);
    CHECK_INT(learn(&r, again, sizeof again), size);
    session_close(&r);

    r = open_with(steady_clock, CONTEXT / 2, &session_small, false); /* another context */
    CHECK(strcmp(fr_info(r.engine, FR_INFO_COSTS), name) != 0);
    refuses(&r, bytes, size, "another adapter, driver, version, model or context");
    CHECK_INT(learn(&r, again, sizeof again), size); /* and measures again */
    CHECK(fr_stat(r.engine, FR_STAT_COST_1) > 0);
    session_close(&r);

    r = session_engine(session_device(), 0, false);
    CHECK_INT(fr_save_costs(r.engine, NULL, 0), 0);
    CHECK_INT(fr_load_costs(r.engine, bytes, size, NULL), FR_BAD_ARGUMENT);
    CHECK_STR(fr_info(r.engine, FR_INFO_COSTS), "");
    session_close(&r);
}

const fr_test session_adaptive_tests[] = {
    {"session_adaptive.equals_greedy",
     "40 prompts under clocks and costs that make widths and windows change at random; full contexts, caches, aborts", equals_greedy},
    {"session_adaptive.other_clocks", "the same on the true clock and without one, on default limits", other_clocks},
    {"session_adaptive.costs", "what was learnt, kept for a next engine; damaged or of another engine it is refused", costs},
    {0},
};
