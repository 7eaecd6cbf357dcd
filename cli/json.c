#include "cli/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Length of the UTF-8 sequence at s, 0 if it is none (overlong forms, surrogates and what lies above U+10FFFF included). */
static size_t sequence(const unsigned char *s, size_t left)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xC0 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF8 ? 4 : 0;
    if (n < 2)
        return n;
    if (n > left)
        return 0;
    uint32_t c = s[0] & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3Fu);
    }
    return c < least[n] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000) ? 0 : n;
}

static void quoted(FILE *out, const char *bytes, size_t size)
{
    const unsigned char *s = (const unsigned char *)bytes;
    fputc('"', out);
    for (size_t i = 0, n; i < size; i += n ? n : 1) {
        n = sequence(s + i, size - i);
        if (n == 0)
            fputs("\\ufffd", out);
        else if (s[i] == '"' || s[i] == '\\')
            fprintf(out, "\\%c", s[i]);
        else if (s[i] == '\n')
            fputs("\\n", out);
        else if (s[i] < 0x20 || s[i] == 0x7F)
            fprintf(out, "\\u%04x", s[i]);
        else
            fwrite(s + i, 1, n, out);
    }
    fputc('"', out);
}

static void begin(fr_json *j, const char *key)
{
    if (j->comma)
        fputc(',', j->out);
    j->comma = true;
    if (key) {
        quoted(j->out, key, strlen(key));
        fputc(':', j->out);
    }
}

void fr_json_open(fr_json *j, const char *key, char bracket)
{
    begin(j, key);
    fputc(bracket, j->out);
    j->comma = false;
}

void fr_json_close(fr_json *j, char bracket)
{
    fputc(bracket, j->out);
    j->comma = true;
}

void fr_json_bytes(fr_json *j, const char *key, const char *bytes, size_t size)
{
    begin(j, key);
    quoted(j->out, bytes, size);
}

void fr_json_text(fr_json *j, const char *key, const char *text)
{
    fr_json_bytes(j, key, text, strlen(text));
}

void fr_json_count(fr_json *j, const char *key, uint64_t value)
{
    begin(j, key);
    fprintf(j->out, "%" PRIu64, value);
}

void fr_json_bool(fr_json *j, const char *key, bool value)
{
    begin(j, key);
    fputs(value ? "true" : "false", j->out);
}

void fr_json_number(fr_json *j, const char *key, double value)
{
    begin(j, key);
    if (isfinite(value))
        fprintf(j->out, "%.3f", value);
    else
        fputs("null", j->out);
}
