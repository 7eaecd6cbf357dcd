/* ref_attend.c: attention in chunks of logical positions. */
#include <math.h>
#include <string.h>

#include "ref/ref.h"

enum { REF_CHUNK = 32, REF_SPAN = 16 /* chunks */, QUARTER = REF_CHUNK / 4, MOST_DIM = 256 };

static const double chunk_rounding = 32 * REF_ROUNDING; /* of a sum over a chunk, relative to the sum of magnitudes */

/* What one chunk gives for one query: the largest score, the sum of the exponentials, and the values weighted by them. */
typedef struct chunk {
    float max;
    ref_near sum;
    ref_near value[MOST_DIM];
} chunk;

/* Dimension d of a slot's key or value, of the key head that serves a query head. */
static float cached(const ref_step *s, bool value, uint32_t head, uint32_t slot, uint32_t d)
{
    const fr_config *c = s->config;
    const size_t at = ref_cache_at(s, value, head / (c->n_heads / c->n_kv_heads), slot, d);
    return ref_from_half(s->buffers[REF_KV].was[at / 2] >> (at % 2 ? 16 : 0) & 0xffff);
}

/* Four sums, over the dimensions that are equal modulo 4. */
static float score(const ref_step *s, uint32_t node, uint32_t head, uint32_t slot)
{
    const uint32_t dim = s->config->head_dim;
    const size_t query = ((size_t)node * s->config->n_heads + head) * dim;
    float sum[4] = {0};
    for (uint32_t d = 0; d < dim; d++)
        sum[d % 4] = ref_fma(s, cached(s, false, head, slot, d), ref_work_was(s, s->shape->q_at, query + d), sum[d % 4]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Exponentials of the scores; their sum: four sums over positions equal modulo 4, then a tree. Absent positions give zero. */
static ref_near exponentials(const float *scores, uint32_t n, float max, ref_near *out)
{
    float sum[4] = {0};
    double freedom = 0;
    for (uint32_t p = 0; p < n; p++) {
        const float x = scores[p] - max;
        out[p].v = expf(x);
        out[p].e = (double)out[p].v * ref_exp_freedom((double)x);
        sum[p % 4] += out[p].v;
        freedom += out[p].e;
    }
    const float all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    return (ref_near){all, freedom + chunk_rounding * (double)all};
}

/* Dimension d of the weighted values: a chain of fma over each quarter's positions, then a tree over the quarters. */
static ref_near weighted(const ref_step *s, uint32_t head, const uint32_t *slots, uint32_t n, uint32_t d, const ref_near *weight)
{
    float quarter[4] = {0};
    double freedom = 0;
    for (uint32_t p = 0; p < n; p++) {
        const float v = cached(s, true, head, slots[p], d);
        quarter[p / QUARTER] = ref_fma(s, weight[p].v, v, quarter[p / QUARTER]);
        freedom += fabs((double)v) * (weight[p].e + chunk_rounding * (double)weight[p].v);
    }
    return (ref_near){(quarter[0] + quarter[1]) + (quarter[2] + quarter[3]), freedom};
}

/* The chunk of positions from `first` on, as far as the node sees them. */
static void attend_chunk(const ref_step *s, uint32_t node, uint32_t head, uint32_t first, chunk *out)
{
    const uint32_t left = ref_position(s, node) + 1 - first, n = left < REF_CHUNK ? left : REF_CHUNK;
    uint32_t slots[REF_CHUNK];
    float scores[REF_CHUNK];
    ref_near weight[REF_CHUNK];
    out->max = -INFINITY;
    for (uint32_t p = 0; p < n; p++) {
        slots[p] = ref_slot_of(s, node, first + p);
        scores[p] = score(s, node, head, slots[p]);
        out->max = fmaxf(out->max, scores[p]);
    }
    out->sum = exponentials(scores, n, out->max, weight);
    for (uint32_t d = 0; d < s->config->head_dim; d++)
        out->value[d] = weighted(s, head, slots, n, d, weight);
}

/* Places of a chunk's result for one node and head. */
static size_t result_at(const ref_step *s, uint32_t c, uint32_t node, uint32_t head)
{
    return ((size_t)c * s->n + node) * s->config->n_heads + head;
}

void ref_attend_split(ref_step *s)
{
    ref_words *work = &s->buffers[REF_WORK];
    const uint32_t dim = s->config->head_dim;
    for (uint32_t node = 0; node < ref_node_count(s); node++)
        for (uint32_t c = 0; c < s->chunks && c * REF_CHUNK <= ref_position(s, node); c++)
            for (uint32_t head = 0; head < s->config->n_heads; head++) {
                const size_t at = result_at(s, c, node, head);
                const size_t ml = 4 * (s->shape->ml_at + at), part = 4 * (size_t)s->shape->part_at + at * dim;
                chunk one;
                attend_chunk(s, node, head, c * REF_CHUNK, &one);
                ref_put_float(work, ml, one.max);
                ref_put_near(work, ml + 1, one.sum);
                ref_put_float(work, ml + 2, 0);
                ref_put_float(work, ml + 3, 0);
                for (uint32_t d = 0; d < dim; d++)
                    ref_put_near(work, part + d, one.value[d]);
            }
}

/* ---- folding ---- */

static ref_near rescaled(ref_near x, float by)
{
    return (ref_near){x.v * by, x.e * (double)by};
}

/* x a + y b */
static ref_near fold(const ref_step *s, ref_near x, ref_near a, ref_near y, ref_near b)
{
    const ref_near yb = rescaled(y, b.v);
    const double size = fabs((double)x.v) * (a.e + (double)a.v * REF_ROUNDING) + fabs((double)y.v) * (b.e + 2 * (double)b.v * REF_ROUNDING);
    return (ref_near){ref_fma(s, x.v, a.v, yb.v), rescaled(x, a.v).e + yb.e + size};
}

static ref_near decay(float from, float to)
{
    const float x = from - to, v = expf(x);
    return (ref_near){v, v == 0 ? 0 : (double)v * ref_exp_freedom((double)x)};
}

/* Chunks are folded in order of position. `running` starts with max -1e30 and zeros. */
static void fold_chunk(const ref_step *s, chunk *running, const chunk *next)
{
    const float max = fmaxf(running->max, next->max);
    const ref_near a = decay(running->max, max), b = decay(next->max, max);
    running->max = max;
    running->sum = fold(s, running->sum, a, next->sum, b);
    for (uint32_t d = 0; d < s->config->head_dim; d++)
        running->value[d] = fold(s, running->value[d], a, next->value[d], b);
}

static chunk start(void)
{
    chunk c;
    memset(&c, 0, sizeof c);
    c.max = -1e30f;
    return c;
}

/* Chunks of a span, and the spans before it. */
typedef struct folding {
    chunk span, all;
    uint32_t chunks;
} folding;

static folding start_folding(void)
{
    return (folding){.span = start(), .all = start()};
}

static void end_span(const ref_step *s, folding *f)
{
    fold_chunk(s, &f->all, &f->span);
    f->span = start();
}

static void add_chunk(const ref_step *s, folding *f, const chunk *next)
{
    if (f->chunks && f->chunks % REF_SPAN == 0)
        end_span(s, f);
    fold_chunk(s, &f->span, next);
    f->chunks++;
}

static ref_near divided(ref_near x, ref_near by)
{
    const double quotient = fabs((double)x.v / (double)by.v);
    return (ref_near){x.v / by.v, x.e / (double)by.v + quotient * (by.e / (double)by.v + REF_DIVISION)};
}

/* Quantised for the output projection, after a node's heads are folded. */
static void put_attention(ref_step *s, uint32_t node, uint32_t head, const chunk *all)
{
    const uint32_t dim = s->config->head_dim;
    for (uint32_t b = 0; b < dim / FR_BLOCK; b++) {
        ref_near x[FR_BLOCK];
        for (uint32_t e = 0; e < FR_BLOCK; e++)
            x[e] = divided(all->value[b * FR_BLOCK + e], all->sum);
        ref_quantise(s, (ref_act){s->shape->act_a + ((node * s->config->n_heads + head) * (dim / FR_BLOCK) + b) * FR_ACT, FR_ACT, false}, x,
                     NULL);
    }
}

void ref_merge(ref_step *s)
{
    if (!s->chunks)
        return;
    const uint32_t dim = s->config->head_dim;
    for (uint32_t node = 0; node < ref_node_count(s); node++)
        for (uint32_t head = 0; head < s->config->n_heads; head++) {
            folding f = start_folding();
            for (uint32_t c = 0; c * REF_CHUNK <= ref_position(s, node); c++) {
                const size_t at = result_at(s, c, node, head);
                chunk one = {.max = ref_work_was(s, s->shape->ml_at, 4 * at), .sum = {ref_work_was(s, s->shape->ml_at, 4 * at + 1), 0}};
                for (uint32_t d = 0; d < dim; d++)
                    one.value[d] = (ref_near){ref_work_was(s, s->shape->part_at, at * dim + d), 0};
                add_chunk(s, &f, &one);
            }
            end_span(s, &f);
            put_attention(s, node, head, &f.all);
        }
}

void ref_attend_stream(ref_step *s)
{
    if (!s->chunks)
        return;
    for (uint32_t node = 0; node < ref_node_count(s); node++)
        for (uint32_t head = 0; head < s->config->n_heads; head++) {
            folding f = start_folding();
            for (uint32_t first = 0; first <= ref_position(s, node); first += REF_CHUNK) {
                chunk one;
                attend_chunk(s, node, head, first, &one);
                add_chunk(s, &f, &one);
            }
            end_span(s, &f);
            put_attention(s, node, head, &f.all);
        }
}
