/* test_model.c: models against PyTorch in fp32 on the same files (tools/golden_model.py, doc/accuracy.md). */
#include "cli/drive.h"
#include "test/test.h"
#include "tools/tiny_model.h"

enum {
    MAX_SEQUENCES = 16,
    MOST = 192 /* positions of a sequence: six chunks of attention; 521 in all, which a CPU adapter takes minutes for */
};

typedef struct sequence {
    char name[32];
    size_t n;
    uint32_t *ids, *top; /* what PyTorch predicts after each id */
    float *margin;       /* by how much */
} sequence;

typedef struct tally {
    size_t n, equal;           /* positions, and those with PyTorch's token */
    size_t n_clear, n_clear_equal; /* of them with a clear margin */
} tally;

static size_t read_golden(const char *name, sequence *sequences)
{
    char path[4096], line[256];
    size_t n = 0, at = 0;
    snprintf(path, sizeof path, "%s/golden/%s", test_dir(), name);
    FILE *in = fopen(path, "r");
    CHECK_MSG(in, "can't open %s", path);
    while (fgets(line, sizeof line, in)) {
        sequence *s = n ? &sequences[n - 1] : NULL;
        if (line[0] == '#') {
            continue;
        } else if (line[0] == 's') {
            CHECK(n < MAX_SEQUENCES && (!s || at == s->n));
            s = &sequences[n++];
            CHECK(sscanf(line, "sequence %31s %zu", s->name, &s->n) == 2 && s->n > 0);
            s->ids = calloc(s->n, sizeof *s->ids);
            s->top = calloc(s->n, sizeof *s->top);
            s->margin = calloc(s->n, sizeof *s->margin);
            CHECK(s->ids && s->top && s->margin);
            at = 0;
        } else {
            CHECK(s && at < s->n);
            CHECK(sscanf(line, "%u %u %f", &s->ids[at], &s->top[at], &s->margin[at]) == 3);
            at++;
        }
    }
    fclose(in);
    CHECK(n > 0 && at == sequences[n - 1].n);
    return n;
}

static void free_golden(sequence *sequences, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(sequences[i].ids);
        free(sequences[i].top);
        free(sequences[i].margin);
    }
}

static void score(fr_drive *d, const sequence *s, float clear_margin, tally *all)
{
    fr_error_text err = {0};
    tally t = {0};
    const size_t n = s->n < MOST ? s->n : MOST;
    uint32_t *top = calloc(n, sizeof *top);
    CHECK(top);
    CHECK_MSG(fr_score(d->engine, s->ids, n, top, NULL) == FR_OK, "%s: %s", s->name, fr_error(d->engine));
    CHECK_MSG(fr_drive_wait(d, NULL, NULL, &err) == FR_OK, "%s: %s", s->name, err.text);
    for (size_t i = 0; i < n; i++) {
        bool equal = top[i] == s->top[i], clear = s->margin[i] >= clear_margin;
        t.n++;
        t.equal += equal;
        t.n_clear += clear;
        t.n_clear_equal += clear && equal;
        if (!equal)
            printf("  %s, position %zu: %u, PyTorch %u by %.3f\n", s->name, i, top[i], s->top[i], (double)s->margin[i]);
    }
    printf("  %-12s %zu of %zu as PyTorch, %zu of %zu with a margin of %.1f\n", s->name, t.equal, t.n, t.n_clear_equal, t.n_clear,
           (double)clear_margin);
    free(top);
    all->n += t.n;
    all->equal += t.equal;
    all->n_clear += t.n_clear;
    all->n_clear_equal += t.n_clear_equal;
}

static void check(const tally *t, size_t percent)
{
    CHECK_MSG(100 * t->equal >= percent * t->n, "%zu of %zu positions have PyTorch's token, %zu %% are wanted", t->equal, t->n, percent);
    CHECK_MSG(t->n_clear_equal == t->n_clear, "%zu of %zu positions with a clear margin have PyTorch's token", t->n_clear_equal,
              t->n_clear);
}

static void default_as_pytorch(void)
{
    sequence sequences[MAX_SEQUENCES];
    fr_error_text err = {0};
    fr_drive drive;
    fr_options options = {.context = 512};
    tally all = {0};
    if (!test_model()[0])
        test_skip("the default model is not in the cache; make model fetches it");
    size_t n = read_golden("model_smollm2.txt", sequences);
    CHECK_MSG(fr_drive_open(&drive, test_model(), NULL, &options, false, &err) == FR_OK, "%s", err.text);
    for (size_t i = 0; i < n; i++)
        score(&drive, &sequences[i], 1, &all);
    fr_drive_close(&drive);
    free_golden(sequences, n);
    printf("  all: %zu of %zu as PyTorch (%.2f %%), %zu of %zu with a margin of 1\n", all.equal, all.n,
           100.0 * (double)all.equal / (double)all.n, all.n_clear_equal, all.n_clear);
    CHECK_MSG(all.n >= 512, "only %zu positions", all.n);
    check(&all, 97);
}

/* The options of TINY in tools/golden_model.py. */
static const struct {
    const char *name;
    tiny_model model;
} tiny_models[] = {
    {"qwen2",
     {.arch = "qwen2",
      .layers = 4,
      .dim = 128,
      .heads = 4,
      .kv_heads = 2,
      .ffn = 352,
      .type = "q4_0",
      .head_type = "q8_0",
      .untied = true,
      .seed = 7}},
    {"llama_mixed",
     {.arch = "llama",
      .layers = 3,
      .dim = 256,
      .heads = 8,
      .kv_heads = 2,
      .ffn = 512,
      .type = "q6_k",
      .v_type = "q4_1",
      .untied = true,
      .seed = 9}},
};

static void open_tiny(fr_drive *drive, const char *name)
{
    char path[4096];
    const tiny_model *model = NULL;
    fr_error_text err = {0};
    for (size_t i = 0; i < sizeof tiny_models / sizeof *tiny_models; i++)
        if (!strcmp(tiny_models[i].name, name))
            model = &tiny_models[i].model;
    CHECK_MSG(model, "no model \"%s\" here", name);
    size_t size;
    uint8_t *bytes = tiny_model_bytes(model, &size);
    CHECK(bytes);
    snprintf(path, sizeof path, "%s/%s.gguf", test_scratch(), name);
    FILE *out = fopen(path, "wb");
    CHECK(out && fwrite(bytes, 1, size, out) == size && fclose(out) == 0);
    free(bytes);
    CHECK_MSG(fr_drive_open(drive, path, NULL, NULL, false, &err) == FR_OK, "%s", err.text);
}

/* Random weights leave small margins, so fewer positions than in a real model are decided; int8 moves logits by about 0.1 there. */
static void random_as_pytorch(void)
{
    sequence sequences[MAX_SEQUENCES];
    size_t n = read_golden("model_tiny.txt", sequences);
    CHECK(n == sizeof tiny_models / sizeof *tiny_models);
    for (size_t i = 0; i < n; i++) {
        fr_drive drive;
        tally t = {0};
        open_tiny(&drive, sequences[i].name);
        score(&drive, &sequences[i], 0.5F, &t);
        fr_drive_close(&drive);
        check(&t, 90);
    }
    free_golden(sequences, n);
}

const fr_test model_tests[] = {
    {"model.random_as_pytorch", "small models of other families and types predict PyTorch's fp32 tokens", random_as_pytorch},
    {"model.default_as_pytorch", "the default model predicts PyTorch's fp32 tokens, always where the margin is 1 or more",
     default_as_pytorch},
    {0},
};
