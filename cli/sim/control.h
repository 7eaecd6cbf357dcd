/* control.h: forerun sim --control: the controller of the engine against fixed widths on devices of known costs. */
#ifndef FR_CLI_SIM_CONTROL_H
#define FR_CLI_SIM_CONTROL_H

#include "cli/sim/log.h"

typedef struct sim_control_options {
    const char *curves; /* names of sim_curves with commas between them; NULL: all */
    uint32_t memory;    /* tokens of earlier lines, as in sim_setup */
    double noise;       /* of times, as a share */
    bool json;
} sim_control_options;

/* Prints a table for each curve. FR_BAD_ARGUMENT: a curve that is none. */
fr_status sim_control(const sim_log *, const size_t *order, const sim_control_options *, fr_error_text *);

#endif
