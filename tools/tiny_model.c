/* tiny_model: writes a GGUF model with random weights. See usage below and tiny_model.h. */
#include "tools/tiny_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: tiny_model --out FILE [option VALUE]... [--untied] [--rope-factors]\n"
                            "  --shape NAME      of a real model, and its name: SmolLM2-135M, Qwen2.5-0.5B, -1.5B, -3B, -7B,\n"
                            "                    Llama-3.2-1B, -3B, Llama-3.1-8B; further options change it\n"
                            "  --arch A          llama, qwen2\n"
                            "  --layers --dim --heads --kv-heads --head-dim --ffn --vocab --context N\n"
                            "  --type T          of the matrices: f32, f16, bf16, q4_0, q4_1, q8_0, q6_k\n"
                            "  --head-type --v-type --up-type T   of the embedding and output, attn_v, ffn_up; as --type\n"
                            "  --tied --untied   share embedding and output, or not\n"
                            "  --rope-factors    with a rope_freqs.weight tensor\n"
                            "  --pre NAME        pre-tokenizer, as in tokenizer.ggml.pre\n"
                            "  --seed N\n";

typedef struct arguments {
    tiny_model model;
    const char *out;
} arguments;

static bool set_text(arguments *a, const char *option, const char *value)
{
    const struct {
        const char *option;
        const char **to;
    } texts[] = {{"--out", &a->out},
                 {"--arch", &a->model.arch},
                 {"--type", &a->model.type},
                 {"--head-type", &a->model.head_type},
                 {"--v-type", &a->model.v_type},
                 {"--up-type", &a->model.up_type},
                 {"--pre", &a->model.pre}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(texts[i].option, option)) {
            *texts[i].to = value;
            return true;
        }
    return !strcmp(option, "--shape") && tiny_model_shape(&a->model, value);
}

static bool set_number(arguments *a, const char *option, const char *value)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(value, &end, 10);
    if (errno || *end || end == value || *value == '-')
        return false;
    if (!strcmp(option, "--seed")) {
        a->model.seed = n;
        return true;
    }
    tiny_model *m = &a->model;
    const struct {
        const char *option;
        uint32_t *to;
    } numbers[] = {{"--layers", &m->layers},     {"--dim", &m->dim}, {"--heads", &m->heads}, {"--kv-heads", &m->kv_heads},
                   {"--head-dim", &m->head_dim}, {"--ffn", &m->ffn}, {"--vocab", &m->vocab}, {"--context", &m->context}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(numbers[i].option, option)) {
            *numbers[i].to = (uint32_t)n;
            return n <= UINT32_MAX;
        }
    return false;
}

static bool set_flag(arguments *a, const char *option)
{
    if (!strcmp(option, "--tied"))
        a->model.untied = false;
    else if (!strcmp(option, "--untied"))
        a->model.untied = true;
    else if (!strcmp(option, "--rope-factors"))
        a->model.rope_factors = true;
    else
        return false;
    return true;
}

static bool write_file(void *user, const void *bytes, size_t size)
{
    return fwrite(bytes, 1, size, user) == size;
}

int main(int argc, char **argv)
{
    arguments a = {0};
    for (int i = 1; i < argc; i++) {
        bool taken = set_flag(&a, argv[i]);
        if (!taken && i + 1 < argc) {
            taken = set_text(&a, argv[i], argv[i + 1]) || set_number(&a, argv[i], argv[i + 1]);
            i++;
        }
        if (!taken) {
            fprintf(stderr, "tiny_model: bad option %s\n%s", argv[i], usage);
            return 2;
        }
    }
    FILE *f = a.out ? fopen(a.out, "wb") : NULL;
    if (!f) {
        fprintf(stderr, a.out ? "tiny_model: cannot write %s\n" : "tiny_model: --out is missing\n%s", a.out ? a.out : usage);
        return 2;
    }
    const char *why = tiny_model_write(&a.model, write_file, f);
    if (fclose(f) && !why)
        why = "the file could not be closed";
    if (why) {
        remove(a.out);
        fprintf(stderr, "tiny_model: %s: %s\n", a.out, why);
        return 1;
    }
    return 0;
}
