/* ref_layers.c: what a layer does around its matrices. */
#include <math.h>

#include "ref/ref.h"

static const fr_layer *layer_of(const ref_step *s)
{
    return &s->weights->layers[s->layer];
}

static uint32_t blocks(uint32_t elements)
{
    return elements / FR_BLOCK;
}

/* A node's block in one of the two areas of activations without fine codes. */
static ref_act act_at(uint32_t area, uint32_t width, uint32_t node, uint32_t block)
{
    return (ref_act){area + (node * blocks(width) + block) * FR_ACT, FR_ACT, false};
}

/* A node's block of x. */
static ref_act x_at(const ref_step *s, uint32_t node, uint32_t block, bool wide)
{
    return (ref_act){s->shape->act_x + (node * blocks(s->config->dim) + block) * FR_ACT_FINE, FR_ACT_FINE, wide};
}

static uint32_t attention_width(const ref_step *s)
{
    return s->config->n_heads * s->config->head_dim;
}

/* Gain of norm `index`: attention and ffn norm of each layer, then the final norm. */
static const float *norm(const ref_step *s, uint32_t index)
{
    return s->vectors + s->weights->norms_base + (size_t)index * s->config->dim;
}

/* x of a node: its floats into work, its blocks quantised with the gain of the norm that follows. Blocks from `first` to `end`. */
static void put_residual(ref_step *s, uint32_t node, const float *x, const float *gain, uint32_t first, uint32_t end)
{
    for (uint32_t b = first; b < end; b++) {
        ref_near block[FR_BLOCK];
        for (uint32_t e = 0; e < FR_BLOCK; e++) {
            const uint32_t i = b * FR_BLOCK + e;
            block[e] = (ref_near){x[i], 0};
            ref_put_float(&s->buffers[REF_WORK], 4 * (size_t)s->shape->x_at + (size_t)node * s->config->dim + i, x[i]);
        }
        ref_quantise(s, x_at(s, node, b, true), block, gain + b * FR_BLOCK);
    }
}

void ref_embed(ref_step *s)
{
    enum { MOST = 1 << 14 };
    const fr_matrix *m = &s->weights->embed;
    const fr_part *part = &m->parts[s->part];
    float x[MOST];
    for (uint32_t node = 0; node < ref_node_count(s); node++) {
        const uint32_t row = ref_token(s, node);
        if (row < part->row0 || row >= part->row0 + part->rows)
            continue;
        for (uint32_t i = 0; i < s->config->dim; i++)
            x[i] = ref_element(s, m, row, i);
        put_residual(s, node, x, norm(s, 0), 0, blocks(s->config->dim));
    }
}

/* ---- q, k, v ---- */

static ref_near rotated(const ref_step *s, ref_near a, ref_near b, float cosine, float sine)
{
    const double c = fabs((double)cosine), d = fabs((double)sine);
    return (ref_near){ref_fma(s, a.v, cosine, b.v * sine),
                      c * (a.e + REF_ROUNDING * fabs((double)a.v)) + d * (b.e + REF_ROUNDING * fabs((double)b.v))};
}

/* The pair of values that rows `row`, `row + 1` of q, k, v stacked give for a node. */
static void qkv_pair(const ref_step *s, const fr_matrix *m, uint32_t row, uint32_t stacked, uint32_t node, ref_near out[2])
{
    const ref_act act = x_at(s, node, 0, true);
    const ref_near f = ref_norm_factor(s, act, blocks(s->config->dim));
    for (uint32_t i = 0; i < 2; i++) {
        const size_t rows = (s->config->n_heads + 2 * s->config->n_kv_heads) * s->config->head_dim;
        const float bias = s->config->qkv_bias ? s->vectors[s->weights->bias_base + s->layer * rows + stacked + i] : 0;
        const float y = ref_product(s, m, row + i, act);
        out[i].v = ref_fma(s, y, f.v, bias);
        out[i].e = fabs((double)y) * f.e + REF_ROUNDING * fabs((double)out[i].v);
    }
}

static void put_query(ref_step *s, uint32_t node, uint32_t row, ref_near x)
{
    const float scale = 1.0f / sqrtf((float)s->config->head_dim);
    const size_t word = 4 * (size_t)s->shape->q_at + (size_t)node * attention_width(s) + row;
    ref_put_near(&s->buffers[REF_WORK], word, (ref_near){x.v * scale, (double)scale * (x.e + REF_ROUNDING * fabs((double)x.v))});
}

/* `row` counts rows of keys, or of values. */
static void put_cache(ref_step *s, uint32_t node, bool value, uint32_t row, ref_near x)
{
    const uint32_t dim = s->config->head_dim;
    ref_put_half(&s->buffers[REF_KV], ref_cache_at(s, value, row / dim, ref_slot(s, node), row % dim), x);
}

void ref_qkv(ref_step *s)
{
    const fr_config *c = s->config;
    const fr_layer *layer = layer_of(s);
    const fr_matrix *m = &layer->qkv[s->matrix];
    const uint32_t q = attention_width(s), k = c->n_kv_heads * c->head_dim;
    const uint32_t before = s->matrix == 0 ? 0 : s->matrix == 1 ? q : q + k; /* rows of the matrices in front of m */
    const fr_part *part = &m->parts[s->part];
    for (uint32_t node = 0; node < ref_node_count(s); node++)
        for (uint32_t row = part->row0; row < part->row0 + part->rows; row += 2) {
            const uint32_t stacked = before + row;
            ref_near y[2];
            qkv_pair(s, m, row, stacked, node, y);
            if (stacked < q + k) {
                const float *turn = s->vectors + s->shape->rope_at + (size_t)ref_position(s, node) * c->head_dim + stacked % c->head_dim;
                const ref_near first = rotated(s, y[0], y[1], turn[0], -turn[1]);
                y[1] = rotated(s, y[0], y[1], turn[1], turn[0]);
                y[0] = first;
            }
            for (uint32_t i = 0; i < 2; i++) {
                if (stacked < q)
                    put_query(s, node, stacked + i, y[i]);
                else
                    put_cache(s, node, stacked >= q + k, (stacked < q + k ? stacked - q : stacked - q - k) + i, y[i]);
            }
        }
}

/* ---- output projection and down ---- */

void ref_residual(ref_step *s)
{
    enum { MOST = 1 << 14 };
    const fr_matrix *m = s->down ? &layer_of(s)->down : &layer_of(s)->o;
    const fr_part *part = &m->parts[s->part];
    const uint32_t in = s->down ? s->shape->act_h : s->shape->act_a;
    const float *gain = norm(s, 2 * s->layer + (s->down ? 2 : 1));
    float x[MOST];
    for (uint32_t node = 0; node < ref_node_count(s); node++) {
        for (uint32_t row = part->row0; row < part->row0 + part->rows; row++)
            x[row] = ref_work_was(s, s->shape->x_at, (size_t)node * s->config->dim + row) +
                     ref_product(s, m, row, act_at(in, m->cols, node, 0));
        put_residual(s, node, x, gain, blocks(part->row0), blocks(part->row0 + part->rows));
    }
}

/* ---- the hidden layer ---- */

/* silu(g) * u */
static ref_near gated(ref_near g, ref_near u)
{
    const double decay = exp(-(double)g.v), share = decay / (1 + decay);
    const float silu = g.v / (1.0f + expf(-g.v));
    const double freedom = 1.1 * g.e + fabs((double)silu) * (share * ref_exp_freedom((double)g.v) + REF_DIVISION);
    const float h = silu * u.v;
    return (ref_near){h, freedom * fabs((double)u.v) + fabs((double)silu) * u.e + REF_ROUNDING * fabs((double)h)};
}

static ref_near scaled(float y, ref_near f)
{
    return (ref_near){y * f.v, fabs((double)y) * f.e};
}

void ref_gateup(ref_step *s)
{
    const fr_layer *layer = layer_of(s);
    const fr_part *part = &layer->gate.parts[s->part];
    for (uint32_t node = 0; node < ref_node_count(s); node++) {
        const ref_act act = x_at(s, node, 0, true);
        const ref_near f = ref_norm_factor(s, act, blocks(s->config->dim));
        for (uint32_t b = blocks(part->row0); b < blocks(part->row0 + part->rows); b++) {
            ref_near h[FR_BLOCK];
            for (uint32_t e = 0; e < FR_BLOCK; e++) {
                const uint32_t row = b * FR_BLOCK + e;
                h[e] = gated(scaled(ref_product(s, &layer->gate, row, act), f), scaled(ref_product(s, &layer->up, row, act), f));
            }
            ref_quantise(s, act_at(s->shape->act_h, s->config->ffn_dim, node, b), h, NULL);
        }
    }
}
