#include "load/tensors.h"

#include <stdio.h>
#include <string.h>

/* Suffix of "blk.N." for roles in layers, else the whole name. */
static const char *const names[TENSOR_ROLES] = {
    [TENSOR_EMBED] = "token_embd.weight",
    [TENSOR_HEAD] = "output.weight",
    [TENSOR_FINAL_NORM] = "output_norm.weight",
    [TENSOR_ROPE] = "rope_freqs.weight",
    [TENSOR_ATTN_NORM] = "attn_norm.weight",
    [TENSOR_Q] = "attn_q.weight",
    [TENSOR_K] = "attn_k.weight",
    [TENSOR_V] = "attn_v.weight",
    [TENSOR_Q_BIAS] = "attn_q.bias",
    [TENSOR_K_BIAS] = "attn_k.bias",
    [TENSOR_V_BIAS] = "attn_v.bias",
    [TENSOR_O] = "attn_output.weight",
    [TENSOR_FFN_NORM] = "ffn_norm.weight",
    [TENSOR_GATE] = "ffn_gate.weight",
    [TENSOR_UP] = "ffn_up.weight",
    [TENSOR_DOWN] = "ffn_down.weight",
};

static bool in_layers(tensor_role role)
{
    return role >= TENSOR_ATTN_NORM;
}

static bool is_bias(tensor_role role)
{
    return role == TENSOR_Q_BIAS || role == TENSOR_K_BIAS || role == TENSOR_V_BIAS;
}

static bool is_optional(tensor_role role)
{
    return role == TENSOR_HEAD || role == TENSOR_ROPE;
}

bool tensor_is_matrix(tensor_role role)
{
    switch (role) {
    case TENSOR_EMBED:
    case TENSOR_HEAD:
    case TENSOR_Q:
    case TENSOR_K:
    case TENSOR_V:
    case TENSOR_O:
    case TENSOR_GATE:
    case TENSOR_UP:
    case TENSOR_DOWN:
        return true;
    default:
        return false;
    }
}

static void full_name(tensor_role role, uint32_t layer, char out[64])
{
    if (in_layers(role))
        snprintf(out, 64, "blk.%u.%s", layer, names[role]);
    else
        snprintf(out, 64, "%s", names[role]);
}

/* "blk.N." with N below n_layers and without leading zeros; returns what follows, or NULL. */
static const char *parse_layer(const char *name, uint32_t n_layers, uint32_t *layer)
{
    if (strncmp(name, "blk.", 4))
        return NULL;
    const char *p = name + 4;
    if (*p == '0' && p[1] != '.')
        return NULL;
    uint32_t n = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        n = 10 * n + (uint32_t)(*p - '0');
        if (n >= n_layers)
            return NULL;
    }
    *layer = n;
    return p > name + 4 && *p == '.' ? p + 1 : NULL;
}

bool tensor_identify(const char *name, const fr_config *c, tensor_role *role, uint32_t *layer)
{
    *layer = 0;
    const char *suffix = parse_layer(name, c->n_layers, layer);
    for (tensor_role r = suffix ? TENSOR_ATTN_NORM : 0; r < (suffix ? TENSOR_ROLES : TENSOR_ATTN_NORM); r++)
        if (!strcmp(suffix ? suffix : name, names[r]) && (c->qkv_bias || !is_bias(r))) {
            *role = r;
            return true;
        }
    return false;
}

const gguf_tensor *tensor_find(const gguf_reader *reader, tensor_role role, uint32_t layer)
{
    char name[64];
    full_name(role, layer, name);
    return gguf_reader_find(reader, name);
}

static void shape(tensor_role role, const fr_config *c, uint32_t *rows, uint32_t *cols)
{
    uint32_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    *rows = 1;
    *cols = c->dim;
    switch (role) {
    case TENSOR_EMBED:
    case TENSOR_HEAD:
        *rows = c->vocab;
        break;
    case TENSOR_Q:
        *rows = q;
        break;
    case TENSOR_K:
    case TENSOR_V:
        *rows = kv;
        break;
    case TENSOR_O:
        *rows = c->dim;
        *cols = q;
        break;
    case TENSOR_GATE:
    case TENSOR_UP:
        *rows = c->ffn_dim;
        break;
    case TENSOR_DOWN:
        *rows = c->dim;
        *cols = c->ffn_dim;
        break;
    case TENSOR_Q_BIAS:
        *cols = q;
        break;
    case TENSOR_K_BIAS:
    case TENSOR_V_BIAS:
        *cols = kv;
        break;
    case TENSOR_ROPE:
        *cols = c->head_dim / 2;
        break;
    default: /* norms */
        break;
    }
}

/* "[576, 1536]", as tools print shapes: row length first. */
static void print_shape(const gguf_tensor *t, char out[100])
{
    int n = snprintf(out, 100, "[%llu", (unsigned long long)t->dims[0]);
    for (uint32_t i = 1; i < t->n_dims; i++)
        n += snprintf(out + n, 100 - (size_t)n, ", %llu", (unsigned long long)t->dims[i]);
    snprintf(out + n, 100 - (size_t)n, "]");
}

static fr_status check_shape(const gguf_tensor *t, tensor_role role, const fr_config *c, fr_error_text *e)
{
    uint32_t rows, cols;
    shape(role, c, &rows, &cols);
    bool matrix = tensor_is_matrix(role);
    if (t->dims[0] == cols && t->dims[1] == rows && t->dims[2] == 1 && t->dims[3] == 1)
        return FR_OK;
    char found[100], expected[32];
    print_shape(t, found);
    if (matrix)
        snprintf(expected, sizeof expected, "[%u, %u]", cols, rows);
    else
        snprintf(expected, sizeof expected, "[%u]", cols);
    return fr_fail(e, FR_BAD_MODEL, "tensor %s has the shape %s, expected is %s; the model file is damaged or a failed conversion", t->name,
                   found, expected);
}

static fr_status check_one(const gguf_reader *reader, tensor_role role, uint32_t layer, const fr_config *c, fr_error_text *e)
{
    char name[64];
    full_name(role, layer, name);
    const gguf_tensor *t = gguf_reader_find(reader, name);
    if (!t && is_optional(role))
        return FR_OK;
    if (!t)
        return fr_fail(e, FR_BAD_MODEL, "tensor %s is missing in the model file; use a complete file", name);
    if (!tensor_is_matrix(role) && ggml_block_size(t->type) != 1)
        return fr_fail(e, FR_BAD_MODEL, "tensor %s has type %s; supported for it are F32, F16 and BF16", name, ggml_type_name(t->type));
    return check_shape(t, role, c, e);
}

static fr_status check_unknown(const gguf_reader *reader, const fr_config *c, fr_error_text *e)
{
    size_t n;
    const gguf_tensor *t = gguf_reader_tensors(reader, &n);
    for (; n; n--, t++) {
        tensor_role role;
        uint32_t layer;
        if (!tensor_identify(t->name, c, &role, &layer))
            return fr_fail(
                e, FR_BAD_MODEL,
                "tensor %.80s is unknown in a %s model of %u layers: the model needs something that is not supported; use another model",
                t->name, c->architecture, c->n_layers);
    }
    return FR_OK;
}

fr_status tensor_check(const gguf_reader *reader, const fr_config *c, fr_error_text *e)
{
    for (tensor_role role = 0; role < TENSOR_ROLES; role++) {
        if (is_bias(role) && !c->qkv_bias)
            continue;
        for (uint32_t layer = 0; layer < (in_layers(role) ? c->n_layers : 1); layer++) {
            fr_status s = check_one(reader, role, layer, c, e);
            if (s != FR_OK)
                return s;
        }
    }
    return check_unknown(reader, c, e);
}

static tensor_target to_qkv(tensor_target t, const fr_layer *layer, uint32_t which, uint32_t row0)
{
    t.matrix = &layer->qkv[layer->n_qkv == 1 ? 0 : which];
    t.row0 = layer->n_qkv == 1 ? row0 : 0;
    return t;
}

tensor_target tensor_place(tensor_role role, uint32_t layer, const fr_config *c, const fr_weights *w)
{
    tensor_target t = {.role = role};
    shape(role, c, &t.rows, &t.cols);
    uint32_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    uint64_t bias = w->bias_base + (uint64_t)layer * (q + 2 * kv);
    uint64_t norm = w->norms_base + (uint64_t)2 * layer * c->dim;
    const fr_layer *l = &w->layers[layer];
    t.permute = c->rope_neox && (role == TENSOR_Q || role == TENSOR_K || role == TENSOR_Q_BIAS || role == TENSOR_K_BIAS);
    switch (role) {
    case TENSOR_EMBED:
        t.matrix = &w->embed;
        break;
    case TENSOR_HEAD:
        t.matrix = &w->head;
        break;
    case TENSOR_Q:
        return to_qkv(t, l, 0, 0);
    case TENSOR_K:
        return to_qkv(t, l, 1, q);
    case TENSOR_V:
        return to_qkv(t, l, 2, q + kv);
    case TENSOR_O:
        t.matrix = &l->o;
        break;
    case TENSOR_GATE:
        t.matrix = &l->gate;
        break;
    case TENSOR_UP:
        t.matrix = &l->up;
        break;
    case TENSOR_DOWN:
        t.matrix = &l->down;
        break;
    case TENSOR_Q_BIAS:
        t.vector_at = bias;
        break;
    case TENSOR_K_BIAS:
        t.vector_at = bias + q;
        break;
    case TENSOR_V_BIAS:
        t.vector_at = bias + q + kv;
        break;
    case TENSOR_ATTN_NORM:
        t.vector_at = norm;
        break;
    case TENSOR_FFN_NORM:
        t.vector_at = norm + c->dim;
        break;
    case TENSOR_FINAL_NORM:
        t.vector_at = w->norms_base + (uint64_t)2 * c->n_layers * c->dim;
        break;
    case TENSOR_ROPE:
    case TENSOR_ROLES:
        break;
    }
    return t;
}
