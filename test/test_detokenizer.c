/* test_detokenizer.c: tokens to text as they come. */
#include <sys/resource.h>

#include "test/test.h"
#include "test/text_help.h"
#include "text/detokenizer.h"

static void take_all(fr_detokenizer *d, text_bytes *out, size_t step)
{
    char buffer[64];
    for (size_t n; (n = fr_detokenizer_take(d, buffer, step)) > 0;) {
        out->data = realloc(out->data, out->size + n + 1);
        CHECK(out->data);
        memcpy(out->data + out->size, buffer, n);
        out->size += n;
        out->data[out->size] = 0;
        CHECK_MSG(((unsigned char)buffer[0] & 0xc0) != 0x80, "a code point was cut");
    }
}

/* Streams ids through a detokenizer, taking text now and then in steps of `step` bytes. *stopped: by a stop string. */
static text_bytes stream(const fr_tokenizer *t, text_ids l, const char *const *stop, size_t n_stop, size_t step, bool *stopped)
{
    fr_detokenizer *d = fr_detokenizer_new(t, stop, n_stop);
    CHECK(d);
    text_bytes out = {calloc(1, 1), 0};
    *stopped = false;
    for (size_t i = 0; i < l.n; i++) {
        *stopped = !fr_detokenizer_push(d, l.ids[i]) || *stopped;
        if (text_random(3) == 0)
            take_all(d, &out, step);
    }
    fr_detokenizer_end(d);
    take_all(d, &out, step);
    fr_detokenizer_free(d);
    return out;
}

static void golden_utf8(void)
{
    fr_tokenizer *t = text_chat_tokenizer("gpt-2", NULL, 0);
    size_t size, n, lines = 0;
    char *file = text_golden("text_utf8.txt", &size);
    const char *at = file;
    for (text_bytes *f; (f = text_next_line(&at, &n)); text_fields_free(f), lines++) {
        char bytes[512], expected[1024];
        size_t sizes[2] = {0};
        const char *p = f[0].data;
        for (int part = 0; part < 2; part++)
            for (p += part; *p && *p != ' '; p += 2) {
                char hex[3] = {p[0], p[1], 0};
                CHECK(sizes[part] < sizeof bytes);
                (part ? expected : bytes)[sizes[part]++] = (char)strtoul(hex, NULL, 16);
            }
        bool stopped;
        text_ids l = text_encode(t, bytes, sizes[0], false);
        text_bytes out = stream(t, l, NULL, 0, 4 + text_random(9), &stopped);
        CHECK_MSG(out.size == sizes[1] && !memcmp(out.data, expected, out.size) && !stopped, "%s: \"%s\"", f[0].data, out.data);
        free(out.data);
        free(l.ids);
    }
    CHECK(lines > 300);
    free(file);
    fr_tokenizer_free(t);
}

/* The first stop string to be complete ends the text; of those that end together the longest. */
static size_t cut_plainly(const char *text, size_t size, const char *const *stop, size_t n_stop, bool *stopped)
{
    for (size_t end = 1; end <= size; end++) {
        size_t cut = 0;
        for (size_t i = 0; i < n_stop; i++) {
            size_t n = strlen(stop[i]);
            if (n && n <= end && n > cut && !memcmp(text + end - n, stop[i], n))
                cut = n;
        }
        if (cut) {
            *stopped = true;
            return end - cut;
        }
    }
    *stopped = false;
    return size;
}

static void streaming(void)
{
    static const char *const joins[] = {"a b", "ab a", "Ã ©", "a Ã", "b Ã", "aba b"}; /* tokens end within code points and stop strings */
    static const char *const units[] = {"a", "b", "é", "\xc3", "ab"};
    fr_tokenizer *t = text_chat_tokenizer("gpt-2", joins, 6);
    for (int round = 0; round < 4000; round++) {
        char text[512], stops[3][32];
        const char *stop[3];
        size_t size = 0, n_stop = text_random(4);
        for (size_t i = 0; i < n_stop; i++) {
            stops[i][0] = 0;
            for (uint32_t k = text_random(11); k > 0; k--)
                strcat(stops[i], units[text_random(5) % 3]);
            stop[i] = stops[i];
        }
        for (uint32_t k = text_random(20); k > 0; k--) {
            bool near = n_stop > 0 && text_random(2); /* the beginning of a stop string, or anything */
            const char *unit = near ? stops[text_random((uint32_t)n_stop)] : units[text_random(5)];
            size_t n = near ? text_random((uint32_t)strlen(unit) + 1) : strlen(unit);
            memcpy(text + size, unit, n);
            size += n;
        }
        bool stopped, expected_stop, unused;
        text_ids l = text_encode(t, text, size, false);
        text_bytes whole = stream(t, l, NULL, 0, 64, &unused);
        size_t expected = cut_plainly(whole.data, whole.size, stop, n_stop, &expected_stop);
        text_bytes out = stream(t, l, stop, n_stop, 4 + text_random(20), &stopped);
        CHECK_MSG(out.size == expected && !memcmp(out.data, whole.data, expected), "\"%s\" of \"%s\", expected %zu bytes", out.data,
                  whole.data, expected);
        CHECK(stopped == expected_stop);
        free(whole.data);
        free(out.data);
        free(l.ids);
    }
    fr_tokenizer_free(t);
}

/* What can be taken after each token: a possible beginning of a stop string is held back, and released when it is none. */
static void held_back(void)
{
    fr_tokenizer *t = text_chat_tokenizer("gpt-2", NULL, 0);
    const char *stop[] = {"", "END", "Ex"};
    fr_detokenizer *d = fr_detokenizer_new(t, stop, 3);
    CHECK(d);
    static const struct {
        char byte;
        const char *out;
    } steps[] = {
        {'a', "a"}, {'E', ""}, {'N', ""}, {'E', "EN"}, {'e', "Ee"}, {'\xf0', ""}, {'\x9f', ""}, {'\x98', ""}, {'\x80', "\xf0\x9f\x98\x80"},
        {'E', ""},  {'N', ""}};
    char out[8];
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        text_ids l = text_encode(t, &steps[i].byte, 1, false);
        CHECK(l.n == 1 && fr_detokenizer_push(d, l.ids[0]));
        size_t n = fr_detokenizer_take(d, out, sizeof out - 1);
        out[n] = 0;
        CHECK_STR(out, steps[i].out);
        free(l.ids);
    }
    CHECK(fr_detokenizer_push(d, fr_tokenizer_id(t, "<|im_end|>", 10))); /* control tokens are silent */
    CHECK(fr_detokenizer_push(d, UINT32_MAX));
    fr_detokenizer_end(d);
    CHECK_INT(fr_detokenizer_take(d, out, 1), 1);
    CHECK_INT(fr_detokenizer_take(d, out + 1, 7), 1);
    CHECK(out[0] == 'E' && out[1] == 'N' && fr_detokenizer_take(d, out, 7) == 0);
    CHECK(!fr_detokenizer_push(d, fr_tokenizer_id(t, "a", 1)));
    fr_detokenizer_free(d);
    fr_tokenizer_free(t);
}

#if __has_feature(address_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* Text for which there is no memory is a failure, not an end of the answer. */
static void no_memory(void)
{
    enum { SIZE = 32 << 20 };
    if (SANITIZED)
        test_skip("the sanitizer ends a program that is out of memory");
    char *word = malloc(SIZE + 1);
    CHECK(word);
    memset(word, 'a', SIZE);
    word[SIZE] = 0;
    text_vocab v = text_vocab_new("gpt-2");
    text_vocab_word(&v, word, FR_TOKEN_NORMAL);
    free(word);
    fr_error_text e = {0};
    fr_tokenizer *t = text_vocab_make(&v, &e);
    CHECK_MSG(t, "%s", e.text);
    fr_detokenizer *d = fr_detokenizer_new(t, NULL, 0);
    CHECK(d);
    const struct rlimit small = {1 << 20, 1 << 20}; /* less than the process has: no block of pages more */
    CHECK(setrlimit(RLIMIT_AS, &small) == 0);
    CHECK(!fr_detokenizer_failed(d));
    CHECK(!fr_detokenizer_push(d, 0));
    CHECK(fr_detokenizer_failed(d));
    fr_detokenizer_free(d);
    fr_tokenizer_free(t);
}

const fr_test detokenizer_tests[] = {
    {"detokenizer.utf8", "broken UTF-8 decodes as Python and TextDecoder have it", golden_utf8},
    {"detokenizer.streaming", "random tokens and stop strings: the stream is the whole text, cut at the first stop", streaming},
    {"detokenizer.no_memory", "running out of memory is told apart from a stop string", no_memory},
    {"detokenizer.held_back", "half code points and half stop strings wait", held_back},
    {0},
};
