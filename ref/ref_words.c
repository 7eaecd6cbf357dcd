/* ref_words.c: ranges of words, and the state that every kernel reads. */
#include <math.h>
#include <string.h>

#include "ref/ref.h"

float ref_bits_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

uint32_t ref_float_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* sign, 5 bits of exponent biased by 15, 10 bits of mantissa */
float ref_from_half(uint32_t bits)
{
    const int exponent = (int)(bits >> 10 & 31), mantissa = (int)(bits & 1023);
    const float magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                            : exponent     ? ldexpf((float)(1024 + mantissa), exponent - 25)
                                           : ldexpf((float)mantissa, -24);
    return bits & 0x8000 ? -magnitude : magnitude;
}

/* The largest f16 that is not above x. */
static uint32_t half_below(double x)
{
    uint32_t low = 0, high = 0x7bff; /* magnitudes order like integers */
    const double magnitude = fabs(x);
    while (low < high) {
        const uint32_t middle = (low + high + 1) / 2;
        if ((double)ref_from_half(middle) <= magnitude)
            low = middle;
        else
            high = middle - 1;
    }
    if (x >= 0)
        return low;
    return 0x8000 | ((double)ref_from_half(low) < magnitude && low < 0x7bff ? low + 1 : low);
}

static uint32_t half_above(double x)
{
    return half_below(-x) ^ 0x8000;
}

static void put(ref_words *w, size_t word, ref_kind kind, uint32_t low, uint32_t high)
{
    w->kind[word] = (uint8_t)kind;
    w->low[word] = low;
    w->high[word] = high;
}

void ref_put_bits(ref_words *w, size_t word, uint32_t bits)
{
    put(w, word, REF_BITS, bits, bits);
}

void ref_put_float(ref_words *w, size_t word, float f)
{
    ref_put_bits(w, word, ref_float_bits(f));
}

void ref_put_near(ref_words *w, size_t word, ref_near x)
{
    if (x.e == 0)
        ref_put_float(w, word, x.v);
    else
        put(w, word, REF_F32, ref_float_bits(nextafterf((float)(x.v - x.e), -INFINITY)),
            ref_float_bits(nextafterf((float)(x.v + x.e), INFINITY)));
}

void ref_put_half(ref_words *w, size_t half, ref_near x)
{
    const size_t word = half / 2;
    const uint32_t shift = half % 2 ? 16 : 0, keep = half % 2 ? 0xffff : 0xffff0000;
    put(w, word, REF_HALVES, (w->low[word] & keep) | half_below(x.v - x.e) << shift,
        (w->high[word] & keep) | half_above(x.v + x.e) << shift);
}

static bool between(float low, float now, float high)
{
    return low <= now && now <= high; /* false for NaN */
}

static bool code_between(uint32_t low, uint32_t now, uint32_t high, uint32_t shift)
{
    return (int8_t)(low >> shift) <= (int8_t)(now >> shift) && (int8_t)(now >> shift) <= (int8_t)(high >> shift);
}

static bool right(const ref_words *w, size_t i, uint32_t now)
{
    const uint32_t low = w->low[i], high = w->high[i];
    switch ((ref_kind)w->kind[i]) {
    case REF_BITS:
        return now == low;
    case REF_F32:
        return between(ref_bits_float(low), ref_bits_float(now), ref_bits_float(high));
    case REF_HALVES:
        return between(ref_from_half(low & 0xffff), ref_from_half(now & 0xffff), ref_from_half(high & 0xffff)) &&
               between(ref_from_half(low >> 16), ref_from_half(now >> 16), ref_from_half(high >> 16));
    case REF_CODES:
        return code_between(low, now, high, 0) && code_between(low, now, high, 8) && code_between(low, now, high, 16) &&
               code_between(low, now, high, 24);
    }
    return false;
}

size_t ref_first_wrong(const ref_words *w, const uint32_t *now)
{
    for (size_t i = 0; i < w->n; i++)
        if (!right(w, i, now[i]))
            return i;
    return w->n;
}

/* ---- the adapter and the state ---- */

float ref_fma(const ref_step *s, float a, float b, float c)
{
    return s->fused ? fmaf(a, b, c) : a * b + c;
}

uint32_t ref_control(const ref_step *s, size_t offset)
{
    return s->buffers[REF_STATE].was[offset / 4];
}

void ref_put_control(ref_step *s, size_t offset, uint32_t value)
{
    ref_put_bits(&s->buffers[REF_STATE], offset / 4, value);
}

const fr_gpu_Tree *ref_tree_was(const ref_step *s)
{
    return (const fr_gpu_Tree *)(s->buffers[REF_STATE].was + REF_TREE_AT);
}

uint32_t ref_node_count(const ref_step *s)
{
    if (ref_control(s, offsetof(fr_gpu_Control, finished)))
        return 0;
    const uint32_t waiting = s->tree ? ref_tree_was(s)->count
                                     : ref_control(s, offsetof(fr_gpu_Control, end)) - ref_control(s, offsetof(fr_gpu_Control, pos));
    return waiting < s->n ? waiting : s->n;
}

/* The root's is the root, and so is that of words that are no tree. */
static uint32_t parent(const ref_step *s, uint32_t node)
{
    const uint32_t p = ref_tree_was(s)->info[node] & 0xff;
    return p < node ? p : 0;
}

uint32_t ref_depth(const ref_step *s, uint32_t node)
{
    uint32_t depth = 0;
    for (; s->tree && node; node = parent(s, node))
        depth++;
    return depth;
}

uint32_t ref_position(const ref_step *s, uint32_t node)
{
    return ref_control(s, offsetof(fr_gpu_Control, pos)) + (s->tree ? ref_depth(s, node) : node);
}

uint32_t ref_token(const ref_step *s, uint32_t node)
{
    return s->tree ? ref_tree_was(s)->token[node] : s->buffers[REF_STATE].was[REF_TOKENS_AT + ref_position(s, node)];
}

uint32_t ref_slot(const ref_step *s, uint32_t node)
{
    return ref_control(s, offsetof(fr_gpu_Control, pos)) + node;
}

uint32_t ref_slot_of(const ref_step *s, uint32_t node, uint32_t position)
{
    if (!s->tree || position < ref_control(s, offsetof(fr_gpu_Control, pos)))
        return position;
    while (ref_position(s, node) > position)
        node = parent(s, node);
    return ref_slot(s, node);
}

float ref_work_was(const ref_step *s, uint32_t at, size_t i)
{
    return ref_bits_float(s->buffers[REF_WORK].was[4 * (size_t)at + i]);
}

size_t ref_cache_at(const ref_step *s, bool value, uint32_t kv_head, uint32_t slot, uint32_t d)
{
    const fr_config *c = s->config;
    const size_t head = (size_t)s->shape->context * c->head_dim, area = c->n_kv_heads * head;
    const size_t start = (2 * (size_t)s->layer_in_kv + value) * area + kv_head * head;
    if (value)
        return start + (size_t)slot * c->head_dim + d;
    return start + (size_t)(slot / 32) * 32 * c->head_dim + (d / 8 * 32 + slot % 32) * 8 + d % 8;
}

void ref_rope(const fr_config *c, const float *factors, uint32_t position, uint32_t pair, float out[2])
{
    double turn = (double)position * (double)c->rope_scale / pow((double)c->rope_base, 2.0 * pair / c->rope_dims);
    if (factors)
        turn /= (double)factors[pair];
    out[0] = (float)cos(turn);
    out[1] = (float)sin(turn);
}
