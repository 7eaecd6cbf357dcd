/* costs.h: what steps cost on this device: learnt from how long windows take, and kept between visits.
 *
 * ln ms of a step = level + ratio[width] + spread[window]. The level is what all steps share: the clock, the length of the context, a
 * foreign load. The ratio is what N nodes cost over a plain step, the spread what a step costs in a smaller window than of
 * FR_COSTS_WINDOW steps. A Kalman filter estimates them together: a width that was never tried is corrected at once, one that is well
 * known hardly by a single window, and what was learnt in different widths and windows is told apart. A sample far off counts no more than
 * one that is a few deviations off; the third of these in a row, on the same side, means that the device has changed, and the filter
 * becomes uncertain again. */
#ifndef FR_SPEC_COSTS_H
#define FR_SPEC_COSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    FR_COSTS_WIDTHS = 6,  /* index k: 1 << k nodes; 0 is a plain step */
    FR_COSTS_WINDOWS = 3, /* index w: 1 << w steps; the last is what the others are compared with */
    FR_COSTS_WINDOW = 1 << (FR_COSTS_WINDOWS - 1),
    FR_COSTS_STATE = FR_COSTS_WIDTHS + FR_COSTS_WINDOWS - 1 /* level, ratios of k >= 1, spreads but the last */
};

/* Index of a number of nodes, or steps: the k of 1 << k, rounded up. */
uint32_t fr_costs_index(uint32_t power);

/* What is known before anything is measured: wide steps are cheap on a GPU of its own memory, dear on a CPU. */
typedef enum fr_adapter_class { FR_ADAPTER_DISCRETE, FR_ADAPTER_INTEGRATED, FR_ADAPTER_CPU } fr_adapter_class;

typedef struct fr_step_costs {
    double mean[FR_COSTS_STATE], covariance[FR_COSTS_STATE][FR_COSTS_STATE];
    uint32_t samples[FR_COSTS_WIDTHS], windows[FR_COSTS_WINDOWS]; /* windows seen by width, and by size */
    int surprises; /* samples in a row that were far off: above if positive, below if negative */
} fr_step_costs;

void fr_costs_open(fr_step_costs *, fr_adapter_class);
/* Whether a window was ever timed: else milliseconds mean nothing. */
bool fr_costs_timed(const fr_step_costs *);
/* A window of `steps` steps over 1 << k nodes took `ms`. Times that are no positive numbers are passed over. */
void fr_costs_sample(fr_step_costs *, uint32_t k, uint32_t steps, double ms);
/* Steps over 1 << k nodes, which have been done in two ways, take `ms` in windows of FR_COSTS_WINDOW from now on. With plain steps (k = 0),
 * those over 1 << j nodes are taken to change alike, but for j whose bit in `others` is set: they take what they took. What smaller
 * windows cost is open again. */
void fr_costs_changed(fr_step_costs *, uint32_t k, double ms, uint32_t others);
/* Steps were submitted without a sample of this width or size: the less is known of it. */
void fr_costs_age(fr_step_costs *, uint32_t steps);

/* Milliseconds of a step over 1 << k nodes in windows of `steps`. */
double fr_costs_step(const fr_step_costs *, uint32_t k, uint32_t steps);
/* Deviation of ln(T of k / T of j). */
double fr_costs_doubt(const fr_step_costs *, uint32_t k, uint32_t j);
/* ln of what a step in windows of 1 << w costs over one in windows of FR_COSTS_WINDOW. */
double fr_costs_spread(const fr_step_costs *, uint32_t w);

/* ---- as bytes, to be kept between visits ----
 *
 * All numbers little-endian: "FRCOSTS1"; u64 key, of everything that times depend on; the means, the covariances row by row, f64 each; u32
 * samples by width; u32 windows by size; u64 hash of all that precedes. */
enum { FR_COSTS_BYTES = 16 + 8 * FR_COSTS_STATE * (FR_COSTS_STATE + 1) + 4 * (FR_COSTS_WIDTHS + FR_COSTS_WINDOWS) + 8 };
void fr_costs_save(const fr_step_costs *, uint64_t key, uint8_t bytes[FR_COSTS_BYTES]);
/* FR_BAD_ARGUMENT: they are no costs, damaged, of another key, or not possible; then nothing has changed. `name` stands for the bytes. */
fr_status fr_costs_load(fr_step_costs *, uint64_t key, const uint8_t *bytes, size_t size, const char *name, fr_error_text *);

#endif
