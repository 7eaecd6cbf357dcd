#include "spec/control.h"

#include <math.h>
#include <string.h>

/* Chosen by simulation (forerun sim --control); within a factor of two they hardly matter. */
static const double yield_memory = 200; /* steps that a yield is the mean of */
static const double often_memory = 200; /* and how often a match length is met */
static const double prior_count = 3; /* steps that the first guess of a yield is worth */
static const double forget = 0.004; /* share of what is known of a yield that a plain step takes away */
static const double habit = 0.2; /* weight of how often a match length is met, against that of the latest step */
static const double fade = 0.8; /* weight of a step against that of the next one */
static const double trust_fade = 0.93; /* weight of a step's promise against that of the next one */
static const double trust_count = 1; /* drafts, kept as promised, that a text begins with */
static const double trust_carry = 0.8; /* of what a text has shown counts for the next one */
static const double trust_heal = 0.02; /* drafts, kept as promised, that a plain step lets a probe hope for */
static const double probe_share = 0.007; /* of all time, for probes */
static const double first_credit = 6; /* plain steps that the account begins with */
static const double most_credit = 16; /* and has at most */
static const double optimism = 0.3; /* deviations of its yield by which a probe is thought better */
static const double daring = 0.7; /* and of its cost */
static const double near_enough = 0.005; /* of the fastest window, a smaller one is preferred */
static const double smooth_ms = 33; /* windows of several steps take no longer */
/* What compiling a width costs, in plain steps: on a CPU adapter it takes the processors. It is done once so much was missed without. */
static const double compile_cost[] = {[FR_ADAPTER_DISCRETE] = 0, [FR_ADAPTER_INTEGRATED] = 0, [FR_ADAPTER_CPU] = 32};
enum { FIRST_PLAIN = 4 /* windows of plain steps */, FIRST_LOOK = 8 /* windows of a size that show what it costs */ };
enum { LOOK_AGAIN = 192 /* windows after which a size is tried again */ };

/* Drafts that a width adds, by match length, before any step was seen: what texts usually yield. */
static const double added[FR_DRAFT_ORDERS + 1][FR_COSTS_WIDTHS] = {
    {0},
    {0, .2, .15, .1, .08, .06},
    {0, .25, .25, .2, .15, .1},
    {0, .5, .5, .5, .3, .2},
    {0, .6, .7, .7, .4, .3},
    {0, .7, .8, .9, .5, .3},
    {0, .75, 1, 1.3, .6, .3},
    {0, .8, 1.2, 1.7, .7, .3},
    {0, .92, 1.6, 2.5, .8, .1},
};

void fr_control_open(fr_control *c, fr_adapter_class class)
{
    *c = (fr_control){.class = class, .promised = trust_count, .kept = trust_count, .credit = first_credit};
    fr_costs_open(&c->costs, class);
    for (uint32_t m = 0; m <= FR_DRAFT_ORDERS; m++) {
        c->often[m] = 1.0 / (FR_DRAFT_ORDERS + 1);
        for (uint32_t k = 1; k < FR_COSTS_WIDTHS; k++)
            c->more[m][k] = (fr_yield){added[m][k], prior_count};
    }
    fr_control_begin(c);
}

void fr_control_begin(fr_control *c)
{
    c->n_recent = 0;
    c->since = 0;
    c->promised = trust_count + (c->promised - trust_count) * trust_carry;
    c->kept = trust_count + (c->kept - trust_count) * trust_carry;
    c->probes = 0;
    c->probe_ms = 0;
}

/* ---- what was seen ---- */

void fr_control_time(fr_control *c, uint32_t width, uint32_t steps, double ms)
{
    fr_costs_sample(&c->costs, fr_costs_index(width), steps, ms);
}

static void see_match(fr_control *c, uint32_t match, uint32_t steps)
{
    const double part = 1 - exp(-(double)steps / often_memory);
    memmove(c->recent + 1, c->recent, FR_CONTROL_RECENT - 1);
    c->recent[0] = (uint8_t)match;
    c->n_recent += c->n_recent < FR_CONTROL_RECENT;
    for (uint32_t m = 0; m <= FR_DRAFT_ORDERS; m++)
        c->often[m] += ((m == match) - c->often[m]) * part;
}

void fr_control_tree(fr_control *c, uint32_t width, uint32_t match, const uint8_t accepted[FR_COSTS_WIDTHS])
{
    match = match < FR_DRAFT_ORDERS ? match : FR_DRAFT_ORDERS;
    see_match(c, match, 1);
    if (!match)
        return;
    double promise = 0;
    c->since = 0;
    uint32_t k = 1;
    for (; k < FR_COSTS_WIDTHS && 1u << k <= width; k++) {
        fr_yield *y = &c->more[match][k];
        promise += y->mean;
        y->count = fmin(y->count + 1, yield_memory);
        y->mean += ((double)accepted[k] - (k > 1 ? accepted[k - 1] : 0) - y->mean) / y->count;
    }
    c->promised = trust_fade * (c->promised - trust_count) + trust_count + promise;
    c->kept = trust_fade * (c->kept - trust_count) + trust_count + accepted[k - 1];
}

void fr_control_plain(fr_control *c, uint32_t steps, uint32_t match)
{
    match = match < FR_DRAFT_ORDERS ? match : FR_DRAFT_ORDERS;
    see_match(c, match, steps);
    for (uint32_t k = 1; k < FR_COSTS_WIDTHS; k++) {
        double *count = &c->more[match][k].count;
        *count = fmax(*count * (1 - forget * steps), fmin(*count, prior_count));
    }
    c->since += steps;
}

/* ---- what is expected ---- */

typedef struct drafts {
    double mean[FR_COSTS_WIDTHS], variance[FR_COSTS_WIDTHS]; /* accepted in a step of each width */
} drafts;

static drafts expect(const fr_control *c, double hope)
{
    double weight[FR_DRAFT_ORDERS + 1], sum = 0, w = 1;
    const double trust = (c->kept + hope) / (c->promised + hope);
    for (uint32_t m = 0; m <= FR_DRAFT_ORDERS; m++)
        weight[m] = habit * c->often[m];
    for (uint32_t i = 0; i < c->n_recent; i++, w *= fade)
        weight[c->recent[i]] += w;
    for (uint32_t m = 0; m <= FR_DRAFT_ORDERS; m++)
        sum += weight[m];
    drafts d = {{0}, {0}};
    for (uint32_t k = 1; k < FR_COSTS_WIDTHS; k++) {
        d.mean[k] = d.mean[k - 1];
        d.variance[k] = d.variance[k - 1];
        for (uint32_t m = 1; m <= FR_DRAFT_ORDERS; m++) {
            const double p = weight[m] / sum;
            d.mean[k] += p * trust * c->more[m][k].mean;
            d.variance[k] += p * p * (c->more[m][k].mean + 0.05) / c->more[m][k].count;
        }
    }
    return d;
}

double fr_control_yield(const fr_control *c, uint32_t width)
{
    return 1 + expect(c, 0).mean[fr_costs_index(width)];
}

/* ---- choice ---- */

/* The smallest window that is near the fastest. The first windows are single steps, until it is known how long they take, and so are those
 * behind a surprise; then each size
 * that fits gets a first look, the largest first, and later another one from time to time. */
static uint32_t choose_window(const fr_control *c, uint32_t k, double budget_ms)
{
    const double step = fr_costs_step(&c->costs, k, FR_COSTS_WINDOW), most = budget_ms > 0 && budget_ms < smooth_ms ? budget_ms : smooth_ms;
    uint32_t top = 0, best = 0;
    if (!c->costs.samples[k] || c->costs.surprises)
        return 1;
    while (top + 1 < FR_COSTS_WINDOWS && (2 << top) * step <= most)
        top++;
    for (uint32_t w = top + 1; w-- > 0;)
        if (c->costs.windows[w] < FIRST_LOOK)
            return 1u << w;
    for (uint32_t w = 0; w <= top; w++) {
        if (c->idle[w] > LOOK_AGAIN)
            return 1u << w;
        best = fr_costs_spread(&c->costs, w) < fr_costs_spread(&c->costs, best) ? w : best;
    }
    for (uint32_t w = 0; w < best; w++)
        if (fr_costs_spread(&c->costs, w) <= fr_costs_spread(&c->costs, best) + near_enough)
            return 1u << w;
    return 1u << best;
}

static uint32_t best_of(const double *list, uint32_t allowed)
{
    uint32_t best = 0;
    for (uint32_t k = 1; k < FR_COSTS_WIDTHS; k++)
        if (allowed >> k & 1 && list[k] > list[best])
            best = k;
    return best;
}

uint32_t fr_control_favourite(const fr_control *c, uint32_t widths)
{
    const drafts d = expect(c, 0);
    double rate[FR_COSTS_WIDTHS];
    for (uint32_t k = 0; k < FR_COSTS_WIDTHS; k++)
        rate[k] = (1 + d.mean[k]) / fr_costs_step(&c->costs, k, FR_COSTS_WINDOW);
    return 1u << best_of(rate, widths);
}

fr_control_choice fr_control_next(fr_control *c, const fr_control_limits *l)
{
    const drafts d = expect(c, 0), best_case = expect(c, trust_heal * c->since);
    double rate[FR_COSTS_WIDTHS], hope[FR_COSTS_WIDTHS], ms[FR_COSTS_WIDTHS]; /* tokens a millisecond, as expected and at best */
    for (uint32_t k = 0; k < FR_COSTS_WIDTHS; k++) {
        ms[k] = fr_costs_step(&c->costs, k, FR_COSTS_WINDOW);
        rate[k] = (1 + d.mean[k]) / ms[k];
    }
    const bool begins = c->costs.samples[0] < FIRST_PLAIN; /* with plain steps: all is compared with them */
    const uint32_t best = begins ? 0 : best_of(rate, l->ready);
    uint32_t wanted = best_of(rate, l->widths), k = best;
    uint32_t window = l->window ? l->window : choose_window(c, best, l->budget_ms);
    for (uint32_t i = 0; i < FR_COSTS_WIDTHS; i++)
        hope[i] = i == best
                      ? rate[i]
                      : (1 + best_case.mean[i] + optimism * sqrt(d.variance[i])) / ms[i] * exp(daring * fr_costs_doubt(&c->costs, i, best));
    const uint32_t hoped = begins ? best : best_of(hope, l->ready);
    if (hope[hoped] > rate[best]) {
        const double loss = ms[hoped] / ms[0] * (1 - rate[hoped] / rate[best]);
        while (!l->window && window > 1 && loss * window > c->credit)
            window /= 2;
        if (loss * window <= c->credit) {
            k = hoped;
            c->credit -= loss * window;
            c->probe_ms += loss * window * ms[0];
            c->probes++;
        }
    }
    c->missed[wanted] += (1 - rate[best] / rate[wanted]) * window * ms[k] / ms[0];
    if (c->missed[wanted] < compile_cost[c->class])
        wanted = best;
    c->credit = fmin(c->credit + probe_share * window * ms[k] / ms[0], most_credit);
    for (uint32_t w = 0; w < FR_COSTS_WINDOWS; w++)
        c->idle[w] = window == 1u << w ? 0 : c->idle[w] + 1;
    fr_costs_age(&c->costs, window);
    return (fr_control_choice){1u << k, window, 1u << wanted};
}
