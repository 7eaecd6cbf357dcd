/* The configuration from metadata: what each key does, and what is refused. */
#include "test/test.h"

#include "load/read_config.h"
#include "test/gguf_build.h"

/* One pair: an integer, a float or a text. */
typedef struct pair {
    const char *key;
    char kind; /* 'i', 'f', 's', 'b'; 'a' an array of two i32; '-' leave the key out */
    double number;
    const char *text;
} pair;

static const pair base[] = {
    {"general.architecture", 's', 0, "llama"},       {"llama.block_count", 'i', 4, NULL},
    {"llama.context_length", 'i', 512, NULL},        {"llama.embedding_length", 'i', 256, NULL},
    {"llama.feed_forward_length", 'i', 320, NULL},   {"llama.attention.head_count", 'i', 8, NULL},
    {"llama.attention.head_count_kv", 'i', 2, NULL}, {"llama.attention.layer_norm_rms_epsilon", 'f', 0.5, NULL},
};
enum { N_BASE = sizeof base / sizeof *base, MAX_CHANGES = 4 };

static void put(gguf_build *b, const pair *p)
{
    float f = (float)p->number;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    switch (p->kind) {
    case 'i':
        gguf_build_scalar(b, p->key, GGUF_U32, (uint64_t)p->number, 4);
        break;
    case 'f':
        gguf_build_scalar(b, p->key, GGUF_F32, bits, 4);
        break;
    case 'b':
        gguf_build_scalar(b, p->key, GGUF_BOOL, p->number != 0, 1);
        break;
    case 's':
        gguf_build_string(b, p->key);
        gguf_build_int(b, GGUF_STRING, 4);
        gguf_build_string(b, p->text);
        break;
    case 'a':
        gguf_build_array(b, p->key, GGUF_I32, 2);
        gguf_build_int(b, 1, 4);
        gguf_build_int(b, 1, 4);
        break;
    default:
        break;
    }
}

static const pair *changed(const pair *changes, const char *key)
{
    for (size_t i = 0; i < MAX_CHANGES && changes[i].key; i++)
        if (!strcmp(changes[i].key, key))
            return &changes[i];
    return NULL;
}

static bool is_base(const char *key)
{
    for (size_t i = 0; i < N_BASE; i++)
        if (!strcmp(base[i].key, key))
            return true;
    return false;
}

/* The base file with changed, missing and added pairs, and a tokenizer of `tokens` tokens (0: none). */
static gguf_build make(const pair *changes, uint32_t tokens)
{
    gguf_build b = {0};
    size_t n = tokens > 0;
    for (size_t i = 0; i < N_BASE; i++) {
        const pair *c = changed(changes, base[i].key);
        n += !c || c->kind != '-';
    }
    for (size_t i = 0; i < MAX_CHANGES && changes[i].key; i++)
        n += !is_base(changes[i].key);
    gguf_build_head(&b, 0, n);
    for (size_t i = 0; i < N_BASE; i++) {
        const pair *c = changed(changes, base[i].key);
        put(&b, c ? c : &base[i]);
    }
    for (size_t i = 0; i < MAX_CHANGES && changes[i].key; i++)
        if (!is_base(changes[i].key))
            put(&b, &changes[i]);
    if (tokens)
        gguf_build_array(&b, "tokenizer.ggml.tokens", GGUF_STRING, tokens);
    for (uint32_t i = 0; i < tokens; i++)
        gguf_build_string(&b, "t");
    return b;
}

typedef struct reading {
    gguf_reader *reader;
    fr_config config;
    fr_status status;
} reading;

static fr_status on_metadata(void *user, fr_error_text *e)
{
    reading *r = user;
    return r->status = fr_config_read(&r->config, gguf_reader_meta(r->reader), e);
}

static fr_status on_header(void *user, fr_error_text *e)
{
    (void)user, (void)e;
    return FR_OK;
}

static fr_status read_config(const pair *changes, uint32_t tokens, fr_config *config, fr_error_text *e)
{
    gguf_build b = make(changes, tokens);
    reading r = {0};
    load_heap heap = {0};
    gguf_events events = {&r, on_metadata, on_header, NULL};
    size_t used;
    r.reader = gguf_reader_new(&events, &heap);
    fr_status s = gguf_reader_feed(r.reader, b.bytes, b.size, &used, e);
    CHECK_INT(s, r.status);
    *config = r.config;
    gguf_reader_free(r.reader);
    free(b.bytes);
    return s;
}

static fr_config must_read(const pair *changes, uint32_t tokens)
{
    fr_config c;
    fr_error_text e = {0};
    CHECK_MSG(read_config(changes, tokens, &c, &e) == FR_OK, "%s", e.text);
    return c;
}

static void values(void)
{
    fr_config c = must_read((pair[MAX_CHANGES]){{0}}, 300);
    CHECK_STR(c.architecture, "llama");
    CHECK_INT(c.n_layers, 4);
    CHECK_INT(c.dim, 256);
    CHECK_INT(c.n_heads, 8);
    CHECK_INT(c.n_kv_heads, 2);
    CHECK_INT(c.head_dim, 32);
    CHECK_INT(c.ffn_dim, 320);
    CHECK_INT(c.vocab, 300);
    CHECK_INT(c.train_context, 512);
    CHECK_INT(c.rope_dims, 32);
    CHECK(c.rope_base == 10000 && c.rope_scale == 1 && c.norm_eps == 0.5f);
    CHECK(!c.rope_neox && !c.qkv_bias && !c.tied_head);
}

static void variants(void)
{
    fr_config c = must_read((pair[MAX_CHANGES]){{"llama.attention.key_length", 'i', 64, NULL},
                                                {"llama.attention.value_length", 'i', 64, NULL},
                                                {"llama.rope.dimension_count", 'i', 64, NULL},
                                                {"llama.vocab_size", 'i', 320, NULL}},
                            300);
    CHECK_INT(c.head_dim, 64);
    CHECK_INT(c.rope_dims, 64);
    CHECK_INT(c.vocab, 320);
    c = must_read((pair[MAX_CHANGES]){{"llama.attention.head_count_kv", '-', 0, NULL}, {"llama.rope.freq_base", 'f', 500000, NULL}}, 300);
    CHECK_INT(c.n_kv_heads, 8);
    CHECK(c.rope_base == 500000);
    c = must_read((pair[MAX_CHANGES]){{"llama.rope.scaling.type", 's', 0, "linear"}, {"llama.rope.scaling.factor", 'f', 4, NULL}}, 300);
    CHECK(c.rope_scale == 0.25f);
    c = must_read((pair[MAX_CHANGES]){{"llama.rope.scale_linear", 'f', 8, NULL}}, 300);
    CHECK(c.rope_scale == 0.125f);
    c = must_read((pair[MAX_CHANGES]){{"llama.rope.scaling.factor", 'f', 2, NULL}}, 300); /* linear, where no type is given */
    CHECK(c.rope_scale == 0.5f);
    c = must_read((pair[MAX_CHANGES]){{"llama.rope.scaling.type", 's', 0, "none"}, {"llama.rope.scaling.factor", 'f', 4, NULL}}, 300);
    CHECK(c.rope_scale == 1);
    c = must_read((pair[MAX_CHANGES]){{"llama.expert_count", 'i', 0, NULL}}, 300);
    CHECK_INT(c.n_layers, 4);
}

static void qwen2(void)
{
    static const pair keys[] = {{"qwen2.block_count", 'i', 2, NULL},          {"qwen2.context_length", 'i', 64, NULL},
                                {"qwen2.embedding_length", 'i', 64, NULL},    {"qwen2.feed_forward_length", 'i', 96, NULL},
                                {"qwen2.attention.head_count", 'i', 2, NULL}, {"qwen2.attention.layer_norm_rms_epsilon", 'f', 0.25, NULL},
                                {"tokenizer.ggml.tokens", 'a', 0, NULL}};
    gguf_build b = {0};
    gguf_build_head(&b, 0, 8);
    put(&b, &(pair){"general.architecture", 's', 0, "qwen2"});
    for (size_t i = 0; i < 6; i++)
        put(&b, &keys[i]);
    gguf_build_array(&b, keys[6].key, GGUF_STRING, 1);
    gguf_build_string(&b, "a");
    reading r = {0};
    load_heap heap = {0};
    gguf_events events = {&r, on_metadata, on_header, NULL};
    fr_error_text e = {0};
    size_t used;
    r.reader = gguf_reader_new(&events, &heap);
    CHECK_MSG(gguf_reader_feed(r.reader, b.bytes, b.size, &used, &e) == FR_OK, "%s", e.text);
    CHECK_STR(r.config.architecture, "qwen2");
    CHECK(r.config.rope_neox && r.config.qkv_bias && r.config.norm_eps == 0.25f);
    gguf_reader_free(r.reader);
    free(b.bytes);
}

static void refused(void)
{
    static const struct {
        pair changes[MAX_CHANGES];
        uint32_t tokens;
        const char *expected;
    } cases[] = {
        {{{"general.architecture", '-', 0, NULL}}, 9, "lacks the metadata key general.architecture"},
        {{{"general.architecture", 'i', 1, NULL}}, 9, "lacks the metadata key general.architecture"},
        {{{"general.architecture", 's', 0, "phi3"}},
         9,
         "architecture is phi3, which is not supported; use a model of the architecture llama or qwen2"},
        {{{"general.architecture", 's', 0, "llama4"}}, 9, "architecture is llama4"},
        {{{"general.architecture", 's', 0, ""}}, 9, "architecture is ,"},
        {{{"split.count", 'i', 3, NULL}}, 9, "split over 3 files"},
        {{{"llama.block_count", '-', 0, NULL}}, 9, "lacks the metadata key llama.block_count"},
        {{{"llama.block_count", 'i', 0, NULL}}, 9, "llama.block_count is 0"},
        {{{"llama.block_count", 'i', 513, NULL}}, 9, "llama.block_count is 513"},
        {{{"llama.block_count", 'f', 4, NULL}}, 9, "llama.block_count is no number from 1 to 512"},
        {{{"llama.block_count", 's', 0, "4"}}, 9, "llama.block_count is no number"},
        {{{"llama.embedding_length", 'i', 260, NULL}}, 9, "llama.embedding_length is 260; supported are 32 to 65536 in steps of 32"},
        {{{"llama.embedding_length", 'i', 131072, NULL}}, 9, "llama.embedding_length is 131072"},
        {{{"llama.embedding_length", 'i', 4294967295.0, NULL}}, 9, "llama.embedding_length is 4294967295"},
        {{{"llama.feed_forward_length", 'i', 33, NULL}}, 9, "llama.feed_forward_length is 33"},
        {{{"llama.feed_forward_length", 'a', 0, NULL}}, 9, "llama.feed_forward_length differs from layer to layer"},
        {{{"llama.context_length", 'i', 0, NULL}}, 9, "llama.context_length is 0"},
        {{{"llama.expert_count", 'i', 8, NULL}}, 9, "mixture of 8 experts"},
        {{{"llama.attention.head_count", 'i', 0, NULL}}, 9, "llama.attention.head_count is 0"},
        {{{"llama.attention.head_count", 'i', 7, NULL}}, 9, "7 query heads are no multiple of 2"},
        {{{"llama.attention.head_count", 'i', 6, NULL}}, 9, "lacks the metadata key llama.attention.key_length"},
        {{{"llama.attention.head_count", 'i', 16, NULL}}, 9, "llama.attention.key_length is 16"},
        {{{"llama.attention.head_count_kv", 'i', 9, NULL}}, 9, "llama.attention.head_count_kv is 9"},
        {{{"llama.attention.head_count_kv", 'i', 3, NULL}}, 9, "8 query heads are no multiple of 3"},
        {{{"llama.attention.key_length", 'i', 512, NULL}}, 9, "llama.attention.key_length is 512"},
        {{{"llama.attention.value_length", 'i', 64, NULL}}, 9, "llama.attention.value_length is 64; supported is 32"},
        {{{"llama.rope.dimension_count", 'i', 16, NULL}}, 9, "llama.rope.dimension_count is 16"},
        {{{"llama.attention.head_count", 'i', 1024, NULL}, {"llama.attention.key_length", 'i', 128, NULL}},
         9,
         "1024 heads of 128 dimensions"},
        {{{"llama.rope.freq_base", 'f', 0, NULL}}, 9, "llama.rope.freq_base is 0"},
        {{{"llama.rope.freq_base", 'f', -1, NULL}}, 9, "llama.rope.freq_base is -1"},
        {{{"llama.rope.freq_base", 's', 0, "x"}}, 9, "llama.rope.freq_base is no number"},
        {{{"llama.rope.scaling.type", 's', 0, "yarn"}}, 9, "llama.rope.scaling.type is yarn; supported are none and linear"},
        {{{"llama.rope.scaling.type", 's', 0, "linear"}, {"llama.rope.scaling.factor", 'f', 0, NULL}}, 9, "llama.rope.scaling.factor is 0"},
        {{{"llama.attention.layer_norm_rms_epsilon", '-', 0, NULL}}, 9, "lacks the metadata key llama.attention.layer_norm_rms_epsilon"},
        {{{"llama.attention.layer_norm_rms_epsilon", 'b', 1, NULL}}, 9, "llama.attention.layer_norm_rms_epsilon is no number"},
        {{{"llama.vocab_size", 'i', 8, NULL}}, 9, "has 9 tokens, llama.vocab_size is 8"},
        {{{"llama.vocab_size", 'i', 8, NULL}}, 0, "tokenizer.ggml.tokens"},
        {{{"llama.vocab_size", 'i', 2000000, NULL}}, 9, "llama.vocab_size is 2000000"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fr_config c;
        fr_error_text e = {0};
        CHECK_MSG(read_config(cases[i].changes, cases[i].tokens, &c, &e) == FR_BAD_MODEL, "case %zu (%s): accepted", i, cases[i].expected);
        CHECK_MSG(strstr(e.text, cases[i].expected), "case %zu: \"%s\" lacks \"%s\"", i, e.text, cases[i].expected);
    }
}

/* A NaN is no number that a comparison refuses by itself. */
static void not_a_number(void)
{
    union {
        float f;
        uint32_t bits;
    } nan = {.bits = 0x7fc00000};
    static const char *const keys[] = {"llama.rope.freq_base", "llama.attention.layer_norm_rms_epsilon", "llama.rope.scale_linear"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        fr_config c;
        fr_error_text e = {0};
        CHECK_INT(read_config((pair[MAX_CHANGES]){{keys[i], 'f', (double)nan.f, NULL}}, 9, &c, &e), FR_BAD_MODEL);
        CHECK_MSG(strstr(e.text, keys[i]), "%s", e.text);
    }
}

const fr_test config_tests[] = {
    {"config.values", "a llama file with the necessary keys only", values},
    {"config.variants", "optional keys", variants},
    {"config.qwen2", "biases and the order of rotated pairs", qwen2},
    {"config.refused", "each bad value names its key", refused},
    {"config.not_a_number", "NaN in floats", not_a_number},
    {0},
};
