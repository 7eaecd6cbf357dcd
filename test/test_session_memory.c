/* test_session_memory.c: session memory in the engine, on small random models: what is remembered and searched, that no answer depends on
 * it, and its way from one engine to another. */
#include "spec/memory.h"
#include "test/session_rig.h"

enum { ANSWER = 32, PROMPT = 12 };

static const tiny_model small = {.layers = 1, .dim = 64, .heads = 2, .vocab = 320, .type = "q8_0", .untied = true, .seed = 7};

static uint32_t count(const session_rig *r, fr_stat_id id)
{
    return (uint32_t)fr_stat(r->engine, id);
}

/* Runs a request and compares its answer, if `want` is there. */
static void ask(session_rig *r, const uint32_t ids[PROMPT], fr_request q, const uint32_t *want, const char *what)
{
    q.max_tokens = ANSWER;
    q.ignore_eos = true;
    CHECK_MSG(fr_generate(r->engine, ids, PROMPT, &q) == FR_OK, "%s", fr_error(r->engine));
    session_drive(r, FR_STATE_READY);
    size_t n;
    const uint32_t *tokens = fr_tokens(r->engine, &n);
    CHECK_INT(n, ANSWER);
    for (size_t i = 0; want && i < n; i++)
        CHECK_MSG(tokens[i] == want[i], "%s: token %zu is %u, greedy says %u", what, i, tokens[i], want[i]);
}

static void answer_of(session_rig *r, const uint32_t ids[PROMPT], uint32_t want[ANSWER])
{
    ask(r, ids, (fr_request){.mode = FR_MODE_GREEDY, .scope = FR_SCOPE_NONE}, NULL, "");
    size_t n;
    memcpy(want, fr_tokens(r->engine, &n), ANSWER * sizeof *want);
}

enum { RUN = FR_MEMORY_LEAD + ANSWER };

static const fr_request tree = {.mode = FR_MODE_TREE};

/* On, off, cleared, by conversation: always the tokens of greedy. Counters say what was searched. */
static void same_tokens(session_rig *r)
{
    uint32_t a[PROMPT], b[PROMPT], want_a[ANSWER], want_b[ANSWER];
    session_prompt(a, PROMPT, 1);
    session_prompt(b, PROMPT, 2);
    memcpy(b + PROMPT - 3, a + PROMPT - 3, 3 * sizeof *a); /* so that what followed in one is proposed in the other */
    answer_of(r, a, want_a);
    answer_of(r, b, want_b);
    CHECK_INT(count(r, FR_STAT_MEMORY_TOKENS), 0);
    for (uint32_t width = 2; width <= 8; width *= 4)
        for (uint32_t window = 1; window <= 4; window *= 4) {
            const fr_request q = {.mode = FR_MODE_TREE, .width = width, .window = window};
            fr_clear_memory(r->engine);
            ask(r, a, q, want_a, "empty memory");
            CHECK_INT(count(r, FR_STAT_MEMORY_SEARCHED), 0);
            const uint32_t alone = count(r, FR_STAT_ACCEPTED);
            ask(r, b, q, want_b, "another answer in memory");
            CHECK_INT(count(r, FR_STAT_MEMORY_SEARCHED), RUN);
            ask(r, a, q, want_a, "the same answer in memory");
            CHECK_INT(count(r, FR_STAT_MEMORY_SEARCHED), 2 * RUN);
            CHECK_MSG(count(r, FR_STAT_ACCEPTED) > alone, "%u drafts accepted with the answer in memory, %u without",
                      count(r, FR_STAT_ACCEPTED), alone);
            CHECK_INT(count(r, FR_STAT_MEMORY_TOKENS), 3 * RUN);
        }
    fr_set_memory(r->engine, false);
    ask(r, a, tree, want_a, "memory off");
    CHECK_INT(count(r, FR_STAT_MEMORY_SEARCHED), 0);
    CHECK_INT(count(r, FR_STAT_MEMORY_TOKENS), 3 * RUN); /* what there is stays */
    fr_set_memory(r->engine, true);
    ask(r, a, (fr_request){.mode = FR_MODE_TREE, .scope = FR_SCOPE_NONE}, want_a, "scope none");
    CHECK_INT(count(r, FR_STAT_MEMORY_SEARCHED), 0);
    CHECK_INT(count(r, FR_STAT_MEMORY_TOKENS), 3 * RUN);
    ask(r, a, (fr_request){.mode = FR_MODE_LOOP}, want_a, "loop");
    CHECK_INT(count(r, FR_STAT_MEMORY_TOKENS), 4 * RUN); /* every mode is remembered */
    fr_reset(r->engine);
    ask(r, a, tree, want_a, "after fr_reset");
    CHECK_INT(count(r, FR_STAT_MEMORY_SEARCHED), 4 * RUN);
}

static void conversations(session_rig *r)
{
    fr_clear_memory(r->engine);
    uint32_t a[PROMPT], want[ANSWER];
    session_prompt(a, PROMPT, 3);
    answer_of(r, a, want);
    const uint64_t tea = fr_conversation("tea"), ship = fr_conversation("ship");
    CHECK(tea && ship && tea != ship && !fr_conversation(NULL) && !fr_conversation(""));
    const fr_request in_tea = {.mode = FR_MODE_TREE, .conversation = tea, .scope = FR_SCOPE_CONVERSATION};
    const fr_request in_ship = {.mode = FR_MODE_TREE, .conversation = ship, .scope = FR_SCOPE_CONVERSATION};
    const fr_request in_default = {.mode = FR_MODE_TREE, .scope = FR_SCOPE_CONVERSATION};
    ask(r, a, in_tea, want, "tea");
    const uint32_t alone = count(r, FR_STAT_ACCEPTED);
    ask(r, a, in_ship, want, "ship does not see tea");
    CHECK_INT(count(r, FR_STAT_MEMORY_SEARCHED), 0);
    CHECK_INT(count(r, FR_STAT_ACCEPTED), alone);
    ask(r, a, in_default, want, "nor does the default");
    CHECK_INT(count(r, FR_STAT_MEMORY_SEARCHED), 0);
    ask(r, a, in_tea, want, "tea again");
    CHECK_INT(count(r, FR_STAT_MEMORY_SEARCHED), RUN);
    CHECK(count(r, FR_STAT_ACCEPTED) > alone);
    ask(r, a, tree, want, "all");
    CHECK_INT(count(r, FR_STAT_MEMORY_SEARCHED), 4 * RUN);
    fr_clear_conversation(r->engine, tea);
    CHECK_INT(count(r, FR_STAT_MEMORY_TOKENS), 3 * RUN);
    ask(r, a, in_tea, want, "tea is forgotten");
    CHECK_INT(count(r, FR_STAT_MEMORY_SEARCHED), 0);
    fr_clear_conversation(r->engine, 0);
    CHECK_INT(count(r, FR_STAT_MEMORY_TOKENS), 2 * RUN); /* ship, and tea's last */
    fr_request bad = tree;
    bad.scope = (fr_scope)3;
    CHECK_INT(fr_generate(r->engine, a, PROMPT, &bad), FR_BAD_ARGUMENT);
    CHECK(strstr(fr_error(r->engine), "scope"));
}

/* An abort leaves what was said by then; clearing while a request runs changes none of its tokens. */
static void aborts(session_rig *r)
{
    uint32_t a[PROMPT], want[ANSWER], top[PROMPT];
    session_prompt(a, PROMPT, 4);
    answer_of(r, a, want);
    ask(r, a, tree, want, "to be remembered");
    const fr_request q = {.mode = FR_MODE_TREE, .max_tokens = ANSWER, .ignore_eos = true, .window = 1};
    for (int polls = 0; polls < 9; polls += 2) {
        const uint32_t before = count(r, FR_STAT_MEMORY_TOKENS);
        CHECK_INT(fr_generate(r->engine, a, PROMPT, &q), FR_OK);
        session_abort(r, polls);
        size_t n;
        fr_tokens(r->engine, &n);
        CHECK_INT(count(r, FR_STAT_MEMORY_TOKENS), before + (n ? FR_MEMORY_LEAD + n : 0));
    }
    CHECK_INT(fr_generate(r->engine, a, PROMPT, &q), FR_OK);
    fr_poll(r->engine);
    fr_clear_memory(r->engine);
    session_drive(r, FR_STATE_READY);
    size_t n;
    const uint32_t *tokens = fr_tokens(r->engine, &n);
    CHECK(n == ANSWER && !memcmp(tokens, want, sizeof want));
    CHECK_INT(count(r, FR_STAT_MEMORY_TOKENS), RUN);
    CHECK_INT(fr_score(r->engine, a, PROMPT, top, NULL), FR_OK);
    session_drive(r, FR_STATE_READY);
    CHECK_INT(count(r, FR_STAT_MEMORY_TOKENS), RUN); /* nothing was said */
}

static uint8_t *saved(session_rig *r, size_t *size)
{
    *size = fr_save_memory(r->engine, NULL, 0);
    CHECK_MSG(*size, "%s", fr_error(r->engine));
    uint8_t *bytes = malloc(*size);
    CHECK(bytes);
    CHECK_INT(fr_save_memory(r->engine, bytes, *size), *size);
    return bytes;
}

static void refuses(session_rig *r, const uint8_t *bytes, size_t size, const char *why)
{
    const uint32_t before = count(r, FR_STAT_MEMORY_TOKENS);
    CHECK_INT(fr_load_memory(r->engine, bytes, size, "notes.memory"), FR_BAD_ARGUMENT);
    CHECK_MSG(strstr(fr_error(r->engine), why), "\"%s\" does not say \"%s\"", fr_error(r->engine), why);
    CHECK_INT(count(r, FR_STAT_MEMORY_TOKENS), before);
}

/* What was saved makes drafts better again. */
static void comes_back(session_rig *r)
{
    uint32_t a[PROMPT], want[ANSWER];
    size_t size;
    session_prompt(a, PROMPT, 5);
    answer_of(r, a, want);
    fr_clear_memory(r->engine);
    ask(r, a, (fr_request){.mode = FR_MODE_TREE, .conversation = 9}, want, "without memory");
    const uint32_t alone = count(r, FR_STAT_ACCEPTED);
    uint8_t *bytes = saved(r, &size);
    fr_clear_memory(r->engine);
    CHECK_INT(fr_load_memory(r->engine, bytes, size, NULL), FR_OK);
    CHECK_INT(count(r, FR_STAT_MEMORY_TOKENS), RUN);
    ask(r, a, (fr_request){.mode = FR_MODE_TREE, .conversation = 9, .scope = FR_SCOPE_CONVERSATION}, want, "with what was saved");
    CHECK_INT(count(r, FR_STAT_MEMORY_SEARCHED), RUN);
    CHECK(count(r, FR_STAT_ACCEPTED) > alone);
    free(bytes);
}

/* One engine for all of it: the kernels of two trees take a software adapter seconds. */
static void requests(void)
{
    session_rig r = session_open(&small, false);
    session_prepare(&r, 2);
    session_prepare(&r, 8);
    same_tokens(&r);
    conversations(&r);
    aborts(&r);
    comes_back(&r);
    session_close(&r);
}

/* To an engine of the same vocabulary, whose requests fail and take nothing away, and which fails itself; not to one of another. */
static void save_and_load(void)
{
    session_rig r = session_open(&small, false), other = session_engine(session_device(), CONTEXT, false);
    uint32_t a[PROMPT], want[ANSWER];
    size_t size, again, model_size;
    session_prompt(a, PROMPT, 5);
    answer_of(&r, a, want);
    ask(&r, a, (fr_request){.mode = FR_MODE_LOOP, .conversation = 9}, want, "to be remembered");
    uint8_t *bytes = saved(&r, &size);

    CHECK_INT(fr_save_memory(other.engine, NULL, 0), 0);
    refuses(&other, bytes, size, "no vocabulary yet");
    tiny_model m = small;
    m.seed = 8; /* other weights, the same vocabulary */
    uint8_t *model = tiny_model_bytes(&m, &model_size);
    CHECK(model);
    session_spoil_norms(model, model_size);
    session_feed(&other, model, model_size);
    CHECK_INT(fr_load_memory(other.engine, bytes, size, NULL), FR_OK); /* before it is ready */
    session_drive(&other, FR_STATE_READY);
    for (int mode = FR_MODE_GREEDY; mode <= FR_MODE_TREE; mode++) {
        CHECK_INT(fr_generate(other.engine, a, PROMPT, &(fr_request){.mode = (fr_mode)mode, .max_tokens = 4}), FR_OK);
        session_drive(&other, FR_STATE_READY);
        CHECK_INT(fr_finish_reason(other.engine), FR_FINISH_ERROR);
        CHECK_INT(count(&other, FR_STAT_MEMORY_TOKENS), RUN);
    }
    fr_device_lost(other.engine, "as a test");
    CHECK_INT(fr_poll(other.engine), FR_STATE_FAILED);
    uint8_t *kept = saved(&other, &again);
    CHECK(again == size && !memcmp(kept, bytes, size));
    free(kept);
    free(model);
    session_close(&other);

    refuses(&r, bytes, size - 1, "damaged");
    bytes[size / 2] ^= 1;
    refuses(&r, bytes, size, "notes.memory: its checksum is wrong");
    bytes[size / 2] ^= 1;
    bytes[8]++;
    refuses(&r, bytes, size, "version 2");
    bytes[8]--;
    refuses(&r, (const uint8_t *)"no memory", 9, "no session memory");
    m.vocab = 331;
    model = tiny_model_bytes(&m, &model_size);
    CHECK(model);
    /* a context of more than the model has: its load ends with the header, and compiles nothing */
    other = session_engine(session_device(), 1 << 20, false);
    CHECK_INT(fr_feed(other.engine, model, model_size, &again), FR_BAD_ARGUMENT);
    kept = saved(&other, &again);
    refuses(&r, kept, again, "another model");
    ask(&r, a, (fr_request){.mode = FR_MODE_LOOP}, want, "after refusals");
    free(kept);
    free(model);
    free(bytes);
    session_close(&other);
    session_close(&r);
}

const fr_test session_memory_tests[] = {
    {"session_memory.requests", "on, off, cleared, by conversation, saved, aborted: the tokens of greedy, with more drafts accepted",
     requests},
    {"session_memory.save_and_load", "bytes go to engines of the same vocabulary only; failed requests leave memory alone", save_and_load},
    {0},
};
