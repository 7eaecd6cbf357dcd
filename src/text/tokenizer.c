#include "text/tokenizer.h"

#include "text/bpe.h"
#include "text/pretokenize.h"
#include "text/unicode.h"
#include "text/vocab.h"

#include <stdlib.h>
#include <string.h>

/* A control or user token: found in text as it is written, before anything else. */
typedef struct added_token {
    const uint8_t *bytes;
    uint32_t size, id;
} added_token;

struct fr_tokenizer {
    fr_vocab vocab;
    fr_pretokenizer pre;
    uint32_t bos, eos, eot;
    bool add_bos;
    added_token *added; /* by bytes, so that a prefix is followed by what it begins */
    uint32_t n_added;
    uint32_t added_from[257]; /* added[added_from[b] .. added_from[b + 1]) begin with byte b */
};

/* --- making one ------------------------------------------------------------------------------------------------- */

typedef struct stamp {
    const char *name;
    fr_pretokenizer pre;
    bool add_bos; /* where the file does not say it */
} stamp;

static const stamp stamps[] = {
    {"gpt-2", FR_PRE_GPT2, false},       {"qwen2", FR_PRE_QWEN2, false},   {"deepseek-r1-qwen", FR_PRE_QWEN2, false},
    {"llama-bpe", FR_PRE_LLAMA3, true},  {"llama3", FR_PRE_LLAMA3, true},  {"llama-v3", FR_PRE_LLAMA3, true},
    {"smaug-bpe", FR_PRE_LLAMA3, false}, {"smollm", FR_PRE_SMOLLM, false}, {"starcoder", FR_PRE_SMOLLM, false},
    {"codeshell", FR_PRE_SMOLLM, false}, {"refact", FR_PRE_SMOLLM, false},
};

/* Vocabularies that tell their pre-tokenizer by the places of two tokens: files from before the key existed, and those whose converter did
 * not know the model, have none or "default". */
static const struct {
    const char *stamp;
    struct {
        const char *text;
        size_t id;
    } tokens[2];
} known_vocabularies[] = {
    {"llama-bpe", {{"<|begin_of_text|>", 128000}, {"<|end_of_text|>", 128001}}},
    {"qwen2", {{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}}},
    {"smollm", {{"<|im_start|>", 1}, {"<repo_name>", 3}}},
};

static bool has_token(const fr_vocab_source *s, size_t id, const char *text)
{
    size_t size;
    const char *found = id < s->n_tokens ? s->token(s->user, id, &size) : NULL;
    return found && size == strlen(text) && !memcmp(found, text, size);
}

static const char *derive_stamp(const fr_vocab_source *s)
{
    for (size_t i = 0; i < sizeof known_vocabularies / sizeof known_vocabularies[0]; i++) {
        bool all = true;
        for (size_t k = 0; k < 2; k++)
            all = all && has_token(s, known_vocabularies[i].tokens[k].id, known_vocabularies[i].tokens[k].text);
        if (all)
            return known_vocabularies[i].stamp;
    }
    return NULL;
}

static const stamp *find_stamp(const fr_vocab_source *s, fr_error_text *e)
{
    const char *name = s->pre;
    if (!name || !*name || !strcmp(name, "default"))
        name = derive_stamp(s);
    if (!name) {
        fr_fail(e, FR_BAD_MODEL,
                "tokenizer.ggml.pre is missing or \"default\", and the vocabulary does not tell how text is cut: convert the model again, "
                "or write the key into the file (gguf_new_metadata.py --pre-tokenizer NAME)");
        return NULL;
    }
    for (size_t i = 0; i < sizeof stamps / sizeof stamps[0]; i++)
        if (!strcmp(stamps[i].name, name))
            return &stamps[i];
    fr_fail(e, FR_BAD_MODEL, "tokenizer.ggml.pre: pre-tokenizer \"%.60s\" is not supported; gpt-2, qwen2, llama-bpe and smollm are", name);
    return NULL;
}

static int by_bytes(const void *a, const void *b)
{
    const added_token *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, x->size < y->size ? x->size : y->size);
    return order ? order : x->size < y->size ? -1 : x->size > y->size;
}

static bool is_added(const fr_vocab *v, uint32_t id)
{
    return (fr_vocab_is_control(v, id) || (v->kinds[id] & FR_KIND_TYPE) == FR_TOKEN_USER) && v->offsets[id + 1] > v->offsets[id];
}

static bool collect_added(fr_tokenizer *t)
{
    const fr_vocab *v = &t->vocab;
    uint32_t n = 0;
    for (uint32_t id = 0; id < v->n_tokens; id++)
        n += is_added(v, id);
    t->added = malloc((n ? n : 1) * sizeof *t->added);
    if (!t->added)
        return false;
    for (uint32_t id = 0; id < v->n_tokens; id++)
        if (is_added(v, id)) {
            t->added[t->n_added++] = (added_token){v->bytes + v->offsets[id], v->offsets[id + 1] - v->offsets[id], id};
            t->added_from[v->bytes[v->offsets[id]] + 1]++;
        }
    for (size_t b = 1; b < 257; b++)
        t->added_from[b] += t->added_from[b - 1];
    qsort(t->added, n, sizeof *t->added, by_bytes);
    return true;
}

static bool check_id(const char *key, uint32_t id, const fr_vocab *v, fr_error_text *e)
{
    if (id < v->n_tokens || id == FR_NO_TOKEN)
        return true;
    fr_fail(e, FR_BAD_MODEL, "tokenizer.ggml.%s_token_id: %u, but there are only %u tokens; convert the model again", key, (unsigned)id,
            (unsigned)v->n_tokens);
    return false;
}

fr_tokenizer *fr_tokenizer_new(const fr_vocab_source *source, fr_error_text *e)
{
    const stamp *stamped = find_stamp(source, e);
    if (!stamped)
        return NULL;
    fr_tokenizer *t = calloc(1, sizeof *t);
    if (!t) {
        fr_fail(e, FR_FAILED, "tokenizer: out of memory; close other programs or tabs");
        return NULL;
    }
    t->pre = stamped->pre;
    t->bos = source->bos;
    t->eos = source->eos;
    t->eot = source->eot;
    t->add_bos = (source->add_bos == FR_BOS_BY_STAMP ? stamped->add_bos : source->add_bos == FR_BOS_YES) && source->bos != FR_NO_TOKEN;
    bool ok = fr_vocab_init(&t->vocab, source, e) == FR_OK && check_id("bos", t->bos, &t->vocab, e) &&
              check_id("eos", t->eos, &t->vocab, e) && check_id("eot", t->eot, &t->vocab, e);
    if (ok && !collect_added(t)) {
        fr_fail(e, FR_FAILED, "tokenizer: out of memory; close other programs or tabs");
        ok = false;
    }
    if (!ok) {
        fr_tokenizer_free(t);
        return NULL;
    }
    return t;
}

void fr_tokenizer_free(fr_tokenizer *t)
{
    if (!t)
        return;
    fr_vocab_free(&t->vocab);
    free(t->added);
    free(t);
}

/* --- encoding --------------------------------------------------------------------------------------------------- */

/* The longest control token (if `special`) or user token that the text begins with: its size, 0 if there is none. Narrows
 * the sorted list byte by byte. */
static size_t match_added(const fr_tokenizer *t, const uint8_t *text, size_t size, bool special, uint32_t *id)
{
    size_t low = t->added_from[text[0]], high = t->added_from[text[0] + 1], best = 0;
    for (size_t depth = 1; low < high; depth++) {
        const added_token *shortest = &t->added[low];
        if (shortest->size == depth) {
            if (special || !fr_vocab_is_control(&t->vocab, shortest->id)) {
                best = depth;
                *id = shortest->id;
            }
            low++;
        }
        if (depth == size)
            break;
        for (size_t end = high; low < end;) { /* the first whose byte is not below the text's */
            size_t middle = (low + end) / 2;
            if (t->added[middle].bytes[depth] < text[depth])
                low = middle + 1;
            else
                end = middle;
        }
        for (size_t start = low; start < high;) { /* behind the last whose byte is not above */
            size_t middle = (start + high) / 2;
            if (t->added[middle].bytes[depth] <= text[depth])
                start = middle + 1;
            else
                high = middle;
        }
    }
    return best;
}

static bool encode_pieces(const fr_tokenizer *t, const uint8_t *text, size_t size, fr_bpe *bpe, fr_ids *out)
{
    fr_pieces p = fr_pieces_of(t->pre, text, size);
    while (fr_pieces_next(&p)) {
        if (t->pre == FR_PRE_LLAMA3) { /* a piece that is a token is that token, even where merging would not lead there */
            uint32_t id = fr_vocab_find(&t->vocab, text + p.at, p.end - p.at, false);
            if (id != FR_NO_TOKEN && !fr_vocab_is_control(&t->vocab, id)) {
                if (!fr_ids_push(out, id))
                    return false;
                continue;
            }
        }
        if (!fr_bpe_encode(bpe, &t->vocab, text + p.at, p.end - p.at, out))
            return false;
    }
    return true;
}

/* Text between added tokens. */
static bool encode_plain(const fr_tokenizer *t, const uint8_t *text, size_t size, fr_bpe *bpe, fr_ids *out)
{
    uint8_t *normal = NULL;
    if (t->pre == FR_PRE_QWEN2) {
        size_t normal_size;
        if (!fr_nfc(text, size, &normal, &normal_size))
            return false;
        if (normal) {
            text = normal;
            size = normal_size;
        }
    }
    bool ok = encode_pieces(t, text, size, bpe, out);
    free(normal);
    return ok;
}

static bool encode_all(const fr_tokenizer *t, const uint8_t *text, size_t size, bool special, fr_bpe *bpe, fr_ids *out)
{
    size_t start = 0; /* of the plain text in front of `at` */
    for (size_t at = 0; at < size;) {
        uint32_t id = 0;
        size_t length = match_added(t, text + at, size - at, special, &id);
        if (!length) {
            at++;
            continue;
        }
        if (!encode_plain(t, text + start, at - start, bpe, out) || !fr_ids_push(out, id))
            return false;
        start = at += length;
    }
    return encode_plain(t, text + start, size - start, bpe, out);
}

bool fr_tokenizer_encode(const fr_tokenizer *t, const char *text, size_t size, bool special, bool bos, uint32_t **ids, size_t *n)
{
    fr_ids out = {*ids, *n, *n};
    fr_bpe bpe = {0};
    const size_t first = out.n + 1; /* behind a BOS token put in front */
    bos = bos && t->add_bos;
    bool ok = (!bos || fr_ids_push(&out, t->bos)) && (size == 0 || encode_all(t, (const uint8_t *)text, size, special, &bpe, &out));
    if (ok && bos && out.n > first && out.ids[first] == t->bos) { /* the text begins with it: one is enough */
        memmove(out.ids + first, out.ids + first + 1, (out.n - first - 1) * sizeof *out.ids);
        out.n--;
    }
    fr_bpe_free(&bpe);
    *ids = out.ids;
    if (ok)
        *n = out.n;
    return ok;
}

/* --- looking up ------------------------------------------------------------------------------------------------- */

const char *fr_tokenizer_bytes(const fr_tokenizer *t, uint32_t id, bool special, size_t *size)
{
    *size = 0;
    if (id >= t->vocab.n_tokens)
        return "";
    bool silent = fr_vocab_is_control(&t->vocab, id) || (t->vocab.kinds[id] & FR_KIND_TYPE) == FR_TOKEN_UNUSED;
    if (silent && !special)
        return "";
    *size = t->vocab.offsets[id + 1] - t->vocab.offsets[id];
    return (const char *)t->vocab.bytes + t->vocab.offsets[id];
}

uint32_t fr_tokenizer_id(const fr_tokenizer *t, const char *text, size_t size)
{
    uint8_t *bytes = malloc(size + 1);
    if (!bytes)
        return FR_NO_TOKEN;
    uint32_t id = FR_NO_TOKEN;
    for (int verbatim = 0; verbatim < 2 && id == FR_NO_TOKEN; verbatim++) {
        bool raw;
        size_t n = fr_vocab_bytes(text, size, verbatim, bytes, &raw);
        id = fr_vocab_find(&t->vocab, bytes, n, raw);
    }
    free(bytes);
    return id;
}

uint32_t fr_tokenizer_size(const fr_tokenizer *t)
{
    return t->vocab.n_tokens;
}
uint32_t fr_tokenizer_bos(const fr_tokenizer *t)
{
    return t->bos;
}

const char *fr_tokenizer_pre(const fr_tokenizer *t)
{
    static const char *const names[] = {
        [FR_PRE_GPT2] = "gpt-2", [FR_PRE_QWEN2] = "qwen2", [FR_PRE_LLAMA3] = "llama3", [FR_PRE_SMOLLM] = "smollm"};
    return names[t->pre];
}

static size_t add_end(uint32_t *ids, size_t n, uint32_t id)
{
    size_t at = n;
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return n;
    if (id == FR_NO_TOKEN)
        return n;
    for (; at > 0 && ids[at - 1] > id; at--)
        ids[at] = ids[at - 1];
    ids[at] = id;
    return n + 1;
}

size_t fr_tokenizer_ends(const fr_tokenizer *t, uint32_t ids[8])
{
    static const char *const known[] = {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>"};
    size_t n = add_end(ids, add_end(ids, 0, t->eos), t->eot);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t id = fr_tokenizer_id(t, known[i], strlen(known[i]));
        if (id != FR_NO_TOKEN && fr_vocab_is_control(&t->vocab, id))
            n = add_end(ids, n, id);
    }
    return n;
}
