/* selftest.h: every kernel against its CPU twin on the adapter at hand, over the table of cases that the tests use; on a software adapter
 * over a part of it. */
#ifndef FR_REF_SELFTEST_H
#define FR_REF_SELFTEST_H

#include <stdio.h>

#include "forerun.h"

/* Runs the cases on the device, prints one line per case to `out` (NULL: quiet) and returns how many failed. `pump` is called with `user`
 * while the GPU works: it delivers WebGPU's callbacks. */
int fr_selftest(const fr_device *, void (*pump)(void *user), void *user, FILE *out);

#endif
