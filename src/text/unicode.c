#include "text/unicode.h"

#include "text/unicode_data.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* --- classes ---------------------------------------------------------------------------------------------------- */

fr_class fr_code_class(uint32_t code)
{
    if (code > FR_CODE_MAX)
        return FR_OTHER;
    uint32_t key = code << 2 | 3;
    size_t low = 0, high = COUNT(class_runs); /* the last run that starts at or before the code; the first starts at 0 */
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (class_runs[middle] <= key)
            low = middle;
        else
            high = middle;
    }
    return (fr_class)(class_runs[low] & 3);
}

/* --- NFC: decompose, order the marks, compose (Unicode, section 3.11) --------------------------------------------- */

enum { L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11a7, S_BASE = 0xac00, L_COUNT = 19, V_COUNT = 21, T_COUNT = 28, S_COUNT = 11172 };

/* One step of canonical decomposition: 0 (none), 1 or 2 code points. */
static size_t decompose_once(uint32_t code, uint32_t to[2])
{
    if (code >= NFC_HIGH_SINGLES && code - NFC_HIGH_SINGLES < COUNT(nfc_high_singles)) {
        to[0] = nfc_high_singles[code - NFC_HIGH_SINGLES];
        return 1;
    }
    for (size_t low = 0, high = COUNT(nfc_pairs); low < high;) {
        size_t middle = (low + high) / 2;
        if (nfc_pairs[middle].code == code) {
            to[0] = nfc_pairs[middle].first;
            to[1] = nfc_pairs[middle].second;
            return 2;
        }
        if (nfc_pairs[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t low = 0, high = COUNT(nfc_singles); low < high;) {
        size_t middle = (low + high) / 2;
        if (nfc_singles[middle].code == code) {
            to[0] = nfc_singles[middle].to;
            return 1;
        }
        if (nfc_singles[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = 0; i < COUNT(nfc_high_pairs); i++) /* few */
        if (nfc_high_pairs[i].code == code) {
            to[0] = nfc_high_pairs[i].first;
            to[1] = nfc_high_pairs[i].second;
            return to[1] ? 2 : 1;
        }
    return 0;
}

/* Full canonical decomposition; at most 4 code points by the design of Unicode. */
static size_t decompose(uint32_t code, uint32_t *out)
{
    if (code >= S_BASE && code < S_BASE + S_COUNT) {
        uint32_t s = code - S_BASE, t = s % T_COUNT;
        out[0] = L_BASE + s / (V_COUNT * T_COUNT);
        out[1] = V_BASE + s % (V_COUNT * T_COUNT) / T_COUNT;
        out[2] = T_BASE + t;
        return t ? 3 : 2;
    }
    size_t tail = 0;
    uint32_t second[4], to[2];
    size_t n;
    while ((n = code < 0xc0 ? 0 : decompose_once(code, to)) > 0) { /* only the first of two decomposes further */
        if (n == 2)
            second[tail++] = to[1];
        code = to[0];
    }
    out[0] = code;
    for (size_t i = 0; i < tail; i++)
        out[1 + i] = second[tail - 1 - i];
    return 1 + tail;
}

static uint8_t combining_class(uint32_t code)
{
    if (code < 0x300 || code > FR_CODE_MAX)
        return 0;
    const nfc_marks *marks = code < 0x10000 ? nfc_low_marks : nfc_high_marks;
    size_t low = 0, high = code < 0x10000 ? COUNT(nfc_low_marks) : COUNT(nfc_high_marks);
    uint32_t base = code < 0x10000 ? 0 : 0x10000;
    while (low < high) {
        size_t middle = (low + high) / 2;
        uint32_t first = base + marks[middle].first;
        if (code < first)
            high = middle;
        else if (code >= first + marks[middle].count)
            low = middle + 1;
        else
            return marks[middle].combining;
    }
    return 0;
}

/* The code point that two compose to; 0 if they don't. */
static uint32_t compose(uint32_t a, uint32_t b)
{
    if (a >= L_BASE && a < L_BASE + L_COUNT && b >= V_BASE && b < V_BASE + V_COUNT)
        return S_BASE + ((a - L_BASE) * V_COUNT + (b - V_BASE)) * T_COUNT;
    if (a >= S_BASE && a < S_BASE + S_COUNT && (a - S_BASE) % T_COUNT == 0 && b > T_BASE && b < T_BASE + T_COUNT)
        return a + (b - T_BASE);
    for (size_t low = 0, high = COUNT(nfc_composing); low < high;) {
        size_t middle = (low + high) / 2;
        const nfc_pair *pair = &nfc_pairs[nfc_composing[middle]];
        if (pair->first == a && pair->second == b)
            return pair->code;
        if (pair->first < a || (pair->first == a && pair->second < b))
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = 0; i < COUNT(nfc_high_pairs); i++)
        if (nfc_high_pairs[i].composes && nfc_high_pairs[i].first == a && nfc_high_pairs[i].second == b)
            return nfc_high_pairs[i].code;
    return 0;
}

/* Orders a run of marks by combining class, stably, in time linear in its length (text may hold millions of them). */
static void order_marks(uint32_t *marks, uint32_t *scratch, size_t n)
{
    size_t starts[257] = {0};
    bool ordered = true;
    for (size_t i = 0; i < n; i++) {
        starts[combining_class(marks[i]) + 1]++;
        ordered = ordered && (i == 0 || combining_class(marks[i - 1]) <= combining_class(marks[i]));
    }
    if (ordered)
        return;
    for (size_t i = 1; i < 257; i++)
        starts[i] += starts[i - 1];
    for (size_t i = 0; i < n; i++)
        scratch[starts[combining_class(marks[i])]++] = marks[i];
    memcpy(marks, scratch, n * sizeof *marks);
}

static size_t compose_all(uint32_t *codes, size_t n)
{
    size_t out = 0, starter = SIZE_MAX;
    uint8_t last = 0; /* class of the mark between the starter and here; 0: nothing between */
    for (size_t i = 0; i < n; i++) {
        uint8_t class = combining_class(codes[i]);
        if (starter != SIZE_MAX && (last == 0 || last < class)) {
            uint32_t composed = compose(codes[starter], codes[i]);
            if (composed) {
                codes[starter] = composed;
                continue;
            }
        }
        if (class == 0)
            starter = out;
        last = class;
        codes[out++] = codes[i];
    }
    return out;
}

/* Decomposes into codes[], with marks in canonical order. */
static size_t decompose_all(const uint8_t *text, size_t size, uint32_t *codes, uint32_t *scratch)
{
    size_t n = 0, marks = 0; /* codes[marks .. n) is the run of marks at the end */
    for (size_t i = 0; i < size;) {
        uint32_t code;
        i += fr_utf8_read(text + i, size - i, &code);
        size_t end = n + decompose(code, codes + n);
        for (; n < end; n++)
            if (combining_class(codes[n]) == 0) {
                if (n - marks > 1)
                    order_marks(codes + marks, scratch, n - marks);
                marks = n + 1;
            }
    }
    if (n > marks + 1)
        order_marks(codes + marks, scratch, n - marks);
    return n;
}

bool fr_nfc(const uint8_t *text, size_t size, uint8_t **out, size_t *out_size)
{
    *out = NULL;
    *out_size = 0;
    size_t plain = 0;
    while (plain < size && text[plain] < 0xcc) /* the lead byte of U+0300 */
        plain++;
    if (plain == size)
        return true;
    /* A code point of k bytes decomposes into at most k + 1 code points, a byte on its own stays one. */
    if (size > SIZE_MAX / 2 / sizeof(uint32_t) / 2)
        return false;
    uint32_t *codes = malloc(4 * size * sizeof *codes); /* second half: scratch */
    if (!codes)
        return false;
    size_t n = compose_all(codes, decompose_all(text, size, codes, codes + 2 * size));
    size_t bytes = 0;
    uint8_t unit[4];
    for (size_t i = 0; i < n; i++)
        bytes += fr_utf8_write(unit, codes[i]);
    uint8_t *result = malloc(bytes ? bytes : 1);
    if (result) {
        for (size_t i = 0, at = 0; i < n; i++)
            at += fr_utf8_write(result + at, codes[i]);
        *out = result;
        *out_size = bytes;
    }
    free(codes);
    return result != NULL;
}
