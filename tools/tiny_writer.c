#include "tools/tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/gguf.h"
#include "load/repack.h"

enum {
    CHUNK = 1 << 20,  /* bytes of tensor data made at a time */
    N_SPECIAL = 3,
    MAX_MERGES = 512,
    MAX_TOKEN = 64,
    ALIGNMENT = 32
};

typedef struct tensor {
    char name[48];
    ggml_type type;
    uint64_t cols, rows; /* rows 0: a vector */
    float mean, sigma;
} tensor;

typedef struct tokens {
    char text[256 + MAX_MERGES][MAX_TOKEN]; /* bytes, then what merges make, in GPT-2's byte alphabet */
    char merge[MAX_MERGES][2 * MAX_TOKEN];
    uint32_t n, n_merges;
} tokens;

typedef struct writer {
    tiny_model o; /* defaults filled in */
    ggml_type type, head_type, v_type, up_type;
    tiny_sink *sink;
    void *user;
    bool stopped;
    uint64_t position;
    tensor *tensors;
    uint32_t n_tensors;
    tokens *tokens;
} writer;

/* Output, little endian */

static void put(writer *w, const void *bytes, size_t size)
{
    if (!w->stopped && size)
        w->stopped = !w->sink(w->user, bytes, size);
    w->position += size;
}

static void put_int(writer *w, uint64_t v, size_t size)
{
    uint8_t b[8];
    for (size_t i = 0; i < size; i++)
        b[i] = (uint8_t)(v >> 8 * i);
    put(w, b, size);
}

static void put_string(writer *w, const char *s)
{
    put_int(w, strlen(s), 8);
    put(w, s, strlen(s));
}

static void pad(writer *w)
{
    static const uint8_t zeros[ALIGNMENT];
    put(w, zeros, (ALIGNMENT - w->position % ALIGNMENT) % ALIGNMENT);
}

/* Random numbers: splitmix64, whose streams are independent for different seeds. */

static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static float uniform(uint64_t *state) /* -1 to 1 */
{
    return (float)((int64_t)(next(state) >> 40) - (1 << 23)) * 0x1p-23f;
}

/* Tensor data. Quantised types get random codes and a scale that makes the deviation right; the scale's sign is random, which
 * removes the mean of asymmetric codes. */

static void put_half(uint8_t *p, float f)
{
    uint16_t h = repack_f32_to_f16(f);
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

static float random_scale(uint64_t *rng, float size)
{
    float s = size * (1 + 0.3f * uniform(rng));
    return next(rng) & 1 ? s : -s;
}

static void random_codes(uint64_t *rng, uint8_t *p, size_t size)
{
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t v = next(rng);
        memcpy(p, &v, 8);
    }
    uint64_t v = next(rng);
    memcpy(p, &v, size);
}

static void make_float(uint64_t *rng, const tensor *t, uint8_t *p)
{
    float x = t->mean + t->sigma * 1.7320508f * uniform(rng);
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if (t->type == GGML_F16) {
        put_half(p, x);
    } else if (t->type == GGML_BF16) {
        p[0] = (uint8_t)(bits >> 16);
        p[1] = (uint8_t)(bits >> 24);
    } else {
        memcpy(p, &x, 4);
    }
}

static void make_block(uint64_t *rng, const tensor *t, uint8_t *p)
{
    float d;
    switch (t->type) {
    case GGML_Q4_0: /* codes uniform in -8 .. 7: deviation 4.61 */
        put_half(p, random_scale(rng, t->sigma / 4.61f));
        random_codes(rng, p + 2, 16);
        break;
    case GGML_Q4_1: /* the minimum centres the codes 0 .. 15 */
        d = random_scale(rng, t->sigma / 4.61f);
        put_half(p, d);
        put_half(p + 2, -7.5f * d);
        random_codes(rng, p + 4, 16);
        break;
    case GGML_Q8_0:
        put_half(p, random_scale(rng, t->sigma / 73.9f));
        random_codes(rng, p + 2, 32);
        break;
    case GGML_Q6_K: /* codes -32 .. 31 times scales of 32 to 63, either sign: deviation 18.5 * 48 */
        random_codes(rng, p, 208);
        for (size_t i = 192; i < 208; i++)
            p[i] = p[i] & 1 ? (uint8_t)(32 + p[i] % 32) : (uint8_t)(-32 - p[i] % 32);
        put_half(p + 208, t->sigma / (18.5f * 48));
        break;
    default:
        make_float(rng, t, p);
        break;
    }
}

static void put_data(writer *w, const tensor *t, uint64_t rng, uint8_t *buffer)
{
    uint32_t block = ggml_block_size(t->type), bytes = ggml_block_bytes(t->type);
    uint64_t left = t->cols / block * (t->rows ? t->rows : 1);
    uint64_t in_chunk = CHUNK / bytes, made = 0;
    for (; left && !w->stopped; left -= in_chunk) {
        in_chunk = in_chunk < left ? in_chunk : left;
        if (!w->o.repeat || made < in_chunk)
            for (uint64_t i = 0; i < in_chunk; i++)
                make_block(&rng, t, buffer + i * bytes);
        made = in_chunk;
        put(w, buffer, (size_t)(in_chunk * bytes));
    }
    pad(w);
}

/* Tokenizer */

/* GPT-2's byte alphabet: printable bytes are themselves, the others follow from U+0100 on. */
static void byte_symbol(unsigned byte, char out[MAX_TOKEN])
{
    unsigned code = byte, hidden = 256;
    for (unsigned b = 0; b <= byte; b++)
        if (b < 33 || (b > 126 && b < 161) || b == 173)
            code = hidden++;
        else
            code = b;
    if (code < 128) {
        out[0] = (char)code;
        out[1] = 0;
    } else {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 63));
        out[2] = 0;
    }
}

static bool known(const tokens *t, const char *text)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (!strcmp(t->text[i], text))
            return true;
    return false;
}

/* Merges that build a word from the left: "t h", "th e". */
static void add_word(tokens *t, const char *word, uint32_t limit)
{
    char left[MAX_TOKEN] = "", right[MAX_TOKEN], both[2 * MAX_TOKEN];
    for (const char *p = word; *p && t->n < limit && t->n_merges < MAX_MERGES; p++) {
        byte_symbol((unsigned char)*p, right);
        snprintf(both, sizeof both, "%s%s", left, right);
        if (*left && !known(t, both)) {
            snprintf(t->merge[t->n_merges++], sizeof t->merge[0], "%.30s %.30s", left, right);
            snprintf(t->text[t->n++], MAX_TOKEN, "%.60s", both);
        }
        snprintf(left, sizeof left, "%.60s", both);
    }
}

static tokens *make_tokens(uint32_t vocab)
{
    static const char *const words[] = {
        " the",  "ing",   " and", " of",    "er",    " to",  " in",    "ed",     " is",  " that", "es",    " for", "tion",  " was",
        " with", "ment",  " as",  " it",    " on",   "able", " you",   " be",    " at",  " this", " have", "ly",   " from", " or",
        " one",  " had",  " by",  " word",  " but",  " not", " what",  " all",   " we",  " when", " your", " can", " said", " there",
        " use",  " each", " how", " their", " will", " up",  " other", " about", "\r\n", "\n\n",  "  ",    "    ", "123",   "\xc3\xa9"};
    tokens *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    for (; t->n < 256; t->n++)
        byte_symbol(t->n, t->text[t->n]);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        add_word(t, words[i], vocab - N_SPECIAL);
    return t;
}

static const char *token_text(const writer *w, uint32_t i, char padding[MAX_TOKEN])
{
    static const char *const special[N_SPECIAL] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    if (i < w->tokens->n)
        return w->tokens->text[i];
    if (i < w->tokens->n + N_SPECIAL)
        return special[i - w->tokens->n];
    snprintf(padding, MAX_TOKEN, "[PAD%u]", i);
    return padding;
}

/* Metadata. The count of pairs comes before them, so they are written twice: first to count. */

static void key(writer *w, uint32_t *n, const char *suffix, gguf_type type)
{
    char full[96];
    bool general = !strncmp(suffix, "general.", 8) || !strncmp(suffix, "tokenizer.", 10);
    snprintf(full, sizeof full, "%s%s%s", general ? "" : w->o.arch, general ? "" : ".", suffix);
    put_string(w, full);
    put_int(w, type, 4);
    ++*n;
}

static void key_u32(writer *w, uint32_t *n, const char *suffix, uint32_t v)
{
    key(w, n, suffix, GGUF_U32);
    put_int(w, v, 4);
}

static void key_f32(writer *w, uint32_t *n, const char *suffix, float v)
{
    key(w, n, suffix, GGUF_F32);
    put(w, &v, 4);
}

static void key_string(writer *w, uint32_t *n, const char *suffix, const char *v)
{
    key(w, n, suffix, GGUF_STRING);
    put_string(w, v);
}

static void key_array(writer *w, uint32_t *n, const char *suffix, gguf_type item, uint64_t count)
{
    key(w, n, suffix, GGUF_ARRAY);
    put_int(w, item, 4);
    put_int(w, count, 8);
}

static uint32_t token_type(const writer *w, uint32_t i)
{
    enum { NORMAL = 1, CONTROL = 3, UNUSED = 5 };
    if (i < w->tokens->n)
        return w->o.ascii && i >= 128 && i < 256 ? UNUSED : NORMAL;
    return i < w->tokens->n + N_SPECIAL ? CONTROL : UNUSED;
}

static void put_tokenizer(writer *w, uint32_t *n)
{
    static const char chat[] =
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
    const tokens *t = w->tokens;
    char padding[MAX_TOKEN];
    key_string(w, n, "tokenizer.ggml.model", "gpt2");
    key_string(w, n, "tokenizer.ggml.pre", w->o.pre);
    key_array(w, n, "tokenizer.ggml.tokens", GGUF_STRING, w->o.vocab);
    for (uint32_t i = 0; i < w->o.vocab; i++)
        put_string(w, token_text(w, i, padding));
    key_array(w, n, "tokenizer.ggml.token_type", GGUF_I32, w->o.vocab);
    for (uint32_t i = 0; i < w->o.vocab; i++)
        put_int(w, token_type(w, i), 4);
    key_array(w, n, "tokenizer.ggml.merges", GGUF_STRING, t->n_merges);
    for (uint32_t i = 0; i < t->n_merges; i++)
        put_string(w, t->merge[i]);
    key_u32(w, n, "tokenizer.ggml.bos_token_id", t->n);
    key_u32(w, n, "tokenizer.ggml.eos_token_id", t->n + 2);
    key_u32(w, n, "tokenizer.ggml.padding_token_id", t->n);
    key(w, n, "tokenizer.ggml.add_bos_token", GGUF_BOOL);
    put_int(w, 0, 1);
    key_string(w, n, "tokenizer.chat_template", chat);
}

static uint32_t put_metadata(writer *w)
{
    const tiny_model *o = &w->o;
    uint32_t n = 0;
    key_string(w, &n, "general.architecture", o->arch);
    key_string(w, &n, "general.name", o->name);
    key_u32(w, &n, "block_count", o->layers);
    key_u32(w, &n, "context_length", o->context);
    key_u32(w, &n, "embedding_length", o->dim);
    key_u32(w, &n, "feed_forward_length", o->ffn);
    key_u32(w, &n, "attention.head_count", o->heads);
    key_u32(w, &n, "attention.head_count_kv", o->kv_heads);
    key_u32(w, &n, "attention.key_length", o->head_dim);
    key_u32(w, &n, "attention.value_length", o->head_dim);
    key_f32(w, &n, "attention.layer_norm_rms_epsilon", 1e-5f);
    key_f32(w, &n, "rope.freq_base", o->rope_base);
    key_u32(w, &n, "rope.dimension_count", o->head_dim);
    key_u32(w, &n, "vocab_size", o->vocab);
    put_tokenizer(w, &n);
    return n;
}

/* Tensors */

static void add(writer *w, const char *name, ggml_type type, uint64_t rows, uint64_t cols, float mean, float sigma)
{
    tensor *t = &w->tensors[w->n_tensors++];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->type = type;
    t->cols = cols;
    t->rows = rows;
    t->mean = mean;
    t->sigma = sigma;
}

static void add_in_layer(writer *w, uint32_t layer, const char *suffix, ggml_type type, uint64_t rows, uint64_t cols, float mean,
                         float sigma)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%u.%s", layer, suffix);
    add(w, name, type, rows, cols, mean, sigma);
}

/* Products of normalised inputs come out near 1; queries and keys somewhat larger, so that attention has preferences. */
static void add_layer(writer *w, uint32_t i)
{
    const tiny_model *o = &w->o;
    uint32_t q = o->heads * o->head_dim, kv = o->kv_heads * o->head_dim;
    float in = 1 / sqrtf((float)o->dim);
    add_in_layer(w, i, "attn_norm.weight", GGML_F32, 0, o->dim, 1, 0.1f);
    add_in_layer(w, i, "attn_q.weight", w->type, q, o->dim, 0, 1.5f * in);
    add_in_layer(w, i, "attn_k.weight", w->type, kv, o->dim, 0, 1.5f * in);
    add_in_layer(w, i, "attn_v.weight", w->v_type, kv, o->dim, 0, in);
    if (!strcmp(o->arch, "qwen2")) {
        add_in_layer(w, i, "attn_q.bias", GGML_F32, 0, q, 0, 0.3f);
        add_in_layer(w, i, "attn_k.bias", GGML_F32, 0, kv, 0, 0.3f);
        add_in_layer(w, i, "attn_v.bias", GGML_F32, 0, kv, 0, 0.3f);
    }
    add_in_layer(w, i, "attn_output.weight", w->type, o->dim, q, 0, 1 / sqrtf((float)q));
    add_in_layer(w, i, "ffn_norm.weight", GGML_F32, 0, o->dim, 1, 0.1f);
    add_in_layer(w, i, "ffn_gate.weight", w->type, o->ffn, o->dim, 0, in);
    add_in_layer(w, i, "ffn_up.weight", w->up_type, o->ffn, o->dim, 0, in);
    add_in_layer(w, i, "ffn_down.weight", w->type, o->dim, o->ffn, 0, 2 / sqrtf((float)o->ffn));
}

static bool add_tensors(writer *w)
{
    const tiny_model *o = &w->o;
    w->tensors = calloc(12 * (size_t)o->layers + 4, sizeof *w->tensors);
    if (!w->tensors)
        return false;
    /* a final state of size 1 gives logits with a deviation of 3 */
    float out = 3 / sqrtf((float)o->dim);
    if (o->rope_factors)
        add(w, "rope_freqs.weight", GGML_F32, 0, o->head_dim / 2, 4, 1.5f);
    add(w, "token_embd.weight", w->head_type, o->vocab, o->dim, 0, out);
    for (uint32_t i = 0; i < o->layers; i++)
        add_layer(w, i);
    add(w, "output_norm.weight", GGML_F32, 0, o->dim, 1, 0.1f);
    if (o->untied)
        add(w, "output.weight", w->head_type, o->vocab, o->dim, 0, out);
    return true;
}

static void put_table(writer *w)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < w->n_tensors; i++) {
        const tensor *t = &w->tensors[i];
        put_string(w, t->name);
        put_int(w, t->rows ? 2 : 1, 4);
        put_int(w, t->cols, 8);
        if (t->rows)
            put_int(w, t->rows, 8);
        put_int(w, t->type, 4);
        put_int(w, offset, 8);
        uint64_t bytes = t->cols / ggml_block_size(t->type) * ggml_block_bytes(t->type) * (t->rows ? t->rows : 1);
        offset += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
}

/* Options */

static bool find_type(const char *name, ggml_type fallback, ggml_type *out)
{
    *out = fallback;
    if (!name)
        return true;
    for (uint32_t type = 0; type <= GGML_BF16; type++) {
        const char *known_name = ggml_type_name(type);
        size_t i = 0;
        while (known_name && name[i] && (name[i] | 32) == (known_name[i] | 32))
            i++;
        if (known_name && !name[i] && !known_name[i] && ggml_block_size(type)) {
            *out = (ggml_type)type;
            return true;
        }
    }
    return false;
}

static void set_defaults(tiny_model *o)
{
    o->arch = o->arch ? o->arch : "llama";
    o->layers = o->layers ? o->layers : 2;
    o->dim = o->dim ? o->dim : 64;
    o->heads = o->heads ? o->heads : 2;
    o->kv_heads = o->kv_heads ? o->kv_heads : o->heads;
    o->head_dim = o->head_dim ? o->head_dim : o->dim / o->heads;
    o->ffn = o->ffn ? o->ffn : 2 * o->dim;
    o->vocab = o->vocab ? o->vocab : 320;
    o->context = o->context ? o->context : 2048;
    o->pre = o->pre ? o->pre : "smollm";
    o->rope_base = o->rope_base > 0 ? o->rope_base : 10000;
    o->name = o->name ? o->name : "tiny";
}

static const char *check(writer *w)
{
    tiny_model *o = &w->o;
    set_defaults(o);
    if (!find_type(o->type, GGML_Q8_0, &w->type) || !find_type(o->head_type, w->type, &w->head_type) ||
        !find_type(o->v_type, w->type, &w->v_type) || !find_type(o->up_type, w->type, &w->up_type))
        return "types are f32, f16, bf16, q4_0, q4_1, q8_0 and q6_k";
    if (strcmp(o->arch, "llama") && strcmp(o->arch, "qwen2"))
        return "architectures are llama and qwen2";
    if (o->vocab < 256 + N_SPECIAL + 1)
        return "the vocabulary needs 260 tokens or more";
    bool wide = w->type == GGML_Q6_K, dim_wide = wide || w->head_type == GGML_Q6_K || w->v_type == GGML_Q6_K || w->up_type == GGML_Q6_K;
    uint32_t step = wide ? 256 : 32; /* of what the other matrices' rows are long */
    if (o->dim % (dim_wide ? 256 : 32) || o->ffn % step || o->heads * o->head_dim % step || o->head_dim % 32)
        return "dimensions must be multiples of 32, where rows are in q6_k of 256";
    if (o->heads % o->kv_heads)
        return "the number of heads must be a multiple of the number of kv heads";
    return NULL;
}

bool tiny_model_shape(tiny_model *m, const char *name)
{
    static const struct {
        const char *name, *arch, *pre;
        uint32_t layers, dim, heads, kv_heads, ffn, vocab, context;
        float rope_base;
        bool untied, rope_factors;
    } shapes[] = {
        {"SmolLM2-135M", "llama", "smollm", 30, 576, 9, 3, 1536, 49152, 8192, 100000, false, false},
        {"Qwen2.5-0.5B", "qwen2", "qwen2", 24, 896, 14, 2, 4864, 151936, 32768, 1000000, false, false},
        {"Qwen2.5-1.5B", "qwen2", "qwen2", 28, 1536, 12, 2, 8960, 151936, 32768, 1000000, false, false},
        {"Qwen2.5-3B", "qwen2", "qwen2", 36, 2048, 16, 2, 11008, 151936, 32768, 1000000, false, false},
        {"Qwen2.5-7B", "qwen2", "qwen2", 28, 3584, 28, 4, 18944, 152064, 32768, 1000000, true, false},
        {"Llama-3.2-1B", "llama", "llama-bpe", 16, 2048, 32, 8, 8192, 128256, 131072, 500000, false, true},
        {"Llama-3.2-3B", "llama", "llama-bpe", 28, 3072, 24, 8, 8192, 128256, 131072, 500000, false, true},
        {"Llama-3.1-8B", "llama", "llama-bpe", 32, 4096, 32, 8, 14336, 128256, 131072, 500000, true, true},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (!strcmp(shapes[i].name, name)) {
            m->name = shapes[i].name;
            m->arch = shapes[i].arch;
            m->pre = shapes[i].pre;
            m->layers = shapes[i].layers;
            m->dim = shapes[i].dim;
            m->heads = shapes[i].heads;
            m->kv_heads = shapes[i].kv_heads;
            m->head_dim = 0;
            m->ffn = shapes[i].ffn;
            m->vocab = shapes[i].vocab;
            m->context = shapes[i].context;
            m->rope_base = shapes[i].rope_base;
            m->untied = shapes[i].untied;
            m->rope_factors = shapes[i].rope_factors;
            m->ascii = true;
            return true;
        }
    return false;
}

static bool discard(void *user, const void *bytes, size_t size)
{
    (void)user, (void)bytes, (void)size;
    return true;
}

static void put_file(writer *w, uint8_t *buffer)
{
    writer counting = *w;
    counting.sink = discard;
    put(w, "GGUF", 4);
    put_int(w, 3, 4);
    put_int(w, w->n_tensors, 8);
    put_int(w, put_metadata(&counting), 8);
    put_metadata(w);
    put_table(w);
    pad(w);
    for (uint32_t i = 0; i < w->n_tensors; i++) {
        uint64_t stream = w->o.seed ^ (uint64_t)i << 40;
        put_data(w, &w->tensors[i], next(&stream), buffer);
    }
}

const char *tiny_model_write(const tiny_model *options, tiny_sink *sink, void *user)
{
    writer w = {.o = *options, .sink = sink, .user = user};
    const char *why = check(&w);
    if (why)
        return why;
    uint8_t *buffer = malloc(CHUNK);
    w.tokens = make_tokens(w.o.vocab);
    if (buffer && w.tokens && add_tensors(&w))
        put_file(&w, buffer);
    else
        why = "out of memory";
    free(buffer);
    free(w.tokens);
    free(w.tensors);
    return why ? why : w.stopped ? "stopped" : NULL;
}

typedef struct growing {
    uint8_t *bytes;
    size_t size, room;
} growing;

static bool append(void *user, const void *bytes, size_t size)
{
    growing *g = user;
    if (size > g->room - g->size) {
        size_t room = 2 * g->room + size;
        uint8_t *grown = realloc(g->bytes, room);
        if (!grown)
            return false;
        g->bytes = grown;
        g->room = room;
    }
    memcpy(g->bytes + g->size, bytes, size);
    g->size += size;
    return true;
}

uint8_t *tiny_model_bytes(const tiny_model *options, size_t *size)
{
    growing g = {0};
    if (tiny_model_write(options, append, &g)) {
        free(g.bytes);
        return NULL;
    }
    *size = g.size;
    return g.bytes;
}
