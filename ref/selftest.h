/* selftest.h: the adapter at hand against the table of cases that the tests use: every kernel against its CPU twin, bit for bit or within
 * what WGSL allows, and steps over many nodes against decoding token by token, bit for bit. */
#ifndef FR_REF_SELFTEST_H
#define FR_REF_SELFTEST_H

#include "forerun.h"

typedef struct fr_selftest_host {
    const fr_device *device;
    void (*pump)(void *user); /* called while the GPU works: delivers WebGPU's callbacks */
    void (*report)(void *user, const char *name, bool ok, const char *text); /* a case has ended: what was compared, or what is wrong */
    void *user;
} fr_selftest_host;

/* Runs the cases whose names begin with `only`; NULL: all of them, on a software adapter, which compiles for long, a part. Returns how many
 * failed, or -1 if there is none of the name. */
int fr_selftest(const fr_selftest_host *, const char *only);

#endif
