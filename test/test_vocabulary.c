/* test_vocabulary.c: from a file's metadata to a tokenizer: what missing keys mean, and what is refused. */
#include "load/vocabulary.h"
#include "test/gguf_build.h"
#include "test/test.h"
#include "test/text_help.h"

/* Metadata with the tokens "a", "b", "ab", "<s>" (control, BOS) and "<|eom_id|>" (control). */
typedef struct file {
    const char *pre;     /* NULL: no key */
    int add_bos;         /* -1: no key */
    uint32_t n_types;    /* items of token_type; 0: no key */
    gguf_type type_item; /* of these */
} file;

enum { N_TOKENS = 5 };
static const char *const words[N_TOKENS] = {"a", "b", "ab", "<s>", "<|eom_id|>"};

static void text_pair(gguf_build *b, const char *key, const char *text)
{
    gguf_build_string(b, key);
    gguf_build_int(b, GGUF_STRING, 4);
    gguf_build_string(b, text);
}

static gguf_build build(const file *f)
{
    gguf_build b = {0};
    gguf_build_head(&b, 0, 4u + (f->pre != NULL) + (f->add_bos >= 0) + (f->n_types > 0));
    text_pair(&b, "tokenizer.ggml.model", "gpt2");
    gguf_build_array(&b, "tokenizer.ggml.tokens", GGUF_STRING, N_TOKENS);
    for (size_t i = 0; i < N_TOKENS; i++)
        gguf_build_string(&b, words[i]);
    gguf_build_array(&b, "tokenizer.ggml.merges", GGUF_STRING, 1);
    gguf_build_string(&b, "a b");
    gguf_build_scalar(&b, "tokenizer.ggml.bos_token_id", GGUF_U32, 3, 4);
    if (f->pre)
        text_pair(&b, "tokenizer.ggml.pre", f->pre);
    if (f->add_bos >= 0)
        gguf_build_scalar(&b, "tokenizer.ggml.add_bos_token", GGUF_BOOL, (uint64_t)f->add_bos, 1);
    if (f->n_types)
        gguf_build_array(&b, "tokenizer.ggml.token_type", f->type_item, f->n_types);
    for (uint32_t i = 0; i < f->n_types; i++)
        gguf_build_int(&b, i < 3 ? FR_TOKEN_NORMAL : FR_TOKEN_CONTROL, 4);
    return b;
}

typedef struct reading {
    gguf_reader *reader;
    fr_tokenizer *tokenizer;
} reading;

static fr_status on_metadata(void *user, fr_error_text *e)
{
    reading *r = user;
    r->tokenizer = fr_vocabulary_read(gguf_reader_meta(r->reader), e);
    return r->tokenizer ? FR_OK : e->status;
}

static fr_status on_header(void *user, fr_error_text *e)
{
    (void)user, (void)e;
    return FR_OK;
}

static fr_tokenizer *read_file(const file *f, fr_error_text *e)
{
    gguf_build b = build(f);
    reading r = {0};
    load_heap heap = {0};
    gguf_events events = {&r, on_metadata, on_header, NULL};
    size_t used;
    r.reader = gguf_reader_new(&events, &heap);
    gguf_reader_feed(r.reader, b.bytes, b.size, &used, e);
    gguf_reader_free(r.reader);
    free(b.bytes);
    return r.tokenizer;
}

static fr_tokenizer *must_read(const file *f)
{
    fr_error_text e = {0};
    fr_tokenizer *t = read_file(f, &e);
    CHECK_MSG(t, "%s", e.text);
    return t;
}

static void check_ids(const fr_tokenizer *t, const char *text, bool special, const uint32_t *expected, size_t n_expected)
{
    uint32_t *ids = NULL;
    size_t n = 0;
    CHECK(fr_tokenizer_encode(t, text, strlen(text), special, true, &ids, &n));
    CHECK_MSG(n == n_expected && !memcmp(ids, expected, n * sizeof *ids), "\"%s\": %zu ids, the first is %u", text, n, n ? ids[0] : 0);
    free(ids);
}

/* Where the file says nothing, the stamp does, as in llama.cpp. */
static void bos_by_stamp(void)
{
    static const struct {
        const char *pre;
        bool add;
    } cases[] = {{"llama3", true},     {"llama-v3", true}, {"llama-bpe", true},         {"smaug-bpe", false},
                 {"gpt-2", false},     {"qwen2", false},   {"deepseek-r1-qwen", false}, {"smollm", false},
                 {"starcoder", false}, {"refact", false},  {"codeshell", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int key = -1; key < 2; key++) {
            const file f = {cases[i].pre, key, 5, GGUF_I32};
            fr_tokenizer *t = must_read(&f);
            const bool add = key < 0 ? cases[i].add : key == 1;
            check_ids(t, "ab", false, add ? (uint32_t[]){3, 2} : (uint32_t[]){2}, 1 + (size_t)add);
            fr_tokenizer_free(t);
        }
}

/* A text that begins with BOS gets no second one; where control tokens don't count, it is text. */
static void one_bos(void)
{
    const file f = {"llama-bpe", -1, 5, GGUF_I32};
    fr_tokenizer *t = must_read(&f);
    check_ids(t, "<s>ab", true, (uint32_t[]){3, 2}, 2);
    check_ids(t, "<s><s>ab", true, (uint32_t[]){3, 3, 2}, 3); /* as written */
    check_ids(t, "<s>", true, (uint32_t[]){3}, 1);
    check_ids(t, "", true, (uint32_t[]){3}, 1);
    check_ids(t, "ab<s>", true, (uint32_t[]){3, 2, 3}, 3);
    check_ids(t, "<s>ab", false, (uint32_t[]){3, 2}, 2); /* "<", "s" and ">" have no tokens here */
    fr_tokenizer_free(t);
    const file without = {"llama-bpe", 0, 5, GGUF_I32};
    t = must_read(&without);
    check_ids(t, "<s>ab", true, (uint32_t[]){3, 2}, 2);
    check_ids(t, "ab", true, (uint32_t[]){2}, 1);
    fr_tokenizer_free(t);
}

static void ends(void)
{
    const file f = {"llama-bpe", -1, 5, GGUF_I32};
    fr_tokenizer *t = must_read(&f);
    uint32_t ids[8];
    CHECK_INT(fr_tokenizer_ends(t, ids), 1);
    CHECK_INT(ids[0], 4);
    fr_tokenizer_free(t);
}

static void refused(void)
{
    static const struct {
        file f;
        const char *expected;
    } cases[] = {
        {{NULL, -1, 5, GGUF_I32}, "tokenizer.ggml.pre is missing"},
        {{"", -1, 5, GGUF_I32}, "tokenizer.ggml.pre is missing"},
        {{"default", -1, 5, GGUF_I32}, "gguf_new_metadata.py --pre-tokenizer"},
        {{"tekken", -1, 5, GGUF_I32}, "\"tekken\" is not supported"},
        {{"gpt-2", -1, 4, GGUF_I32}, "one number for each of the 5 tokens"},
        {{"gpt-2", -1, 6, GGUF_I32}, "one number for each of the 5 tokens"},
        {{"gpt-2", -1, 5, GGUF_F32}, "one number for each of the 5 tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fr_error_text e = {0};
        fr_tokenizer *t = read_file(&cases[i].f, &e);
        fr_tokenizer_free(t);
        CHECK_MSG(!t && e.status == FR_BAD_MODEL, "case %zu (%s): accepted", i, cases[i].expected);
        CHECK_MSG(strstr(e.text, cases[i].expected), "case %zu: \"%s\" lacks \"%s\"", i, e.text, cases[i].expected);
    }
    fr_tokenizer_free(must_read(&(file){"gpt-2", -1, 0, GGUF_I32})); /* without types all are normal */
}

/* Numbered tokens, but for the two that tell the family. */
typedef struct family {
    const char *text[2];
    size_t id[2];
    char number[24];
} family;

static const char *family_token(void *user, size_t i, size_t *size)
{
    family *f = user;
    for (int k = 0; k < 2; k++)
        if (f->id[k] == i) {
            *size = strlen(f->text[k]);
            return f->text[k];
        }
    *size = (size_t)snprintf(f->number, sizeof f->number, "%zu", i);
    return f->number;
}

static void told_by_tokens(void)
{
    static const struct {
        family f;
        const char *name; /* NULL: refused */
    } cases[] = {
        {{{"<|begin_of_text|>", "<|end_of_text|>"}, {128000, 128001}, ""}, "llama3"},
        {{{"<|endoftext|>", "<|im_start|>"}, {151643, 151644}, ""}, "qwen2"},
        {{{"<|im_start|>", "<repo_name>"}, {1, 3}, ""}, "smollm"},
        {{{"<|begin_of_text|>", "<|end_of_text|>"}, {128000, 128002}, ""}, NULL},
        {{{"<|endoftext|>", "<|im_start|>"}, {0, 1}, ""}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int said = 0; said < 2; said++) {
            family f = cases[i].f;
            fr_error_text e = {0};
            const size_t n = (f.id[0] > f.id[1] ? f.id[0] : f.id[1]) + 1;
            const fr_vocab_source s = {&f,         n,          0,          family_token,   NULL, family_token, said ? "default" : NULL,
                                       UINT32_MAX, UINT32_MAX, UINT32_MAX, FR_BOS_BY_STAMP};
            fr_tokenizer *t = fr_tokenizer_new(&s, &e);
            CHECK_MSG(!t == !cases[i].name, "case %zu: %s", i, t ? "accepted" : e.text);
            if (t)
                CHECK_STR(fr_tokenizer_pre(t), cases[i].name);
            fr_tokenizer_free(t);
        }
}

const fr_test vocabulary_tests[] = {
    {"vocabulary.bos_by_stamp", "whether a prompt begins with BOS: the file's word, else the stamp's", bos_by_stamp},
    {"vocabulary.one_bos", "no second BOS in front of a text that begins with it", one_bos},
    {"vocabulary.ends", "<|eom_id|> ends a turn", ends},
    {"vocabulary.refused", "a missing pre-tokenizer, token types that are none", refused},
    {"vocabulary.told_by_tokens", "without a stamp, known vocabularies tell their pre-tokenizer", told_by_tokens},
    {0},
};
