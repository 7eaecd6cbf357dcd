#include "load/repack.h"

#include <math.h>
#include <string.h>

/* 16-bit floats */

static uint32_t float_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float bits_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float repack_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ff;
    if (exponent == 31)
        return bits_float(sign | 0x7f800000 | mantissa << 13);
    if (exponent)
        return bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
    float tiny = (float)mantissa * 0x1p-24f; /* exact */
    return sign ? -tiny : tiny;
}

uint16_t repack_f32_to_f16(float f)
{
    uint32_t bits = float_bits(f), magnitude = bits & 0x7fffffff;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (magnitude > 0x7f800000)
        return sign | 0x7e00;
    if (magnitude >= 0x477ff000) /* 65520, half way to the first value that is too large */
        return sign | 0x7c00;
    if (magnitude < 0x38800000) { /* subnormal: adding 0.5 leaves the wanted bits, rounded by the hardware, at the end of the mantissa */
        uint32_t rounded = float_bits(bits_float(magnitude) + 0.5f) - float_bits(0.5f);
        return sign | (uint16_t)rounded;
    }
    uint32_t odd = magnitude >> 13 & 1;
    return sign | (uint16_t)((magnitude - (UINT32_C(112) << 23) + 0xfff + odd) >> 13);
}

static uint16_t read_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static void write_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static float read_f16(const uint8_t *p)
{
    return repack_f16_to_f32(read_u16(p));
}

static bool finite_f16(const uint8_t *p)
{
    return (p[1] & 0x7c) != 0x7c;
}

/* Blocks of 32 elements to f32. `b` counts blocks of 32 in the row, also where the file's blocks are larger. */

typedef void dequantiser(const uint8_t *row, size_t b, float out[FR_BLOCK]);

static float read_f32(const uint8_t *p)
{
    return bits_float(p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
}

static float read_bf16(const uint8_t *p)
{
    return bits_float((uint32_t)read_u16(p) << 16);
}

static void from_f32(const uint8_t *row, size_t b, float out[FR_BLOCK])
{
    for (size_t i = 0; i < FR_BLOCK; i++)
        out[i] = read_f32(row + 4 * (b * FR_BLOCK + i));
}

static void from_f16(const uint8_t *row, size_t b, float out[FR_BLOCK])
{
    for (size_t i = 0; i < FR_BLOCK; i++)
        out[i] = read_f16(row + 2 * (b * FR_BLOCK + i));
}

static void from_bf16(const uint8_t *row, size_t b, float out[FR_BLOCK])
{
    for (size_t i = 0; i < FR_BLOCK; i++)
        out[i] = read_bf16(row + 2 * (b * FR_BLOCK + i));
}

/* f16 d, f16 m, 16 bytes of codes (low nibbles are elements 0 to 15): d * code + m */
static void from_q4_1(const uint8_t *row, size_t b, float out[FR_BLOCK])
{
    row += b * 20;
    float d = read_f16(row), m = read_f16(row + 2);
    for (size_t i = 0; i < 16; i++) {
        out[i] = d * (float)(row[4 + i] & 15) + m;
        out[i + 16] = d * (float)(row[4 + i] >> 4) + m;
    }
}

/* 256 elements: 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 int8 scales (one for 16 elements), f16 d. Each half of 128
 * elements has 64 low bytes and 32 high bytes; quarter k of a half takes nibble k / 2 of the low bytes 32 * (k % 2) on, and bit
 * pair k of the high bytes: d * scale * (code - 32). */
static void from_q6_k(const uint8_t *row, size_t b, float out[FR_BLOCK])
{
    const uint8_t *block = row + b / 8 * 210;
    size_t half = b / 4 % 2, quarter = b % 4;
    const uint8_t *low = block + 64 * half + 32 * (quarter % 2), *high = block + 128 + 32 * half;
    const uint8_t *scales = block + 192 + 8 * half + 2 * quarter;
    float d = read_f16(block + 208);
    for (size_t i = 0; i < FR_BLOCK; i++) {
        int nibble = low[i] >> 4 * (quarter / 2) & 15, pair = high[i] >> 2 * quarter & 3;
        out[i] = d * (float)(int8_t)scales[i / 16] * (float)((nibble | pair << 4) - 32);
    }
}

/* The largest magnitude as bits; the bits of an infinity or more if an element is none or NaN: magnitudes order like integers. */
static uint32_t largest_bits(const float *x, size_t n)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = float_bits(x[i]) & 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

static bool quantise_q8(const float x[FR_BLOCK], uint8_t *codes, uint8_t *scale)
{
    uint32_t largest = largest_bits(x, FR_BLOCK);
    if (largest >= 0x7f800000)
        return false;
    uint16_t half = repack_f32_to_f16(bits_float(largest) / 127);
    write_u16(scale, half);
    if (!half) {
        memset(codes, 0, FR_BLOCK);
        return true;
    }
    float d = repack_f16_to_f32(half); /* the codes make up for its rounding */
    for (size_t i = 0; i < FR_BLOCK; i++) {
        float code = rintf(x[i] / d); /* ties to even */
        codes[i] = (uint8_t)(int8_t)(code > 127 ? 127 : code < -127 ? -127 : code);
    }
    return finite_f16(scale);
}

/* Blocks to stored blocks */

typedef bool converter(const uint8_t *row, size_t b, uint8_t *codes, uint8_t *scale);

static bool q4_0_to_q4s(const uint8_t *row, size_t b, uint8_t *codes, uint8_t *scale)
{
    row += b * 18;
    memcpy(scale, row, 2);
    memcpy(codes, row + 2, 16);
    return finite_f16(row);
}

static bool q4_1_to_q4a(const uint8_t *row, size_t b, uint8_t *codes, uint8_t *scale)
{
    row += b * 20;
    memcpy(scale, row, 4);
    memcpy(codes, row + 4, 16);
    return finite_f16(row) && finite_f16(row + 2);
}

static bool q8_0_to_q8(const uint8_t *row, size_t b, uint8_t *codes, uint8_t *scale)
{
    row += b * 34;
    memcpy(scale, row, 2);
    memcpy(codes, row + 2, FR_BLOCK);
    return finite_f16(row);
}

/* Where a neighbour forces a Q4_0 matrix to 8 bits nothing is lost: the scale stays. */
static bool q4_0_to_q8(const uint8_t *row, size_t b, uint8_t *codes, uint8_t *scale)
{
    row += b * 18;
    memcpy(scale, row, 2);
    for (size_t i = 0; i < 16; i++) {
        codes[i] = (uint8_t)((row[2 + i] & 15) - 8);
        codes[i + 16] = (uint8_t)((row[2 + i] >> 4) - 8);
    }
    return finite_f16(row);
}

static bool q4_1_to_q8(const uint8_t *row, size_t b, uint8_t *codes, uint8_t *scale)
{
    float x[FR_BLOCK];
    from_q4_1(row, b, x);
    return quantise_q8(x, codes, scale);
}

static bool q6_k_to_q8(const uint8_t *row, size_t b, uint8_t *codes, uint8_t *scale)
{
    float x[FR_BLOCK];
    from_q6_k(row, b, x);
    return quantise_q8(x, codes, scale);
}

static bool f32_to_q8(const uint8_t *row, size_t b, uint8_t *codes, uint8_t *scale)
{
    float x[FR_BLOCK];
    from_f32(row, b, x);
    return quantise_q8(x, codes, scale);
}

static bool f16_to_q8(const uint8_t *row, size_t b, uint8_t *codes, uint8_t *scale)
{
    float x[FR_BLOCK];
    from_f16(row, b, x);
    return quantise_q8(x, codes, scale);
}

static bool bf16_to_q8(const uint8_t *row, size_t b, uint8_t *codes, uint8_t *scale)
{
    float x[FR_BLOCK];
    from_bf16(row, b, x);
    return quantise_q8(x, codes, scale);
}

static converter *converter_of(ggml_type from, fr_wtype to)
{
    switch (from) {
    case GGML_Q4_0:
        return to == FR_W_Q4S ? q4_0_to_q4s : q4_0_to_q8;
    case GGML_Q4_1:
        return to == FR_W_Q4A ? q4_1_to_q4a : q4_1_to_q8;
    case GGML_Q8_0:
        return q8_0_to_q8;
    case GGML_Q6_K:
        return q6_k_to_q8;
    case GGML_F16:
        return f16_to_q8;
    case GGML_BF16:
        return bf16_to_q8;
    case GGML_F32:
        break;
    }
    return f32_to_q8;
}

fr_wtype repack_type(ggml_type from)
{
    return from == GGML_Q4_0 ? FR_W_Q4S : from == GGML_Q4_1 ? FR_W_Q4A : FR_W_Q8;
}

/* Stored blocks that no block of the file fills, at the end of the last leaf and of the row. */
static void clear_absent(const fr_matrix *m, uint32_t blocks, uint8_t *codes, size_t code_size, uint8_t *scales, size_t scale_size)
{
    uint32_t leaf_end = m->leaves * m->leaf_blocks, padding = m->row_blocks - leaf_end;
    for (uint32_t b = blocks; b < leaf_end; b++) {
        size_t i = (size_t)(b % m->leaf_blocks) * m->leaves + b / m->leaf_blocks;
        memset(codes + i * code_size, 0, code_size);
        memset(scales + i * scale_size, 0, scale_size);
    }
    memset(codes + leaf_end * code_size, 0, padding * code_size);
    memset(scales + leaf_end * scale_size, 0, padding * scale_size);
}

bool repack_row(ggml_type type, const fr_matrix *m, const uint8_t *row, uint8_t *codes, uint8_t *scales)
{
    converter *convert = converter_of(type, m->type);
    size_t code_size = m->type == FR_W_Q8 ? 32 : 16, scale_size = m->type == FR_W_Q4A ? 4 : 2;
    uint32_t blocks = m->cols / FR_BLOCK;
    bool ok = true;
    for (uint32_t leaf = 0, b = 0; leaf < m->leaves; leaf++)
        for (uint32_t j = 0; j < m->leaf_blocks && b < blocks; j++, b++) {
            size_t i = (size_t)j * m->leaves + leaf;
            ok &= convert(row, b, codes + i * code_size, scales + i * scale_size);
        }
    clear_absent(m, blocks, codes, code_size, scales, scale_size);
    return ok;
}

bool repack_floats(ggml_type type, const uint8_t *bytes, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = type == GGML_F32 ? read_f32(bytes + 4 * i) : type == GGML_F16 ? read_f16(bytes + 2 * i) : read_bf16(bytes + 2 * i);
    return largest_bits(out, n) < 0x7f800000;
}
