#include "text/detokenizer.h"

#include <stdlib.h>
#include <string.h>

/* The decoder of TextDecoder (https://encoding.spec.whatwg.org/#utf-8-decoder): the bytes of an unfinished code point, and
 * the range that the next one must be in. */
typedef struct decoder {
    uint8_t bytes[4];
    size_t n, length;
    uint8_t lower, upper;
} decoder;

/* A stop string and how much of it the text ends with at the moment (Knuth, Morris and Pratt). */
typedef struct stop_string {
    uint8_t *text;
    size_t size, matched;
    size_t *borders; /* [i]: length of the longest proper prefix of text[0 .. i] that is its suffix too */
} stop_string;

struct fr_detokenizer {
    const fr_tokenizer *tokenizer;
    decoder decoder;
    stop_string *stops;
    size_t n_stops;
    uint8_t *text; /* text[start .. size) is whole code points, not yet taken */
    size_t start, size, capacity;
    bool stopped; /* by a stop string, the end, or lack of memory */
    bool failed;  /* by lack of memory */
};

/* --- bytes to code points --------------------------------------------------------------------------------------- */

/* Where decoded code points go; false: no more of them. */
typedef bool (*sink)(void *user, const uint8_t *bytes, size_t n);

static bool emit_replacement(sink to, void *user)
{
    return to(user, (const uint8_t *)"\xef\xbf\xbd", 3);
}

static bool decode_byte(decoder *d, uint8_t byte, sink to, void *user)
{
    if (d->n > 0 && (byte < d->lower || byte > d->upper)) {
        d->n = 0; /* what came before is one error; this byte begins anew */
        if (!emit_replacement(to, user))
            return false;
    }
    if (d->n == 0) {
        if (byte < 0x80)
            return to(user, &byte, 1);
        if (byte < 0xc2 || byte > 0xf4)
            return emit_replacement(to, user);
        d->length = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
        d->lower = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
        d->upper = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
        d->bytes[d->n++] = byte;
        return true;
    }
    d->bytes[d->n++] = byte;
    d->lower = 0x80;
    d->upper = 0xbf;
    if (d->n < d->length)
        return true;
    size_t n = d->n;
    d->n = 0;
    return to(user, d->bytes, n);
}

static bool decode_end(decoder *d, sink to, void *user)
{
    bool half = d->n > 0;
    d->n = 0;
    return !half || emit_replacement(to, user);
}

/* --- stop strings ----------------------------------------------------------------------------------------------- */

static bool append_stop(void *user, const uint8_t *bytes, size_t n)
{
    stop_string *s = user;
    memcpy(s->text + s->size, bytes, n);
    s->size += n;
    return true;
}

/* Copies the string as the text will be: with U+FFFD for what is not UTF-8. */
static bool init_stop(stop_string *s, const char *string)
{
    size_t size = strlen(string);
    if (size > SIZE_MAX / 3 / sizeof(size_t))
        return false;
    s->text = malloc(3 * size);
    s->borders = malloc(3 * size * sizeof *s->borders);
    if (!s->text || !s->borders)
        return false;
    decoder d = {0};
    for (size_t i = 0; i < size; i++)
        decode_byte(&d, (uint8_t)string[i], append_stop, s);
    decode_end(&d, append_stop, s);
    s->borders[0] = 0;
    for (size_t i = 1, k = 0; i < s->size; i++) {
        while (k > 0 && s->text[i] != s->text[k])
            k = s->borders[k - 1];
        k += s->text[i] == s->text[k];
        s->borders[i] = k;
    }
    return true;
}

/* The text grew by a byte. True: it ends with the whole string. */
static bool advance_stop(stop_string *s, uint8_t byte)
{
    while (s->matched > 0 && (s->matched == s->size || s->text[s->matched] != byte))
        s->matched = s->borders[s->matched - 1];
    s->matched += s->text[s->matched] == byte;
    return s->matched == s->size;
}

/* --- text ------------------------------------------------------------------------------------------------------- */

static bool reserve(fr_detokenizer *d, size_t n)
{
    if (d->start > 0) {
        memmove(d->text, d->text + d->start, d->size - d->start);
        d->size -= d->start;
        d->start = 0;
    }
    if (n > SIZE_MAX / 4 || d->size > SIZE_MAX / 4)
        return false;
    size_t capacity = 2 * (d->size + n) + 256;
    uint8_t *text = realloc(d->text, capacity);
    if (!text)
        return false;
    d->text = text;
    d->capacity = capacity;
    return true;
}

/* A code point joins the text. False: a stop string is complete (and cut off), or there is no memory. */
static bool append_text(void *user, const uint8_t *bytes, size_t n)
{
    fr_detokenizer *d = user;
    if (d->size + n > d->capacity && !reserve(d, n)) {
        d->stopped = d->failed = true;
        return false;
    }
    memcpy(d->text + d->size, bytes, n);
    d->size += n;
    size_t cut = 0;
    for (size_t i = 0; i < d->n_stops; i++) {
        bool complete = false;
        for (size_t k = 0; k < n; k++)
            complete = advance_stop(&d->stops[i], bytes[k]);
        if (complete && d->stops[i].size > cut)
            cut = d->stops[i].size;
    }
    d->size -= cut;
    d->stopped = cut > 0;
    return !d->stopped;
}

static size_t held_back(const fr_detokenizer *d)
{
    size_t most = 0;
    for (size_t i = 0; i < d->n_stops && !d->stopped; i++)
        most = d->stops[i].matched > most ? d->stops[i].matched : most;
    return most;
}

/* --- interface -------------------------------------------------------------------------------------------------- */

fr_detokenizer *fr_detokenizer_new(const fr_tokenizer *t, const char *const *stop, size_t n_stop)
{
    fr_detokenizer *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->tokenizer = t;
    d->stops = calloc(n_stop ? n_stop : 1, sizeof *d->stops);
    bool ok = d->stops != NULL;
    for (size_t i = 0; i < n_stop && ok; i++)
        if (stop[i][0])
            ok = init_stop(&d->stops[d->n_stops++], stop[i]);
    if (!ok) {
        fr_detokenizer_free(d);
        return NULL;
    }
    return d;
}

void fr_detokenizer_free(fr_detokenizer *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n_stops; i++) {
        free(d->stops[i].text);
        free(d->stops[i].borders);
    }
    free(d->stops);
    free(d->text);
    free(d);
}

bool fr_detokenizer_push(fr_detokenizer *d, uint32_t id)
{
    size_t size;
    const char *bytes = fr_tokenizer_bytes(d->tokenizer, id, false, &size);
    for (size_t i = 0; i < size && !d->stopped; i++)
        decode_byte(&d->decoder, (uint8_t)bytes[i], append_text, d);
    return !d->stopped;
}

bool fr_detokenizer_failed(const fr_detokenizer *d)
{
    return d->failed;
}

void fr_detokenizer_end(fr_detokenizer *d)
{
    if (!d->stopped)
        decode_end(&d->decoder, append_text, d);
    d->stopped = true;
}

size_t fr_detokenizer_take(fr_detokenizer *d, char *out, size_t size)
{
    size_t n = d->size - d->start - held_back(d);
    if (n > size) {
        n = size;
        while (n > 0 && (d->text[d->start + n] & 0xc0) == 0x80) /* would begin in the middle of a code point */
            n--;
    }
    if (n)
        memcpy(out, d->text + d->start, n);
    d->start += n;
    return n;
}
