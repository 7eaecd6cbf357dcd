/* session_whole.c: whether the layers of a step are one dispatch. That needs workgroups which run at the same time, which WebGPU doesn't
 * promise, and it is not faster everywhere. So it is tried: a step that is lost is made again with half the workgroups, down to a
 * number that can't pay, and of what works, windows are timed in both ways before one is chosen, for each width. */
#include <stddef.h>
#include <stdlib.h>

#include "model/kernels.h"
#include "session.h"

enum {
    MOST = 128, /* workgroups tried first: one on each processor of the largest GPUs */
    LEAST = 16,
    FIRST = 1   /* windows that are not timed: the first one, whose kernel is new to the device */
};

void fr_whole_open(fr_engine *e)
{
    const bool may = !e->device.is_cpu && !e->device.is_integrated && fr_gpu_get_limits(e->gpu)->subgroup >= 32;
    e->whole.groups = may ? MOST : 0;
}

static fr_tail tail_of(uint32_t nodes)
{
    return nodes > 1 ? FR_TAIL_TREE : FR_TAIL_EMIT;
}

void fr_whole_prepare(fr_engine *e, uint32_t nodes)
{
    if (e->whole.groups)
        fr_forward_whole(e->forward, nodes, tail_of(nodes), 1);
}

static bool undecided(const fr_engine *e, const fr_trial *t)
{
    return !e->run.workgroups && t->n[1] < FR_TRIALS && e->device.now_ms;
}

bool fr_whole_tries(const fr_engine *e, uint32_t widths)
{
    for (uint32_t k = 0; 1u << k <= FR_WHOLE_NODES; k++)
        if (widths >> k & 1 && e->whole.groups && undecided(e, &e->whole.trials[k]) &&
            fr_forward_whole(e->forward, 1u << k, tail_of(1u << k), 1) != FR_WHOLE_NONE)
            return true;
    return false;
}

uint32_t fr_whole_groups(fr_engine *e, uint32_t nodes, uint32_t positions, bool *trial)
{
    const fr_run *run = &e->run;
    const fr_trial *t = &e->whole.trials[fr_costs_index(nodes)];
    const uint32_t groups = run->workgroups ? run->workgroups : t->rejected ? 0 : e->whole.groups;
    *trial = false;
    /* compiling begins behind the first token; a budget cuts steps into their dispatches */
    if (!groups || groups == FR_NEVER || !run->emitted || run->budget_ms > 0)
        return 0;
    const fr_whole whole = fr_forward_whole(e->forward, nodes, tail_of(nodes), positions);
    if (whole == FR_WHOLE_NONE)
        return 0;
    /* only windows alike can be compared: several in flight, all of one size */
    const bool can = undecided(e, t) && run->mode != FR_MODE_GREEDY && run->window == FR_COSTS_WINDOW;
    *trial = can && (t->n[0] < FR_TRIALS || whole == FR_WHOLE_READY);
    return whole == FR_WHOLE_COMPILING || (*trial && t->n[0] < FR_TRIALS) ? 0 : groups;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x)
{
    qsort(x, FR_TRIALS, sizeof *x, by_size);
    return x[FR_TRIALS / 2];
}

void fr_whole_read(fr_engine *e, const fr_window *w, double ms)
{
    fr_trial *t = &e->whole.trials[fr_costs_index(w->width)];
    const int way = w->groups > 0;
    uint32_t others = 0;
    if (!(ms > 0) || !w->trial || w->steps != FR_COSTS_WINDOW || t->n[way] == FR_TRIALS || !undecided(e, t))
        return;
    if (way && t->skipped < FIRST) {
        t->skipped++;
        return;
    }
    t->ms[way][t->n[way]++] = ms / w->steps;
    if (t->n[0] < FR_TRIALS || t->n[1] < FR_TRIALS)
        return;
    const double with = median(t->ms[1]), without = median(t->ms[0]);
    t->rejected = with >= without;
    for (uint32_t k = 1; k < FR_COSTS_WIDTHS; k++) /* the undecided will change like plain steps, as far as is known */
        others |= 1u << k <= FR_WHOLE_NODES && undecided(e, &e->whole.trials[k]) ? 0 : 1u << k;
    fr_costs_changed(fr_adapt_lasting(e), fr_costs_index(w->width), t->rejected ? without : with, others);
}

void fr_whole_lost(fr_engine *e)
{
    const uint32_t control_finished = FR_RUN_ON;
    fr_whole_state *s = &e->whole;
    const uint32_t had = e->run.workgroups ? e->run.workgroups : s->groups, left = had / 2 < LEAST ? 0 : had / 2;
    s->losses++;
    if (e->run.workgroups) /* the request's own number */
        e->run.workgroups = left ? left : FR_NEVER;
    else
        s->groups = left;
    for (uint32_t k = 0; k < FR_COSTS_WIDTHS; k++) {
        s->trials[k].n[1] = s->trials[k].skipped = 0;
        s->trials[k].rejected = false;
    }
    fr_forward_forget_loss(e->forward);
    fr_gpu_write(e->gpu, fr_forward_state(e->forward), offsetof(fr_gpu_Control, finished), &control_finished, sizeof control_finished);
}
