#include "load/read_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Limits of plausibility: far above any model that a GPU of today holds, low enough that no later product of them overflows. */
enum {
    BLOCK = 32,
    MAX_LAYERS = 512,
    MAX_DIM = 65536,   /* of the embedding, and of all heads together */
    MAX_FFN = 131072,
    MAX_HEADS = 1024,
    MAX_HEAD_DIM = 256,
    MAX_VOCAB = 1 << 20,
    MAX_CONTEXT = 1 << 30
};

typedef struct reading {
    const gguf_meta *meta;
    const fr_config *config;
    fr_error_text *error;
} reading;

static const char *full_key(const reading *r, char out[80], const char *suffix)
{
    snprintf(out, 80, "%s.%s", r->config->architecture, suffix);
    return out;
}

static bool has(const gguf_meta *m, const char *key)
{
    uint32_t u;
    float f;
    bool b;
    gguf_string s;
    gguf_type t;
    size_t n;
    return gguf_u32(m, key, &u) || gguf_f32(m, key, &f) || gguf_bool(m, key, &b) || gguf_str(m, key, &s) || gguf_array(m, key, &t, &n);
}

static fr_status lacks(const char *key, fr_error_text *e)
{
    return fr_fail(e, FR_BAD_MODEL, "the model file lacks the metadata key %s; use a complete file", key);
}

/* An integer from low to high, a multiple of `step`. An absent key leaves *out, if that is in range. */
static fr_status number(const reading *r, const char *suffix, uint32_t low, uint32_t high, uint32_t step, uint32_t *out)
{
    char key[80];
    full_key(r, key, suffix);
    gguf_type t;
    size_t n;
    if (gguf_array(r->meta, key, &t, &n))
        return fr_fail(r->error, FR_BAD_MODEL, "metadata key %s differs from layer to layer, which is not supported; use another model",
                       key);
    if (!gguf_u32(r->meta, key, out)) {
        if (has(r->meta, key))
            return fr_fail(r->error, FR_BAD_MODEL, "metadata key %s is no number from %u to %u; the model file may be damaged", key, low,
                           high);
        if (!*out)
            return lacks(key, r->error);
    }
    if (*out >= low && *out <= high && *out % step == 0)
        return FR_OK;
    if (low == high)
        return fr_fail(r->error, FR_BAD_MODEL, "%s is %u; supported is %u here, use another model", key, *out, low);
    return fr_fail(r->error, FR_BAD_MODEL, "%s is %u; supported are %u to %u in steps of %u, use another model", key, *out, low, high,
                   step);
}

/* A float in (0, high]; an absent key leaves *out, if that is in range. */
static fr_status real(const reading *r, const char *suffix, float high, float *out)
{
    char key[80];
    full_key(r, key, suffix);
    if (!gguf_f32(r->meta, key, out)) {
        if (has(r->meta, key))
            return fr_fail(r->error, FR_BAD_MODEL, "metadata key %s is no number; the model file may be damaged", key);
        if (!(*out > 0))
            return lacks(key, r->error);
    }
    if (!(*out > 0 && *out <= high))
        return fr_fail(r->error, FR_BAD_MODEL, "%s is %g; supported are values above 0 up to %g, use another model", key, (double)*out,
                       (double)high);
    return FR_OK;
}

static bool equals(gguf_string s, const char *text)
{
    return s.size == strlen(text) && !memcmp(s.data, text, s.size);
}

static fr_status read_architecture(fr_config *c, const gguf_meta *m, fr_error_text *e)
{
    gguf_string s;
    if (!gguf_str(m, "general.architecture", &s))
        return lacks("general.architecture", e);
    if (!equals(s, "llama") && !equals(s, "qwen2"))
        return fr_fail(e, FR_BAD_MODEL,
                       "the model's architecture is %.*s, which is not supported; use a model of the architecture llama or qwen2",
                       s.size < 64 ? (int)s.size : 64, s.data);
    memcpy(c->architecture, s.data, s.size);
    /* Files of the llama architecture have their q and k rows reordered so that rotated pairs are neighbours. */
    c->rope_neox = c->qkv_bias = equals(s, "qwen2");
    uint32_t parts;
    if (gguf_u32(m, "split.count", &parts) && parts > 1)
        return fr_fail(e, FR_BAD_MODEL,
                       "the model is split over %u files, which is not supported; merge them first (llama-gguf-split --merge)", parts);
    return FR_OK;
}

static fr_status read_sizes(const reading *r, fr_config *c)
{
    fr_status s = number(r, "block_count", 1, MAX_LAYERS, 1, &c->n_layers);
    if (s == FR_OK)
        s = number(r, "embedding_length", BLOCK, MAX_DIM, BLOCK, &c->dim);
    if (s == FR_OK)
        s = number(r, "feed_forward_length", BLOCK, MAX_FFN, BLOCK, &c->ffn_dim);
    if (s == FR_OK)
        s = number(r, "context_length", 1, MAX_CONTEXT, 1, &c->train_context);
    if (s != FR_OK)
        return s;
    char key[80];
    uint32_t experts;
    if (gguf_u32(r->meta, full_key(r, key, "expert_count"), &experts) && experts)
        return fr_fail(r->error, FR_BAD_MODEL, "the model is a mixture of %u experts (%s), which is not supported; use a dense model",
                       experts, key);
    return FR_OK;
}

static fr_status read_heads(const reading *r, fr_config *c)
{
    fr_status s = number(r, "attention.head_count", 1, MAX_HEADS, 1, &c->n_heads);
    if (s != FR_OK)
        return s;
    c->n_kv_heads = c->n_heads;
    s = number(r, "attention.head_count_kv", 1, c->n_heads, 1, &c->n_kv_heads);
    if (s != FR_OK)
        return s;
    if (c->n_heads % c->n_kv_heads)
        return fr_fail(r->error, FR_BAD_MODEL,
                       "%u query heads are no multiple of %u key heads (%s.attention.head_count_kv); the model file may be damaged",
                       c->n_heads, c->n_kv_heads, c->architecture);
    c->head_dim = c->dim % c->n_heads ? 0 : c->dim / c->n_heads;
    s = number(r, "attention.key_length", BLOCK, MAX_HEAD_DIM, BLOCK, &c->head_dim);
    uint32_t value_dim = c->head_dim;
    if (s == FR_OK)
        s = number(r, "attention.value_length", c->head_dim, c->head_dim, 1, &value_dim);
    c->rope_dims = c->head_dim;
    if (s == FR_OK) /* a part of the head rotating is another family's */
        s = number(r, "rope.dimension_count", c->head_dim, c->head_dim, 1, &c->rope_dims);
    if (s == FR_OK && c->n_heads * c->head_dim > MAX_DIM)
        return fr_fail(r->error, FR_BAD_MODEL, "%u heads of %u dimensions are more than %d in all; use another model", c->n_heads,
                       c->head_dim, MAX_DIM);
    return s;
}

static fr_status read_rope(const reading *r, fr_config *c)
{
    c->rope_base = 10000;
    c->rope_scale = 1;
    fr_status s = real(r, "rope.freq_base", 1e12f, &c->rope_base);
    if (s != FR_OK)
        return s;
    char key[80];
    gguf_string type = {"linear", 6}; /* as in llama.cpp; without a factor that is none */
    gguf_str(r->meta, full_key(r, key, "rope.scaling.type"), &type);
    float factor = 1;
    if (equals(type, "linear")) {
        if (has(r->meta, full_key(r, key, "rope.scaling.factor")))
            s = real(r, "rope.scaling.factor", 1e6f, &factor);
        else
            s = real(r, "rope.scale_linear", 1e6f, &factor);
    } else if (!equals(type, "none")) {
        return fr_fail(r->error, FR_BAD_MODEL, "%s is %.*s; supported are none and linear, use another version of the model",
                       full_key(r, key, "rope.scaling.type"), type.size < 64 ? (int)type.size : 64, type.data);
    }
    c->rope_scale = 1 / factor;
    return s;
}

static fr_status read_vocab(const reading *r, fr_config *c)
{
    gguf_type type;
    size_t tokens = 0;
    if (!gguf_array(r->meta, "tokenizer.ggml.tokens", &type, &tokens) || type != GGUF_STRING)
        return fr_fail(r->error, FR_BAD_MODEL, "the model file has no tokenizer (metadata key tokenizer.ggml.tokens); use a complete file");
    c->vocab = tokens <= MAX_VOCAB ? (uint32_t)tokens : 0;
    fr_status s = number(r, "vocab_size", 1, MAX_VOCAB, 1, &c->vocab);
    if (s == FR_OK && tokens > c->vocab)
        return fr_fail(r->error, FR_BAD_MODEL,
                       "the tokenizer has %zu tokens, %s.vocab_size is %u; the model file is damaged or a failed conversion", tokens,
                       c->architecture, c->vocab);
    return s;
}

fr_status fr_config_read(fr_config *c, const gguf_meta *m, fr_error_text *e)
{
    *c = (fr_config){0};
    fr_status s = read_architecture(c, m, e);
    if (s != FR_OK)
        return s;
    const reading r = {m, c, e};
    s = read_sizes(&r, c);
    if (s == FR_OK)
        s = read_heads(&r, c);
    if (s == FR_OK)
        s = read_rope(&r, c);
    if (s == FR_OK)
        s = real(&r, "attention.layer_norm_rms_epsilon", 1, &c->norm_eps);
    return s == FR_OK ? read_vocab(&r, c) : s;
}
