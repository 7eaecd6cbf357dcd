#include "test/session_rig.h"

#include <stdlib.h>
#include <string.h>

#include "load/gguf.h"

const tiny_model session_small = {
    .layers = 2, .dim = 64, .heads = 4, .kv_heads = 2, .head_dim = 32, .vocab = 320, .type = "q4_1", .head_type = "q8_0", .seed = 7};

const tiny_model session_portable = {.arch = "qwen2",
                                     .layers = 2,
                                     .dim = 96,
                                     .heads = 3,
                                     .kv_heads = 1,
                                     .head_dim = 64,
                                     .ffn = 160,
                                     .vocab = 331,
                                     .type = "q4_0",
                                     .untied = true,
                                     .seed = 3};

fr_state session_drive(session_rig *r, fr_state until)
{
    fr_state s;
    while ((s = fr_poll(r->engine)) != until && s != FR_STATE_FAILED)
        fr_host_pump(r->host);
    CHECK_MSG(s != FR_STATE_FAILED || until == FR_STATE_FAILED, "%s", fr_error(r->engine));
    return s;
}

void session_feed(session_rig *r, const uint8_t *bytes, size_t size)
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

/* ---- what the tests of a process share ---- */

enum { KEEPERS = 16 };
static fr_host *shared;
static struct keeper {
    const tiny_model *model;
    bool portable;
    fr_engine *engine;
} keepers[KEEPERS];

static void close_shared(void)
{
    for (size_t i = 0; i < KEEPERS; i++)
        fr_close(keepers[i].engine);
    fr_host_close(shared);
}

static fr_host *host(void)
{
    fr_error_text e = {0};
    if (!shared) {
        shared = fr_host_open(NULL, &e);
        CHECK_MSG(shared, "%s", e.text);
        atexit(close_shared);
    }
    return shared;
}

const fr_device *session_device(void)
{
    return fr_host_device(host());
}

session_rig session_engine(const fr_device *device, uint32_t context, bool portable)
{
    session_rig r = {.host = host()};
    const fr_options options = {.context = context, .portable = portable};
    r.engine = fr_open(device, &options);
    fr_host_attach(r.host, r.engine);
    return r;
}

void session_feed_model(session_rig *r, const tiny_model *m)
{
    size_t size;
    uint8_t *bytes = tiny_model_bytes(m, &size);
    CHECK(bytes);
    session_feed(r, bytes, size);
    free(bytes);
    session_drive(r, FR_STATE_READY);
}

static fr_engine *keeper_of(const tiny_model *m, bool portable)
{
    struct keeper *k = keepers;
    while (k < keepers + KEEPERS && k->model && (k->model != m || k->portable != portable))
        k++;
    CHECK(k < keepers + KEEPERS);
    if (!k->model) {
        session_rig r = session_engine(session_device(), CONTEXT, portable);
        *k = (struct keeper){m, portable, r.engine};
        session_feed_model(&r, m);
    }
    return k->engine;
}

session_rig session_open_as(const fr_device *device, uint32_t context, const tiny_model *m, bool portable)
{
    fr_engine *keeper = keeper_of(m, portable);
    session_rig r = session_engine(device, context, portable);
    r.keeper = keeper;
    session_feed_model(&r, m);
    return r;
}

session_rig session_open(const tiny_model *m, bool portable)
{
    return session_open_as(session_device(), CONTEXT, m, portable);
}

void session_close(session_rig *r)
{
    fr_host_attach(r->host, NULL);
    fr_close(r->engine);
    CHECK_STR(fr_host_error(r->host), "");
}

void session_prepare(session_rig *r, uint32_t width)
{
    session_rig kept = {.host = r->host, .engine = r->keeper};
    if (kept.engine) {
        CHECK_MSG(fr_prepare(kept.engine, FR_MODE_TREE, width) == FR_OK, "%s", fr_error(kept.engine));
        session_drive(&kept, FR_STATE_READY);
    }
    CHECK_MSG(fr_prepare(r->engine, FR_MODE_TREE, width) == FR_OK, "%s", fr_error(r->engine));
    session_drive(r, FR_STATE_READY);
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

void session_spoil_norms(uint8_t *file, size_t size)
{
    load_heap heap = {0};
    gguf_events events = {NULL, ignore, ignore, ignore_data};
    gguf_reader *reader = gguf_reader_new(&events, &heap);
    fr_error_text e = {0};
    size_t used, n, spoilt = 0;
    const float largest = 3e38f;
    CHECK_INT(gguf_reader_feed(reader, file, size, &used, &e), FR_OK);
    for (const gguf_tensor *t = gguf_reader_tensors(reader, &n); n; n--, t++)
        for (size_t i = 0; strstr(t->name, "norm") && i < t->bytes / sizeof largest; i++, spoilt++)
            memcpy(file + t->offset + i * sizeof largest, &largest, sizeof largest);
    CHECK(spoilt > 0);
    gguf_reader_free(reader);
}

void session_abort(session_rig *r, int polls)
{
    for (int i = 0; i < polls && fr_poll(r->engine) != FR_STATE_READY; i++)
        fr_host_pump(r->host);
    const bool running = fr_finish_reason(r->engine) == FR_FINISH_NONE;
    fr_abort(r->engine);
    session_drive(r, FR_STATE_READY);
    CHECK_INT(fr_finish_reason(r->engine), running ? FR_FINISH_ABORT : FR_FINISH_LENGTH);
}

void session_prompt(uint32_t *ids, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (seed = seed * 1664525u + 1013904223u) >> 24;
}

size_t session_generate(session_rig *r, const uint32_t *ids, size_t n, const fr_request *q, uint32_t *out)
{
    CHECK_MSG(fr_generate(r->engine, ids, n, q) == FR_OK, "%s", fr_error(r->engine));
    session_drive(r, FR_STATE_READY);
    size_t got;
    const uint32_t *tokens = fr_tokens(r->engine, &got);
    CHECK(got <= CONTEXT);
    if (got)
        memcpy(out, tokens, got * sizeof *out);
    return got;
}

void session_same(const uint32_t *a, size_t n_a, const uint32_t *b, size_t n_b, const char *what)
{
    CHECK_MSG(n_a == n_b, "%s: %zu tokens, expected %zu", what, n_b, n_a);
    for (size_t i = 0; i < n_a; i++)
        CHECK_MSG(a[i] == b[i], "%s: token %zu is %u, expected %u", what, i, b[i], a[i]);
}
