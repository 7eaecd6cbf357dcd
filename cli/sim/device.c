#include "cli/sim/device.h"

#include <math.h>
#include <stdlib.h>

enum { FIXED_WINDOW = 4, IN_FLIGHT = 2 };
static const double empty = 0.2; /* of a plain step: a step behind the end of an output */

const sim_curve sim_curves[] = {
    {"workstation", FR_ADAPTER_DISCRETE, {2.1, 2.2, 2.33, 2.5, 3.57, 6}, {1.1, 1.02, 1}, "T8/T1 = 1.19, T16/T1 = 1.7"},
    {"workstation2", FR_ADAPTER_DISCRETE, {3.4, 3.64, 3.98, 4.49, 6.12, 10.2}, {1.05, 1.01, 1}, "T8/T1 = 1.32, T16/T1 = 1.8"},
    {"laptop", FR_ADAPTER_DISCRETE, {4.2, 4.75, 5.5, 6.9, 11, 20}, {1.05, 1.01, 1}, "T8/T1 = 1.64"},
    {"laptop2", FR_ADAPTER_DISCRETE, {7.4, 8.7, 10.4, 13.1, 21.5, 40}, {1.02, 1.01, 1}, "T8/T1 = 1.77"},
    {"integrated", FR_ADAPTER_INTEGRATED, {9.6, 11.1, 14.9, 21.5, 36.5, 70}, {1.01, 1, 1}, "T8/T1 = 2.24, T16/T1 = 3.8"},
    {"integrated2", FR_ADAPTER_INTEGRATED, {21.3, 27.7, 47, 87.8, 138, 260}, {1.01, 1, 1}, "T8/T1 = 4.12, T16/T1 = 6.5"},
    {"h200", FR_ADAPTER_DISCRETE, {1.48, 1.74, 1.95, 2.05, 2.41, 3.18}, {1.2, 1.04, 1}, "measured, native"},
    {"h200-chrome", FR_ADAPTER_DISCRETE, {1.82, 2, 2.11, 2.29, 2.7, 3.42}, {1.36, 1.05, 1}, "measured, Chrome"},
    {"swiftshader", FR_ADAPTER_CPU, {300, 450, 700, 1200, 2400, 4800}, {1, 1, 1}, "measured, two processors"},
    {0},
};

/* Uniform, 0 to 1. */
static double draw(sim_device *d)
{
    d->random ^= d->random << 13;
    d->random ^= d->random >> 7;
    d->random ^= d->random << 17;
    return (double)(d->random >> 11) / 9007199254740992.0;
}

/* Nearly normal, by the sum of twelve. */
static double disturbed(sim_device *d, double ms)
{
    double sum = -6;
    for (int i = 0; d->noise > 0 && i < 12; i++)
        sum += draw(d);
    return d->noise > 0 ? ms * exp(d->noise * sum) : ms;
}

static uint32_t end_of(const sim_line *line, bool whole)
{
    return (whole ? line->n_output : line->loop) + (line->stopped && (whole || line->loop == line->n_output));
}

static uint8_t accepted_at(const sim_trace *t, const sim_line *line, uint32_t at, uint32_t k, uint32_t end)
{
    const uint32_t left = end - at - 1; /* drafts behind the end count for nothing */
    const uint8_t n = k && at < line->n_output ? t->accepted[k - 1][at] : 0;
    return n < left ? n : (uint8_t)left;
}

static void see_steps(fr_control *c, const sim_line *line, const sim_trace *t, const fr_control_choice *w, const uint32_t *at, uint32_t n,
                      uint32_t pos, uint32_t end)
{
    if (w->width == 1) {
        if (n)
            fr_control_plain(c, n, pos < line->n_output ? t->match[pos] : 0);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint8_t accepted[FR_COSTS_WIDTHS] = {0};
        for (uint32_t k = 1; k <= fr_costs_index(w->width); k++)
            accepted[k] = accepted_at(t, line, at[i], k, end);
        fr_control_tree(c, w->width, at[i] < line->n_output ? t->match[at[i]] : 0, accepted);
    }
}

void sim_decode(sim_device *d, const sim_line *line, const sim_trace *t, bool whole, sim_tally *tally)
{
    const uint32_t end = end_of(line, whole);
    const fr_control_limits limits = {.widths = 63, .ready = 63};
    fr_control_choice queue[IN_FLIGHT];
    uint32_t pos = 1, first = 0;
    if (end < 2)
        return;
    tally->tokens += end - 1;
    if (d->control)
        fr_control_begin(d->control);
    for (uint32_t i = 0; i < IN_FLIGHT; i++)
        queue[i] = d->control ? fr_control_next(d->control, &limits) : (fr_control_choice){d->width, FIXED_WINDOW, 0};
    while (pos < end) {
        const fr_control_choice w = queue[first];
        const uint32_t k = fr_costs_index(w.width);
        const double step = d->curve->ms[k] * (w.window < FIXED_WINDOW ? d->curve->window[fr_costs_index(w.window)] : d->curve->window[2]);
        uint32_t at[16], n = 0;
        for (; n < w.window && pos < end; n++) {
            at[n] = pos;
            pos += 1u + accepted_at(t, line, pos, k, end);
        }
        const double ms = disturbed(d, step * n + empty * d->curve->ms[0] * (w.window - n));
        tally->steps[k] += n;
        tally->windows++;
        tally->ms += ms;
        if (d->control) {
            see_steps(d->control, line, t, &w, at, n, pos, end);
            if (n == w.window)
                fr_control_time(d->control, w.width, w.window, ms);
            if (pos < end)
                queue[first] = fr_control_next(d->control, &limits);
        }
        first = (first + 1) % IN_FLIGHT;
    }
    if (d->control) {
        tally->probes += d->control->probes;
        tally->probe_ms += d->control->probe_ms;
    }
}

double sim_oracle(const sim_curve *curve, const sim_line *line, const sim_trace *t, bool whole)
{
    const uint32_t end = end_of(line, whole);
    double *left = calloc((size_t)end + 1, sizeof *left); /* [end + 1] time from here on */
    if (!left)
        return NAN;
    for (uint32_t at = end; at-- > 1;) {
        left[at] = INFINITY;
        for (uint32_t k = 0; k < FR_COSTS_WIDTHS; k++)
            left[at] = fmin(left[at], curve->ms[k] + left[at + 1 + accepted_at(t, line, at, k, end)]);
    }
    const double ms = end > 1 ? left[1] : 0;
    free(left);
    return ms;
}
