/* test.h: the harness. An area is a file test_<area>.c that defines `const fr_test <area>_tests[]`, ended by {0}; it is found by its
 * name. A test fails by CHECK, or skips itself with a reason; the last line of a run is "N passed, N failed, N skipped". */
#ifndef FR_TEST_H
#define FR_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fr_test {
    const char *name; /* "gguf.every_chunk_size" */
    const char *what; /* one line */
    void (*run)(void);
} fr_test;

/* Ends the running test as failed, with the place and a message. */
void test_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4), noreturn));
void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Directory of the repository's test/ folder, of scratch files (removed afterwards), and of the default model ("" if absent). */
const char *test_dir(void);
const char *test_scratch(void);
const char *test_model(void);
/* The whole file, NUL behind it; the caller frees. Fails the test if it can't be read. */
char *test_read(const char *path, size_t *size);

#define CHECK(cond)                                                                                                                        \
    do {                                                                                                                                   \
        if (!(cond))                                                                                                                       \
            test_fail(__FILE__, __LINE__, "%s", #cond);                                                                                    \
    } while (0)
#define CHECK_MSG(cond, ...)                                                                                                               \
    do {                                                                                                                                   \
        if (!(cond))                                                                                                                       \
            test_fail(__FILE__, __LINE__, __VA_ARGS__);                                                                                    \
    } while (0)
#define CHECK_INT(a, b)                                                                                                                    \
    do {                                                                                                                                   \
        long long a_ = (long long)(a), b_ = (long long)(b);                                                                                \
        if (a_ != b_)                                                                                                                      \
            test_fail(__FILE__, __LINE__, "%s is %lld, expected %s = %lld", #a, a_, #b, b_);                                               \
    } while (0)
#define CHECK_STR(a, b)                                                                                                                    \
    do {                                                                                                                                   \
        const char *a_ = (a), *b_ = (b);                                                                                                   \
        if (strcmp(a_, b_))                                                                                                                \
            test_fail(__FILE__, __LINE__, "%s is \"%s\", expected \"%s\"", #a, a_, b_);                                                    \
    } while (0)

#endif
