#include "test/text_help.h"

#include "test/test.h"

static void *grown(void *block, size_t n, size_t size)
{
    if (n & (n - 1)) /* room doubles at every power of two */
        return block;
    void *more = realloc(block, (n ? 2 * n : 1) * size);
    if (!more)
        abort();
    return more;
}

static text_bytes copy(const char *data, size_t size)
{
    text_bytes b = {malloc(size + 1), size};
    if (!b.data)
        abort();
    if (size)
        memcpy(b.data, data, size);
    b.data[size] = 0;
    return b;
}

text_vocab text_vocab_new(const char *pre)
{
    return (text_vocab){.pre = pre, .bos = UINT32_MAX, .eos = UINT32_MAX, .eot = UINT32_MAX};
}

void text_vocab_token(text_vocab *v, const char *text, size_t size, int type)
{
    v->tokens = grown(v->tokens, v->n_tokens, sizeof *v->tokens);
    v->types = grown(v->types, v->n_tokens, sizeof *v->types);
    v->types[v->n_tokens] = type;
    v->tokens[v->n_tokens++] = copy(text, size);
}

void text_vocab_word(text_vocab *v, const char *text, int type)
{
    text_vocab_token(v, text, strlen(text), type);
}

void text_vocab_bytes(text_vocab *v)
{
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; byte++) {
        bool visible = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
        unsigned code = visible ? byte : next++;
        char text[2] = {(char)code, 0};
        if (code >= 0x80) {
            text[0] = (char)(0xc0 | code >> 6);
            text[1] = (char)(0x80 | (code & 0x3f));
        }
        text_vocab_token(v, text, code < 0x80 ? 1 : 2, FR_TOKEN_NORMAL);
    }
}

void text_vocab_merge_bytes(text_vocab *v, const char *left_right, size_t size)
{
    v->merges = grown(v->merges, v->n_merges, sizeof *v->merges);
    v->merges[v->n_merges++] = copy(left_right, size);
}

void text_vocab_merge(text_vocab *v, const char *left_right)
{
    text_vocab_merge_bytes(v, left_right, strlen(left_right));
}

void text_vocab_join(text_vocab *v, const char *left_right)
{
    text_vocab_merge(v, left_right);
    text_bytes joined = copy(left_right, strlen(left_right));
    char *space = strchr(joined.data, ' ');
    memmove(space, space + 1, strlen(space));
    joined.size--;
    bool known = false;
    for (size_t i = 0; i < v->n_tokens && !known; i++)
        known = v->tokens[i].size == joined.size && !memcmp(v->tokens[i].data, joined.data, joined.size);
    if (!known)
        text_vocab_token(v, joined.data, joined.size, FR_TOKEN_NORMAL);
    free(joined.data);
}

static const char *source_token(void *user, size_t i, size_t *size)
{
    text_vocab *v = user;
    *size = v->tokens[i].size;
    return v->tokens[i].data;
}

static int source_type(void *user, size_t i)
{
    return ((text_vocab *)user)->types[i];
}

static const char *source_merge(void *user, size_t i, size_t *size)
{
    text_vocab *v = user;
    *size = v->merges[i].size;
    return v->merges[i].data;
}

fr_tokenizer *text_vocab_make(text_vocab *v, fr_error_text *e)
{
    fr_vocab_source s = {v, v->n_tokens, v->n_merges, source_token, source_type, source_merge, v->pre, v->bos, v->eos, v->eot, v->add_bos};
    fr_tokenizer *t = fr_tokenizer_new(&s, e);
    text_vocab_free(v);
    return t;
}

void text_vocab_free(text_vocab *v)
{
    for (size_t i = 0; i < v->n_tokens; i++)
        free(v->tokens[i].data);
    for (size_t i = 0; i < v->n_merges; i++)
        free(v->merges[i].data);
    free(v->tokens);
    free(v->types);
    free(v->merges);
    *v = text_vocab_new(v->pre);
}

static char unescaped(const char **p)
{
    char c = *(*p)++;
    if (c != '\\')
        return c;
    c = *(*p)++;
    if (c != 'x')
        return (char)(c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c);
    char hex[3] = {(*p)[0], (*p)[1], 0};
    *p += 2;
    return (char)strtoul(hex, NULL, 16);
}

text_bytes *text_fields(const char *line, size_t size, size_t *n)
{
    text_bytes *fields = NULL, whole = copy(line, size);
    const char *p = whole.data, *end = whole.data + size;
    char *field = malloc(size + 1);
    if (!field)
        abort();
    *n = 0;
    for (bool more = true; more;) {
        size_t used = 0;
        while (p < end && *p != '\t')
            field[used++] = unescaped(&p);
        more = p < end;
        p++;
        fields = grown(fields, *n, sizeof *fields);
        fields[(*n)++] = copy(field, used);
    }
    fields = grown(fields, *n, sizeof *fields);
    fields[*n] = (text_bytes){0};
    free(field);
    free(whole.data);
    return fields;
}

void text_fields_free(text_bytes *fields)
{
    for (text_bytes *f = fields; f->data; f++)
        free(f->data);
    free(fields);
}

uint32_t text_hash(const uint32_t *ids, size_t n)
{
    uint32_t h = 0x811c9dc5u;
    for (size_t i = 0; i < n; i++)
        for (int shift = 0; shift < 32; shift += 8)
            h = (h ^ (ids[i] >> shift & 0xff)) * 0x01000193u;
    return h;
}

text_bytes text_decode(const fr_tokenizer *t, const uint32_t *ids, size_t n, bool special)
{
    size_t total = 0, size;
    for (size_t i = 0; i < n; i++) {
        fr_tokenizer_bytes(t, ids[i], special, &size);
        total += size;
    }
    text_bytes out = {malloc(total + 1), 0};
    if (!out.data)
        abort();
    for (size_t i = 0; i < n; i++) {
        const char *bytes = fr_tokenizer_bytes(t, ids[i], special, &size);
        memcpy(out.data + out.size, bytes, size);
        out.size += size;
    }
    out.data[out.size] = 0;
    return out;
}

static uint32_t random_state = 1;
uint32_t text_random(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % n;
}

char *text_golden(const char *name, size_t *size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/golden/%s", test_dir(), name);
    return test_read(path, size);
}

text_bytes *text_next_line(const char **at, size_t *n)
{
    while (**at) {
        const char *line = *at, *end = strchr(line, '\n');
        CHECK(end);
        *at = end + 1;
        if (*line != '#')
            return text_fields(line, (size_t)(end - line), n);
    }
    return NULL;
}

fr_tokenizer *text_chat_tokenizer(const char *pre, const char *const *joins, size_t n_joins)
{
    static const char *const special[] = {"<|im_start|>",        "<|im_end|>",        "<|begin_of_text|>", "<|end_of_text|>",
                                          "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",        "<|im_end|>!"};
    text_vocab v = text_vocab_new(pre);
    text_vocab_bytes(&v);
    for (size_t i = 0; i < n_joins; i++)
        text_vocab_join(&v, joins[i]);
    v.bos = (uint32_t)v.n_tokens + 2;
    v.eos = (uint32_t)v.n_tokens + 3;
    v.add_bos = FR_BOS_YES;
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        text_vocab_word(&v, special[i], FR_TOKEN_CONTROL);
    text_vocab_word(&v, "<tool>", FR_TOKEN_USER);
    fr_error_text e = {0};
    fr_tokenizer *t = text_vocab_make(&v, &e);
    CHECK_MSG(t, "%s", e.text);
    return t;
}

text_ids text_encode(const fr_tokenizer *t, const char *text, size_t size, bool special)
{
    text_ids l = {0};
    CHECK(fr_tokenizer_encode(t, text, size, special, false, &l.ids, &l.n));
    for (size_t i = 0; i < l.n; i++)
        CHECK(l.ids[i] < fr_tokenizer_size(t));
    return l;
}

bool text_same(text_ids a, text_ids b)
{
    return a.n == b.n && (a.n == 0 || !memcmp(a.ids, b.ids, a.n * sizeof *a.ids));
}
