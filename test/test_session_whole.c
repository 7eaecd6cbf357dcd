/* test_session_whole.c: requests whose steps have all layers in one dispatch give the tokens of greedy, also when steps are lost because
 * the workgroups don't run at the same time. Of that a CPU adapter has one workgroup at most: more of them are the lost case. */
#include "test/session_rig.h"

enum { TRIES = 8000, ANSWER = 14 };

static size_t prompt(uint32_t *ids, uint32_t seed)
{
    const size_t n = seed % 2 ? 20 + seed % 50 : 120 + seed % 20; /* the longer ones spread their chunks over workgroups */
    session_prompt(ids, n, seed);
    for (size_t i = 10; i < n; i++)
        ids[i] = ids[i % 7]; /* something to draft from */
    return n;
}

static const fr_request ways[] = {
    {.mode = FR_MODE_LOOP, .window = 1},
    {.mode = FR_MODE_LOOP, .window = 4},
    {.mode = FR_MODE_TREE, .width = 2, .window = 2},
    {.mode = FR_MODE_TREE, .width = 8, .window = 1},
    {.mode = FR_MODE_GREEDY},
    {.mode = FR_MODE_ADAPTIVE, .width = 8},
};

static size_t run(session_rig *r, uint32_t seed, const fr_request *way, uint32_t workgroups, uint32_t *out)
{
    uint32_t ids[CONTEXT];
    const size_t n = prompt(ids, seed);
    fr_request q = *way;
    q.max_tokens = ANSWER;
    q.ignore_eos = true;
    q.scope = FR_SCOPE_NONE;
    q.workgroups = workgroups;
    fr_reset(r->engine);
    return session_generate(r, ids, n, &q, out);
}

/* A kernel compiles behind the first token, while other steps go on: asks until it is there. */
static void compiled(session_rig *r, const fr_request *way)
{
    uint32_t got[CONTEXT];
    if (way->width)
        session_prepare(r, way->width);
    for (int i = 0; i < TRIES && (i == 0 || fr_stat(r->engine, FR_STAT_WHOLE_STEPS) == 0); i++)
        run(r, 1, way, 1, got);
    CHECK(fr_stat(r->engine, FR_STAT_WHOLE_STEPS) > 0);
}

static const fr_request plain = {.mode = FR_MODE_GREEDY};

static void equals_greedy(session_rig r)
{
    uint32_t want[CONTEXT], got[CONTEXT];
    for (size_t w = 0; w < 4; w++)
        compiled(&r, &ways[w]);
    double whole = 0, accepted = 0;
    for (uint32_t i = 0; i < 6; i++) {
        const fr_request *way = &ways[i % (sizeof ways / sizeof *ways)];
        CHECK_INT(run(&r, i, &plain, FR_NEVER, want), ANSWER);
        CHECK(fr_stat(r.engine, FR_STAT_WHOLE_STEPS) == 0);
        session_same(want, ANSWER, got, run(&r, i, way, 1, got), "all layers in one dispatch");
        whole += fr_stat(r.engine, FR_STAT_WHOLE_STEPS);
        accepted += fr_stat(r.engine, FR_STAT_ACCEPTED);
    }
    printf("  %.0f steps, %.0f drafts accepted\n", whole, accepted);
    CHECK(whole > 30 && accepted > 0);
    CHECK(fr_stat(r.engine, FR_STAT_LOST_STEPS) == 0);
}

/* Workgroups that wait for others which have not begun. The request goes on, with fewer of them and at last without. */
static void lost(session_rig r)
{
    uint32_t want[CONTEXT], got[CONTEXT];
    const bool cpu = fr_host_device(r.host)->is_cpu; /* a GPU may well run them all */
    for (uint32_t i = 0; i < 4; i++) {
        const double before = fr_stat(r.engine, FR_STAT_LOST_STEPS);
        CHECK_INT(run(&r, 30 + i, &plain, FR_NEVER, want), ANSWER);
        session_same(want, ANSWER, got, run(&r, 30 + i, &ways[i], 64, got), "lost steps");
        CHECK_INT(fr_finish_reason(r.engine), FR_FINISH_LENGTH);
        CHECK_MSG(i == 0 || i == 3 || !cpu || fr_stat(r.engine, FR_STAT_LOST_STEPS) > before, "no step was lost");
        session_same(want, ANSWER, got, run(&r, 30 + i, &ways[1], FR_NEVER, got), "behind lost steps");
    }
    /* an abort on top of it leaves the next request alone */
    for (int polls = 0; polls < 24; polls += 8) {
        uint32_t ids[CONTEXT];
        const size_t n = prompt(ids, 33);
        fr_reset(r.engine);
        const fr_request q = {
            .mode = FR_MODE_LOOP, .window = 2, .max_tokens = ANSWER, .ignore_eos = true, .scope = FR_SCOPE_NONE, .workgroups = 64};
        CHECK_INT(fr_generate(r.engine, ids, n, &q), FR_OK);
        session_abort(&r, polls);
        session_same(want, ANSWER, got, run(&r, 33, &ways[1], FR_NEVER, got), "behind an abort");
    }
}

/* One engine for both: its kernels take longest. */
static void all(void)
{
    session_rig r = session_open(&session_small, false);
    equals_greedy(r);
    lost(r);
    session_close(&r);
}

const fr_test session_whole_tests[] = {
    {"session_whole.equals_greedy",
     "all layers in one dispatch: loop, trees, greedy and adaptive give the tokens of other steps, also when workgroups don't run at the "
     "same time and a step is made again with fewer",
     all},
    {0},
};
