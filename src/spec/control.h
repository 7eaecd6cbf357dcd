/* control.h: how wide the trees of the next window are, and how many steps it has. No clock and no I/O: the host tells what windows cost
 * and what their steps yielded, and asks before it submits one. The same events give the same choices. What is chosen changes the speed
 * alone, never a token. doc/controller.md has the method and what it is worth.
 *
 *     fr_control_open(&c, class)          once; fr_costs_load(&c.costs) may then put in what an earlier visit learnt
 *     fr_control_begin(&c)                a request begins
 *     fr_control_next(&c, &limits)        before each window: what to submit
 *     fr_control_tree(), _plain(), _time() for each window that was read: its steps, oldest first, then how long it took
 *
 * Yield. A step over N nodes has also tried every narrower tree, which is the beginning of the wider one. So each step tells, for its match
 * length, what all widths up to its own would have accepted; `more` keeps what each width adds to the next narrower one. The steps to come
 * are expected to match as the last ones did, and `trust` corrects what this text keeps of such promises.
 *
 * Choice. The width with the most tokens a millisecond by these estimates. Another one is tried (a probe) if it would be better by some
 * of its uncertainty, which grows while it is not tried, and if an account has enough: a share of all time goes into it, and a probe takes
 * out what it is expected to lose. */
#ifndef FR_SPEC_CONTROL_H
#define FR_SPEC_CONTROL_H

#include "spec/costs.h"
#include "spec/draft.h"

enum { FR_CONTROL_RECENT = 8 /* steps whose match lengths count */ };

typedef struct fr_yield {
    double mean, count; /* drafts accepted more than by the next narrower tree; steps that say so */
} fr_yield;

typedef struct fr_control {
    fr_adapter_class class;
    fr_step_costs costs;
    fr_yield more[FR_DRAFT_ORDERS + 1][FR_COSTS_WIDTHS];
    double often[FR_DRAFT_ORDERS + 1]; /* share of steps with a match length, over the last few hundred */
    uint8_t recent[FR_CONTROL_RECENT]; /* match lengths, latest first */
    uint32_t n_recent;
    double promised, kept;             /* drafts expected of the last steps of this text, and accepted */
    double since;                      /* plain steps since the last tree */
    double credit;                     /* for probes, plain steps */
    double missed[FR_COSTS_WIDTHS];    /* plain steps that widths would have saved whose kernels were not there */
    uint32_t idle[FR_COSTS_WINDOWS];   /* windows since one of that size */
    uint32_t probes;                   /* windows, since the request began */
    double probe_ms;                   /* that they were expected to lose */
} fr_control;

/* What may be chosen. */
typedef struct fr_control_limits {
    uint32_t widths;  /* bit k: trees of 1 << k nodes fit; bit 0 is set */
    uint32_t ready;   /* of these, whose kernels are compiled; bit 0 is set */
    uint32_t window;  /* W; 0: chosen */
    double budget_ms; /* what a window may take; 0: any time */
} fr_control_limits;

typedef struct fr_control_choice {
    uint32_t width, window; /* nodes; steps */
    uint32_t wanted;        /* nodes of the width that would be taken if it were ready */
} fr_control_choice;

void fr_control_open(fr_control *, fr_adapter_class);
void fr_control_begin(fr_control *);
/* The width that it would begin with, of those whose bit is set. */
uint32_t fr_control_favourite(const fr_control *, uint32_t widths);
fr_control_choice fr_control_next(fr_control *, const fr_control_limits *);

/* A step over a tree of `width` nodes: the longest match of its candidates, and accepted[k] drafts among its first 1 << k nodes, for every
 * 1 << k up to `width`. */
void fr_control_tree(fr_control *, uint32_t width, uint32_t match, const uint8_t accepted[FR_COSTS_WIDTHS]);
/* One or more plain steps; `match`: of the text behind the last of them, what a drafter would have found. */
void fr_control_plain(fr_control *, uint32_t steps, uint32_t match);
/* A window of `steps` steps, all of which worked, took `ms` on the device. Not to be called for one that the device had to wait for. */
void fr_control_time(fr_control *, uint32_t width, uint32_t steps, double ms);

/* Tokens that a step over `width` nodes is expected to yield now, 1 to 9. */
double fr_control_yield(const fr_control *, uint32_t width);

#endif
