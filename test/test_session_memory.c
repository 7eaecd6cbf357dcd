/* test_session_memory.c: session memory in the engine, on small random models: what is remembered and searched, that no answer depends on
 * it, and its way from one engine to another. */
#include "cli/host.h"
#include "load/gguf.h"
#include "spec/memory.h"
#include "test/test.h"
#include "tools/tiny_model.h"

enum { TOKENS = 32, PROMPT = 12, CONTEXT = 160 };

typedef struct rig {
    fr_host *host;
    fr_engine *engine;
} rig;

static const tiny_model small = {.layers = 1, .dim = 64, .heads = 2, .vocab = 320, .type = "q8_0", .untied = true, .seed = 7};

static rig open_engine(uint32_t context)
{
    fr_error_text e = {0};
    rig r = {fr_host_open(NULL, &e), NULL};
    CHECK_MSG(r.host, "%s", e.text);
    r.engine = fr_open(fr_host_device(r.host), &(fr_options){.context = context});
    fr_host_attach(r.host, r.engine);
    return r;
}

static void drive(rig *r)
{
    fr_state s;
    while ((s = fr_poll(r->engine)) != FR_STATE_READY && s != FR_STATE_FAILED)
        fr_host_pump(r->host);
    CHECK_MSG(s == FR_STATE_READY, "%s", fr_error(r->engine));
}

static void feed(rig *r, const uint8_t *bytes, size_t size)
{
    for (size_t at = 0, used; at < size; at += used) {
        CHECK_MSG(fr_feed(r->engine, bytes + at, size - at, &used) == FR_OK, "%s", fr_error(r->engine));
        if (at + used < size) {
            fr_poll(r->engine);
            fr_host_pump(r->host);
        }
    }
    CHECK_INT(fr_feed_end(r->engine), FR_OK);
}

static rig open_rig(const tiny_model *m)
{
    rig r = open_engine(CONTEXT);
    size_t size;
    uint8_t *bytes = tiny_model_bytes(m, &size);
    CHECK(bytes);
    feed(&r, bytes, size);
    free(bytes);
    drive(&r);
    return r;
}

static void close_rig(rig *r)
{
    fr_host_attach(r->host, NULL);
    fr_close(r->engine);
    fr_host_close(r->host);
}

static void prepare(rig *r, uint32_t width)
{
    CHECK_MSG(fr_prepare(r->engine, FR_MODE_TREE, width) == FR_OK, "%s", fr_error(r->engine));
    drive(r);
}

static void prompt(uint32_t ids[PROMPT], uint32_t seed)
{
    for (size_t i = 0; i < PROMPT; i++)
        ids[i] = (seed = seed * 1664525u + 1013904223u) >> 24;
}

static uint32_t count(const rig *r, fr_stat_id id)
{
    return (uint32_t)fr_stat(r->engine, id);
}

/* Runs a request and compares its answer, if `want` is there. */
static void ask(rig *r, const uint32_t ids[PROMPT], fr_request q, const uint32_t *want, const char *what)
{
    q.max_tokens = TOKENS;
    q.ignore_eos = true;
    CHECK_MSG(fr_generate(r->engine, ids, PROMPT, &q) == FR_OK, "%s", fr_error(r->engine));
    drive(r);
    size_t n;
    const uint32_t *tokens = fr_tokens(r->engine, &n);
    CHECK_INT(n, TOKENS);
    for (size_t i = 0; want && i < n; i++)
        CHECK_MSG(tokens[i] == want[i], "%s: token %zu is %u, greedy says %u", what, i, tokens[i], want[i]);
}

static void answer_of(rig *r, const uint32_t ids[PROMPT], uint32_t want[TOKENS])
{
    ask(r, ids, (fr_request){.mode = FR_MODE_GREEDY, .scope = FR_SCOPE_NONE}, NULL, "");
    size_t n;
    memcpy(want, fr_tokens(r->engine, &n), TOKENS * sizeof *want);
}

enum { RUN = FR_MEMORY_LEAD + TOKENS };

static const fr_request tree = {.mode = FR_MODE_TREE};

/* On, off, cleared, by conversation: always the tokens of greedy. Counters say what was searched. */
static void same_tokens(rig *r)
{
    uint32_t a[PROMPT], b[PROMPT], want_a[TOKENS], want_b[TOKENS];
    prompt(a, 1);
    prompt(b, 2);
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

static void conversations(rig *r)
{
    fr_clear_memory(r->engine);
    uint32_t a[PROMPT], want[TOKENS];
    prompt(a, 3);
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
static void aborts(rig *r)
{
    uint32_t a[PROMPT], want[TOKENS], top[PROMPT];
    prompt(a, 4);
    answer_of(r, a, want);
    ask(r, a, tree, want, "to be remembered");
    const fr_request q = {.mode = FR_MODE_TREE, .max_tokens = TOKENS, .ignore_eos = true, .window = 1};
    for (int polls = 0; polls < 9; polls += 2) {
        const uint32_t before = count(r, FR_STAT_MEMORY_TOKENS);
        CHECK_INT(fr_generate(r->engine, a, PROMPT, &q), FR_OK);
        for (int i = 0; i < polls && fr_poll(r->engine) != FR_STATE_READY; i++)
            fr_host_pump(r->host);
        fr_abort(r->engine);
        drive(r);
        size_t n;
        fr_tokens(r->engine, &n);
        CHECK_INT(count(r, FR_STAT_MEMORY_TOKENS), before + (n ? FR_MEMORY_LEAD + n : 0));
    }
    CHECK_INT(fr_generate(r->engine, a, PROMPT, &q), FR_OK);
    fr_poll(r->engine);
    fr_clear_memory(r->engine);
    drive(r);
    size_t n;
    const uint32_t *tokens = fr_tokens(r->engine, &n);
    CHECK(n == TOKENS && !memcmp(tokens, want, sizeof want));
    CHECK_INT(count(r, FR_STAT_MEMORY_TOKENS), RUN);
    CHECK_INT(fr_score(r->engine, a, PROMPT, top, NULL), FR_OK);
    drive(r);
    CHECK_INT(count(r, FR_STAT_MEMORY_TOKENS), RUN); /* nothing was said */
}

static uint8_t *saved(rig *r, size_t *size)
{
    *size = fr_save_memory(r->engine, NULL, 0);
    CHECK_MSG(*size, "%s", fr_error(r->engine));
    uint8_t *bytes = malloc(*size);
    CHECK(bytes);
    CHECK_INT(fr_save_memory(r->engine, bytes, *size), *size);
    return bytes;
}

static void refuses(rig *r, const uint8_t *bytes, size_t size, const char *why)
{
    const uint32_t before = count(r, FR_STAT_MEMORY_TOKENS);
    CHECK_INT(fr_load_memory(r->engine, bytes, size, "notes.memory"), FR_BAD_ARGUMENT);
    CHECK_MSG(strstr(fr_error(r->engine), why), "\"%s\" does not say \"%s\"", fr_error(r->engine), why);
    CHECK_INT(count(r, FR_STAT_MEMORY_TOKENS), before);
}

static fr_status ignore(void *user, fr_error_text *e)
{
    (void)user, (void)e;
    return FR_OK;
}

static fr_status ignore_data(void *user, const gguf_tensor *t, uint64_t at, const uint8_t *bytes, size_t n, size_t *used, fr_error_text *e)
{
    (void)user, (void)t, (void)at, (void)bytes, (void)e;
    *used = n;
    return FR_OK;
}

/* Gains as large as floats get: no logit is finite, so requests fail. */
static void spoil_norms(uint8_t *file, size_t size)
{
    load_heap heap = {0};
    gguf_events events = {NULL, ignore, ignore, ignore_data};
    gguf_reader *reader = gguf_reader_new(&events, &heap);
    fr_error_text e = {0};
    size_t used, n;
    const float largest = 3e38f;
    CHECK_INT(gguf_reader_feed(reader, file, size, &used, &e), FR_OK);
    for (const gguf_tensor *t = gguf_reader_tensors(reader, &n); n; n--, t++)
        for (size_t i = 0; strstr(t->name, "norm") && i < t->bytes / sizeof largest; i++)
            memcpy(file + t->offset + i * sizeof largest, &largest, sizeof largest);
    gguf_reader_free(reader);
}

/* What was saved makes drafts better again. */
static void comes_back(rig *r)
{
    uint32_t a[PROMPT], want[TOKENS];
    size_t size;
    prompt(a, 5);
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
    rig r = open_rig(&small);
    prepare(&r, 2);
    prepare(&r, 8);
    same_tokens(&r);
    conversations(&r);
    aborts(&r);
    comes_back(&r);
    close_rig(&r);
}

/* To an engine of the same vocabulary, whose requests fail and take nothing away, and which fails itself; not to one of another. */
static void save_and_load(void)
{
    rig r = open_rig(&small), other = open_engine(CONTEXT);
    uint32_t a[PROMPT], want[TOKENS];
    size_t size, again, model_size;
    prompt(a, 5);
    answer_of(&r, a, want);
    ask(&r, a, (fr_request){.mode = FR_MODE_LOOP, .conversation = 9}, want, "to be remembered");
    uint8_t *bytes = saved(&r, &size);

    CHECK_INT(fr_save_memory(other.engine, NULL, 0), 0);
    refuses(&other, bytes, size, "no vocabulary yet");
    tiny_model m = small;
    m.seed = 8; /* other weights, the same vocabulary */
    uint8_t *model = tiny_model_bytes(&m, &model_size);
    CHECK(model);
    spoil_norms(model, model_size);
    feed(&other, model, model_size);
    CHECK_INT(fr_load_memory(other.engine, bytes, size, NULL), FR_OK); /* before it is ready */
    drive(&other);
    for (int mode = FR_MODE_GREEDY; mode <= FR_MODE_TREE; mode++) {
        CHECK_INT(fr_generate(other.engine, a, PROMPT, &(fr_request){.mode = (fr_mode)mode, .max_tokens = 4}), FR_OK);
        drive(&other);
        CHECK_INT(fr_finish_reason(other.engine), FR_FINISH_ERROR);
        CHECK_INT(count(&other, FR_STAT_MEMORY_TOKENS), RUN);
    }
    fr_device_lost(other.engine, "as a test");
    CHECK_INT(fr_poll(other.engine), FR_STATE_FAILED);
    uint8_t *kept = saved(&other, &again);
    CHECK(again == size && !memcmp(kept, bytes, size));
    free(kept);
    free(model);
    close_rig(&other);

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
    other = open_engine(1 << 20); /* more than the model has: its load ends with the header, and compiles nothing */
    CHECK_INT(fr_feed(other.engine, model, model_size, &again), FR_BAD_ARGUMENT);
    kept = saved(&other, &again);
    refuses(&r, kept, again, "another model");
    ask(&r, a, (fr_request){.mode = FR_MODE_LOOP}, want, "after refusals");
    free(kept);
    free(model);
    free(bytes);
    close_rig(&other);
    close_rig(&r);
}

const fr_test session_memory_tests[] = {
    {"session_memory.requests", "on, off, cleared, by conversation, saved, aborted: the tokens of greedy, with more drafts accepted",
     requests},
    {"session_memory.save_and_load", "bytes go to engines of the same vocabulary only; failed requests leave memory alone", save_and_load},
    {0},
};
