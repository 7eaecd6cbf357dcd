/* test_session.c: requests on small random models: modes, windows, ends, aborts, the cache. Random weights repeat themselves less than text
 * does, so a wrong bit anywhere soon shows as another token. */
#include "test/session_rig.h"

static void loop_equals_greedy(const tiny_model *m, bool portable)
{
    session_rig r = session_open(m, portable);
    static const size_t lengths[] = {1, 2, 31, 33, 70};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        uint32_t ids[CONTEXT], want[CONTEXT], got[CONTEXT];
        session_prompt(ids, lengths[l], (uint32_t)l);
        fr_reset(r.engine);
        const fr_request greedy = {.mode = FR_MODE_GREEDY, .max_tokens = TOKENS};
        const size_t n = session_generate(&r, ids, lengths[l], &greedy, want);
        CHECK(n > 0);
        for (uint32_t w = 1; w <= 8; w *= 2) {
            char what[64];
            snprintf(what, sizeof what, "prompt of %zu, W = %u", lengths[l], w);
            const fr_request loop = {.mode = FR_MODE_LOOP, .max_tokens = TOKENS, .window = w};
            fr_reset(r.engine);
            session_same(want, n, got, session_generate(&r, ids, lengths[l], &loop, got), what);
            session_same(want, n, got, session_generate(&r, ids, lengths[l], &loop, got), "with the prompt cached");
            CHECK_INT(fr_stat(r.engine, FR_STAT_CACHED_TOKENS), lengths[l] - 1);
        }
    }
    session_close(&r);
}

static void windows_q4a(void)
{
    loop_equals_greedy(&session_small, false);
}

static void windows_portable(void)
{
    loop_equals_greedy(&session_portable, true);
}

/* A conversation that grows: what the cache holds gives the bits of a fresh prefill. */
static void cached_prefix(void)
{
    session_rig r = session_open(&session_small, false);
    uint32_t ids[CONTEXT], first[CONTEXT], again[CONTEXT], fresh[CONTEXT];
    session_prompt(ids, 40, 99);
    const fr_request q = {.mode = FR_MODE_LOOP, .max_tokens = 12, .ignore_eos = true};
    const size_t n = session_generate(&r, ids, 40, &q, first);
    CHECK_INT(n, 12);
    memcpy(ids + 40, first, n * sizeof *ids);
    session_prompt(ids + 52, 9, 5);
    const size_t n_again = session_generate(&r, ids, 61, &q, again);
    CHECK(fr_stat(r.engine, FR_STAT_CACHED_TOKENS) >= 51); /* the last token of the answer was not processed yet */
    fr_reset(r.engine);
    session_same(again, n_again, fresh, session_generate(&r, ids, 61, &q, fresh), "fresh prefill");
    CHECK_INT(fr_stat(r.engine, FR_STAT_CACHED_TOKENS), 0);
    ids[20] ^= 1; /* another past: only what is before it may be kept */
    session_generate(&r, ids, 61, &q, again);
    CHECK_INT(fr_stat(r.engine, FR_STAT_CACHED_TOKENS), 20);
    fr_reset(r.engine);
    session_same(again, 12, fresh, session_generate(&r, ids, 61, &q, fresh), "edited history");
    session_close(&r);
}

static void limits(void)
{
    session_rig r = session_open(&session_small, false);
    uint32_t ids[CONTEXT + 1], out[CONTEXT], all[CONTEXT];
    session_prompt(ids, CONTEXT + 1, 1);
    for (uint32_t n = 1; n <= 9; n++)
        for (uint32_t w = 1; w <= 4; w *= 4) {
            const fr_request q = {.mode = FR_MODE_LOOP, .max_tokens = n, .window = w, .ignore_eos = true};
            CHECK_INT(session_generate(&r, ids, 10, &q, out), n);
            CHECK_INT(fr_finish_reason(r.engine), FR_FINISH_LENGTH);
            CHECK_INT(fr_stat(r.engine, FR_STAT_STEPS), n);
        }
    const fr_request open = {.mode = FR_MODE_LOOP, .window = 4, .ignore_eos = true};
    CHECK_INT(session_generate(&r, ids, 150, &open, all), CONTEXT - 150); /* until the context is full */
    CHECK_INT(fr_finish_reason(r.engine), FR_FINISH_LENGTH);
    CHECK_INT(fr_stat(r.engine, FR_STAT_STEPS), CONTEXT - 150); /* those that took in the prompt don't count */
    CHECK_INT(session_generate(&r, ids, CONTEXT - 1, &open, out), 1);
    CHECK_INT(fr_finish_reason(r.engine), FR_FINISH_LENGTH);
    CHECK_INT(fr_generate(r.engine, ids, CONTEXT, &open), FR_BAD_ARGUMENT);
    CHECK(strstr(fr_error(r.engine), "answer included"));
    CHECK_INT(fr_generate(r.engine, ids, CONTEXT + 1, &open), FR_BAD_ARGUMENT);
    CHECK_INT(fr_generate(r.engine, ids, 0, &open), FR_BAD_ARGUMENT);
    ids[3] = 320;
    CHECK_INT(fr_generate(r.engine, ids, 10, &open), FR_BAD_ARGUMENT);
    CHECK(strstr(fr_error(r.engine), "token 3"));
    ids[3] = 0;
    const fr_request wide = {.mode = FR_MODE_LOOP, .window = 17};
    CHECK_INT(fr_generate(r.engine, ids, 10, &wide), FR_BAD_ARGUMENT);
    session_prompt(ids, 150, 1);
    session_same(all, CONTEXT - 150, out, session_generate(&r, ids, 150, &open, out), "after refusals");
    CHECK_STR(fr_error(r.engine), "");
    session_close(&r);
}

/* Some prompt makes the model say an end token within its tokens: the answer is the one without end tokens, cut there. */
static void end_token(void)
{
    session_rig r = session_open(&session_small, false);
    int ended = 0;
    for (uint32_t seed = 0; seed < 400 && ended < 3; seed++) {
        uint32_t ids[CONTEXT], whole[CONTEXT], cut[CONTEXT];
        session_prompt(ids, 6, seed * 77 + 5);
        const fr_request stops = {.mode = FR_MODE_LOOP, .max_tokens = TOKENS, .window = 4};
        const size_t n = session_generate(&r, ids, 6, &stops, cut);
        if (fr_finish_reason(r.engine) != FR_FINISH_STOP)
            continue;
        ended++;
        CHECK(n < TOKENS);
        CHECK_INT(fr_stat(r.engine, FR_STAT_STEPS), n + 1);
        const fr_request goes_on = {.mode = FR_MODE_GREEDY, .max_tokens = TOKENS, .ignore_eos = true};
        CHECK_INT(session_generate(&r, ids, 6, &goes_on, whole), TOKENS);
        session_same(whole, n, cut, n, "before the end token");
        size_t size;
        fr_token_bytes(r.engine, whole[n], &size);
        CHECK_INT(size, 0); /* an end token has no text */
        for (uint32_t w = 1; w <= 8; w *= 2) {
            const fr_request q = {.mode = FR_MODE_LOOP, .max_tokens = TOKENS, .window = w};
            session_same(cut, n, whole, session_generate(&r, ids, 6, &q, whole), "end token in another window");
            CHECK_INT(fr_finish_reason(r.engine), FR_FINISH_STOP);
        }
    }
    CHECK_MSG(ended == 3, "only %d of the prompts ended", ended);
    session_close(&r);
}

static void aborts(void)
{
    session_rig r = session_open(&session_small, false);
    uint32_t ids[CONTEXT], want[CONTEXT], got[CONTEXT];
    session_prompt(ids, 70, 4);
    const fr_request q = {.mode = FR_MODE_LOOP, .max_tokens = TOKENS, .window = 4, .ignore_eos = true};
    CHECK_INT(session_generate(&r, ids, 70, &q, want), TOKENS);
    for (int polls = 0; polls < 40; polls += 3) { /* at any moment: before the prompt is through, between windows */
        fr_reset(r.engine);
        CHECK_INT(fr_generate(r.engine, ids, 70, &q), FR_OK);
        session_abort(&r, polls);
        size_t n;
        const uint32_t *tokens = fr_tokens(r.engine, &n);
        CHECK(n <= TOKENS);
        session_same(want, n, tokens, n, "before the abort");
        fr_abort(r.engine); /* harmless when idle */
        session_same(want, TOKENS, got, session_generate(&r, ids, 70, &q, got), "after the abort");
    }
    session_close(&r);
}

static void busy(void)
{
    session_rig r = session_open(&session_small, false);
    uint32_t ids[8], top[8];
    session_prompt(ids, 8, 4);
    const fr_request q = {.max_tokens = 2};
    CHECK_INT(fr_generate(r.engine, ids, 8, &q), FR_OK);
    CHECK_INT(fr_generate(r.engine, ids, 8, &q), FR_BAD_ARGUMENT);
    CHECK_INT(fr_score(r.engine, ids, 8, top, NULL), FR_BAD_ARGUMENT);
    session_drive(&r, FR_STATE_READY);
    size_t n;
    fr_tokens(r.engine, &n);
    CHECK(n <= 2);
    session_close(&r);
}

/* Whatever is asked of an engine too early, or fed too late, is refused and leaves the load alone. */
static void refused_while_loading(void)
{
    session_rig r = session_engine(session_device(), CONTEXT, false);
    uint32_t ids[8], top[8];
    size_t size, used;
    uint8_t *bytes = tiny_model_bytes(&session_small, &size);
    CHECK(bytes);
    session_prompt(ids, 8, 4);
    for (int half = 0; half < 2; half++) { /* before there is anything, and with the header read */
        CHECK_INT(fr_generate(r.engine, ids, 8, NULL), FR_BAD_ARGUMENT);
        CHECK(strstr(fr_error(r.engine), "busy"));
        CHECK_INT(fr_score(r.engine, ids, 8, top, NULL), FR_BAD_ARGUMENT);
        CHECK(fr_chat(r.engine, &(fr_message){"nobody", "x"}, 1, ids, 8) == SIZE_MAX);
        CHECK(fr_poll(r.engine) != FR_STATE_FAILED);
        for (size_t at = half ? size / 2 : 0, end = half ? size : size / 2; at < end; at += used) {
            CHECK_MSG(fr_feed(r.engine, bytes + at, end - at, &used) == FR_OK, "%s", fr_error(r.engine));
            fr_poll(r.engine);
            fr_host_pump(r.host);
        }
    }
    CHECK_INT(fr_feed_end(r.engine), FR_OK);
    CHECK_INT(fr_feed(r.engine, bytes, size, &used), FR_BAD_ARGUMENT);
    CHECK_INT(used, 0);
    CHECK_INT(fr_generate(r.engine, ids, 8, NULL), FR_BAD_ARGUMENT);
    session_drive(&r, FR_STATE_READY);
    CHECK_INT(fr_feed(r.engine, bytes, size, &used), FR_BAD_ARGUMENT);
    const fr_request q = {.max_tokens = 2, .ignore_eos = true};
    CHECK_INT(session_generate(&r, ids, 8, &q, top), 2);
    CHECK_STR(fr_error(r.engine), "");
    free(bytes);
    session_close(&r);
}

/* Scoring its own greedy answer, the model predicts each of its tokens: prefill and decode agree to the bit. */
static void score_predicts_answer(void)
{
    session_rig r = session_open(&session_small, false);
    uint32_t ids[CONTEXT], answer[CONTEXT], top[CONTEXT];
    float margin[CONTEXT];
    session_prompt(ids, 50, 12);
    const fr_request q = {.mode = FR_MODE_LOOP, .max_tokens = 80, .ignore_eos = true};
    CHECK_INT(session_generate(&r, ids, 50, &q, answer), 80);
    memcpy(ids + 50, answer, 80 * sizeof *ids);
    CHECK_INT(fr_score(r.engine, ids, 130, top, margin), FR_OK);
    session_drive(&r, FR_STATE_READY);
    session_same(answer, 80, top + 49, 80, "scored");
    for (int i = 0; i < 130; i++)
        CHECK_MSG(margin[i] >= 0, "margin %d is %g", i, (double)margin[i]);
    session_same(answer, 80, ids + 50, session_generate(&r, ids, 50, &q, ids + 50), "after scoring");
    for (int polls = 0; polls < 12; polls += 2) { /* an abort at any moment */
        CHECK_INT(fr_score(r.engine, ids, 130, top, margin), FR_OK);
        session_abort(&r, polls);
    }
    session_same(answer, 80, ids + 50, session_generate(&r, ids, 50, &q, ids + 50), "after aborts");
    session_close(&r);
}

/* Twelve query heads of 128 dimensions for one key head take 14,016 bytes of workgroup memory, thirteen 17,104; the default limit is
 * 16,384. Attention of GPUs gets along with less. */
static void workgroup_memory(void)
{
    session_rig probe = session_engine(session_device(), 64, true);
    const bool cpu = strstr(fr_info(probe.engine, FR_INFO_ADAPTER), "CPU") != NULL;
    session_close(&probe);
    for (uint32_t large = 0; large < 2; large++) {
        const tiny_model m = {.layers = 1, .dim = 64, .heads = !large ? 12 : cpu ? 13 : 64, .kv_heads = 1, .head_dim = 128, .type = "q8_0"};
        session_rig r = session_engine(session_device(), 64, true);
        size_t size, used;
        uint8_t *bytes = tiny_model_bytes(&m, &size);
        CHECK(bytes);
        if (!large) {
            session_feed(&r, bytes, size);
            session_drive(&r, FR_STATE_READY);
        } else {
            CHECK_INT(fr_feed(r.engine, bytes, size, &used), FR_NO_GPU);
            CHECK_MSG(strstr(fr_error(r.engine), "maxComputeWorkgroupStorageSize is 16384") &&
                          (!cpu || strstr(fr_error(r.engine), "needs 17104")),
                      "%s", fr_error(r.engine));
            CHECK_INT(fr_poll(r.engine), FR_STATE_FAILED);
        }
        free(bytes);
        session_close(&r);
    }
}

/* Logits that are no numbers end the request, not the engine, and nothing of what was computed is used again. */
static void not_finite(void)
{
    session_rig r = session_engine(session_device(), CONTEXT, false);
    size_t size;
    uint8_t *bytes = tiny_model_bytes(&session_small, &size);
    CHECK(bytes);
    session_spoil_norms(bytes, size);
    session_feed(&r, bytes, size);
    free(bytes);
    session_drive(&r, FR_STATE_READY);
    uint32_t ids[CONTEXT], top[CONTEXT];
    session_prompt(ids, 40, 3);
    for (int mode = FR_MODE_GREEDY; mode <= FR_MODE_LOOP; mode++) {
        const fr_request q = {.mode = (fr_mode)mode, .max_tokens = 8};
        CHECK_INT(session_generate(&r, ids, 40, &q, top), 0);
        CHECK_INT(fr_finish_reason(r.engine), FR_FINISH_ERROR);
        CHECK_MSG(strstr(fr_error(r.engine), "no finite logits at position 39"), "%s", fr_error(r.engine));
        CHECK_INT(fr_stat(r.engine, FR_STAT_CACHED_TOKENS), 0);
    }
    CHECK_INT(fr_score(r.engine, ids, 40, top, NULL), FR_OK);
    session_drive(&r, FR_STATE_READY);
    CHECK_INT(fr_finish_reason(r.engine), FR_FINISH_ERROR);
    CHECK_MSG(strstr(fr_error(r.engine), "no finite logits at position 0"), "%s", fr_error(r.engine));
    session_close(&r);
}

static void stop_strings(void)
{
    session_rig r = session_open(&session_small, false);
    uint32_t ids[CONTEXT], out[CONTEXT];
    char text[4096], cut[4096];
    session_prompt(ids, 20, 31);
    const fr_request q = {.mode = FR_MODE_LOOP, .max_tokens = TOKENS, .ignore_eos = true};
    session_generate(&r, ids, 20, &q, out);
    const size_t n = fr_take_text(r.engine, text, sizeof text - 1);
    text[n] = 0;
    CHECK(n > 12);
    size_t at = n / 2; /* a stop string of some bytes from the middle, on whole code points */
    while ((text[at] & 0xc0) == 0x80)
        at++;
    size_t end = at + 4;
    while ((text[end] & 0xc0) == 0x80)
        end++;
    char stop[16] = "";
    memcpy(stop, text + at, end - at);
    const char *const stops[] = {"not in the text at all", stop};
    const fr_request with = {.mode = FR_MODE_LOOP, .max_tokens = TOKENS, .ignore_eos = true, .stop = stops, .n_stop = 2, .window = 4};
    session_generate(&r, ids, 20, &with, out);
    const size_t m = fr_take_text(r.engine, cut, sizeof cut - 1);
    cut[m] = 0;
    const char *where = strstr(text, stop);
    CHECK_INT(m, where - text);
    CHECK(!memcmp(cut, text, m));
    CHECK_INT(fr_finish_reason(r.engine), FR_FINISH_STOP);
    session_close(&r);
}

static void device_lost(void)
{
    session_rig r = session_open(&session_small, false);
    uint32_t ids[4] = {1, 2, 3, 4};
    const fr_request q = {.mode = FR_MODE_LOOP};
    CHECK_INT(fr_generate(r.engine, ids, 4, &q), FR_OK);
    fr_device_lost(r.engine, "as a test");
    session_drive(&r, FR_STATE_FAILED);
    CHECK(strstr(fr_error(r.engine), "lost"));
    CHECK_INT(fr_finish_reason(r.engine), FR_FINISH_ERROR);
    CHECK_INT(fr_generate(r.engine, ids, 4, &q), FR_FAILED);
    session_close(&r);
}

const fr_test session_tests[] = {
    {"session.windows", "loop with W = 1, 2, 4, 8 gives the tokens of greedy, with and without a cached prompt", windows_q4a},
    {"session.windows_portable", "the same on default limits, without subgroups, with biases and odd sizes", windows_portable},
    {"session.cached_prefix", "a cached prefix gives the tokens of a fresh prefill", cached_prefix},
    {"session.limits", "max_tokens, a full context, and arguments that are refused", limits},
    {"session.end_token", "an end token ends the answer, in any window", end_token},
    {"session.aborts", "an abort at any moment; the next request is right", aborts},
    {"session.busy", "one request at a time", busy},
    {"session.refused_while_loading", "requests before a model is there, and bytes behind its end, don't end the load",
     refused_while_loading},
    {"session.score", "teacher forcing predicts the model's own greedy answer; aborts", score_predicts_answer},
    {"session.not_finite", "logits that are no numbers end the request with an error, and nothing of it is used again", not_finite},
    {"session.workgroup_memory", "a model whose attention does not fit the adapter is refused with limit and need", workgroup_memory},
    {"session.stop_strings", "a stop string ends the text before it", stop_strings},
    {"session.device_lost", "a lost device ends the request and the engine with one clear error", device_lost},
    {0},
};
