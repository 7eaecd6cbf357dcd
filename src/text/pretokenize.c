#include "text/pretokenize.h"

#include "text/unicode.h"

/* A code point of the text with its class; size 0 at the end of the text. */
typedef struct unit {
    uint32_t code;
    fr_class class;
    size_t size;
} unit;

static unit unit_at(const uint8_t *text, size_t at, size_t end)
{
    unit u = {0, FR_OTHER, 0};
    if (at < end) {
        u.size = fr_utf8_read(text + at, end - at, &u.code);
        u.class = fr_code_class(u.code);
    }
    return u;
}

static bool is_newline(unit u)
{
    return u.size && (u.code == '\r' || u.code == '\n');
}
static bool is(unit u, fr_class class)
{
    return u.size && u.class == class;
}

/* Behind at most `most` code points of one class. */
static size_t skip_class(const uint8_t *text, size_t at, size_t end, fr_class class, size_t most)
{
    for (unit u; most > 0 && is(u = unit_at(text, at, end), class); most--)
        at += u.size;
    return at;
}

static size_t skip_newlines(const uint8_t *text, size_t at, size_t end)
{
    while (at < end && (text[at] == '\r' || text[at] == '\n'))
        at++;
    return at;
}

/* 's|'t|'re|'ve|'m|'ll|'d: behind it, or `at` if there is none. Ignoring case is by Unicode's rules, by which the long s
 * (U+017F) is an s; no other letter beyond ASCII folds to one of these. */
static size_t skip_contraction(const uint8_t *text, size_t at, size_t end, bool any_case)
{
    if (text[at] != '\'')
        return at;
    unit first = unit_at(text, at + 1, end);
    size_t behind = at + 1 + first.size;
    unit second = unit_at(text, behind, end);
    uint32_t a = first.code, b = second.code;
    if (any_case) {
        a = a == 0x17f ? 's' : a < 0x80 ? a | 0x20 : a;
        b = b < 0x80 ? b | 0x20 : b;
    }
    if (first.size && (a == 's' || a == 't' || a == 'm' || a == 'd'))
        return behind;
    if (first.size && second.size && ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')))
        return behind + second.size;
    return at;
}

/* \s+(?!\S)|\s+ where at least one white space is: a run in front of something leaves its last code point to the next
 * piece, unless it has only that one. */
static size_t skip_space(const uint8_t *text, size_t at, size_t end)
{
    size_t last = at, behind = at;
    for (unit u; is(u = unit_at(text, behind, end), FR_SPACE); behind += u.size)
        last = behind;
    return behind == end || last == at ? behind : last;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t end_gpt2(const uint8_t *text, size_t at, size_t end)
{
    size_t behind = skip_contraction(text, at, end, false);
    if (behind > at)
        return behind;
    size_t start = at + (text[at] == ' ');
    unit u = unit_at(text, start, end);
    if (u.size && u.class != FR_SPACE)
        return skip_class(text, start, end, u.class, SIZE_MAX);
    return skip_space(text, at, end);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * with digits = 1 for Qwen2 and 3 for Llama-3. */
static size_t end_llama3(const uint8_t *text, size_t at, size_t end, size_t digits)
{
    size_t behind = skip_contraction(text, at, end, true);
    if (behind > at)
        return behind;
    unit u = unit_at(text, at, end);
    if (u.class == FR_LETTER)
        return skip_class(text, at, end, FR_LETTER, SIZE_MAX);
    if (u.class == FR_NUMBER)
        return skip_class(text, at, end, FR_NUMBER, digits);
    if (!is_newline(u) && is(unit_at(text, at + u.size, end), FR_LETTER))
        return skip_class(text, at + u.size, end, FR_LETTER, SIZE_MAX);
    size_t start = at + (u.code == ' ');
    if (is(unit_at(text, start, end), FR_OTHER))
        return skip_newlines(text, skip_class(text, start, end, FR_OTHER, SIZE_MAX), end);
    behind = at; /* behind the last newline of the white space that starts here */
    size_t scan = at;
    for (unit s; is(s = unit_at(text, scan, end), FR_SPACE);) {
        scan += s.size;
        if (is_newline(s))
            behind = scan;
    }
    return behind > at ? behind : skip_space(text, at, end);
}

fr_pieces fr_pieces_of(fr_pretokenizer kind, const uint8_t *text, size_t size)
{
    return (fr_pieces){.kind = kind, .text = text, .size = size};
}

/* Every digit is a piece, and GPT-2's rule sees the text between two digits as if there were nothing around it. */
static size_t end_smollm(fr_pieces *p)
{
    if (p->limit <= p->at) {
        p->limit = p->at;
        for (unit u; (u = unit_at(p->text, p->limit, p->size)).size && u.class != FR_NUMBER;)
            p->limit += u.size;
        if (p->limit == p->at)
            return skip_class(p->text, p->at, p->size, FR_NUMBER, 1);
    }
    return end_gpt2(p->text, p->at, p->limit);
}

bool fr_pieces_next(fr_pieces *p)
{
    p->at = p->end;
    if (p->at == p->size)
        return false;
    switch (p->kind) {
    case FR_PRE_GPT2:
        p->end = end_gpt2(p->text, p->at, p->size);
        break;
    case FR_PRE_QWEN2:
        p->end = end_llama3(p->text, p->at, p->size, 1);
        break;
    case FR_PRE_LLAMA3:
        p->end = end_llama3(p->text, p->at, p->size, 3);
        break;
    case FR_PRE_SMOLLM:
        p->end = end_smollm(p);
        break;
    }
    return true;
}
