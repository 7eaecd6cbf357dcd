/* device.h: a device of known costs that decodes a log's outputs as the engine would: windows of steps, two in flight, the controller of
 * the engine or a fixed width in charge. Time is added up, nothing is computed. */
#ifndef FR_CLI_SIM_DEVICE_H
#define FR_CLI_SIM_DEVICE_H

#include "cli/sim/log.h"
#include "cli/sim/replay.h"
#include "spec/control.h"

/* What steps cost on a device. */
typedef struct sim_curve {
    const char *name;
    fr_adapter_class class;
    double ms[FR_COSTS_WIDTHS]; /* T(N) of N = 1, 2, 4, 8, 16, 32 in windows of 4 */
    double window[3];             /* how much longer a step takes in windows of 1, 2 and 4, as a factor */
    const char *what;
} sim_curve;

extern const sim_curve sim_curves[]; /* ended by one without a name */

typedef struct sim_device {
    const sim_curve *curve;
    double noise;      /* deviation of a window's time, as a share of it */
    uint64_t random;   /* state; not 0 */
    fr_control *control; /* NULL: a fixed width */
    uint32_t width;      /* fixed: nodes */
} sim_device;

/* What one way of decoding took. */
typedef struct sim_tally {
    uint64_t tokens, steps[FR_COSTS_WIDTHS], windows; /* steps by width; those behind the end of an output are none */
    double ms, probe_ms;
    uint64_t probes;
} sim_tally;

/* One output, up to where it loops or whole. The trace is of the drafter of the device, with widths of 2, 4, 8, 16, 32. */
void sim_decode(sim_device *, const sim_line *, const sim_trace *, bool whole, sim_tally *);
/* The least time in which steps of these costs can decode it, if at each step the best width were known. */
double sim_oracle(const sim_curve *, const sim_line *, const sim_trace *, bool whole);

#endif
