#include "load/vocabulary.h"

#include <string.h>

#include "base/line.h"

static gguf_string token_text(const gguf_meta *m, size_t i)
{
    return gguf_array_str(m, "tokenizer.ggml.tokens", i);
}

static const char *source_token(void *user, size_t i, size_t *size)
{
    const gguf_string s = token_text(user, i);
    *size = s.size;
    return s.data;
}

static int source_type(void *user, size_t i)
{
    return (int)gguf_array_int(user, "tokenizer.ggml.token_type", i);
}

static const char *source_merge(void *user, size_t i, size_t *size)
{
    const gguf_string s = gguf_array_str(user, "tokenizer.ggml.merges", i);
    *size = s.size;
    return s.data;
}

static uint32_t id_or_none(const gguf_meta *m, const char *key)
{
    uint32_t id;
    return gguf_u32(m, key, &id) ? id : UINT32_MAX;
}

fr_tokenizer *fr_vocabulary_read(const gguf_meta *m, fr_error_text *e)
{
    gguf_string model = {0}, pre = {0};
    char model_name[32] = "", pre_name[32] = "";
    if (gguf_str(m, "tokenizer.ggml.model", &model))
        fr_line_copy(model_name, sizeof model_name, model.data, model.size);
    if (strcmp(model_name, "gpt2")) {
        fr_fail(e, FR_BAD_MODEL, "tokenizer \"%s\" is not supported: use a model with byte-level BPE (tokenizer.ggml.model = gpt2)",
                model_name);
        return NULL;
    }
    if (gguf_str(m, "tokenizer.ggml.pre", &pre))
        fr_line_copy(pre_name, sizeof pre_name, pre.data, pre.size);
    gguf_type type;
    fr_vocab_source s = {.user = (void *)(uintptr_t)m, .token = source_token, .merge = source_merge, .pre = pre_name};
    if (!gguf_array(m, "tokenizer.ggml.tokens", &type, &s.n_tokens) || type != GGUF_STRING ||
        !gguf_array(m, "tokenizer.ggml.merges", &type, &s.n_merges) || type != GGUF_STRING) {
        fr_fail(e, FR_BAD_MODEL,
                "the file has no vocabulary (tokenizer.ggml.tokens and tokenizer.ggml.merges): convert the model again with its tokenizer");
        return NULL;
    }
    size_t n_types = 0;
    if (gguf_array(m, "tokenizer.ggml.token_type", &type, &n_types)) {
        if (n_types != s.n_tokens || type == GGUF_STRING || type == GGUF_F32) {
            fr_fail(e, FR_BAD_MODEL,
                    "tokenizer.ggml.token_type does not give one number for each of the %zu tokens: the file is damaged or a failed "
                    "conversion",
                    s.n_tokens);
            return NULL;
        }
        s.type = source_type;
    }
    s.bos = id_or_none(m, "tokenizer.ggml.bos_token_id");
    s.eos = id_or_none(m, "tokenizer.ggml.eos_token_id");
    s.eot = id_or_none(m, "tokenizer.ggml.eot_token_id");
    bool add_bos;
    if (gguf_bool(m, "tokenizer.ggml.add_bos_token", &add_bos))
        s.add_bos = add_bos ? FR_BOS_YES : FR_BOS_NO;
    return fr_tokenizer_new(&s, e);
}
