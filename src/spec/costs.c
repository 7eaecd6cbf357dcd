#include "spec/costs.h"

#include <math.h>
#include <string.h>

#include "spec/memory.h"

static const double noise = 0.06 * 0.06;    /* variance of a window's time that nothing explains */
static const double clip = 3;               /* deviations that a sample counts for at most */
static const double level_drift = 2e-5;     /* variance that comes in with a sample: the context grows */
static const double rest_drift = 1e-6;      /* and with a step, for what is not sampled */
static const double most_doubt = 0.15;      /* variance of a ratio or spread never seen */
static const double changed_spread = 0.05; /* at least, of steps that may have become faster */
static const double reopened = 0.05;      /* of the level, in a new visit: clocks are low, the context is short */
enum { LEVEL, RATIO = 0 /* + k */, SPREAD = FR_COSTS_WIDTHS /* + w */, SURPRISES = 3 };

/* T(N)/T(1) for N = 1, 2, 4 ... 32 before anything is measured. */
static const double guess[][FR_COSTS_WIDTHS] = {
    [FR_ADAPTER_DISCRETE] = {1, 1.12, 1.22, 1.36, 1.7, 2.5},
    [FR_ADAPTER_INTEGRATED] = {1, 1.25, 1.8, 2.8, 4.6, 8.5},
    [FR_ADAPTER_CPU] = {1, 1.5, 2.4, 4, 8, 16},
};

uint32_t fr_costs_index(uint32_t power)
{
    uint32_t k = 0;
    while (1u << k < power)
        k++;
    return k;
}

void fr_costs_open(fr_step_costs *c, fr_adapter_class class)
{
    *c = (fr_step_costs){0};
    c->covariance[LEVEL][LEVEL] = 16;
    for (uint32_t k = 1; k < FR_COSTS_WIDTHS; k++) {
        c->mean[RATIO + k] = log(guess[class][k]);
        c->covariance[RATIO + k][RATIO + k] = most_doubt;
    }
    for (uint32_t w = 0; w + 1 < FR_COSTS_WINDOWS; w++)
        c->covariance[SPREAD + w][SPREAD + w] = 0.02;
}

bool fr_costs_timed(const fr_step_costs *c)
{
    for (uint32_t k = 0; k < FR_COSTS_WIDTHS; k++)
        if (c->samples[k])
            return true;
    return false;
}

static uint32_t window_index(uint32_t steps)
{
    return steps < FR_COSTS_WINDOW ? fr_costs_index(steps) : FR_COSTS_WINDOWS - 1;
}

/* What a step's time is the sum of; returns how many. */
static uint32_t parts(uint32_t k, uint32_t w, uint32_t index[3])
{
    uint32_t n = 0;
    index[n++] = LEVEL;
    if (k)
        index[n++] = RATIO + k;
    if (w + 1 < FR_COSTS_WINDOWS)
        index[n++] = SPREAD + w;
    return n;
}

static double log_step(const fr_step_costs *c, uint32_t k, uint32_t w)
{
    uint32_t index[3];
    double sum = 0;
    for (uint32_t n = parts(k, w, index); n-- > 0;)
        sum += c->mean[index[n]];
    return sum;
}

/* Counts samples in a row that are far off, on one side. True: enough of them, the device has changed. */
static bool has_changed(fr_step_costs *c, bool far, double off)
{
    const int side = off > 0 ? 1 : -1;
    c->surprises = !far ? 0 : c->surprises * side > 0 ? c->surprises + side : side;
    if (c->surprises * side < SURPRISES)
        return false;
    c->surprises = 0;
    return true;
}

/* Covariance of everything with a step's time; returns the variance of that, of which index has the parts. */
static double correlate(const fr_step_costs *c, const uint32_t *index, uint32_t n, double along[FR_COSTS_STATE])
{
    double total = noise;
    for (uint32_t i = 0; i < FR_COSTS_STATE; i++) {
        along[i] = 0;
        for (uint32_t j = 0; j < n; j++)
            along[i] += c->covariance[i][index[j]];
    }
    for (uint32_t j = 0; j < n; j++)
        total += along[index[j]];
    return total;
}

void fr_costs_sample(fr_step_costs *c, uint32_t k, uint32_t steps, double ms)
{
    if (!(ms > 0) || !isfinite(ms) || !steps)
        return;
    const uint32_t w = window_index(steps);
    const bool first = !fr_costs_timed(c);
    uint32_t index[3];
    const uint32_t n = parts(k, w, index);
    c->covariance[LEVEL][LEVEL] += level_drift;
    double along[FR_COSTS_STATE], total = correlate(c, index, n, along), off = log(ms / steps) - log_step(c, k, w);
    const double most = clip * sqrt(total);
    const bool far = !first && fabs(off) > most; /* the first one can't be: nothing is known */
    if (has_changed(c, far, off)) {
        for (uint32_t i = 0; i < FR_COSTS_WIDTHS; i++) /* it is all steps or this width, and the others may have changed, too */
            c->covariance[i][i] += i == LEVEL || i == RATIO + k ? off * off : off * off / 4;
        total = correlate(c, index, n, along);
    } else if (far) {
        off = copysign(most, off);
    }
    for (uint32_t i = 0; i < FR_COSTS_STATE; i++)
        c->mean[i] += along[i] / total * off;
    for (uint32_t i = 0; i < FR_COSTS_STATE; i++)
        for (uint32_t j = 0; j < FR_COSTS_STATE; j++)
            c->covariance[i][j] -= along[i] * along[j] / total;
    c->samples[k]++;
    c->windows[w]++;
}

void fr_costs_changed(fr_step_costs *c, uint32_t k, double ms, uint32_t others)
{
    if (!(ms > 0) || !isfinite(ms))
        return;
    if (!fr_costs_timed(c)) { /* the level says nothing yet */
        fr_costs_sample(c, k, FR_COSTS_WINDOW, ms * (double)FR_COSTS_WINDOW);
        return;
    }
    const double off = log(ms) - log_step(c, k, FR_COSTS_WINDOWS - 1);
    c->mean[k ? RATIO + k : LEVEL] += off;
    for (uint32_t j = 1; !k && j < FR_COSTS_WIDTHS; j++)
        if (others >> j & 1)
            c->mean[RATIO + j] -= off;
    c->covariance[k ? RATIO + k : LEVEL][k ? RATIO + k : LEVEL] += noise;
    for (uint32_t w = 0; w + 1 < FR_COSTS_WINDOWS; w++) { /* the shorter a step, the more the way to the device and back counts */
        for (uint32_t i = 0; i < FR_COSTS_STATE; i++)
            c->covariance[SPREAD + w][i] = c->covariance[i][SPREAD + w] = 0;
        c->covariance[SPREAD + w][SPREAD + w] = 0.02;
        if (c->mean[SPREAD + w] < changed_spread)
            c->mean[SPREAD + w] = changed_spread;
        c->windows[w] = 0;
    }
    c->samples[k]++;
}

void fr_costs_age(fr_step_costs *c, uint32_t steps)
{
    for (uint32_t i = 1; i < FR_COSTS_STATE; i++)
        if (c->covariance[i][i] < most_doubt)
            c->covariance[i][i] += rest_drift * steps;
}

double fr_costs_step(const fr_step_costs *c, uint32_t k, uint32_t steps)
{
    return exp(log_step(c, k, window_index(steps)));
}

double fr_costs_doubt(const fr_step_costs *c, uint32_t k, uint32_t j)
{
    const uint32_t a = RATIO + k, b = RATIO + j;
    double variance = (k ? c->covariance[a][a] : 0) + (j ? c->covariance[b][b] : 0);
    variance -= k && j ? 2 * c->covariance[a][b] : 0;
    return variance > 0 ? sqrt(variance) : 0;
}

double fr_costs_spread(const fr_step_costs *c, uint32_t w)
{
    return w + 1 < FR_COSTS_WINDOWS ? c->mean[SPREAD + w] : 0;
}

/* ---- as bytes ---- */

static const char magic[8] = {'F', 'R', 'C', 'O', 'S', 'T', 'S', '1'};

static uint8_t *put(uint8_t *at, uint64_t value, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        *at++ = (uint8_t)(value >> (8 * i));
    return at;
}

static uint64_t get(const uint8_t **at, uint32_t size)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < size; i++)
        value |= (uint64_t)*(*at)++ << (8 * i);
    return value;
}

static uint64_t bits(double value)
{
    uint64_t b;
    memcpy(&b, &value, sizeof b);
    return b;
}

void fr_costs_save(const fr_step_costs *c, uint64_t key, uint8_t bytes[FR_COSTS_BYTES])
{
    uint8_t *at = bytes;
    memcpy(at, magic, sizeof magic);
    at = put(at + sizeof magic, key, 8);
    for (uint32_t i = 0; i < FR_COSTS_STATE; i++)
        at = put(at, bits(c->mean[i]), 8);
    for (uint32_t i = 0; i < FR_COSTS_STATE * FR_COSTS_STATE; i++)
        at = put(at, bits(c->covariance[i / FR_COSTS_STATE][i % FR_COSTS_STATE]), 8);
    for (uint32_t k = 0; k < FR_COSTS_WIDTHS; k++)
        at = put(at, c->samples[k], 4);
    for (uint32_t w = 0; w < FR_COSTS_WINDOWS; w++)
        at = put(at, c->windows[w], 4);
    put(at, fr_memory_hash(FR_MEMORY_HASH, bytes, (size_t)(at - bytes)), 8);
}

static double get_double(const uint8_t **at)
{
    const uint64_t b = get(at, 8);
    double value;
    memcpy(&value, &b, sizeof value);
    return value;
}

/* A filter that was saved by this program is symmetric, certain of nothing impossible, and within what milliseconds can be. */
static bool possible(const fr_step_costs *c)
{
    bool good = true;
    for (uint32_t i = 0; i < FR_COSTS_STATE; i++) {
        good = good && fabs(c->mean[i]) < 20 && c->covariance[i][i] >= 0 && c->covariance[i][i] < 100;
        for (uint32_t j = 0; j < i; j++)
            good = good && fabs(c->covariance[i][j] - c->covariance[j][i]) < 1e-9 &&
                   c->covariance[i][j] * c->covariance[i][j] <= c->covariance[i][i] * c->covariance[j][j] + 1e-9;
    }
    return good;
}

fr_status fr_costs_load(fr_step_costs *c, uint64_t key, const uint8_t *bytes, size_t size, const char *name, fr_error_text *err)
{
    fr_step_costs read = {0};
    const uint8_t *at = bytes + sizeof magic;
    name = name ? name : "the saved costs";
    if (size < sizeof magic || memcmp(bytes, magic, sizeof magic))
        return fr_fail(err, FR_BAD_ARGUMENT, "%s: these are no costs, or of another version; they are measured again", name);
    const uint8_t *end = bytes + FR_COSTS_BYTES - 8;
    if (size != FR_COSTS_BYTES || fr_memory_hash(FR_MEMORY_HASH, bytes, FR_COSTS_BYTES - 8) != get(&end, 8))
        return fr_fail(err, FR_BAD_ARGUMENT, "%s: damaged; they are measured again", name);
    if (get(&at, 8) != key)
        return fr_fail(err, FR_BAD_ARGUMENT, "%s: of another adapter, driver, version, model or context; they are measured again", name);
    for (uint32_t i = 0; i < FR_COSTS_STATE; i++)
        read.mean[i] = get_double(&at);
    for (uint32_t i = 0; i < FR_COSTS_STATE * FR_COSTS_STATE; i++)
        read.covariance[i / FR_COSTS_STATE][i % FR_COSTS_STATE] = get_double(&at);
    for (uint32_t k = 0; k < FR_COSTS_WIDTHS; k++)
        read.samples[k] = (uint32_t)get(&at, 4);
    for (uint32_t w = 0; w < FR_COSTS_WINDOWS; w++)
        read.windows[w] = (uint32_t)get(&at, 4);
    if (!possible(&read))
        return fr_fail(err, FR_BAD_ARGUMENT, "%s: no times that a device can have; they are measured again", name);
    read.covariance[LEVEL][LEVEL] += reopened;
    *c = read;
    return FR_OK;
}
