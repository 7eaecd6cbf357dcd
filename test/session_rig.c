#include "test/session_rig.h"

#include <stdlib.h>
#include <string.h>

const tiny_model session_small = {
    .layers = 2, .dim = 64, .heads = 4, .kv_heads = 2, .head_dim = 32, .vocab = 320, .type = "q4_1", .head_type = "q8_0", .seed = 7};

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

session_rig session_engine(uint32_t context, bool portable)
{
    fr_error_text e = {0};
    session_rig r = {fr_host_open(NULL, &e), NULL};
    CHECK_MSG(r.host, "%s", e.text);
    const fr_options options = {.context = context, .portable = portable};
    r.engine = fr_open(fr_host_device(r.host), &options);
    fr_host_attach(r.host, r.engine);
    return r;
}

session_rig session_open(const tiny_model *m, bool portable)
{
    session_rig r = session_engine(CONTEXT, portable);
    size_t size;
    uint8_t *bytes = tiny_model_bytes(m, &size);
    CHECK(bytes);
    session_feed(&r, bytes, size);
    free(bytes);
    session_drive(&r, FR_STATE_READY);
    return r;
}

void session_close(session_rig *r)
{
    fr_host_attach(r->host, NULL);
    fr_close(r->engine);
    fr_host_close(r->host);
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
