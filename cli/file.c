#include "cli/file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/drive.h"

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
    *f = (fr_file){0};
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

/* ---- the tokenizer, over the file's arrays ---- */

static const char *item(void *user, const char *key, size_t i, size_t *size)
{
    gguf_string s = gguf_array_str(user, key, i);
    *size = s.size;
    return s.data;
}

static const char *token_text(void *user, size_t i, size_t *size)
{
    return item(user, "tokenizer.ggml.tokens", i, size);
}
static const char *merge_text(void *user, size_t i, size_t *size)
{
    return item(user, "tokenizer.ggml.merges", i, size);
}
static int token_type(void *user, size_t i)
{
    return (int)gguf_array_int(user, "tokenizer.ggml.token_type", i);
}

static size_t array_count(const gguf_meta *meta, const char *key)
{
    gguf_type type;
    size_t count;
    return gguf_array(meta, key, &type, &count) ? count : 0;
}

fr_tokenizer *fr_file_tokenizer(const fr_file *f, fr_error_text *err)
{
    const gguf_meta *meta = fr_loader_meta(f->loader);
    gguf_string model = {"", 0}, pre = {"", 0};
    char name[64];
    fr_vocab_source source = {.user = (void *)(uintptr_t)meta, .token = token_text, .merge = merge_text, .pre = name};
    gguf_str(meta, "tokenizer.ggml.model", &model);
    gguf_str(meta, "tokenizer.ggml.pre", &pre);
    snprintf(name, sizeof name, "%.*s", (int)(pre.size < 63 ? pre.size : 63), pre.data);
    if (model.size != 4 || memcmp(model.data, "gpt2", 4)) {
        fr_fail(err, FR_BAD_MODEL, "tokenizer \"%.*s\" is not supported; only byte-level BPE (\"gpt2\") is",
                (int)(model.size < 40 ? model.size : 40), model.data);
        return NULL;
    }
    source.n_tokens = array_count(meta, "tokenizer.ggml.tokens");
    source.n_merges = array_count(meta, "tokenizer.ggml.merges");
    if (array_count(meta, "tokenizer.ggml.token_type") == source.n_tokens)
        source.type = token_type;
    source.bos = source.eos = source.eot = UINT32_MAX;
    gguf_u32(meta, "tokenizer.ggml.bos_token_id", &source.bos);
    gguf_u32(meta, "tokenizer.ggml.eos_token_id", &source.eos);
    gguf_u32(meta, "tokenizer.ggml.eot_token_id", &source.eot);
    gguf_bool(meta, "tokenizer.ggml.add_bos_token", &source.add_bos);
    return fr_tokenizer_new(&source, err);
}
