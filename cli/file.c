#include "cli/file.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "cli/drive.h"
#include "load/vocabulary.h"

enum { FR_PIECE = 1 << 20 };
/* Where weights would go does not matter here; a pool as large as a usual GPU's binding lets any model through. */
static const uint64_t pool_bytes = (UINT64_C(1) << 31) - 4;

static fr_status plan_nothing(void *user, const fr_config *config, const fr_weights *weights, const gguf_meta *meta, fr_error_text *err)
{
    (void)user, (void)config, (void)weights, (void)meta, (void)err;
    return FR_OK;
}

static bool discard(void *user, uint32_t buffer, uint64_t offset, const void *bytes, size_t size)
{
    (void)user, (void)buffer, (void)offset, (void)bytes, (void)size;
    return true;
}

static fr_status read_header(fr_file *f, FILE *in, fr_error_text *err)
{
    char *piece = malloc(FR_PIECE);
    if (!piece)
        return fr_fail(err, FR_FAILED, "out of memory reading the model");
    fr_status status = FR_OK;
    size_t n, used;
    while (status == FR_OK && !fr_loader_expected_bytes(f->loader) && (n = fread(piece, 1, FR_PIECE, in)) > 0)
        status = fr_loader_feed(f->loader, piece, n, &used, err);
    free(piece);
    bool done;
    if (status == FR_OK && !fr_loader_expected_bytes(f->loader)) { /* the file ended in its header */
        status = fr_loader_end(f->loader, &done, err);
        if (status == FR_OK)
            status = fr_fail(err, FR_BAD_MODEL, "the file ends within its header; download it again");
    }
    return status;
}

/* The error with the file's name in front. */
static fr_status named(const char *path, const fr_error_text *inner, fr_error_text *err)
{
    return fr_fail(err, inner->status, "%s: %s", path, inner->text);
}

fr_status fr_file_open(fr_file *f, const char *path, fr_error_text *err)
{
    static const fr_sink nowhere = {NULL, plan_nothing, discard};
    fr_error_text inner = {0};
    struct stat facts;
    *f = (fr_file){.path = path};
    FILE *in = fr_model_open(path, err);
    if (!in)
        return err->status;
    if (fstat(fileno(in), &facts) == 0 && S_ISREG(facts.st_mode))
        f->bytes = (uint64_t)facts.st_size;
    f->loader = fr_loader_new(&nowhere, pool_bytes);
    fr_status status = f->loader ? read_header(f, in, &inner) : fr_fail(&inner, FR_FAILED, "out of memory");
    fclose(in);
    uint64_t expected = f->loader ? fr_loader_expected_bytes(f->loader) : 0;
    if (status == FR_OK && f->bytes && f->bytes < expected)
        status = fr_fail(&inner, FR_BAD_MODEL, "truncated: it has %llu of %llu bytes; download it again", (unsigned long long)f->bytes,
                         (unsigned long long)expected);
    if (status == FR_OK)
        return FR_OK;
    fr_file_close(f);
    return named(path, &inner, err);
}

void fr_file_close(fr_file *f)
{
    if (f->loader)
        fr_loader_free(f->loader);
    *f = (fr_file){0};
}

fr_tokenizer *fr_file_tokenizer(const fr_file *f, fr_error_text *err)
{
    fr_error_text inner = {0};
    fr_tokenizer *tokenizer = fr_vocabulary_read(fr_loader_meta(f->loader), &inner);
    if (!tokenizer)
        named(f->path, &inner, err);
    return tokenizer;
}
