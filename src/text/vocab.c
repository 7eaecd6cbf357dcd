#include "text/vocab.h"

#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

/* --- GPT-2's byte alphabet -------------------------------------------------------------------------------------- */

/* The visible characters of Latin-1 stand for themselves; the other bytes, in order, for U+0100 onwards. */
static bool is_visible(uint32_t byte)
{
    return (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte < 0x100 && byte != 0xad);
}

/* The byte that a character stands for; 256: none. */
static uint32_t byte_of(uint32_t code)
{
    if (is_visible(code))
        return code;
    if (code < 0x100 || code >= 0x100 + 68)
        return 256;
    uint32_t n = code - 0x100; /* 0 .. 0x20, 0x7f .. 0xa0, 0xad */
    return n <= 0x20 ? n : n <= 0x42 ? n - 0x21 + 0x7f : 0xad;
}

size_t fr_vocab_bytes(const char *text, size_t size, bool verbatim, uint8_t *out, bool *raw)
{
    const uint8_t *in = (const uint8_t *)text;
    bool same = true; /* reads the same either way */
    size_t n = 0;
    for (size_t i = 0; i < size;) {
        uint32_t code;
        i += fr_utf8_read(in + i, size - i, &code);
        uint32_t byte = byte_of(code);
        same = same && code < 0x80 && byte == code;
        verbatim = verbatim || byte == 256;
        out[n++] = (uint8_t)byte;
    }
    *raw = verbatim && !same;
    if (!verbatim)
        return n;
    if (size)
        memcpy(out, text, size);
    return size;
}

/* --- hash tables ------------------------------------------------------------------------------------------------ */

static uint32_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0x9e3779b97f4a7c15u;
    return (uint32_t)(x >> 32);
}

static uint32_t hash_bytes(const uint8_t *bytes, size_t size)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        h = (h ^ bytes[i]) * 0x100000001b3u;
    return mix(h);
}

static uint32_t hash_pair(uint32_t left, uint32_t right)
{
    return mix(((uint64_t)left << 32 | right) * 0xd6e8feb86659fd93u);
}

/* Slots for n entries, filled to at most 2/3. NULL: out of memory. */
static uint32_t *new_slots(size_t n, uint32_t *mask)
{
    size_t size = 4;
    while (size / 3 * 2 < n)
        size *= 2;
    *mask = (uint32_t)(size - 1);
    return calloc(size, sizeof(uint32_t));
}

/* Where the token is, or where it would be put. */
static uint32_t *token_slot(const fr_vocab *v, const uint8_t *bytes, size_t size, bool raw)
{
    for (uint32_t at = hash_bytes(bytes, size);; at++) {
        uint32_t *slot = &v->slots[at & v->slot_mask];
        if (*slot == 0)
            return slot;
        uint32_t id = *slot - 1, start = v->offsets[id];
        if (v->offsets[id + 1] - start == size && raw == ((v->kinds[id] & FR_KIND_RAW) != 0) && !memcmp(v->bytes + start, bytes, size))
            return slot;
    }
}

static uint32_t *merge_slot(const fr_vocab *v, uint32_t left, uint32_t right)
{
    for (uint32_t at = hash_pair(left, right);; at++) {
        uint32_t *slot = &v->merge_slots[at & v->merge_mask];
        if (*slot == 0 || (v->merges[*slot - 1].left == left && v->merges[*slot - 1].right == right))
            return slot;
    }
}

uint32_t fr_vocab_find(const fr_vocab *v, const uint8_t *bytes, size_t size, bool raw)
{
    return size ? *token_slot(v, bytes, size, raw) - 1 : FR_NO_TOKEN;
}

uint32_t fr_vocab_rank(const fr_vocab *v, uint32_t left, uint32_t right)
{
    return *merge_slot(v, left, right) - 1;
}

bool fr_vocab_is_control(const fr_vocab *v, uint32_t id)
{
    int type = v->kinds[id] & FR_KIND_TYPE;
    return type == FR_TOKEN_CONTROL || type == FR_TOKEN_UNKNOWN;
}

/* --- filling ---------------------------------------------------------------------------------------------------- */

static fr_status no_memory(fr_error_text *e)
{
    return fr_fail(e, FR_FAILED, "tokenizer: out of memory; close other programs or tabs");
}

/* Copies the bytes of all tokens; offsets and kinds too. */
static fr_status copy_tokens(fr_vocab *v, const fr_vocab_source *source, fr_error_text *e)
{
    uint64_t total = 0;
    for (size_t i = 0; i < source->n_tokens; i++) {
        size_t size = 0;
        source->token(source->user, i, &size);
        total += size;
    }
    if (total >= UINT32_MAX)
        return fr_fail(e, FR_BAD_MODEL, "tokenizer.ggml.tokens: more than 4 GiB of text; the model file is damaged");
    v->bytes = malloc((size_t)total + 1);
    v->offsets = malloc((source->n_tokens + 1) * sizeof *v->offsets);
    v->kinds = malloc(source->n_tokens);
    if (!v->bytes || !v->offsets || !v->kinds)
        return no_memory(e);
    uint32_t used = 0;
    for (size_t i = 0; i < source->n_tokens; i++) {
        size_t size = 0;
        const char *text = source->token(source->user, i, &size);
        int type = source->type ? source->type(source->user, i) : FR_TOKEN_NORMAL;
        if (type < FR_TOKEN_NORMAL || type > FR_TOKEN_BYTE)
            return fr_fail(e, FR_BAD_MODEL, "tokenizer.ggml.token_type: token %zu has the unknown type %d; the model file is damaged", i,
                           type);
        bool raw, verbatim = type == FR_TOKEN_CONTROL || type == FR_TOKEN_UNKNOWN || type == FR_TOKEN_USER;
        v->offsets[i] = used;
        used += (uint32_t)fr_vocab_bytes(text, size, verbatim, v->bytes + used, &raw);
        v->kinds[i] = (uint8_t)(type | (raw ? FR_KIND_RAW : 0));
    }
    v->offsets[source->n_tokens] = used;
    v->n_tokens = (uint32_t)source->n_tokens;
    uint8_t *fitted = realloc(v->bytes, used + 1u); /* the alphabet took up to two bytes for one */
    v->bytes = fitted ? fitted : v->bytes;
    return FR_OK;
}

static fr_status index_tokens(fr_vocab *v, fr_error_text *e)
{
    v->slots = new_slots(v->n_tokens, &v->slot_mask);
    if (!v->slots)
        return no_memory(e);
    memset(v->byte_tokens, 0xff, sizeof v->byte_tokens);
    for (uint32_t id = 0; id < v->n_tokens; id++) {
        const uint8_t *bytes = v->bytes + v->offsets[id];
        size_t size = v->offsets[id + 1] - v->offsets[id];
        bool raw = v->kinds[id] & FR_KIND_RAW;
        if (size == 0) /* some converters leave holes; no text leads there */
            continue;
        uint32_t *slot = token_slot(v, bytes, size, raw);
        if (*slot)
            return fr_fail(e, FR_BAD_MODEL, "tokenizer.ggml.tokens: tokens %u and %u have the same text; convert the model again",
                           (unsigned)(*slot - 1), (unsigned)id);
        *slot = id + 1;
        if (size == 1 && !raw && !fr_vocab_is_control(v, id))
            v->byte_tokens[bytes[0]] = id;
    }
    return FR_OK;
}

/* "left right": the tokens of both and of the two together. False: malformed, or one of them is no token. */
static bool resolve_merge(const fr_vocab *v, const char *text, size_t size, uint8_t *scratch, struct fr_merge *m)
{
    const char *space = size > 1 ? memchr(text + 1, ' ', size - 1) : NULL;
    if (!space || space + 1 == text + size || text[0] == ' ' || memchr(space + 1, ' ', (size_t)(text + size - space - 1)))
        return false;
    bool raw_left, raw_right;
    size_t left = fr_vocab_bytes(text, (size_t)(space - text), false, scratch, &raw_left);
    size_t right = fr_vocab_bytes(space + 1, (size_t)(text + size - space - 1), false, scratch + left, &raw_right);
    m->left = fr_vocab_find(v, scratch, left, raw_left);
    m->right = fr_vocab_find(v, scratch + left, right, raw_right);
    if (m->left == FR_NO_TOKEN || m->right == FR_NO_TOKEN)
        return false;
    if (raw_left || raw_right) { /* no text of bytes begins with such tokens */
        m->result = FR_NO_TOKEN;
        return true;
    }
    m->result = fr_vocab_find(v, scratch, left + right, false);
    if (m->result == FR_NO_TOKEN)
        return false;
    if (fr_vocab_is_control(v, m->result))
        m->result = FR_NO_TOKEN;
    return true;
}

static fr_status copy_merges(fr_vocab *v, const fr_vocab_source *source, fr_error_text *e)
{
    size_t longest = 0;
    for (size_t i = 0; i < source->n_merges; i++) {
        size_t size = 0;
        source->merge(source->user, i, &size);
        longest = size > longest ? size : longest;
    }
    v->merges = malloc((source->n_merges ? source->n_merges : 1) * sizeof *v->merges);
    v->merge_slots = new_slots(source->n_merges, &v->merge_mask);
    uint8_t *scratch = malloc(longest + 1);
    fr_status status = v->merges && v->merge_slots && scratch ? FR_OK : no_memory(e);
    for (size_t i = 0; i < source->n_merges && status == FR_OK; i++) {
        size_t size = 0;
        const char *text = source->merge(source->user, i, &size);
        struct fr_merge *m = &v->merges[i];
        if (!resolve_merge(v, text, size, scratch, m)) {
            status = fr_fail(e, FR_BAD_MODEL,
                             "tokenizer.ggml.merges: merge %zu does not join two tokens into a third; convert the model again", i);
            break;
        }
        v->n_merges = (uint32_t)(i + 1);
        if (m->result != FR_NO_TOKEN)
            *merge_slot(v, m->left, m->right) = (uint32_t)(i + 1); /* of two equal merges the last counts, as for the reference */
    }
    free(scratch);
    return status;
}

fr_status fr_vocab_init(fr_vocab *v, const fr_vocab_source *source, fr_error_text *e)
{
    *v = (fr_vocab){0};
    enum { MOST = 1 << 24 }; /* no model comes near; keeps the arithmetic within 32 bits */
    if (source->n_tokens == 0 || source->n_tokens > MOST || source->n_merges > MOST)
        return fr_fail(e, FR_BAD_MODEL, "tokenizer.ggml.tokens: %zu tokens and %zu merges; 1 to %d of each are supported", source->n_tokens,
                       source->n_merges, MOST);
    fr_status status = copy_tokens(v, source, e);
    if (status == FR_OK)
        status = index_tokens(v, e);
    return status == FR_OK ? copy_merges(v, source, e) : status;
}

void fr_vocab_free(fr_vocab *v)
{
    free(v->bytes);
    free(v->offsets);
    free(v->kinds);
    free(v->slots);
    free(v->merges);
    free(v->merge_slots);
    *v = (fr_vocab){0};
}
