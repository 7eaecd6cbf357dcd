#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/verbs.h"

enum { FR_TEXT_MAX = 64 << 20 };

fr_status fr_text_append(fr_text *t, const char *bytes, size_t size, fr_error_text *err)
{
    if (size >= t->room - t->size || !t->data) {
        size_t room = 2 * (t->size + size) + 1;
        char *data = realloc(t->data, room);
        if (!data)
            return fr_fail(err, FR_FAILED, "out of memory for a text of %zu bytes", t->size + size);
        t->data = data;
        t->room = room;
    }
    if (size)
        memcpy(t->data + t->size, bytes, size);
    t->size += size;
    t->data[t->size] = 0;
    return FR_OK;
}

void fr_text_free(fr_text *t)
{
    free(t->data);
    *t = (fr_text){0};
}

static fr_status read_stream(fr_text *t, FILE *in, const char *name, fr_error_text *err)
{
    char piece[1 << 14];
    size_t n, start = t->size;
    fr_status status = fr_text_append(t, "", 0, err);
    while (status == FR_OK && (n = fread(piece, 1, sizeof piece, in)) > 0)
        status = t->size - start + n > FR_TEXT_MAX ? fr_fail(err, FR_BAD_ARGUMENT, "%s is larger than 64 MiB; is it a text?", name)
                                                   : fr_text_append(t, piece, n, err);
    if (status == FR_OK && ferror(in))
        status = fr_fail(err, FR_BAD_ARGUMENT, "%s: %s; give a text file", name, strerror(errno));
    if (status == FR_OK && t->size > start && memchr(t->data + start, 0, t->size - start))
        status = fr_fail(err, FR_BAD_ARGUMENT, "%s has a NUL byte in it; is it a text?", name);
    return status;
}

fr_status fr_text_read(fr_text *t, const char *path, fr_error_text *err)
{
    if (!strcmp(path, "-"))
        return read_stream(t, stdin, "standard input", err);
    FILE *in = fopen(path, "rb");
    if (!in)
        return fr_fail(err, FR_BAD_ARGUMENT, "%s: %s; give the path of a text file", path, strerror(errno));
    fr_status status = read_stream(t, in, path, err);
    fclose(in);
    return status;
}

fr_status fr_text_prompt(fr_text *t, const char *prompt, const char *file, fr_error_text *err)
{
    if (prompt && file)
        return fr_fail(err, FR_BAD_ARGUMENT, "-p and -f exclude each other; give one of them");
    if (prompt)
        return fr_text_append(t, prompt, strlen(prompt), err);
    if (!file && isatty(STDIN_FILENO))
        return fr_fail(err, FR_BAD_ARGUMENT, "no text; give -p TEXT, -f FILE, or a text on standard input");
    return fr_text_read(t, file ? file : "-", err);
}

fr_status fr_flush(fr_error_text *err)
{
    if (fflush(stdout) || ferror(stdout))
        return fr_fail(err, FR_FAILED, "can't write to standard output: %s", strerror(errno));
    return FR_OK;
}
