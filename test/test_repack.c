/* Rows from the file's formats to the GPU's, against a plain second implementation; 16-bit floats; the shape of sums. */
#include "test/test.h"

#include <float.h>
#include <math.h>

#include "load/repack.h"
#include "test/load_sink.h"

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static uint32_t random_u32(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) ^ (uint32_t)(*state >> 11 & 0xffff0000);
}

static void half_to_float(void)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = repack_f16_to_f32((uint16_t)h);
        double expected = load_half((uint16_t)h);
        CHECK_MSG(isnan(expected) ? isnan(f) : (double)f == expected && !signbit(f) == !(h >> 15), "%04x gives %g, expected %g", h,
                  (double)f, expected);
    }
}

/* The nearest half, ties to the even one, by search among all that are not NaN. */
static uint16_t nearest_half(float f)
{
    uint32_t low = 0, high = 0x7c00; /* magnitudes order like integers */
    double x = fabs((double)f);
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        *(load_half((uint16_t)middle) <= x ? &low : &high) = middle;
    }
    double above = high == 0x7c00 ? 65536 : load_half((uint16_t)high), below = load_half((uint16_t)low);
    uint32_t best = x - below < above - x ? low : x - below > above - x ? high : low % 2 ? high : low;
    if (isinf(f))
        best = 0x7c00;
    return (uint16_t)(best | (signbit(f) ? 0x8000u : 0));
}

static void check_half(float f)
{
    uint16_t found = repack_f32_to_f16(f), expected = nearest_half(f);
    CHECK_MSG(found == expected, "%a gives %04x, expected %04x", (double)f, found, expected);
}

static void float_to_half(void)
{
    for (uint32_t h = 0; h < 0x7c00; h++) {
        float f = repack_f16_to_f32((uint16_t)h), above = h == 0x7bff ? 65536 : repack_f16_to_f32((uint16_t)(h + 1)),
              middle = (f + above) / 2;
        const float cases[] = {f, middle, nextafterf(middle, 0), nextafterf(middle, INFINITY), nextafterf(f, INFINITY)};
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            check_half(cases[i]);
            check_half(-cases[i]);
        }
    }
    static const float far[] = {65519.99f, 65520, 65536, 1e30f, FLT_MAX, INFINITY, FLT_MIN, 1e-45f, 0};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        check_half(far[i]);
    CHECK((repack_f32_to_f16(NAN) & 0x7fff) > 0x7c00);
}

/* A row with random codes and sensible scales. */
static void random_row(uint64_t *rng, ggml_type type, size_t n, uint8_t *row)
{
    size_t size = n / ggml_block_size(type) * ggml_block_bytes(type);
    for (size_t i = 0; i < size; i++)
        row[i] = (uint8_t)random_u32(rng);
    for (size_t b = 0; b < n / ggml_block_size(type); b++) {
        uint8_t *block = row + b * ggml_block_bytes(type);
        float x = ((float)(random_u32(rng) % 20001) - 10000) * 1e-5f;
        uint16_t h = repack_f32_to_f16(x), m = repack_f32_to_f16(x * -7);
        uint32_t bits = bits_of(x);
        switch (type) {
        case GGML_F32:
            memcpy(block, &x, 4);
            break;
        case GGML_BF16:
            memcpy(block, (uint8_t *)&bits + 2, 2);
            break;
        case GGML_Q6_K:
            memcpy(block + 208, &h, 2);
            break;
        case GGML_Q4_1:
            memcpy(block + 2, &m, 2);
            memcpy(block, &h, 2);
            break;
        default:
            memcpy(block, &h, 2);
            break;
        }
    }
}

static fr_matrix matrix(fr_wtype type, uint32_t cols)
{
    fr_matrix m = {.type = type, .rows = 1, .cols = cols, .n_parts = 1, .parts = {{.rows = 1}}};
    fr_reduction_shape(cols / 32, &m.leaf_blocks, &m.leaves);
    m.row_blocks = (m.leaves * m.leaf_blocks + 1) / 2 * 2;
    return m;
}

enum { MAX_COLS = 14336 };

/* One row through repack_row and back by the formulas of weights.h, into `out`. */
static bool through(ggml_type from, fr_wtype to, uint32_t cols, const uint8_t *row, double *out)
{
    static uint8_t codes[MAX_COLS * 2], scales[MAX_COLS / 4];
    fr_matrix m = matrix(to, cols);
    load_sink sink = {.buffers = {codes, scales}};
    memset(codes, 0xee, sizeof codes);
    memset(scales, 0xee, sizeof scales);
    bool ok = repack_row(from, &m, row, codes, scales);
    for (uint32_t i = 0; i < cols; i++)
        out[i] = load_stored(&sink, &m, 0, i);
    CHECK(codes[fr_matrix_code_bytes(&m)] == 0xee && scales[fr_matrix_scale_bytes(&m)] == 0xee); /* nothing behind the row */
    return ok;
}

static const uint32_t widths[] = {32, 64, 96, 256, 288, 512, 576, 768, 896, 1024, 1536, 2048, 3072, 4096, 4864, 8192, 8960, 14336};
enum { N_WIDTHS = sizeof widths / sizeof *widths };

/* Where codes are kept, every weight comes out exactly. */
static void exact(void)
{
    static const struct {
        ggml_type from;
        fr_wtype to;
    } cases[] = {{GGML_Q4_0, FR_W_Q4S}, {GGML_Q4_1, FR_W_Q4A}, {GGML_Q8_0, FR_W_Q8}, {GGML_Q4_0, FR_W_Q8}};
    static uint8_t row[MAX_COLS * 2];
    static double expected[MAX_COLS], found[MAX_COLS];
    uint64_t rng = 1;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t w = 0; w < N_WIDTHS; w++) {
            random_row(&rng, cases[c].from, widths[w], row);
            load_reference(cases[c].from, row, widths[w], expected);
            CHECK(through(cases[c].from, cases[c].to, widths[w], row, found));
            for (uint32_t i = 0; i < widths[w]; i++)
                CHECK_MSG(found[i] == expected[i], "%s, %u columns: element %u is %g, expected %g", ggml_type_name(cases[c].from),
                          widths[w], i, found[i], expected[i]);
        }
}

/* The rule of doc/weights.md in double: the scale is the largest magnitude / 127 as a half, codes are against that half. */
static void check_block(const double *x, const double *found, const char *type)
{
    double largest = 0;
    for (int i = 0; i < 32; i++)
        largest = fmax(largest, fabs(x[i]));
    double d = load_half(nearest_half((float)(largest / 127)));
    for (int i = 0; i < 32; i++) {
        double code = d > 0 ? x[i] / d : 0;
        code = fmin(fmax(code, -127), 127);
        /* next to a tie double and float may round apart */
        CHECK_MSG(fabs(found[i] - d * code) <= d * 0.50001, "%s: element %d is %g, stored as %g with a scale of %g", type, i, x[i],
                  found[i], d);
        CHECK(d == 0 || fabs(found[i] / d - rint(found[i] / d)) < 1e-9);
    }
}

static void requantised(void)
{
    static const ggml_type types[] = {GGML_F32, GGML_F16, GGML_BF16, GGML_Q6_K, GGML_Q4_1};
    static uint8_t row[MAX_COLS * 4];
    static double expected[MAX_COLS], found[MAX_COLS];
    uint64_t rng = 2;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t w = 0; w < N_WIDTHS; w++) {
            if (widths[w] % ggml_block_size(types[t]))
                continue;
            random_row(&rng, types[t], widths[w], row);
            load_reference(types[t], row, widths[w], expected);
            CHECK(through(types[t], FR_W_Q8, widths[w], row, found));
            for (uint32_t i = 0; i < widths[w]; i += 32)
                check_block(expected + i, found + i, ggml_type_name(types[t]));
        }
}

/* Floats whose codes are known. */
static void q8_by_hand(void)
{
    static const struct {
        float x[4]; /* the rest of the block is 0 */
        double stored[4];
        bool ok;
    } cases[] = {
        {{0, -0.f, 0, 0}, {0, 0, 0, 0}, true},
        {{127, 1, -127, 64}, {127, 1, -127, 64}, true},
        {{127, 0.5f, 1.5f, 2.5f}, {127, 0, 2, 2}, true}, /* ties to even */
        {{-127, -0.5f, -1.5f, -3.5f}, {-127, 0, -2, -4}, true},
        {{127.05f, 126.6f, 0, 0}, {127, 127, 0, 0}, true},                 /* the scale rounds down to 1: clamped */
        {{0x1p-24f * 127, 0x1p-24f, 0, 0}, {0x1p-24 * 127, 0x1p-24, 0, 0}, true}, /* the smallest scale */
        {{0x1p-24f * 180, -0x1p-24f * 180, 0, 0}, {0x1p-24 * 127, -0x1p-24 * 127, 0, 0}, true}, /* rounded down to it: clamped */
        {{1e-30f, 0, 0, 0}, {0, 0, 0, 0}, true},
        {{65504.f * 127, 65504, 0, 0}, {65504. * 127, 65504, 0, 0}, true}, /* the largest */
        {{65536.f * 127, 0, 0, 0}, {0}, false},
        {{FLT_MAX, 0, 0, 0}, {0}, false},
        {{INFINITY, 0, 0, 0}, {0}, false},
        {{0, -INFINITY, 0, 0}, {0}, false},
        {{1, NAN, 0, 0}, {0}, false},
        {{NAN, 1, 0, 0}, {0}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float x[32] = {0};
        double found[32];
        memcpy(x, cases[i].x, sizeof cases[i].x);
        CHECK_MSG(through(GGML_F32, FR_W_Q8, 32, (const uint8_t *)x, found) == cases[i].ok, "case %zu", i);
        for (int k = 0; k < 32 && cases[i].ok; k++)
            CHECK_MSG(found[k] == (k < 4 ? cases[i].stored[k] : 0), "case %zu: element %d is %g", i, k, found[k]);
    }
}

static void not_finite(void)
{
    static const struct {
        ggml_type type;
        size_t at; /* of an f16 (upper half for BF16, F32) in the block */
    } cases[] = {{GGML_Q4_0, 0},   {GGML_Q4_1, 0}, {GGML_Q4_1, 2}, {GGML_Q8_0, 0},
                 {GGML_Q6_K, 208}, {GGML_F16, 0},  {GGML_BF16, 0}, {GGML_F32, 2}};
    uint64_t rng = 3;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t row[4 * 512];
        double out[512];
        random_row(&rng, cases[i].type, 512, row);
        CHECK(through(cases[i].type, repack_type(cases[i].type), 512, row, out));
        size_t last = (512 / ggml_block_size(cases[i].type) - 1) * ggml_block_bytes(cases[i].type) + cases[i].at;
        for (int sign = 0; sign < 2; sign++) {
            row[last] = 0xc0;
            row[last + 1] = sign ? 0xff : 0x7f;
            CHECK_MSG(!through(cases[i].type, repack_type(cases[i].type), 512, row, out), "%s", ggml_type_name(cases[i].type));
            CHECK_MSG(!through(cases[i].type, FR_W_Q8, 512, row, out), "%s to q8", ggml_type_name(cases[i].type));
        }
    }
}

/* Blocks that pad a leaf or a row are zero bytes. */
static void padding(void)
{
    static uint8_t row[MAX_COLS * 2], codes[MAX_COLS * 2], scales[MAX_COLS / 4], used[MAX_COLS / 32 + 64];
    uint64_t rng = 4;
    for (size_t w = 0; w < N_WIDTHS; w++) {
        fr_matrix m = matrix(FR_W_Q8, widths[w]);
        random_row(&rng, GGML_Q8_0, widths[w], row);
        memset(codes, 0xee, sizeof codes);
        memset(scales, 0xee, sizeof scales);
        memset(used, 0, sizeof used);
        CHECK(repack_row(GGML_Q8_0, &m, row, codes, scales));
        for (uint32_t b = 0; b < widths[w] / 32; b++)
            used[b % m.leaf_blocks * m.leaves + b / m.leaf_blocks]++;
        for (uint32_t i = 0; i < m.row_blocks; i++) {
            CHECK(used[i] <= 1);
            for (uint32_t k = 0; k < 32 && !used[i]; k++)
                CHECK_INT(codes[32 * i + k], 0);
            CHECK(used[i] || (!scales[2 * i] && !scales[2 * i + 1]));
        }
        CHECK_INT(m.row_blocks % 2, 0);
    }
}

static void reduction_shape(void)
{
    static const struct {
        uint32_t blocks, leaf_blocks, leaves;
    } table[] = {{1, 1, 1},   {2, 1, 2},    {8, 1, 8},    {9, 1, 9},    {12, 1, 12},  {16, 1, 16},   {18, 3, 6},
                 {24, 3, 8},  {28, 1, 28},  {32, 1, 32},  {33, 3, 11},  {48, 3, 16},  {64, 2, 32},   {72, 9, 8},
                 {96, 3, 32}, {128, 4, 32}, {152, 5, 31}, {256, 8, 32}, {280, 9, 32}, {448, 14, 32}, {896, 28, 32}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        uint32_t r, leaves;
        fr_reduction_shape(table[i].blocks, &r, &leaves);
        CHECK_MSG(r == table[i].leaf_blocks && leaves == table[i].leaves, "%u blocks: %u leaves of %u, expected %u of %u", table[i].blocks,
                  leaves, r, table[i].leaves, table[i].leaf_blocks);
    }
    for (uint32_t blocks = 1; blocks <= 4096; blocks++) {
        uint32_t r, leaves;
        fr_reduction_shape(blocks, &r, &leaves);
        CHECK(leaves <= 32 && r * leaves >= blocks && r * (leaves - 1) < blocks);
    }
}

const fr_test repack_tests[] = {
    {"repack.half_to_float", "all 65536 halves", half_to_float},
    {"repack.float_to_half", "every half, every tie and its neighbours, both signs", float_to_half},
    {"repack.exact", "Q4_0, Q4_1, Q8_0 keep every weight exactly, at the place weights.h says", exact},
    {"repack.requantised", "F32, F16, BF16, Q6_K, Q4_1 to q8 within half a step of the rounded scale", requantised},
    {"repack.q8_by_hand", "ties, clamping, smallest and largest scales", q8_by_hand},
    {"repack.not_finite", "NaN and infinity are refused in every type", not_finite},
    {"repack.padding", "absent blocks are zero bytes", padding},
    {"repack.reduction_shape", "leaves of the shapes in use", reduction_shape},
    {0},
};
