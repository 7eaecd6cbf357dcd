/* test_harness.c: a harness that takes a failure for a success would make every other test worthless. */
#include "test/harness.h"

#include <sys/stat.h>
#include <unistd.h>

static char note[600]; /* a file that outlives the inner test's scratch folder */

static void passes(void) {}
static void fails(void)
{
    CHECK_INT(1 + 1, 3);
}
static void fails_on_text(void)
{
    CHECK_STR("a", "b");
}
static void skips(void)
{
    test_skip("to see that it is counted");
}
static void crashes(void)
{
    abort();
}
static void exits(void)
{
    exit(5);
}
static void hangs(void)
{
    for (;;)
        pause();
}

/* The inner test's message would look like a failure of this run. */
static fr_test_result quietly(void (*run)(void), bool in_child)
{
    fflush(stdout);
    int out = dup(STDOUT_FILENO);
    CHECK(out >= 0 && freopen("/dev/null", "w", stdout));
    fr_test inner = {"inner", "", run};
    fr_test_result result = harness_run(&inner, in_child, 1);
    fflush(stdout);
    CHECK(dup2(out, STDOUT_FILENO) >= 0);
    close(out);
    return result;
}

static void outcomes(void)
{
    CHECK_INT(quietly(passes, true), TEST_PASSED);
    CHECK_INT(quietly(fails, true), TEST_FAILED);
    CHECK_INT(quietly(fails_on_text, true), TEST_FAILED);
    CHECK_INT(quietly(skips, true), TEST_SKIPPED);
    CHECK_INT(quietly(crashes, true), TEST_FAILED);
    CHECK_INT(quietly(exits, true), TEST_FAILED);
    CHECK_INT(quietly(hangs, true), TEST_FAILED);
}

static void outcomes_in_process(void)
{
    CHECK_INT(quietly(passes, false), TEST_PASSED);
    CHECK_INT(quietly(fails, false), TEST_FAILED);
    CHECK_INT(quietly(skips, false), TEST_SKIPPED);
}

/* ---- tests that share a child ---- */

static int opened; /* by tests of the child, which later ones find */
static void opens(void)
{
    opened++;
}
static void finds_one(void)
{
    CHECK_INT(opened, 1);
}
static void finds_none(void)
{
    CHECK_INT(opened, 0);
}
static void says_more(void)
{
    puts("more");
}
static void crash_at_exit(void)
{
    _exit(7);
}
static void leaves_a_crash(void)
{
    atexit(crash_at_exit);
}

/* The tests run in one child, their output goes into a file; what each test said is counted in lines. */
static void group(void)
{
    enum { N = 10 };
    static const struct {
        fr_test test;
        fr_test_result result;
        int lines;
    } tests[N] = {
        {{"inner.opens", "", opens}, TEST_PASSED, 0},
        {{"inner.finds", "", finds_one}, TEST_PASSED, 0},
        {{"inner.says", "", says_more}, TEST_PASSED, 1},
        {{"inner.fails", "", fails}, TEST_FAILED, 1},
        {{"inner.begins_again", "", finds_none}, TEST_PASSED, 0},
        {{"inner.opens_again", "", opens}, TEST_PASSED, 0},
        {{"inner.hangs", "", hangs}, TEST_FAILED, 1},
        {{"inner.skips", "", skips}, TEST_SKIPPED, 1},
        {{"inner.crashes", "", crashes}, TEST_FAILED, 1},
        {{"inner.leaves", "", leaves_a_crash}, TEST_PASSED, 0},
    };
    char path[600];
    snprintf(path, sizeof path, "%s/output", test_scratch());
    harness_child child = {0};
    fr_test_result results[N];
    int lines[N];
    fflush(stdout);
    const int out = dup(STDOUT_FILENO);
    bool ended = true;
    for (int i = 0; i < N; i++) {
        if (i == 0)
            CHECK(out >= 0 && freopen(path, "w+", stdout));
        results[i] = harness_run_in(&child, &tests[i].test, 1);
        fflush(stdout);
        lines[i] = 0;
        char text[4096];
        lseek(STDOUT_FILENO, 0, SEEK_SET);
        const ssize_t size = read(STDOUT_FILENO, text, sizeof text);
        for (ssize_t k = 0; k < size; k++)
            lines[i] += text[k] == '\n';
        lseek(STDOUT_FILENO, 0, SEEK_SET);
        if (ftruncate(STDOUT_FILENO, 0) < 0)
            lines[i] = -1;
    }
    ended = harness_end(&child, 1);
    fflush(stdout);
    CHECK(dup2(out, STDOUT_FILENO) >= 0);
    close(out);
    for (int i = 0; i < N; i++) {
        CHECK_MSG(results[i] == tests[i].result, "%s: result %d", tests[i].test.name, (int)results[i]);
        CHECK_MSG(lines[i] == tests[i].lines, "%s: %d lines", tests[i].test.name, lines[i]);
    }
    CHECK(!ended); /* what goes wrong at the child's exit is found */
    CHECK(harness_end(&child, 1)); /* there is none any more */
}

static void writes_scratch(void)
{
    char path[600];
    snprintf(path, sizeof path, "%s/file", test_scratch());
    FILE *f = fopen(path, "w"), *told = fopen(note, "w");
    CHECK(f && told);
    fputs("text", f);
    fputs(path, told);
    fclose(f);
    fclose(told);
    size_t size;
    char *back = test_read(path, &size);
    CHECK_STR(back, "text");
    CHECK_INT(size, 4);
    free(back);
}

static void scratch_is_removed(void)
{
    snprintf(note, sizeof note, "%s/note", test_scratch());
    CHECK_INT(quietly(writes_scratch, true), TEST_PASSED);
    char *path = test_read(note, NULL);
    struct stat s;
    CHECK_MSG(stat(path, &s) != 0, "%s is still there", path);
    free(path);
}

const fr_test harness_tests[] = {
    {"harness.outcomes", "a failed check, a crash, a hang and a wrong exit each fail one test", outcomes},
    {"harness.outcomes_in_process", "without a child a failed check and a skip are told apart", outcomes_in_process},
    {"harness.group", "tests that share a child: one that fails, hangs, crashes or skips is alone in that, the next has another child",
     group},
    {"harness.scratch_is_removed", "a test's scratch folder can be written, and is gone afterwards", scratch_is_removed},
    {0},
};
