/* harness.h: what test_main.c uses of harness.c; tests include test.h only. */
#ifndef FR_TEST_HARNESS_H
#define FR_TEST_HARNESS_H

#include "test/test.h"

typedef struct fr_test_area {
    const char *name;
    const fr_test *tests; /* ended by {0} */
    bool gpu;             /* its tests open a WebGPU device */
    const char *group;    /* areas of one name, which follow one another, share a child process and what it has opened; NULL: alone */
} fr_test_area;

/* Made of the names test/test_<area>.c by tools/test_areas.sh, in the order in which they are run; ended by {0}. */
extern const fr_test_area fr_test_areas[];

typedef enum fr_test_result { TEST_PASSED, TEST_FAILED, TEST_SKIPPED } fr_test_result;

/* Runs one test, with a scratch folder of its own. In a child process a crash, a sanitizer's report, a leak or more than `limit` seconds
 * is the failure of this test alone; `in_child` false is for debuggers: then `limit` is not watched and the first of these ends the run. */
fr_test_result harness_run(const fr_test *, bool in_child, unsigned limit);

/* A child process that runs tests one after the other, so that they share what it has opened. Zero: none yet. */
typedef struct harness_child {
    int pid, socket;
} harness_child;

/* Runs one test in the child, which is made if there is none. A test that does not pass ends the child: what it leaves is its own, and the
 * next test begins with another child. Tests are static. */
fr_test_result harness_run_in(harness_child *, const fr_test *, unsigned limit);
/* Lets the child exit, if there is one. What goes wrong then, a leak for instance, is said, and false. */
bool harness_end(harness_child *, unsigned limit);

#endif
