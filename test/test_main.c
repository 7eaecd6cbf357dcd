/* test_main.c: runs the tests of every area and prints a line for each; the last line is "N passed, N failed, N skipped". */
#include "test/harness.h"

#include <time.h>

enum { LIMIT_SECONDS = 1200, MAX_ONLY = 64 };

typedef struct options {
    const char *only[MAX_ONLY];
    size_t n_only;
    bool list, no_gpu, no_fork;
} options;

static const char usage[] = "usage: test [--list] [--only NAME]... [--no-gpu] [--no-fork]\n"
                            "  --list     print the tests' names and what they show, run none\n"
                            "  --only     tests whose name begins with NAME: an area (\"gguf\") or a test (\"gguf.every_chunk_size\")\n"
                            "  --no-gpu   leave out the areas that open a WebGPU device\n"
                            "  --no-fork  all in this process, for a debugger\n";

static bool parse(int argc, char **argv, options *o)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--list"))
            o->list = true;
        else if (!strcmp(argv[i], "--no-gpu"))
            o->no_gpu = true;
        else if (!strcmp(argv[i], "--no-fork"))
            o->no_fork = true;
        else if (!strcmp(argv[i], "--only") && i + 1 < argc && o->n_only < MAX_ONLY)
            o->only[o->n_only++] = argv[++i];
        else
            return false;
    }
    return true;
}

static bool selected(const options *o, const char *name)
{
    for (size_t i = 0; i < o->n_only; i++)
        if (!strncmp(name, o->only[i], strlen(o->only[i])))
            return true;
    return o->n_only == 0;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run_one(const fr_test *t, const options *o, unsigned counts[3])
{
    static const char *const words[] = {[TEST_PASSED] = "ok", [TEST_FAILED] = "FAILED", [TEST_SKIPPED] = "skipped"};
    if (o->list) {
        printf("%-40s %s\n", t->name, t->what);
        return;
    }
    double start = seconds();
    fr_test_result result = harness_run(t, !o->no_fork, LIMIT_SECONDS);
    counts[result]++;
    printf("%-7s %s: %s (%.1f s)\n", words[result], t->name, t->what, seconds() - start);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    options o = {0};
    if (!parse(argc, argv, &o)) {
        fputs(usage, stderr);
        return 2;
    }
    unsigned counts[3] = {0}, chosen = 0;
    for (const fr_test_area *a = fr_test_areas; a->name; a++) {
        if (o.no_gpu && a->gpu)
            continue;
        for (const fr_test *t = a->tests; t->name; t++) {
            if (!selected(&o, t->name))
                continue;
            chosen++;
            run_one(t, &o, counts);
        }
    }
    if (!chosen) {
        fputs("test: no test has such a name; --list prints them\n", stderr);
        return 2;
    }
    if (!o.list)
        printf("%u passed, %u failed, %u skipped\n", counts[TEST_PASSED], counts[TEST_FAILED], counts[TEST_SKIPPED]);
    return counts[TEST_FAILED] != 0;
}
