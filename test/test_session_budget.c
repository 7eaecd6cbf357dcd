/* test_session_budget.c: under a frame budget steps go in pieces, and all tokens stay the same. */
#include "test/session_rig.h"

static double now; /* of a clock that the test moves */
static double steps_on(void *user)
{
    (void)user;
    return now += 1;
}

static session_rig open_with(double (*clock)(void *))
{
    fr_device device = *session_device();
    if (clock)
        device.now_ms = clock;
    return session_open_as(&device, CONTEXT, &session_small, false);
}

static void prompt(uint32_t ids[70])
{
    for (uint32_t i = 0; i < 70; i++)
        ids[i] = i % 9 < 7 ? 40 + i % 5 : 60 + i % 11;
}

static const fr_mode modes[] = {FR_MODE_GREEDY, FR_MODE_LOOP, FR_MODE_TREE, FR_MODE_ADAPTIVE};
enum { MODES = sizeof modes / sizeof *modes };

static void equals_greedy(void)
{
    session_rig r = open_with(NULL);
    uint32_t ids[70], want[CONTEXT], got[CONTEXT];
    prompt(ids);
    session_prepare(&r, 8);
    const bool cpu = fr_host_device(r.host)->is_cpu;
    const fr_request greedy = {.max_tokens = TOKENS, .ignore_eos = true};
    session_generate(&r, ids, 70, &greedy, want);
    static const double budgets[] = {0.01, 4, 1000};
    for (int m = 0; m < MODES; m++)
        for (int b = 0; b < 3; b++) {
            const fr_request q = {
                .mode = modes[m], .max_tokens = TOKENS, .ignore_eos = true, .budget_ms = budgets[b], .scope = FR_SCOPE_NONE};
            fr_reset(r.engine);
            session_same(want, TOKENS, got, session_generate(&r, ids, 70, &q, got), "under a budget");
            const double submits = fr_stat(r.engine, FR_STAT_SUBMITS), steps = fr_stat(r.engine, FR_STAT_STEPS);
            printf("  mode %d, %g ms: %.0f submissions for %.0f steps\n", (int)modes[m], budgets[b], submits, steps);
            CHECK(b > 0 || !cpu || submits > 4 * steps); /* some dispatches at a time; a GPU makes many in no time */
            CHECK(b < 2 || m == 0 || submits < 3 * steps);
            session_same(want, TOKENS, got, session_generate(&r, ids, 70, &greedy, got), "behind it");
        }
    session_close(&r);
}

/* A step in pieces is finished before the engine is ready again, so that the cache holds what its positions say. */
static void aborts(void)
{
    session_rig r = open_with(NULL);
    uint32_t ids[70], want[CONTEXT], got[CONTEXT];
    prompt(ids);
    session_prepare(&r, 8);
    const fr_request greedy = {.max_tokens = TOKENS, .ignore_eos = true};
    session_generate(&r, ids, 70, &greedy, want);
    for (int polls = 0; polls < 60; polls += 3) {
        const fr_request q = {
            .mode = polls % 2 ? FR_MODE_TREE : FR_MODE_ADAPTIVE, .max_tokens = TOKENS, .ignore_eos = true, .budget_ms = 0.01};
        if (polls % 4 == 0)
            fr_reset(r.engine);
        CHECK_INT(fr_generate(r.engine, ids, 70, &q), FR_OK);
        session_abort(&r, polls);
        size_t so_far;
        const uint32_t *tokens = fr_tokens(r.engine, &so_far);
        session_same(want, so_far, tokens, so_far, "before the abort");
        session_same(want, TOKENS, got, session_generate(&r, ids, 70, &greedy, got), "after the abort");
    }
    session_close(&r);
}

/* Every submission takes a tick, however much is in it: then all fits. And a step takes two, if it goes in two. */
static void grows(void)
{
    session_rig r = open_with(steps_on);
    uint32_t ids[70], got[CONTEXT];
    prompt(ids);
    const fr_request q = {.mode = FR_MODE_LOOP, .max_tokens = TOKENS, .ignore_eos = true, .budget_ms = 500, .window = 4};
    session_generate(&r, ids, 70, &q, got);
    const double first = fr_stat(r.engine, FR_STAT_SUBMITS);
    session_generate(&r, ids, 70, &q, got);
    const double second = fr_stat(r.engine, FR_STAT_SUBMITS);
    CHECK_MSG(second < first && second <= TOKENS / 4 + 4, "%g submissions, then %g", first, second);
    session_close(&r);
}

/* Budgets that change from request to request: pieces end anywhere in a step. */
static void changes(void)
{
    session_rig r = open_with(NULL);
    uint32_t ids[70], want[CONTEXT], got[CONTEXT];
    prompt(ids);
    session_prepare(&r, 8);
    const fr_request greedy = {.max_tokens = TOKENS, .ignore_eos = true};
    session_generate(&r, ids, 70, &greedy, want);
    for (int i = 0; i < 24; i++) {
        const fr_request q = {.mode = modes[1 + i % 3],
                              .max_tokens = TOKENS,
                              .ignore_eos = true,
                              .budget_ms = i % 4 == 3 ? 500 : 0.5 + 0.5 * (i % 5),
                              .window = i % 2 ? 4 : 0,
                              .scope = FR_SCOPE_NONE};
        if (i < 4)
            fr_reset(r.engine);
        session_same(want, TOKENS, got, session_generate(&r, ids, 70, &q, got), "under changing budgets");
    }
    session_close(&r);
}

static void refused(void)
{
    session_rig r = open_with(NULL);
    const uint32_t ids[2] = {40, 41};
    static const double budgets[] = {-1, 1001, 1e300};
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        CHECK_INT(fr_generate(r.engine, ids, 2, &(fr_request){.budget_ms = budgets[i]}), FR_BAD_ARGUMENT);
        CHECK_MSG(strstr(fr_error(r.engine), "0 to 1000 milliseconds"), "%s", fr_error(r.engine));
    }
    session_close(&r);
}

const fr_test session_budget_tests[] = {
    {"session_budget.equals_greedy", "every mode under budgets of 0.01 to 1000 ms", equals_greedy},
    {"session_budget.aborts", "aborts between the pieces of a step", aborts},
    {"session_budget.grows", "what fits goes in one submission", grows},
    {"session_budget.changes", "budgets that change from request to request", changes},
    {"session_budget.refused", "budgets that are none", refused},
    {0},
};
