/* kernels_help.h: what the tests of kernels share. */
#ifndef FR_TEST_KERNELS_HELP_H
#define FR_TEST_KERNELS_HELP_H

#include "ref/case.h"

rig_host open_host(void); /* to be closed with fr_host_close(host.user) */
void open_rig(rig *, const rig_host *, const rig_options *);

/* Runs the cases of the table whose names begin so. */
void run_cases(const char *group);

#endif
