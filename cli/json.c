#include "cli/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/utf8.h"

static void quoted(FILE *out, const char *bytes, size_t size)
{
    const unsigned char *s = (const unsigned char *)bytes;
    fputc('"', out);
    for (size_t i = 0, n; i < size; i += n) {
        uint32_t code;
        n = fr_utf8_read(s + i, size - i, &code);
        if (code & FR_CODE_BYTE)
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

/* Four hexadecimal digits behind a "\\u" at s; UINT32_MAX: there are none. */
static uint32_t unit(const char *s, const char *end)
{
    uint32_t code = 0;
    if (end - s < 6 || s[0] != '\\' || s[1] != 'u')
        return UINT32_MAX;
    for (int i = 2; i < 6; i++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *digit = s[i] ? strchr(digits, s[i]) : NULL;
        if (!digit)
            return UINT32_MAX;
        code = 16 * code + (uint32_t)(digit - digits) % 16;
    }
    return code;
}

bool fr_json_unescape(char *out, const char *written, size_t size)
{
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *end = written + size;
    for (const char *s = written; s < end;) {
        if (*s != '\\') {
            *out++ = *s++;
            continue;
        }
        const char *name = end - s > 1 && s[1] ? strchr(names, s[1]) : NULL;
        if (name) {
            *out++ = meanings[name - names];
            s += 2;
            continue;
        }
        uint32_t code = unit(s, end);
        if (code == UINT32_MAX)
            return false;
        s += 6;
        const uint32_t low = code - 0xd800 < 0x400 ? unit(s, end) : 0;
        if (low - 0xdc00 < 0x400) {
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            s += 6;
        }
        if (!code || code - 0xd800 < 0x800)
            code = 0xfffd;
        out += fr_utf8_write((uint8_t *)out, code);
    }
    *out = 0;
    return true;
}
