/* test_model.c: the default model against PyTorch in fp32 on the same file (tools/golden_model.py, doc/accuracy.md). */
#include "cli/drive.h"
#include "test/test.h"

enum { MAX_SEQUENCES = 16 };

typedef struct sequence {
    char name[32];
    size_t n;
    uint32_t *ids, *top; /* what PyTorch predicts after each id */
    float *margin;       /* by how much */
} sequence;

typedef struct tally {
    size_t n, equal;           /* positions, and those with PyTorch's token */
    size_t n_clear, n_clear_equal; /* of them with a margin of 1 or more */
} tally;

static size_t read_golden(sequence *sequences)
{
    char path[4096], line[256];
    size_t n = 0, at = 0;
    snprintf(path, sizeof path, "%s/golden/model_smollm2.txt", test_dir());
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

static void score(fr_drive *d, const sequence *s, tally *all)
{
    fr_error_text err = {0};
    tally t = {0};
    uint32_t *top = calloc(s->n, sizeof *top);
    CHECK(top);
    CHECK_MSG(fr_score(d->engine, s->ids, s->n, top, NULL) == FR_OK, "%s: %s", s->name, fr_error(d->engine));
    CHECK_MSG(fr_drive_wait(d, NULL, NULL, &err) == FR_OK, "%s: %s", s->name, err.text);
    for (size_t i = 0; i < s->n; i++) {
        bool equal = top[i] == s->top[i], clear = s->margin[i] >= 1;
        t.n++;
        t.equal += equal;
        t.n_clear += clear;
        t.n_clear_equal += clear && equal;
        if (!equal)
            printf("  %s, position %zu: %u, PyTorch %u by %.3f\n", s->name, i, top[i], s->top[i], (double)s->margin[i]);
    }
    printf("  %-12s %zu of %zu as PyTorch, %zu of %zu with margin 1\n", s->name, t.equal, t.n, t.n_clear_equal, t.n_clear);
    free(top);
    all->n += t.n;
    all->equal += t.equal;
    all->n_clear += t.n_clear;
    all->n_clear_equal += t.n_clear_equal;
}

static void top1_as_pytorch(void)
{
    sequence sequences[MAX_SEQUENCES];
    fr_error_text err = {0};
    fr_drive drive;
    fr_options options = {.context = 512};
    tally all = {0};
    if (!test_model()[0])
        test_skip("the default model is not in the cache; make model fetches it");
    size_t n = read_golden(sequences);
    CHECK_MSG(fr_drive_open(&drive, test_model(), NULL, &options, false, &err) == FR_OK, "%s", err.text);
    for (size_t i = 0; i < n; i++)
        score(&drive, &sequences[i], &all);
    fr_drive_close(&drive);
    free_golden(sequences, n);
    printf("  all: %zu of %zu as PyTorch (%.2f %%), %zu of %zu with margin 1\n", all.equal, all.n,
           100.0 * (double)all.equal / (double)all.n, all.n_clear_equal, all.n_clear);
    CHECK_MSG(all.n >= 512, "only %zu positions", all.n);
    CHECK_MSG(100 * all.equal >= 97 * all.n, "%zu of %zu positions have PyTorch's token, 97 %% are wanted", all.equal, all.n);
    CHECK_MSG(all.n_clear_equal == all.n_clear, "%zu of %zu positions with margin 1 have PyTorch's token", all.n_clear_equal, all.n_clear);
}

const fr_test model_tests[] = {
    {"model.top1_as_pytorch", "the default model predicts PyTorch's fp32 tokens, always where the margin is 1 or more", top1_as_pytorch},
    {0},
};
