/* The loader: where every weight ends up, refusing sinks, damaged and unsupported models, the default model, memory. */
#include "test/test.h"

#include <math.h>

#include "load/tensors.h"
#include "test/load_sink.h"
#include "tools/tiny_model.h"

/* A file in memory and a loader for it. */
typedef struct fixture {
    uint8_t *file;
    size_t size;
    load_sink sink;
    fr_sink interface;
    fr_loader *loader;
    fr_error_text error;
} fixture;

static void open_file(fixture *f, uint8_t *file, size_t size, uint64_t max_pool)
{
    f->file = file;
    f->size = size;
    CHECK(f->file);
    f->interface = load_sink_interface(&f->sink);
    f->loader = fr_loader_new(&f->interface, max_pool);
    CHECK(f->loader);
}

static void open_tiny(fixture *f, const tiny_model *m, uint64_t max_pool)
{
    size_t size;
    uint8_t *file = tiny_model_bytes(m, &size);
    open_file(f, file, size, max_pool);
}

static void close_all(fixture *f)
{
    fr_loader_free(f->loader);
    load_sink_free(&f->sink);
    free(f->file);
    *f = (fixture){0};
}

static void load(fixture *f, size_t chunk)
{
    CHECK_MSG(load_all(f->loader, f->file, f->size, chunk, &f->error) == FR_OK, "%s", f->error.text);
    CHECK_MSG(!f->sink.fault, "%s", f->sink.fault);
    CHECK_INT(f->sink.n_plans, 1);
}

/* The file's tensors by a reader of the test's own. */
typedef struct table {
    load_heap heap;
    gguf_events events;
    gguf_reader *reader;
} table;

static fr_status ignore(void *user, fr_error_text *e)
{
    (void)user, (void)e;
    return FR_OK;
}

static fr_status ignore_data(void *user, const gguf_tensor *t, uint64_t at, const uint8_t *bytes, size_t size, size_t *used,
                             fr_error_text *e)
{
    (void)user, (void)t, (void)at, (void)bytes, (void)e;
    *used = size;
    return FR_OK;
}

static const gguf_tensor *read_table(table *t, const uint8_t *file, size_t size, size_t *n)
{
    fr_error_text e = {0};
    size_t used;
    t->events = (gguf_events){NULL, ignore, ignore, ignore_data};
    t->reader = gguf_reader_new(&t->events, &t->heap);
    CHECK_MSG(gguf_reader_feed(t->reader, file, size, &used, &e) == FR_OK, "%s", e.text);
    return gguf_reader_tensors(t->reader, n);
}

/* Where weights.h says that a tensor's rows go; NULL: a vector. `per_head` of them rotate in pairs. */
static const fr_matrix *home(const char *name, const fr_weights *w, const fr_config *c, uint32_t *row0, uint64_t *vector_at, bool *rotates)
{
    uint32_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim, layer = 0;
    char part[64] = "";
    *row0 = 0;
    *vector_at = w->norms_base + (uint64_t)2 * c->n_layers * c->dim;
    *rotates = false;
    if (!strcmp(name, "token_embd.weight"))
        return &w->embed;
    if (!strcmp(name, "output.weight"))
        return &w->head;
    if (!strcmp(name, "output_norm.weight"))
        return NULL;
    CHECK_INT(sscanf(name, "blk.%u.%63s", &layer, part), 2);
    const fr_layer *l = &w->layers[layer];
    if (!strncmp(part, "attn_norm", 9) || !strncmp(part, "ffn_norm", 8)) {
        *vector_at = w->norms_base + (2 * layer + (*part == 'f')) * c->dim;
        return NULL;
    }
    if (strstr(part, "output"))
        return &l->o;
    if (*part == 'f')
        return strstr(part, "gate") ? &l->gate : strstr(part, "up") ? &l->up : &l->down;
    uint32_t which = part[5] == 'q' ? 0 : part[5] == 'k' ? 1 : 2, before = which == 0 ? 0 : which == 1 ? q : q + kv;
    *rotates = which < 2;
    *vector_at = w->bias_base + (uint64_t)layer * (q + 2 * kv) + before;
    *row0 = l->n_qkv == 1 ? before : 0;
    return strstr(part, "bias") ? NULL : &l->qkv[l->n_qkv == 1 ? 0 : which];
}

static uint32_t paired(uint32_t i, uint32_t head_dim) /* halves of a head interleaved */
{
    uint32_t k = i % head_dim, half = head_dim / 2;
    return i - k + (k < half ? 2 * k : 2 * (k - half) + 1);
}

static void check_row(const fixture *f, const gguf_tensor *t, const fr_matrix *m, uint32_t row, const double *expected)
{
    /* 8 bits made from something else may be off by half a step, and by what clamping after the scale's rounding costs */
    bool exact = t->type == GGML_Q4_0 || (t->type == GGML_Q4_1 && m->type == FR_W_Q4A) || t->type == GGML_Q8_0;
    for (uint32_t b = 0; b < m->cols; b += 32) {
        double largest = 0;
        for (uint32_t i = b; i < b + 32; i++)
            largest = fmax(largest, fabs(expected[i]));
        double tolerance = exact ? 0 : largest / 127 * 0.501 + 1e-12;
        for (uint32_t i = b; i < b + 32; i++) {
            double found = load_stored(&f->sink, m, row, i);
            CHECK_MSG(fabs(found - expected[i]) <= tolerance, "%s: row %u, column %u is %g, expected %g", t->name, row, i, found,
                      expected[i]);
        }
    }
}

static void check_vector(const fixture *f, const gguf_tensor *t, uint64_t at, bool pairs, const double *expected)
{
    const fr_config *c = fr_loader_config(f->loader);
    const float *stored = (const float *)(const void *)f->sink.buffers[FR_SINK_VECTORS];
    for (uint32_t i = 0; i < t->dims[0]; i++) {
        float found = stored[at + (pairs ? paired(i, c->head_dim) : i)];
        CHECK_MSG((double)found == expected[i], "%s: element %u is %g, expected %g", t->name, i, (double)found, expected[i]);
    }
}

/* Every `stride`-th row of every tensor against the bytes of the file; returns how many rows. */
static size_t check_places(const fixture *f, uint32_t stride)
{
    const fr_weights *w = fr_loader_weights(f->loader);
    const fr_config *c = fr_loader_config(f->loader);
    table table = {0};
    size_t n, rows = 0;
    const gguf_tensor *t = read_table(&table, f->file, f->size, &n);
    for (size_t i = 0; i < n; i++, t++) {
        double *expected = calloc((size_t)t->dims[0], sizeof *expected);
        uint32_t row0 = 0;
        uint64_t at = 0;
        bool rotates = false;
        size_t row_bytes = (size_t)(t->dims[0] / ggml_block_size(t->type) * ggml_block_bytes(t->type));
        if (strcmp(t->name, "rope_freqs.weight")) {
            const fr_matrix *m = home(t->name, w, c, &row0, &at, &rotates);
            CHECK(!m || (m->cols == t->dims[0] && m->rows >= row0 + t->dims[1]));
            bool pairs = rotates && c->rope_neox;
            for (uint32_t r = 0; r < t->dims[1]; r += stride, rows++) {
                load_reference(t->type, f->file + t->offset + r * row_bytes, (size_t)t->dims[0], expected);
                if (m)
                    check_row(f, t, m, row0 + (pairs ? paired(r, c->head_dim) : r), expected);
                else
                    check_vector(f, t, at, pairs, expected);
            }
        } else {
            load_reference(t->type, f->file + t->offset, (size_t)t->dims[0], expected);
            for (uint32_t k = 0; k < t->dims[0]; k++)
                CHECK((double)w->rope_factors[k] == expected[k]);
        }
        free(expected);
    }
    gguf_reader_free(table.reader);
    return rows;
}

/* Parts cover the rows, in groups of 64, inside of their pools; returns the bytes they store. */
static uint64_t check_parts(const fr_weights *w, const fr_matrix *m, uint64_t max_pool)
{
    uint32_t row = 0;
    for (uint32_t i = 0; i < m->n_parts; i++) {
        const fr_part *p = &m->parts[i];
        CHECK_INT(p->row0, row);
        CHECK(p->rows > 0 && (p->rows % 64 == 0 || i + 1 == m->n_parts));
        CHECK(p->pool < w->n_pools);
        const fr_pool *pool = &w->pools[p->pool];
        CHECK(16 * (uint64_t)p->code_base + (uint64_t)p->rows * fr_matrix_code_bytes(m) <= pool->code_bytes);
        CHECK(4 * (uint64_t)p->scale_base + (uint64_t)p->rows * fr_matrix_scale_bytes(m) <= pool->scale_bytes);
        CHECK(pool->code_bytes <= max_pool && pool->scale_bytes <= max_pool);
        CHECK(pool->code_bytes % 256 == 0 && pool->scale_bytes % 256 == 0);
        row += p->rows;
    }
    CHECK_INT(row, m->rows);
    return (uint64_t)m->rows * (fr_matrix_code_bytes(m) + fr_matrix_scale_bytes(m));
}

/* The plan's sums, and that as many bytes were written as are stored (none twice, says the sink). */
static void check_plan(const fixture *f, uint64_t max_pool)
{
    const fr_weights *w = fr_loader_weights(f->loader);
    const fr_config *c = fr_loader_config(f->loader);
    uint64_t step = 0, all, q_rows = (c->n_heads + 2 * c->n_kv_heads) * c->head_dim;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        const fr_layer *l = &w->layers[i];
        uint32_t rows = 0;
        for (uint32_t k = 0; k < l->n_qkv; k++) {
            step += check_parts(w, &l->qkv[k], max_pool);
            rows += l->qkv[k].rows;
        }
        CHECK_INT(rows, q_rows);
        CHECK_INT(l->gate.type, l->up.type);
        CHECK_INT(l->gate.n_parts, l->up.n_parts); /* one kernel reads both: cut alike, side by side */
        for (uint32_t k = 0; k < l->gate.n_parts; k++) {
            CHECK_INT(l->gate.parts[k].pool, l->up.parts[k].pool);
            CHECK_INT(l->gate.parts[k].row0, l->up.parts[k].row0);
            CHECK_INT(l->gate.parts[k].rows, l->up.parts[k].rows);
        }
        step += check_parts(w, &l->o, max_pool) + check_parts(w, &l->gate, max_pool) + check_parts(w, &l->up, max_pool) +
                check_parts(w, &l->down, max_pool);
    }
    step += check_parts(w, &w->head, max_pool);
    all = step + (c->tied_head ? 0 : check_parts(w, &w->embed, max_pool));
    uint64_t norms = (uint64_t)(2 * c->n_layers + 1) * c->dim, biases = c->qkv_bias ? c->n_layers * q_rows : 0;
    CHECK_INT(w->matrix_bytes, step);
    CHECK_INT(f->sink.written, all + 4 * (norms + biases));
    CHECK(4 * (w->bias_base + biases) <= w->vector_bytes && w->bias_base >= w->norms_base + norms);
}

static const tiny_model models[] = {
    {.type = "q4_0", .head_type = "q8_0", .kv_heads = 1},
    {.type = "q4_1", .head_type = "q4_1", .untied = true, .rope_factors = true},
    {.type = "q8_0", .head_type = "f16", .dim = 96, .heads = 1, .head_dim = 32, .ffn = 160, .vocab = 263},
    {.type = "f16", .head_type = "q4_0", .untied = true, .dim = 288, .heads = 9, .kv_heads = 3, .ffn = 768},
    {.type = "bf16", .heads = 1, .head_dim = 64},
    {.type = "f32", .arch = "qwen2", .heads = 4, .kv_heads = 2, .head_dim = 32},
    {.type = "q6_k", .dim = 256, .heads = 4, .ffn = 512, .layers = 1},
    {.type = "q4_0",
     .v_type = "q8_0",
     .up_type = "q8_0",
     .arch = "qwen2",
     .untied = true,
     .dim = 128,
     .heads = 2,
     .head_dim = 96,
     .ffn = 352},
    {.type = "q4_1", .v_type = "f32", .up_type = "f32", .kv_heads = 1},
    {.type = "q4_1", .head_type = "q8_0", .dim = 32, .heads = 1, .vocab = 33000, .layers = 1}, /* an embedding of several stages */
    {.type = "q8_0", .arch = "qwen2", .dim = 4096, .heads = 1, .head_dim = 256, .ffn = 32, .vocab = 260, .layers = 1}, /* a head larger than
                                                                                                                          the stage */
    {.type = "q4_0", .arch = "qwen2", .dim = 896, .heads = 14, .kv_heads = 2, .ffn = 320, .layers = 1},
};
enum { N_MODELS = sizeof models / sizeof *models };

static void places(void)
{
    /* pools that hold everything, and such that matrices are cut */
    static const uint64_t pools[] = {1 << 27, 16384};
    size_t cut = 0;
    for (size_t i = 0; i < N_MODELS; i++)
        for (size_t p = 0; p < 2; p++) {
            fixture f = {0};
            uint64_t pool = !p || models[i].dim <= 64 ? pools[p] : models[i].dim < 1024 ? 8 * pools[p] : 32 * pools[p];
            if (p && models[i].vocab > 1000) /* more parts than there may be */
                continue;
            open_tiny(&f, &models[i], pool);
            load(&f, 1000);
            CHECK(check_places(&f, 1) > 100);
            check_plan(&f, pool);
            cut += fr_loader_weights(f.loader)->embed.n_parts > 1;
            uint64_t expected = fr_loader_expected_bytes(f.loader); /* the file is padded behind it */
            CHECK(expected <= f.size && f.size - expected < 32);
            close_all(&f);
        }
    CHECK_MSG(cut >= 4, "only %zu embeddings were cut", cut);
}

static void facts(void)
{
    fixture f = {0};
    open_tiny(&f, &models[7], 1 << 27);
    CHECK_INT(fr_loader_expected_bytes(f.loader), 0);
    load(&f, 0);
    const fr_weights *w = fr_loader_weights(f.loader);
    CHECK_STR(fr_loader_types(f.loader), "Q4_0, Q8_0");
    CHECK_INT(w->layers[0].n_qkv, 3);
    CHECK_INT(w->layers[0].qkv[0].type, FR_W_Q4S);
    CHECK_INT(w->layers[0].qkv[2].type, FR_W_Q8);
    CHECK_INT(w->layers[1].gate.type, FR_W_Q8); /* Q4_0, but its neighbour has 8 bits */
    CHECK(!fr_loader_config(f.loader)->tied_head && w->embed.parts[0].code_base != w->head.parts[0].code_base);
    CHECK(!w->rope_factors);
    gguf_string name;
    CHECK(gguf_str(fr_loader_meta(f.loader), "general.name", &name) && name.size == 4 && !memcmp(name.data, "tiny", 4));
    close_all(&f);
    open_tiny(&f, &models[1], 1 << 27);
    load(&f, 0);
    CHECK_INT(fr_loader_weights(f.loader)->layers[0].n_qkv, 1);
    CHECK(fr_loader_weights(f.loader)->rope_factors);
    close_all(&f);
}

/* A sink that refuses half of its writes gets the same bytes in the end, whatever the chunks. */
static void refusals(void)
{
    fixture whole = {0};
    open_tiny(&whole, &models[7], 40000);
    load(&whole, 0);
    for (uint32_t seed = 1; seed <= 40; seed++) {
        fixture f = {.sink = {.refuse = seed * 7919}};
        open_tiny(&f, &models[7], 40000);
        load(&f, seed % 4 == 0 ? 0 : seed * seed * 3);
        CHECK(f.sink.n_refused > 20);
        for (uint32_t b = 0; b < LOAD_BUFFERS; b++)
            CHECK(f.sink.sizes[b] == whole.sink.sizes[b] &&
                  (!f.sink.sizes[b] || !memcmp(f.sink.buffers[b], whole.sink.buffers[b], f.sink.sizes[b])));
        close_all(&f);
    }
    close_all(&whole);
}

static void closed_sink(void)
{
    fixture f = {0};
    open_tiny(&f, &models[0], 1 << 27);
    size_t at = 0, used;
    bool done = true;
    f.sink.closed = true;
    CHECK_INT(fr_loader_feed(f.loader, f.file, f.size, &at, &f.error), FR_OK);
    CHECK(at < f.size);
    for (int i = 0; i < 3; i++) { /* nothing moves while it is closed */
        CHECK_INT(fr_loader_feed(f.loader, f.file + at, f.size - at, &used, &f.error), FR_OK);
        CHECK_INT(used, 0);
    }
    CHECK_INT(f.sink.written, 0);
    f.sink.closed = false;
    CHECK_INT(fr_loader_feed(f.loader, NULL, 0, &used, &f.error), FR_OK); /* a feed of nothing makes the pending writes */
    CHECK(f.sink.written > 0);
    CHECK_INT(fr_loader_feed(f.loader, f.file + at, f.size - at - 1, &used, &f.error), FR_OK);
    CHECK_INT(used, f.size - at - 1);
    /* the last tensor is complete but for padding at most: close before its last write */
    close_all(&f);

    open_tiny(&f, &models[0], 1 << 27);
    size_t end = 0;
    CHECK_INT(fr_loader_feed(f.loader, f.file, f.size - 100, &end, &f.error), FR_OK);
    CHECK_INT(end, f.size - 100);
    f.sink.closed = true;
    CHECK_INT(fr_loader_feed(f.loader, f.file + end, 100, &used, &f.error), FR_OK);
    CHECK_INT(used, 100); /* collected, not written */
    for (int i = 0; i < 3; i++) {
        CHECK_INT(fr_loader_end(f.loader, &done, &f.error), FR_OK);
        CHECK(!done);
    }
    f.sink.closed = false;
    CHECK_INT(fr_loader_end(f.loader, &done, &f.error), FR_OK);
    CHECK(done);
    CHECK(check_places(&f, 1) > 0);
    close_all(&f);
}

static void expect_failure(fixture *f, fr_status status, const char *text)
{
    CHECK_MSG(load_all(f->loader, f->file, f->size, 777, &f->error) == status, "expected \"%s\", got \"%s\"", text, f->error.text);
    CHECK_MSG(strstr(f->error.text, text), "\"%s\" lacks \"%s\"", f->error.text, text);
    size_t used;
    bool done;
    fr_error_text again = {0}; /* a refused file stays refused */
    CHECK_INT(fr_loader_feed(f->loader, f->file, f->size, &used, &again), status);
    CHECK_INT(used, 0);
    again = (fr_error_text){0};
    CHECK_INT(fr_loader_end(f->loader, &done, &again), status);
    CHECK(!done && *again.text);
    close_all(f);
}

/* The name of a tensor in the header: behind its length, so that a longer name does not match. */
static char *find_name(const fixture *f, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 8; i + n <= f->size; i++)
        if (!memcmp(f->file + i, name, n) && f->file[i - 8] == n && !f->file[i - 7])
            return (char *)f->file + i;
    test_fail(__FILE__, __LINE__, "no \"%s\" in the file", name);
}

/* Every tensor of a model, renamed: it is missing, by name, before any byte of data was written. */
static void missing(void)
{
    static const tiny_model m = {.arch = "qwen2", .dim = 32, .heads = 1, .untied = true, .vocab = 260};
    size_t size, n;
    uint8_t *file = tiny_model_bytes(&m, &size);
    table table = {0};
    const gguf_tensor *t = read_table(&table, file, size, &n);
    for (size_t i = 0; i < n; i++) {
        fixture f = {0};
        open_tiny(&f, &m, 1 << 27);
        char text[100];
        snprintf(text, sizeof text, !strcmp(t[i].name, "output.weight") ? "tensor Output.weight is unknown" : "tensor %s is missing",
                 t[i].name);
        char *name = find_name(&f, t[i].name);
        *name = (char)(*name - 32); /* upper case */
        CHECK(load_all(f.loader, f.file, f.size, 0, &f.error) == FR_BAD_MODEL);
        CHECK_MSG(strstr(f.error.text, text), "\"%s\" lacks \"%s\"", f.error.text, text);
        CHECK_INT(f.sink.n_plans, 0);
        close_all(&f);
    }
    gguf_reader_free(table.reader);
    free(file);
}

static void unknown(void)
{
    fixture f = {0};
    tiny_model m = {.rope_factors = true};
    open_tiny(&f, &m, 1 << 27);
    memcpy(find_name(&f, "rope_freqs.weight"), "rope_freks", 10);
    expect_failure(&f, FR_BAD_MODEL, "tensor rope_freks.weight is unknown in a llama model of 2 layers");
}

static void names(void)
{
    static const struct {
        const char *name;
        bool known;
        tensor_role role;
        uint32_t layer;
    } cases[] = {
        {"token_embd.weight", true, TENSOR_EMBED, 0},
        {"output.weight", true, TENSOR_HEAD, 0},
        {"rope_freqs.weight", true, TENSOR_ROPE, 0},
        {"blk.0.attn_q.weight", true, TENSOR_Q, 0},
        {"blk.11.ffn_down.weight", true, TENSOR_DOWN, 11},
        {"blk.12.ffn_down.weight", false, 0, 0},
        {"blk.00.attn_q.weight", false, 0, 0},
        {"blk.01.attn_q.weight", false, 0, 0},
        {"blk.1x.attn_q.weight", false, 0, 0},
        {"blk..attn_q.weight", false, 0, 0},
        {"blk.4294967296.attn_q.weight", false, 0, 0},
        {"blk.-1.attn_q.weight", false, 0, 0},
        {"blk.1.attn_q.bias", false, 0, 0},
        {"blk.1.attn_q_norm.weight", false, 0, 0},
        {"blk.1.token_embd.weight", false, 0, 0},
        {"attn_q.weight", false, 0, 0},
        {"blk.1.", false, 0, 0},
        {"blk.1", false, 0, 0},
        {"blk.", false, 0, 0},
        {"", false, 0, 0},
    };
    const fr_config c = {.n_layers = 12};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tensor_role role = TENSOR_ROLES;
        uint32_t layer;
        CHECK_MSG(tensor_identify(cases[i].name, &c, &role, &layer) == cases[i].known, "%s", cases[i].name);
        CHECK(!cases[i].known || (role == cases[i].role && layer == cases[i].layer));
    }
    const fr_config with_biases = {.n_layers = 12, .qkv_bias = true};
    tensor_role role;
    uint32_t layer;
    CHECK(tensor_identify("blk.7.attn_v.bias", &with_biases, &role, &layer) && role == TENSOR_V_BIAS && layer == 7);
}

static void three_dimensions(void)
{
    static const tiny_model m = {.dim = 64};
    fixture f = {0};
    open_tiny(&f, &m, 1 << 27);
    /* the last tensor, so that its growth does not overlap another: [64] becomes [64, 1, 2] */
    char *dims = find_name(&f, "output_norm.weight") + 18;
    size_t behind = f.size - 16 - (size_t)(dims + 12 - (char *)f.file); /* what does not fit falls off the end */
    memmove(dims + 28, dims + 12, behind);
    memcpy(dims, "\x03\0\0\0\x40\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0", 28);
    expect_failure(&f, FR_BAD_MODEL, "tensor output_norm.weight has the shape [64, 1, 2], expected is [64]");
}

static void bad_rope_factor(void)
{
    static const float bad[] = {0, -1, NAN, INFINITY};
    static const tiny_model m = {.rope_factors = true};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fixture f = {0};
        open_tiny(&f, &m, 1 << 27);
        table table = {0};
        size_t n;
        read_table(&table, f.file, f.size, &n);
        memcpy(f.file + gguf_reader_find(table.reader, "rope_freqs.weight")->offset + 8, &bad[i], 4);
        gguf_reader_free(table.reader);
        expect_failure(&f, FR_BAD_MODEL, "tensor rope_freqs.weight, row 0, holds a weight that is NaN, infinite or out of range");
    }
}

/* A weight that is no number: the tensor is named. */
static void damaged_weights(void)
{
    static const struct {
        const char *type, *tensor;
        size_t at; /* of two bytes in the first block that become an infinity or NaN */
    } cases[] = {{"q4_0", "blk.1.ffn_up.weight", 0}, {"q4_1", "blk.0.attn_v.weight", 2},   {"q8_0", "blk.1.ffn_down.weight", 0},
                 {"f16", "token_embd.weight", 6},    {"bf16", "blk.0.attn_k.weight", 4},   {"f32", "blk.1.attn_output.weight", 10},
                 {"f32", "output_norm.weight", 2},   {"q8_0", "blk.1.ffn_norm.weight", 6}, {"q8_0", "rope_freqs.weight", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiny_model m = {.type = cases[i].type, .rope_factors = true};
        fixture f = {0};
        open_tiny(&f, &m, 1 << 27);
        table table = {0};
        size_t n;
        read_table(&table, f.file, f.size, &n);
        const gguf_tensor *t = gguf_reader_find(table.reader, cases[i].tensor);
        CHECK(t);
        memcpy(f.file + t->offset + cases[i].at, "\x80\x7f", 2);
        gguf_reader_free(table.reader);
        char text[100];
        snprintf(text, sizeof text, "tensor %s, row 0, holds a weight that is NaN", cases[i].tensor);
        expect_failure(&f, FR_BAD_MODEL, text);
    }
}

static void limits(void)
{
    fixture f = {0};
    static const tiny_model wide = {.type = "q8_0", .dim = 64, .ffn = 256, .layers = 1};
    open_tiny(&f, &wide, 10000);
    expect_failure(&f, FR_NO_GPU, "64 rows of matrix down take 16384 bytes, the device's largest storage binding is 9984");
    static const tiny_model tall = {.type = "q8_0", .dim = 64, .vocab = 16384, .layers = 1};
    open_tiny(&f, &tall, 65536);
    expect_failure(&f, FR_NO_GPU, "matrix token_embd.weight (16384 x 64) needs more than 8 buffers of 65536 bytes");
    static const tiny_model deep = {.type = "q8_0", .dim = 64, .layers = 40};
    open_tiny(&f, &deep, 16384);
    expect_failure(&f, FR_NO_GPU, "the weights do not fit 64 buffers of 16384 bytes");
    open_tiny(&f, &deep, 0);
    expect_failure(&f, FR_NO_GPU, "is 0");
}

static void plan_refused(void)
{
    fixture f = {.sink = {.refusal = FR_FAILED}};
    open_tiny(&f, &models[0], 1 << 27);
    expect_failure(&f, FR_FAILED, "could not be placed");
}

static void without_end(void)
{
    fixture f = {0};
    open_tiny(&f, &models[0], 1 << 27);
    f.size -= 200;
    expect_failure(&f, FR_BAD_MODEL, "bytes of tensor output_norm.weight");
}

static void default_model(void)
{
    if (!*test_model())
        test_skip("the default model is not there");
    fixture f = {0};
    size_t size;
    char *file = test_read(test_model(), &size);
    open_file(&f, (uint8_t *)file, size, 1 << 27);
    load(&f, 1 << 20);
    const fr_config *c = fr_loader_config(f.loader);
    const fr_weights *w = fr_loader_weights(f.loader);
    CHECK_STR(c->architecture, "llama");
    CHECK_INT(c->n_layers, 30);
    CHECK_INT(c->dim, 576);
    CHECK_INT(c->n_heads, 9);
    CHECK_INT(c->n_kv_heads, 3);
    CHECK_INT(c->head_dim, 64);
    CHECK_INT(c->ffn_dim, 1536);
    CHECK_INT(c->vocab, 49152);
    CHECK(c->rope_base == 100000 && c->rope_scale == 1 && c->tied_head && !c->rope_neox && !c->qkv_bias);
    CHECK_INT(w->parameters, 134515008);
    CHECK_INT(w->embed.type, FR_W_Q8);
    CHECK_INT(w->layers[29].down.type, FR_W_Q4A);
    CHECK_STR(fr_loader_types(f.loader), "Q4_1, Q8_0");
    CHECK_INT(fr_loader_expected_bytes(f.loader), 98362432);
    CHECK(fr_loader_peak_bytes(f.loader) < 8 << 20);
    CHECK(check_places(&f, 97) > 2000);
    check_plan(&f, 1 << 27);
    close_all(&f);
}

/* Memory. A child process of the harness runs this alone, so its peak is this test's. */

static long resident_peak_kb(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    if (!f)
        return -1;
    char line[200];
    long kb = -1;
    while (kb < 0 && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %ld", &kb) != 1)
            kb = -1;
    fclose(f);
    return kb;
}

static bool feed(void *user, const void *bytes, size_t size)
{
    fixture *f = user;
    f->size += size;
    for (size_t used; size; bytes = (const char *)bytes + used, size -= used)
        if (fr_loader_feed(f->loader, bytes, size, &used, &f->error) != FR_OK)
            return false;
    return true;
}

/* Ends the writing once the header is complete. */
static bool feed_header(void *user, const void *bytes, size_t size)
{
    fixture *f = user;
    return feed(user, bytes, size) && !fr_loader_expected_bytes(f->loader);
}

/* Random weights of a real model's shapes have as many parameters as that model. */
static void shapes(void)
{
    static const struct {
        const char *name;
        uint64_t parameters;
    } known[] = {{"SmolLM2-135M", 134515008}, {"Qwen2.5-0.5B", 494032768},  {"Qwen2.5-1.5B", 1543714304}, {"Qwen2.5-3B", 3085938688},
                 {"Qwen2.5-7B", 7615616512},  {"Llama-3.2-1B", 1235814400}, {"Llama-3.2-3B", 3212749824}, {"Llama-3.1-8B", 8030261248}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        tiny_model m = {.type = "q4_0", .repeat = true};
        CHECK_MSG(tiny_model_shape(&m, known[i].name), "%s", known[i].name);
        fixture f = {.sink = {.discard = true}};
        f.interface = load_sink_interface(&f.sink);
        f.loader = fr_loader_new(&f.interface, 1 << 30);
        tiny_model_write(&m, feed_header, &f);
        CHECK_MSG(fr_loader_weights(f.loader)->parameters == known[i].parameters, "%s has %llu parameters", known[i].name,
                  (unsigned long long)fr_loader_weights(f.loader)->parameters);
        fr_loader_free(f.loader);
    }
    CHECK(!tiny_model_shape(&(tiny_model){0}, "8B"));
}

/* A file of an 8B model goes from the generator into the loader: gigabytes, none of which stay. */
static void memory(void)
{
    tiny_model m = {.type = "q4_0", .head_type = "q8_0", .repeat = true};
    CHECK(tiny_model_shape(&m, "Llama-3.1-8B"));
    fixture f = {.sink = {.discard = true}};
    long before = resident_peak_kb();
    f.interface = load_sink_interface(&f.sink);
    f.loader = fr_loader_new(&f.interface, 1 << 27);
    const char *why = tiny_model_write(&m, feed, &f);
    CHECK_MSG(!why, "%s: %s", why, f.error.text);
    bool done;
    CHECK_MSG(fr_loader_end(f.loader, &done, &f.error) == FR_OK && done, "%s", f.error.text);
    CHECK_INT(fr_loader_weights(f.loader)->parameters, 8030261248);
    CHECK(f.size > 4500000000 && f.sink.written > 4500000000);
    CHECK_MSG(fr_loader_peak_bytes(f.loader) < 64 << 20, "the loader took %zu bytes", fr_loader_peak_bytes(f.loader));
    long grown = resident_peak_kb() - before;
    CHECK_MSG(before > 0 && grown < 64 << 10, "the process grew by %ld KiB", grown);
    fr_loader_free(f.loader);
}

const fr_test loader_tests[] = {
    {"loader.places", "every weight of small models where weights.h says, in whole and in cut pools", places},
    {"loader.facts", "types, stacking of q, k and v, shared types, tied heads", facts},
    {"loader.refusals", "a sink that refuses half of the writes gets the same bytes", refusals},
    {"loader.closed_sink", "nothing moves while the sink refuses, and the end waits", closed_sink},
    {"loader.missing", "each tensor missing in turn is named before any write", missing},
    {"loader.unknown", "tensors that the family does not have", unknown},
    {"loader.names", "tensor names are taken literally", names},
    {"loader.three_dimensions", "dimensions beyond a matrix's count", three_dimensions},
    {"loader.bad_rope_factor", "factors that no frequency can be divided by", bad_rope_factor},
    {"loader.damaged_weights", "NaN and infinite weights name their tensor", damaged_weights},
    {"loader.limits", "too many parts, too many pools", limits},
    {"loader.plan_refused", "a sink that can't allocate ends the load", plan_refused},
    {"loader.without_end", "a file that ends in its data names tensor and place", without_end},
    {"loader.default_model", "SmolLM2-135M: configuration, sizes, and a sample of its rows", default_model},
    {"loader.shapes", "random weights of named shapes have the parameters of the models named", shapes},
    {"loader.memory", "an 8B model of 4.5 GB passes through less than 64 MiB", memory},
    {0},
};
