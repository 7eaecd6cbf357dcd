/* ref_products.c: weights, quantised activations, and the sums over them in the canonical order. */
#include <math.h>
#include <string.h>

#include "ref/ref.h"

enum { SCALE = 8, SUM = 9, SQUARES = 10, FINE_SUM = 11, FINE = 12 }; /* of a quantised block: 8 words of codes, these, 8 of fine codes */

/* One block of 32 weights: w = d * code + m. */
typedef struct block {
    float d, m;
    int code[FR_BLOCK];
} block;

static const fr_part *part_of(const fr_matrix *m, uint32_t row)
{
    uint32_t i = 0;
    while (row >= m->parts[i].row0 + m->parts[i].rows)
        i++;
    return &m->parts[i];
}

static block read_block(const ref_step *s, const fr_matrix *m, uint32_t row, uint32_t b)
{
    const fr_part *p = part_of(m, row);
    const uint32_t leaf = b / m->leaf_blocks, place = b % m->leaf_blocks * m->leaves + leaf;
    const size_t i = (size_t)(row - p->row0) * m->row_blocks + place;
    const uint32_t *scales = s->pools[2 * p->pool + 1] + p->scale_base;
    const uint8_t *codes = (const uint8_t *)(s->pools[2 * p->pool] + 4 * (size_t)p->code_base) + i * (m->type == FR_W_Q8 ? 32 : 16);
    block out = {0};
    const uint32_t half = scales[i / 2] >> (i % 2 ? 16 : 0) & 0xffff;
    if (m->type == FR_W_Q4A) {
        out.d = ref_from_half(scales[i] & 0xffff);
        out.m = ref_from_half(scales[i] >> 16);
    } else {
        out.d = ref_from_half(half);
    }
    for (uint32_t e = 0; e < FR_BLOCK; e++)
        out.code[e] = m->type == FR_W_Q8    ? (int8_t)codes[e]
                      : m->type == FR_W_Q4A ? codes[e % 16] >> (e / 16 * 4) & 15
                                            : (codes[e % 16] >> (e / 16 * 4) & 15) - 8;
    return out;
}

float ref_element(const ref_step *s, const fr_matrix *m, uint32_t row, uint32_t col)
{
    const block b = read_block(s, m, row, col / FR_BLOCK);
    const float code = (float)b.code[col % FR_BLOCK];
    return m->type == FR_W_Q4A ? ref_fma(s, b.d, code, b.m) : b.d * code;
}

/* An aligned binary tree over leaves; leaves that are absent, up to the next power of two, are zero. */
static float tree(const float *leaf, uint32_t n, uint32_t width)
{
    if (!n)
        return 0;
    if (width == 1)
        return leaf[0];
    const uint32_t half = width / 2;
    return tree(leaf, n < half ? n : half, half) + (n > half ? tree(leaf + half, n - half, half) : 0);
}

static uint32_t power_of_two(uint32_t n)
{
    uint32_t p = 1;
    while (p < n)
        p *= 2;
    return p;
}

/* sum + w . x over one block */
static int code_at(const uint32_t *words, uint32_t e)
{
    return (int8_t)(words[e / 4] >> (8 * (e % 4)));
}

static float add_block(const ref_step *s, const block *w, const uint32_t *x, bool wide, float sum)
{
    const float scale = ref_bits_float(x[SCALE]) * (wide ? 1.0f / 254.0f : 1);
    int dot = 0, total = 0;
    for (uint32_t e = 0; e < FR_BLOCK; e++) {
        const int code = wide ? 254 * code_at(x, e) + code_at(x + FINE, e) : code_at(x, e);
        dot += w->code[e] * code;
        total += code;
    }
    sum = ref_fma(s, w->d * scale, (float)dot, sum);
    return w->m == 0 ? sum : ref_fma(s, w->m * scale, (float)total, sum);
}

float ref_product(const ref_step *s, const fr_matrix *m, uint32_t row, ref_act act)
{
    float leaf[64];
    const uint32_t *x = s->buffers[REF_ACT].was + 4 * (size_t)act.at;
    for (uint32_t l = 0; l < m->leaves; l++) {
        leaf[l] = 0;
        for (uint32_t b = l * m->leaf_blocks; b < (l + 1) * m->leaf_blocks && b < m->cols / FR_BLOCK; b++) {
            const block w = read_block(s, m, row, b);
            leaf[l] = add_block(s, &w, x + 4 * (size_t)act.size * b, act.wide, leaf[l]);
        }
    }
    return tree(leaf, m->leaves, power_of_two(m->leaves));
}

ref_near ref_norm_factor(const ref_step *s, ref_act act, uint32_t blocks)
{
    float strided[16] = {0};
    const uint32_t *x = s->buffers[REF_ACT].was + 4 * (size_t)act.at;
    for (uint32_t b = 0; b < blocks; b++)
        strided[b % 16] += ref_bits_float(x[4 * (size_t)act.size * b + SQUARES]);
    const float mean = ref_fma(s, tree(strided, 16, 16), 1.0f / (float)(blocks * FR_BLOCK), s->config->norm_eps);
    const double factor = 1 / sqrt((double)mean);
    return (ref_near){(float)factor, factor * REF_INVERSE_SQRT};
}

/* ---- quantising ---- */

/* Sum of squares of the block: four neighbours in a chain of fma, then a tree over the eight chains. */
static ref_near squares(const ref_step *s, const ref_near x[FR_BLOCK])
{
    float chain[8];
    double freedom = 0;
    for (uint32_t i = 0; i < 8; i++) {
        const ref_near *q = x + 4 * i;
        chain[i] = ref_fma(s, q[3].v, q[3].v, ref_fma(s, q[2].v, q[2].v, ref_fma(s, q[1].v, q[1].v, q[0].v * q[0].v)));
        for (uint32_t k = 0; k < 4; k++)
            freedom += 2 * fabs((double)q[k].v) * q[k].e;
    }
    const float sum = tree(chain, 8, 8);
    return (ref_near){sum, freedom == 0 ? 0 : freedom + 8 * REF_ROUNDING * (double)sum};
}

static uint32_t code_byte(double code, uint32_t e)
{
    code = code > 127 ? 127 : code < -127 ? -127 : code;
    return (uint32_t)(uint8_t)(int8_t)code << (8 * (e % 4));
}

/* Codes that a kernel may give: from `low` to `high` each, and their sums. */
typedef struct codes {
    uint32_t low[8], high[8];
    int low_sum, high_sum;
} codes;

static void allow(codes *c, uint32_t e, double from, double to)
{
    const uint32_t low = code_byte(from, e), high = code_byte(to, e);
    c->low[e / 4] |= low;
    c->high[e / 4] |= high;
    c->low_sum += (int8_t)(low >> (8 * (e % 4)));
    c->high_sum += (int8_t)(high >> (8 * (e % 4)));
}

static void put_codes(ref_words *out, size_t at, size_t sum_at, const codes *c)
{
    for (uint32_t w = 0; w < 8; w++) {
        out->kind[at + w] = REF_CODES;
        out->low[at + w] = c->low[w];
        out->high[at + w] = c->high[w];
    }
    ref_put_float(out, sum_at, (float)c->low_sum);
    if (c->low_sum != c->high_sum) {
        out->kind[sum_at] = REF_F32;
        out->high[sum_at] = ref_float_bits((float)c->high_sum);
    }
}

void ref_quantise(ref_step *s, ref_act act, const ref_near x[FR_BLOCK], const float *gain)
{
    ref_words *out = &s->buffers[REF_ACT];
    const size_t at = 4 * (size_t)act.at;
    ref_near y[FR_BLOCK], largest = {0, 0};
    for (uint32_t e = 0; e < FR_BLOCK; e++) {
        const float g = gain ? gain[e] : 1;
        y[e] = (ref_near){x[e].v * g, x[e].e * fabs((double)g)};
        largest.v = fmaxf(largest.v, fabsf(y[e].v));
        largest.e = fmax(largest.e, y[e].e);
    }
    codes coarse = {0}, fine = {0};
    for (uint32_t e = 0; e < FR_BLOCK && largest.v > 1e-30f; e++) {
        const double t = (double)y[e].v * 127 / (double)largest.v;
        const double freedom = y[e].e * 127 / (double)largest.v + fabs(t) * (largest.e / (double)largest.v + REF_DIVISION);
        const double from = ceil(t - 0.5 - freedom), to = floor(t + 0.5 + freedom);
        allow(&coarse, e, from, to);
        if (from == to) /* what is left is known to `freedom` and one rounding, of a product that may be rounded before the difference */
            allow(&fine, e, ceil((t - from - freedom - fabs(t) * REF_ROUNDING) * 254 - 0.5),
                  floor((t - from + freedom + fabs(t) * REF_ROUNDING) * 254 + 0.5));
        else
            allow(&fine, e, -127, 127);
    }
    put_codes(out, at, at + SUM, &coarse);
    const ref_near sum = squares(s, x);
    if (isfinite(sum.v) && largest.v < 8e37f)
        ref_put_near(out, at + SCALE, (ref_near){largest.v * (1.0f / 127.0f), largest.e / 127});
    else
        ref_put_bits(out, at + SCALE, 0x7fc00000); /* passed on to the logits */
    ref_put_near(out, at + SQUARES, sum);
    if (act.size == FR_ACT_FINE)
        put_codes(out, at + FINE, at + FINE_SUM, &fine);
    else
        ref_put_bits(out, at + FINE_SUM, 0);
}
