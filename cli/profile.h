/* profile.h: where the time of a step goes, kernel by kernel, by the GPU's own clock. */
#ifndef FR_CLI_PROFILE_H
#define FR_CLI_PROFILE_H

#include "cli/adapter.h"
#include "cli/drive.h"

enum { FR_PROFILE_REPEATS = 50 };

typedef struct fr_profile_options {
    uint32_t positions; /* tokens before the step */
    uint32_t width;     /* nodes of the tree; 1: no tree */
    uint32_t repeats;   /* at most FR_PROFILE_REPEATS */
    bool json;
} fr_profile_options;

/* Measures a plain step, a step over a tree and one of the prompt, and prints them. The engine is idle, and of no use for requests
 * afterwards. FR_NO_GPU: the adapter has no clock. */
fr_status fr_profile(fr_drive *, const fr_profile_options *, fr_error_text *);

#endif
