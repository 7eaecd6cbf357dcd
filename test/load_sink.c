#include "test/load_sink.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "load/vocabulary.h"

static bool allocate(load_sink *s, uint32_t buffer, uint64_t size)
{
    s->sizes[buffer] = (size_t)size;
    s->buffers[buffer] = calloc(1, (size_t)size);
    s->touched[buffer] = calloc(1, (size_t)size / 4);
    return s->buffers[buffer] && s->touched[buffer];
}

static fr_status plan(void *user, const fr_config *c, const fr_weights *w, const gguf_meta *m, fr_error_text *e)
{
    load_sink *s = user;
    (void)c;
    s->n_plans++;
    if (s->refusal != FR_OK)
        return s->refusal;
    fr_tokenizer *tokenizer = s->vocabulary ? fr_vocabulary_read(m, e) : NULL;
    fr_tokenizer_free(tokenizer);
    if (s->vocabulary && !tokenizer)
        return e->status;
    bool ok = s->discard || allocate(s, FR_SINK_VECTORS, w->vector_bytes);
    for (uint32_t i = 0; i < w->n_pools && !s->discard; i++)
        ok = ok && allocate(s, 2 * i, w->pools[i].code_bytes) && allocate(s, 2 * i + 1, w->pools[i].scale_bytes);
    return ok ? FR_OK : fr_fail(e, FR_FAILED, "out of memory in the test's sink");
}

static bool refuses(load_sink *s)
{
    if (s->refuse)
        s->refuse = s->refuse * 1664525 + 1013904223;
    bool refused = s->closed || s->refuse >> 31;
    s->n_refused += refused;
    return refused;
}

static bool write(void *user, uint32_t buffer, uint64_t offset, const void *bytes, size_t size)
{
    load_sink *s = user;
    if (refuses(s))
        return false;
    s->written += size;
    if (s->discard)
        return true;
    if (s->n_plans != 1)
        s->fault = "a write before the plan";
    else if (buffer >= LOAD_BUFFERS || offset > s->sizes[buffer] || size > s->sizes[buffer] - offset)
        s->fault = "a write outside of its buffer";
    else if (offset % 4 || size % 4 || !size)
        s->fault = "a write that is no whole number of words";
    if (s->fault)
        return true;
    memcpy(s->buffers[buffer] + offset, bytes, size);
    for (size_t i = 0; i < size / 4; i++)
        if (s->touched[buffer][offset / 4 + i]++)
            s->fault = "a word written twice";
    return true;
}

fr_sink load_sink_interface(load_sink *s)
{
    return (fr_sink){s, plan, write};
}

void load_sink_free(load_sink *s)
{
    for (uint32_t i = 0; i < LOAD_BUFFERS; i++) {
        free(s->buffers[i]);
        free(s->touched[i]);
    }
    *s = (load_sink){0};
}

fr_status load_all(fr_loader *l, const uint8_t *file, size_t size, size_t chunk, fr_error_text *e)
{
    for (size_t at = 0, used; at < size; at += used) {
        size_t n = chunk && chunk < size - at ? chunk : size - at;
        fr_status s = fr_loader_feed(l, file + at, n, &used, e);
        if (s != FR_OK)
            return s;
    }
    for (bool done = false; !done;) {
        fr_status s = fr_loader_end(l, &done, e);
        if (s != FR_OK)
            return s;
    }
    return FR_OK;
}

fr_status load_file(load_sink *sink, const uint8_t *file, size_t size, size_t chunk, fr_error_text *e)
{
    const fr_sink interface = load_sink_interface(sink);
    fr_loader *l = fr_loader_new(&interface, 1 << 27);
    fr_status s = l ? load_all(l, file, size, chunk, e) : fr_fail(e, FR_FAILED, "no loader");
    fr_loader_free(l);
    return s;
}

double load_half(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double mantissa = h & 1023, sign = h >> 15 ? -1 : 1;
    if (exponent == 31)
        return mantissa != 0 ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1 + mantissa / 1024, exponent - 15) : ldexp(mantissa, -24));
}

static unsigned u16(const uint8_t *p)
{
    return p[0] + 256u * p[1];
}

static void reference_q6_k(const uint8_t *block, double *out) /* 256 elements, one by one */
{
    double d = load_half((uint16_t)u16(block + 208));
    for (unsigned i = 0; i < 256; i++) {
        unsigned half = i / 128, in_half = i % 128;
        unsigned low = block[64 * half + in_half % 64], high = block[128 + 32 * half + in_half % 32];
        unsigned code = (in_half < 64 ? low % 16 : low / 16) + 16 * (high >> (in_half / 32 * 2) & 3);
        int scale = block[192 + i / 16];
        out[i] = d * (scale > 127 ? scale - 256 : scale) * ((double)code - 32);
    }
}

void load_reference(uint32_t type, const uint8_t *row, size_t n, double *out)
{
    for (size_t i = 0; i < n; i++) {
        size_t b = i / 32, j = i % 32;
        const uint8_t *block = row;
        float f;
        switch (type) {
        case GGML_F32:
            memcpy(&f, row + 4 * i, 4);
            out[i] = (double)f;
            break;
        case GGML_F16:
            out[i] = load_half((uint16_t)u16(row + 2 * i));
            break;
        case GGML_BF16: {
            uint32_t bits = u16(row + 2 * i) << 16;
            memcpy(&f, &bits, 4);
            out[i] = (double)f;
            break;
        }
        case GGML_Q4_0:
            block = row + 18 * b;
            out[i] = load_half((uint16_t)u16(block)) * ((j < 16 ? block[2 + j] % 16 : block[2 + j - 16] / 16) - 8);
            break;
        case GGML_Q4_1:
            block = row + 20 * b;
            out[i] = load_half((uint16_t)u16(block)) * (j < 16 ? block[4 + j] % 16 : block[4 + j - 16] / 16) +
                     load_half((uint16_t)u16(block + 2));
            break;
        case GGML_Q8_0:
            block = row + 34 * b;
            out[i] = load_half((uint16_t)u16(block)) * (block[2 + j] > 127 ? block[2 + j] - 256 : block[2 + j]);
            break;
        case GGML_Q6_K:
            if (i % 256 == 0)
                reference_q6_k(row + 210 * (i / 256), out + i);
            break;
        }
    }
}

static const fr_part *part_of(const fr_matrix *m, uint32_t row)
{
    for (uint32_t i = 0; i < m->n_parts; i++)
        if (row >= m->parts[i].row0 && row - m->parts[i].row0 < m->parts[i].rows)
            return &m->parts[i];
    abort();
}

double load_stored(const load_sink *s, const fr_matrix *m, uint32_t row, uint32_t col)
{
    const fr_part *p = part_of(m, row);
    uint32_t r = row - p->row0, block = col / 32, e = col % 32;
    uint32_t leaf = block / m->leaf_blocks, i = block % m->leaf_blocks * m->leaves + leaf;
    size_t index = (size_t)r * m->row_blocks + i;
    const uint8_t *codes = s->buffers[2 * p->pool] + 16 * (p->code_base + index * (m->type == FR_W_Q8 ? 2 : 1));
    const uint8_t *scales = s->buffers[2 * p->pool + 1];
    if (m->type == FR_W_Q4A) {
        const uint8_t *pair = scales + 4 * (p->scale_base + index);
        return load_half((uint16_t)u16(pair)) * (e < 16 ? codes[e] & 15 : codes[e - 16] >> 4) + load_half((uint16_t)u16(pair + 2));
    }
    double d = load_half((uint16_t)u16(scales + 2 * (2 * (size_t)p->scale_base + index)));
    return d * (m->type == FR_W_Q8 ? (int8_t)codes[e] : (e < 16 ? codes[e] & 15 : codes[e - 16] >> 4) - 8);
}
