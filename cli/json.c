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
