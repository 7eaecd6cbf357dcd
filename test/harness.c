#include "test/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The running test. Saved around each, since the harness's own tests run tests. */
typedef struct running {
    char scratch[512];
    bool leave_by_jump; /* it is not in a child */
    jmp_buf leave;
} running;
static running now;

/* A test that stops midway leaves its memory behind: _exit() skips the leak check that exit() makes. */
static _Noreturn void end_test(fr_test_result result)
{
    fflush(stdout);
    if (now.leave_by_jump)
        longjmp(now.leave, (int)result);
    _exit((int)result);
}

void test_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    printf("%s:%d: ", file, line);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    end_test(TEST_FAILED);
}

void test_skip(const char *format, ...)
{
    va_list args;
    printf("skipped: ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    end_test(TEST_SKIPPED);
}

const char *test_dir(void)
{
    const char *dir = getenv("FORERUN_TEST_DIR");
    return dir ? dir : "test"; /* tests run in the root of the repository */
}

const char *test_scratch(void)
{
    return now.scratch;
}

/* As deps/fetch.sh finds the cache; FR_MODEL_IN_CACHE comes from deps/pins through the Makefile. */
const char *test_model(void)
{
    static char path[4096];
    const char *own = getenv("FORERUN_MODEL"), *cache = getenv("FORERUN_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own)
        snprintf(path, sizeof path, "%s", own);
    else if (cache && *cache)
        snprintf(path, sizeof path, "%s/%s", cache, FR_MODEL_IN_CACHE);
    else if (xdg && *xdg)
        snprintf(path, sizeof path, "%s/forerun/%s", xdg, FR_MODEL_IN_CACHE);
    else
        snprintf(path, sizeof path, "%s/.cache/forerun/%s", home ? home : "", FR_MODEL_IN_CACHE);
    return access(path, R_OK) == 0 ? path : "";
}

char *test_read(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        test_fail(__FILE__, __LINE__, "cannot open %s: %s", path, strerror(errno));
    char *bytes = NULL;
    size_t n = 0, capacity = 0, got;
    do {
        if (capacity - n < 4096) {
            capacity = capacity ? 2 * capacity : 65536;
            bytes = realloc(bytes, capacity);
            CHECK(bytes);
        }
        got = fread(bytes + n, 1, capacity - n - 1, f);
        n += got;
    } while (got);
    CHECK_MSG(!ferror(f), "cannot read %s", path);
    fclose(f);
    bytes[n] = 0;
    if (size)
        *size = n;
    return bytes;
}

static int remove_entry(const char *path, const struct stat *s, int kind, struct FTW *where)
{
    (void)s, (void)kind, (void)where;
    return remove(path);
}

static fr_test_result run_here(const fr_test *t)
{
    now.leave_by_jump = true;
    int how = setjmp(now.leave);
    if (how == 0)
        t->run();
    return (fr_test_result)how;
}

/* What the child's end means. Statuses other than ours are those of sanitizers, which have printed their report. */
static fr_test_result judge(int status, unsigned limit)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) <= TEST_SKIPPED)
        return (fr_test_result)WEXITSTATUS(status);
    if (WIFEXITED(status))
        printf("ended with status %d\n", WEXITSTATUS(status));
    else if (WTERMSIG(status) == SIGALRM)
        printf("not done after %u s\n", limit);
    else
        printf("ended by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return TEST_FAILED;
}

/* The child's side: tests come by the socket, with their scratch folders; each that passes is answered by a byte. */
typedef struct order {
    const fr_test *test;
    unsigned limit;
    char scratch[sizeof now.scratch];
} order;

static _Noreturn void serve(int socket)
{
    order o;
    now.leave_by_jump = false;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a run that is ended leaves no test behind */
    while (recv(socket, &o, sizeof o, 0) == (ssize_t)sizeof o && o.test) {
        memcpy(now.scratch, o.scratch, sizeof now.scratch);
        alarm(o.limit); /* its signal ends the process, whatever the test waits for */
        o.test->run();
        fflush(stdout);
        alarm(0);
        send(socket, "", 1, MSG_NOSIGNAL);
    }
    alarm(o.limit);
    exit(TEST_PASSED);
}

static bool begin(harness_child *c)
{
    int pair[2];
    fflush(stdout);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0) {
        printf("cannot make a socket: %s\n", strerror(errno));
        return false;
    }
    fcntl(pair[0], F_SETFD, FD_CLOEXEC);
    fcntl(pair[1], F_SETFD, FD_CLOEXEC);
    *c = (harness_child){fork(), pair[0]};
    if (c->pid == 0) {
        close(pair[0]);
        serve(pair[1]);
    }
    close(pair[1]);
    if (c->pid > 0)
        return true;
    printf("cannot fork: %s\n", strerror(errno));
    close(c->socket);
    *c = (harness_child){0};
    return false;
}

/* Takes the status of a child that has ended, or is about to. */
static fr_test_result bury(harness_child *c, unsigned limit)
{
    int status;
    pid_t got;
    while ((got = waitpid(c->pid, &status, 0)) < 0 && errno == EINTR)
        ;
    close(c->socket);
    *c = (harness_child){0};
    return got < 0 ? TEST_FAILED : judge(status, limit);
}

static bool open_scratch(char path[sizeof now.scratch])
{
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof now.scratch, "%s/forerun-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (mkdtemp(path))
        return true;
    printf("cannot make a scratch folder: %s\n", strerror(errno));
    return false;
}

static void close_scratch(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

fr_test_result harness_run_in(harness_child *c, const fr_test *t, unsigned limit)
{
    order o = {.test = t, .limit = limit};
    char answer;
    if ((!c->pid && !begin(c)) || !open_scratch(o.scratch))
        return TEST_FAILED;
    const bool passed = send(c->socket, &o, sizeof o, MSG_NOSIGNAL) == (ssize_t)sizeof o && recv(c->socket, &answer, 1, 0) == 1;
    const fr_test_result result = passed ? TEST_PASSED : bury(c, limit);
    close_scratch(o.scratch);
    return result;
}

bool harness_end(harness_child *c, unsigned limit)
{
    const order last = {.limit = limit};
    if (!c->pid)
        return true;
    send(c->socket, &last, sizeof last, MSG_NOSIGNAL);
    return bury(c, limit) == TEST_PASSED;
}

fr_test_result harness_run(const fr_test *t, bool in_child, unsigned limit)
{
    if (in_child) {
        harness_child c = {0};
        const fr_test_result result = harness_run_in(&c, t, limit);
        return harness_end(&c, limit) ? result : TEST_FAILED;
    }
    const running outer = now;
    if (!open_scratch(now.scratch)) {
        now = outer;
        return TEST_FAILED;
    }
    const fr_test_result result = run_here(t);
    close_scratch(now.scratch);
    now = outer;
    return result;
}
