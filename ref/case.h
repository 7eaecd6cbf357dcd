/* case.h: one case of the table: a model, a device, and steps whose dispatches are compared with their twins. */
#ifndef FR_REF_CASE_H
#define FR_REF_CASE_H

#include "ref/rig.h"

enum { CASE_STEPS = 12 };

typedef struct case_step {
    uint32_t pos;    /* tokens in the cache */
    uint32_t count;  /* tokens to process */
    bool wide;       /* the prefill bucket, else N = 1 */
    fr_tail tail;
    uint32_t more;   /* tokens behind these that are known but not for this step */
    uint32_t finished; /* Control.finished */
} case_step;

typedef struct kernel_case {
    const char *name; /* "types.q4_1" */
    rig_options options;
    bool quick;       /* part of the self-test */
    case_step steps[CASE_STEPS]; /* ended by one with count 0 */
} kernel_case;

extern const kernel_case kernel_cases[]; /* ended by {0} */

/* Runs a case; false and a line in `error` at the first word that is wrong: which, where, and what was expected. `dispatches` gets how many
 * were compared. */
bool kernel_case_run(const rig_host *, const kernel_case *, uint32_t *dispatches, fr_error_text *error);

#endif
