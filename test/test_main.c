/* test_main.c: runs the tests of every area and prints a line for each; the last line is "N passed, N failed, N skipped". */
#include "test/harness.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_SECONDS = 1200, MAX_ONLY = 64, MAX_JOBS = 16, MAX_TESTS = 1024 };

/* What the jobs share. */
typedef struct board {
    atomic_uint next, counts[3];
} board;

/* Tests that run in one place: one alone, or those of a group. */
typedef struct unit {
    const fr_test *const *tests;
    unsigned n;
    const char *group;
} unit;

typedef struct options {
    const char *only[MAX_ONLY];
    size_t n_only;
    bool list, no_gpu, no_fork;
    unsigned jobs;
} options;

static const char usage[] = "usage: test [--list] [--only NAME]... [--no-gpu] [--no-fork] [--jobs N]\n"
                            "  --list     print the tests' names and what they show, run none\n"
                            "  --only     tests whose name begins with NAME: an area (\"gguf\") or a test (\"gguf.every_chunk_size\")\n"
                            "  --no-gpu   leave out the areas that open a WebGPU device\n"
                            "  --no-fork  all in this process, for a debugger\n"
                            "  --jobs     so many tests at a time, each with its output in one piece\n";

static bool parse(int argc, char **argv, options *o)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--list"))
            o->list = true;
        else if (!strcmp(argv[i], "--no-gpu"))
            o->no_gpu = true;
        else if (!strcmp(argv[i], "--no-fork"))
            o->no_fork = true;
        else if (!strcmp(argv[i], "--jobs") && i + 1 < argc && atoi(argv[i + 1]) >= 1 && atoi(argv[i + 1]) <= MAX_JOBS)
            o->jobs = (unsigned)atoi(argv[++i]);
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

static fr_test_result run_test(harness_child *child, const fr_test *t, const options *o)
{
    return o->no_fork ? harness_run(t, false, LIMIT_SECONDS) : harness_run_in(child, t, LIMIT_SECONDS);
}

/* Runs one test and prints its line. The last one of a unit also answers for the end of the child. */
static void run_one(harness_child *child, const fr_test *t, bool last, const options *o, board *b)
{
    static const char *const words[] = {[TEST_PASSED] = "ok", [TEST_FAILED] = "FAILED", [TEST_SKIPPED] = "skipped"};
    double start = seconds();
    fr_test_result result = run_test(child, t, o);
    if (last && !harness_end(child, LIMIT_SECONDS))
        result = TEST_FAILED;
    atomic_fetch_add(&b->counts[result], 1);
    printf("%-7s %s: %s (%.1f s)\n", words[result], t->name, t->what, seconds() - start);
    fflush(stdout);
}

static void run_unit(const unit *u, const options *o, board *b, void (*done)(void))
{
    harness_child child = {0};
    for (unsigned i = 0; i < u->n; i++) {
        run_one(&child, u->tests[i], i + 1 == u->n, o, b);
        if (done)
            done();
    }
}

/* A job's output is kept in a file until a test is done. Its children write there as well. */
static FILE *kept;
static int true_out;

static void keep_output(void)
{
    kept = tmpfile();
    true_out = dup(STDOUT_FILENO);
    if (!kept || true_out < 0 || dup2(fileno(kept), STDOUT_FILENO) < 0 || dup2(fileno(kept), STDERR_FILENO) < 0) {
        perror("test: the output of a job");
        exit(1);
    }
}

/* In one piece, up to what a pipe takes at once. */
static void show_output(void)
{
    static char all[1 << 20];
    size_t size = 0;
    ssize_t n;
    lseek(fileno(kept), 0, SEEK_SET);
    while (size < sizeof all && (n = read(fileno(kept), all + size, sizeof all - size)) > 0)
        size += (size_t)n;
    for (size_t at = 0; at < size && (n = write(true_out, all + at, size - at)) > 0; at += (size_t)n)
        ;
    lseek(fileno(kept), 0, SEEK_SET);
    if (ftruncate(fileno(kept), 0) < 0)
        perror("test: the output of a job");
}

/* Jobs take the next unit from the board until there is none. */
static bool run_jobs(const unit *units, unsigned n, const options *o, board *b)
{
    pid_t jobs[MAX_JOBS];
    bool good = true;
    fflush(stdout);
    for (unsigned k = 0; k < o->jobs; k++) {
        jobs[k] = fork();
        if (jobs[k] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            keep_output();
            for (unsigned i; (i = atomic_fetch_add(&b->next, 1)) < n;)
                run_unit(&units[i], o, b, show_output);
            exit(0);
        }
    }
    for (unsigned k = 0; k < o->jobs; k++) {
        int status = 1;
        good = jobs[k] > 0 && waitpid(jobs[k], &status, 0) == jobs[k] && status == 0 && good;
    }
    return good;
}

static unsigned choose(const options *o, const fr_test **tests, unit *units, unsigned *n_units)
{
    unsigned n = 0;
    for (const fr_test_area *a = fr_test_areas; a->name; a++)
        for (const fr_test *t = a->tests; t->name && !(o->no_gpu && a->gpu); t++) {
            if (!selected(o, t->name) || n >= MAX_TESTS)
                continue;
            unit *last = *n_units ? &units[*n_units - 1] : NULL;
            if (last && last->group && a->group && !strcmp(last->group, a->group))
                last->n++;
            else
                units[(*n_units)++] = (unit){tests + n, 1, a->group};
            tests[n++] = t;
        }
    return n;
}

int main(int argc, char **argv)
{
    options o = {.jobs = 1};
    static const fr_test *tests[MAX_TESTS];
    static unit units[MAX_TESTS];
    unsigned n_units = 0;
    if (!parse(argc, argv, &o)) {
        fputs(usage, stderr);
        return 2;
    }
    const unsigned n = choose(&o, tests, units, &n_units);
    FILE *shared = tmpfile();
    board *b = MAP_FAILED;
    if (shared && ftruncate(fileno(shared), sizeof *b) == 0)
        b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(shared), 0);
    if (!n || b == MAP_FAILED) {
        fputs(n ? "test: no memory to share between jobs\n" : "test: no test has such a name; --list prints them\n", stderr);
        return 2;
    }
    if (o.list) {
        for (unsigned i = 0; i < n; i++)
            printf("%-40s %s\n", tests[i]->name, tests[i]->what);
        return 0;
    }
    bool good = true;
    if (o.jobs > 1 && !o.no_fork)
        good = run_jobs(units, n_units, &o, b);
    else
        for (unsigned i = 0; i < n_units; i++)
            run_unit(&units[i], &o, b, NULL);
    const unsigned passed = b->counts[TEST_PASSED], failed = b->counts[TEST_FAILED], skipped = b->counts[TEST_SKIPPED];
    printf("%u passed, %u failed, %u skipped\n", passed, failed + (good ? 0 : 1), skipped);
    return failed != 0 || !good || passed + skipped != n;
}
