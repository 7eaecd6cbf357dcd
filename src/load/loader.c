/* From the reader's pieces of tensors to writes of the sink, row by row:
 *
 *   bytes ─► row (in place if a piece holds all of it, else collected) ─► repacked into the stage ─► full stage ─► writes
 *
 * The stage holds a *span* of neighbouring stored rows. Where the sink refuses, the writes stay and the reader is paused, so nothing is
 * ever converted twice. */
#include "load/loader.h"

#include <stdio.h>
#include <string.h>

#include "load/read_config.h"
#include "load/repack.h"
#include "load/tensors.h"

enum {
    STAGE = 1 << 20,            /* bytes to collect, if a row is not larger */
    MAX_WRITES = 2 * FR_MAX_PARTS /* a span may cross parts; each has codes and scales */
};

typedef struct pending_write {
    uint32_t buffer;
    uint64_t offset;
    const uint8_t *bytes;
    size_t size;
} pending_write;

struct fr_loader {
    fr_sink sink;
    uint64_t max_pool_bytes;
    load_heap heap;
    gguf_events events;
    gguf_reader *reader;
    fr_status failed;

    fr_config config;
    fr_weights weights;
    char types[128];

    /* the tensor that is being read */
    const gguf_tensor *tensor;
    tensor_target target;
    size_t row_bytes, row_have; /* in the file; collected in `row` */
    uint32_t row;               /* the next one, in file order */
    uint32_t span_rows;         /* rows of the stage */
    uint32_t span_start, span_have; /* first stored row of the span, relative to target.row0 */

    uint8_t *row_buffer, *stage;
    size_t row_buffer_size, stage_size;
    size_t scales_at; /* place in stage of the scales, behind the codes of span_rows rows */
    pending_write writes[MAX_WRITES];
    uint32_t n_writes, write; /* those from `write` on are still to be made */
};

/* Writes what is pending; false if the sink refuses. */
static bool drain(fr_loader *l)
{
    for (; l->write < l->n_writes; l->write++) {
        const pending_write *w = &l->writes[l->write];
        if (!l->sink.write(l->sink.user, w->buffer, w->offset, w->bytes, w->size))
            return false;
    }
    l->n_writes = l->write = 0;
    return true;
}

static void add_write(fr_loader *l, uint32_t buffer, uint64_t offset, const uint8_t *bytes, size_t size)
{
    l->writes[l->n_writes++] = (pending_write){buffer, offset, bytes, size};
}

/* The rows of the stage, cut where a part of the matrix ends. */
static void finish_span(fr_loader *l)
{
    const fr_matrix *m = l->target.matrix;
    uint32_t code_bytes = fr_matrix_code_bytes(m), scale_bytes = fr_matrix_scale_bytes(m);
    uint32_t first = l->target.row0 + l->span_start, end = first + l->span_have;
    for (uint32_t i = 0; i < m->n_parts; i++) {
        const fr_part *p = &m->parts[i];
        uint32_t from = first > p->row0 ? first : p->row0, to = end < p->row0 + p->rows ? end : p->row0 + p->rows;
        if (from >= to)
            continue;
        size_t in_stage = from - first, in_part = from - p->row0, rows = to - from;
        add_write(l, 2 * p->pool, 16 * (uint64_t)p->code_base + (uint64_t)in_part * code_bytes, l->stage + in_stage * code_bytes,
                  rows * code_bytes);
        add_write(l, 2 * p->pool + 1, 4 * (uint64_t)p->scale_base + (uint64_t)in_part * scale_bytes,
                  l->stage + l->scales_at + in_stage * scale_bytes, rows * scale_bytes);
    }
    l->span_have = 0;
}

/* Place of file row i after the permutation of its head: pairs that rotate together become neighbours. */
static uint32_t permuted(const fr_loader *l, uint32_t i)
{
    uint32_t half = l->config.head_dim / 2, in_head = i % (2 * half);
    return i - in_head + (in_head < half ? 2 * in_head : 2 * (in_head - half) + 1);
}

static bool stage_matrix_row(fr_loader *l, const uint8_t *bytes)
{
    const fr_matrix *m = l->target.matrix;
    uint32_t to = l->target.permute ? permuted(l, l->row) : l->row;
    if (!l->span_have) /* spans of permuted rows are whole heads, or single rows */
        l->span_start = l->span_rows > 1 ? l->row : to;
    size_t slot = to - l->span_start;
    bool ok = repack_row((ggml_type)l->tensor->type, m, bytes, l->stage + slot * fr_matrix_code_bytes(m),
                         l->stage + l->scales_at + slot * fr_matrix_scale_bytes(m));
    if (++l->span_have == l->span_rows || l->row + 1 == l->target.rows)
        finish_span(l);
    return ok;
}

static bool stage_vector(fr_loader *l, const uint8_t *bytes)
{
    size_t n = l->target.cols, element = ggml_block_bytes(l->tensor->type);
    bool ok = true;
    for (uint32_t i = 0; i < n; i++) {
        float x;
        ok &= repack_floats((ggml_type)l->tensor->type, bytes + i * element, 1, &x);
        memcpy(l->stage + 4 * (size_t)(l->target.permute ? permuted(l, i) : i), &x, 4);
    }
    add_write(l, FR_SINK_VECTORS, 4 * l->target.vector_at, l->stage, 4 * n);
    return ok;
}

static bool keep_rope_factors(fr_loader *l, const uint8_t *bytes)
{
    bool ok = repack_floats((ggml_type)l->tensor->type, bytes, l->target.cols, l->weights.rope_factors);
    for (uint32_t i = 0; i < l->target.cols; i++)
        ok &= l->weights.rope_factors[i] > 0;
    return ok;
}

static fr_status take_row(fr_loader *l, const uint8_t *bytes, fr_error_text *e)
{
    bool ok = l->target.matrix                ? stage_matrix_row(l, bytes)
              : l->target.role == TENSOR_ROPE ? keep_rope_factors(l, bytes)
                                              : stage_vector(l, bytes);
    l->row++;
    if (ok)
        return FR_OK;
    return fr_fail(e, FR_BAD_MODEL,
                   "tensor %s, row %u, holds a weight that is NaN, infinite or out of range; the model file is damaged, download it again",
                   l->tensor->name, l->row - 1);
}

static uint32_t span_rows(const fr_loader *l, const tensor_target *t)
{
    if (!t->matrix)
        return 1;
    uint32_t most = STAGE / (fr_matrix_code_bytes(t->matrix) + fr_matrix_scale_bytes(t->matrix));
    if (t->permute)
        return most >= l->config.head_dim ? l->config.head_dim : 1;
    return most > t->rows ? t->rows : most ? most : 1;
}

static size_t file_row_bytes(const gguf_tensor *t)
{
    return (size_t)(t->dims[0] / ggml_block_size(t->type) * ggml_block_bytes(t->type));
}

static void begin_tensor(fr_loader *l, const gguf_tensor *t)
{
    tensor_role role = TENSOR_ROLES;
    uint32_t layer = 0;
    tensor_identify(t->name, &l->config, &role, &layer); /* the header was refused if this could fail */
    l->tensor = t;
    l->target = tensor_place(role, layer, &l->config, &l->weights);
    l->row_bytes = file_row_bytes(t);
    l->row = 0;
    l->span_rows = span_rows(l, &l->target);
    l->scales_at = l->target.matrix ? (size_t)l->span_rows * fr_matrix_code_bytes(l->target.matrix) : 0;
}

/* The next row out of `bytes`; NULL: the rest of it is still to come. */
static const uint8_t *next_row(fr_loader *l, const uint8_t *bytes, size_t size, size_t *used)
{
    size_t left = size - *used, missing = l->row_bytes - l->row_have;
    if (!l->row_have && left >= l->row_bytes) {
        *used += l->row_bytes;
        return bytes + *used - l->row_bytes;
    }
    size_t n = missing < left ? missing : left;
    memcpy(l->row_buffer + l->row_have, bytes + *used, n);
    *used += n;
    l->row_have += n;
    if (l->row_have < l->row_bytes)
        return NULL;
    l->row_have = 0;
    return l->row_buffer;
}

static fr_status on_data(void *user, const gguf_tensor *t, uint64_t at, const uint8_t *bytes, size_t size, size_t *used, fr_error_text *e)
{
    fr_loader *l = user;
    *used = 0;
    while (*used < size) {
        if (!drain(l))
            return FR_OK;
        if (at == 0 && *used == 0)
            begin_tensor(l, t);
        const uint8_t *row = next_row(l, bytes, size, used);
        fr_status s = row ? take_row(l, row, e) : FR_OK;
        if (s != FR_OK)
            return s;
    }
    drain(l);
    return FR_OK;
}

/* Header */

static fr_status no_memory(fr_error_text *e)
{
    return fr_fail(e, FR_FAILED, "out of memory while loading the model");
}

static fr_status on_metadata(void *user, fr_error_text *e)
{
    fr_loader *l = user;
    return fr_config_read(&l->config, gguf_reader_meta(l->reader), e);
}

/* Distinct file types of the matrices by bytes, largest first. */
static void list_types(fr_loader *l)
{
    uint64_t bytes[GGML_BF16 + 1] = {0};
    size_t n, length = 0;
    const gguf_tensor *t = gguf_reader_tensors(l->reader, &n);
    for (; n; n--, t++) {
        tensor_role role;
        uint32_t layer;
        if (tensor_identify(t->name, &l->config, &role, &layer) && tensor_is_matrix(role))
            bytes[t->type] += t->bytes;
    }
    for (;;) {
        uint32_t largest = 0;
        for (uint32_t i = 1; i <= GGML_BF16; i++)
            if (bytes[i] > bytes[largest])
                largest = i;
        if (!bytes[largest])
            return;
        length += (size_t)snprintf(l->types + length, sizeof l->types - length, "%s%s", length ? ", " : "", ggml_type_name(largest));
        bytes[largest] = 0;
    }
}

static fr_wtype stored_type(const fr_loader *l, tensor_role role, uint32_t layer)
{
    const gguf_tensor *t = tensor_find(l->reader, role, layer);
    return t ? repack_type((ggml_type)t->type) : FR_W_Q8;
}

static fr_status plan_weights(fr_loader *l, fr_error_text *e)
{
    uint32_t n = l->config.n_layers;
    fr_layer_types *types = heap_alloc(&l->heap, n * sizeof *types);
    l->weights.layers = heap_alloc(&l->heap, n * sizeof *l->weights.layers);
    fr_status s = types && l->weights.layers ? FR_OK : no_memory(e);
    for (uint32_t i = 0; s == FR_OK && i < n; i++) {
        fr_wtype gate = stored_type(l, TENSOR_GATE, i), up = stored_type(l, TENSOR_UP, i);
        types[i] = (fr_layer_types){.q = stored_type(l, TENSOR_Q, i),
                                    .k = stored_type(l, TENSOR_K, i),
                                    .v = stored_type(l, TENSOR_V, i),
                                    .o = stored_type(l, TENSOR_O, i),
                                    .gate_up = gate == up ? gate : FR_W_Q8,
                                    .down = stored_type(l, TENSOR_DOWN, i)};
    }
    if (s == FR_OK)
        s = fr_weights_plan(&l->weights, &l->config, stored_type(l, TENSOR_EMBED, 0), stored_type(l, TENSOR_HEAD, 0), types,
                            l->max_pool_bytes, e);
    heap_free(&l->heap, types, n * sizeof *types);
    return s;
}

static size_t rope_bytes(const fr_loader *l)
{
    return l->config.head_dim / 2 * sizeof(float);
}

/* Buffers for the largest row and span of this file. */
static fr_status allocate(fr_loader *l, fr_error_text *e)
{
    size_t n;
    const gguf_tensor *t = gguf_reader_tensors(l->reader, &n);
    for (; n; n--, t++) {
        begin_tensor(l, t);
        const fr_matrix *m = l->target.matrix;
        size_t span = m ? (size_t)l->span_rows * (fr_matrix_code_bytes(m) + fr_matrix_scale_bytes(m)) : 4 * (size_t)l->target.cols;
        l->stage_size = span > l->stage_size ? span : l->stage_size;
        l->row_buffer_size = l->row_bytes > l->row_buffer_size ? l->row_bytes : l->row_buffer_size;
    }
    l->stage = heap_alloc(&l->heap, l->stage_size);
    l->row_buffer = heap_alloc(&l->heap, l->row_buffer_size);
    if (tensor_find(l->reader, TENSOR_ROPE, 0) && !(l->weights.rope_factors = heap_alloc(&l->heap, rope_bytes(l))))
        return no_memory(e);
    return l->stage && l->row_buffer ? FR_OK : no_memory(e);
}

static fr_status on_header(void *user, fr_error_text *e)
{
    fr_loader *l = user;
    l->config.tied_head = !tensor_find(l->reader, TENSOR_HEAD, 0);
    fr_status s = tensor_check(l->reader, &l->config, e);
    if (s == FR_OK)
        s = plan_weights(l, e);
    if (s == FR_OK)
        s = allocate(l, e);
    if (s != FR_OK)
        return s;
    list_types(l);
    s = l->sink.plan(l->sink.user, &l->config, &l->weights, gguf_reader_meta(l->reader), e);
    return s == FR_OK ? FR_OK : fr_fail(e, s, "the weights could not be placed on the device");
}

/* Interface */

fr_loader *fr_loader_new(const fr_sink *sink, uint64_t max_pool_bytes)
{
    load_heap heap = {0};
    fr_loader *l = heap_alloc(&heap, sizeof *l);
    if (!l)
        return NULL;
    l->heap = heap;
    l->sink = *sink;
    l->max_pool_bytes = max_pool_bytes;
    l->events = (gguf_events){l, on_metadata, on_header, on_data};
    l->reader = gguf_reader_new(&l->events, &l->heap);
    if (l->reader)
        return l;
    fr_loader_free(l);
    return NULL;
}

static void free_stage(fr_loader *l)
{
    heap_free(&l->heap, l->stage, l->stage_size);
    heap_free(&l->heap, l->row_buffer, l->row_buffer_size);
    l->stage = l->row_buffer = NULL;
}

void fr_loader_free(fr_loader *l)
{
    if (!l)
        return;
    free_stage(l);
    heap_free(&l->heap, l->weights.layers, l->config.n_layers * sizeof *l->weights.layers);
    heap_free(&l->heap, l->weights.rope_factors, rope_bytes(l));
    gguf_reader_free(l->reader);
    load_heap heap = l->heap;
    heap_free(&heap, l, sizeof *l);
}

fr_status fr_loader_feed(fr_loader *l, const void *bytes, size_t size, size_t *used, fr_error_text *e)
{
    *used = 0;
    if (l->failed != FR_OK)
        return fr_fail(e, l->failed, "the model file was refused before");
    if (!drain(l))
        return FR_OK;
    return l->failed = gguf_reader_feed(l->reader, bytes, size, used, e);
}

fr_status fr_loader_end(fr_loader *l, bool *done, fr_error_text *e)
{
    *done = false;
    if (l->failed != FR_OK)
        return fr_fail(e, l->failed, "the model file was refused before");
    l->failed = gguf_reader_end(l->reader, e);
    if (l->failed != FR_OK)
        return l->failed;
    *done = drain(l);
    if (*done)
        free_stage(l);
    return FR_OK;
}

const gguf_meta *fr_loader_meta(const fr_loader *l)
{
    return gguf_reader_meta(l->reader);
}

const fr_config *fr_loader_config(const fr_loader *l)
{
    return &l->config;
}

const fr_weights *fr_loader_weights(const fr_loader *l)
{
    return &l->weights;
}

uint64_t fr_loader_expected_bytes(const fr_loader *l)
{
    return gguf_reader_expected_bytes(l->reader);
}

const char *fr_loader_types(const fr_loader *l)
{
    return l->types;
}

size_t fr_loader_peak_bytes(const fr_loader *l)
{
    return l->heap.peak;
}
