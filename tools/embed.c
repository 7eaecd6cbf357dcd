/* embed.c: turns the kernels into C at build time.
 *
 *     embed OUT_DIR kernels/a.wgsl kernels/lib/b.wgsl ...
 *
 * writes OUT_DIR/kernels_gen.h and kernels_gen.c: an array of (name, text), in order of name; the name is the path below kernels/ without
 * ".wgsl". Comments and indentation stay behind (they would be a third of the wasm), line ends do not: line n of a text is line n of its
 * file. One text more, "shared", comes from src/gpu/shared.def: the structs that the kernels and C have in common, as WGSL. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text {
    char *bytes; /* NUL-terminated once anything was added */
    size_t size, capacity;
} text;

typedef struct source {
    char *name;
    text wgsl;
} source;

static _Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void die(const char *format, ...)
{
    va_list args;
    fputs("embed: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static void text_add(text *t, const char *bytes, size_t size)
{
    if (t->size + size + 1 > t->capacity) {
        t->capacity = 2 * (t->size + size + 1);
        t->bytes = realloc(t->bytes, t->capacity);
        if (!t->bytes)
            die("out of memory");
    }
    memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
    t->bytes[t->size] = 0;
}

static void text_format(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void text_format(text *t, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof line)
        die("a line of more than %zu bytes: %.60s...", sizeof line, line);
    text_add(t, line, (size_t)n);
}

/* False: there is no such file. */
static bool text_read(text *t, const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    char block[4096];
    size_t n;
    text_add(t, "", 0);
    while ((n = fread(block, 1, sizeof block, f)) > 0)
        text_add(t, block, n);
    if (ferror(f))
        die("cannot read %s", path);
    fclose(f);
    return true;
}

/* WGSL has no strings, so a comment is a comment wherever it stands. Block comments nest. */
static void strip(const text *in, text *out, const char *path)
{
    int depth = 0;
    bool line_comment = false;
    size_t line_start = 0; /* in `out` */
    for (size_t i = 0; i < in->size; i++) {
        char c = in->bytes[i], next = in->bytes[i + 1]; /* the NUL behind the last */
        if (c == '\n') {
            while (out->size > line_start && (out->bytes[out->size - 1] == ' ' || out->bytes[out->size - 1] == '\t'))
                out->size--;
            text_add(out, "\n", 1);
            line_start = out->size;
            line_comment = false;
        } else if (line_comment || c == '\r') {
            continue;
        } else if (c == '/' && next == '*') {
            depth++, i++;
        } else if (depth > 0) {
            if (c == '*' && next == '/')
                depth--, i++;
        } else if (c == '/' && next == '/') {
            line_comment = true;
        } else if (out->size > line_start || (c != ' ' && c != '\t')) {
            text_add(out, &c, 1);
        }
    }
    if (depth)
        die("%s: a block comment is not closed", path);
    if (out->size > line_start)
        text_add(out, "\n", 1);
    text_add(out, "", 0);
}

static void source_load(source *s, const char *path)
{
    static const char folder[] = "kernels/", suffix[] = ".wgsl";
    size_t n = strlen(path), skip = sizeof folder - 1, tail = sizeof suffix - 1;
    if (n <= skip + tail || strncmp(path, folder, skip) || strcmp(path + n - tail, suffix))
        die("%s: expected a path of the form kernels/NAME.wgsl", path);
    text name = {0}, whole = {0};
    text_add(&name, path + skip, n - skip - tail);
    s->name = name.bytes;
    if (!text_read(&whole, path))
        die("cannot open %s", path);
    strip(&whole, &s->wgsl, path);
    free(whole.bytes);
}

/* src/gpu/shared.h makes the C structs of the same list. Counts are evaluated here, so they may be any constant expression. */
static void source_shared(source *s)
{
    text name = {0}, *t = &s->wgsl;
    text_format(&name, "shared");
    s->name = name.bytes;
#define FR_STRUCT_BEGIN(name) text_format(t, "struct %s {\n", #name);
#define FR_FIELD(type, name) text_format(t, "%s: %s,\n", #name, #type);
#define FR_FIELD_ARRAY(type, name, count) text_format(t, "%s: array<%s, %zu>,\n", #name, #type, (size_t)(count));
#define FR_STRUCT_END(name) text_format(t, "}\n");
#include "gpu/shared.def"
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const source *)a)->name, ((const source *)b)->name);
}

/* One literal a line. Octal escapes are three digits long, so what follows them cannot become part of them. */
static void emit_literal(text *out, const text *t)
{
    bool open = false;
    for (size_t i = 0; i < t->size; i++) {
        unsigned char c = (unsigned char)t->bytes[i];
        if (!open)
            text_format(out, "    \"");
        open = c != '\n';
        if (c == '\n')
            text_format(out, "\\n\"\n");
        else if (c == '"' || c == '\\' || c == '?') /* '?': trigraphs */
            text_format(out, "\\%c", c);
        else if (c < 0x20 || c > 0x7e)
            text_format(out, "\\%03o", c);
        else
            text_format(out, "%c", c);
    }
    if (!t->size)
        text_format(out, "    \"\"\n");
}

/* Leaves an equal file alone, so that nothing is built again for it. */
static void save(const char *dir, const char *file, const text *t)
{
    text path = {0}, old = {0};
    text_format(&path, "%s/%s", dir, file);
    if (!text_read(&old, path.bytes) || old.size != t->size || memcmp(old.bytes, t->bytes, t->size)) {
        FILE *f = fopen(path.bytes, "wb");
        bool written = f && fwrite(t->bytes, 1, t->size, f) == t->size;
        if (!f || fclose(f) || !written)
            die("cannot write %s", path.bytes);
    }
    free(path.bytes);
    free(old.bytes);
}

static void emit(const char *dir, const source *sources, size_t n)
{
    static const char note[] = "/* Made by tools/embed.c of kernels/ and src/gpu/shared.def. Edit those. */\n";
    text h = {0}, c = {0};
    text_format(&h, "%s#ifndef FR_KERNELS_GEN_H\n#define FR_KERNELS_GEN_H\n\n#include <stddef.h>\n\n", note);
    text_format(&h, "typedef struct fr_kernel_source {\n    const char *name; /* \"qkv\", \"lib/q4\" */\n    const char *text; /* WGSL */\n"
                    "} fr_kernel_source;\n\n");
    text_format(&h, "extern const fr_kernel_source fr_kernel_sources[]; /* in order of name */\n"
                    "extern const size_t fr_kernel_sources_count;\n\n#endif\n");
    /* C11 promises literals of 4095 bytes only, and -Wpedantic minds; the compilers we build with have no such limit. */
    text_format(&c, "%s#include \"kernels_gen.h\"\n\n#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n\n", note);
    text_format(&c, "const fr_kernel_source fr_kernel_sources[] = {\n");
    for (size_t i = 0; i < n; i++) {
        text_format(&c, "    {\"%s\",\n", sources[i].name);
        emit_literal(&c, &sources[i].wgsl);
        text_format(&c, "    },\n");
    }
    text_format(&c, "};\nconst size_t fr_kernel_sources_count = sizeof fr_kernel_sources / sizeof fr_kernel_sources[0];\n");
    save(dir, "kernels_gen.h", &h);
    save(dir, "kernels_gen.c", &c);
    free(h.bytes);
    free(c.bytes);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        die("usage: embed OUT_DIR kernels/NAME.wgsl...");
    size_t n = (size_t)argc - 1; /* the files, and "shared" in the place of OUT_DIR */
    source *sources = calloc(n, sizeof *sources);
    if (!sources)
        die("out of memory");
    source_shared(&sources[0]);
    for (size_t i = 1; i < n; i++)
        source_load(&sources[i], argv[i + 1]);
    qsort(sources, n, sizeof *sources, by_name);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(sources[i - 1].name, sources[i].name))
            die("two sources are named \"%s\"", sources[i].name);
    emit(argv[1], sources, n);
    for (size_t i = 0; i < n; i++) {
        free(sources[i].name);
        free(sources[i].wgsl.bytes);
    }
    free(sources);
    return 0;
}
