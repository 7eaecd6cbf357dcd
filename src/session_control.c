/* session_control.c: mode adaptive in the engine: spec/control.h decides, here is what it is told, and what an earlier visit left for it.
 */
#include <string.h>

#include "session.h"
#include "spec/match.h"

void fr_adapt_open(fr_engine *e)
{
    const fr_adapter_class class = e->device.is_cpu          ? FR_ADAPTER_CPU
                                   : e->device.is_integrated ? FR_ADAPTER_INTEGRATED
                                                             : FR_ADAPTER_DISCRETE;
    const char *driver = e->device.driver ? e->device.driver : "";
    e->driver = fr_memory_hash(FR_MEMORY_HASH, driver, strlen(driver));
    e->device.driver = NULL; /* the caller's */
    e->ready_widths = 1;
    fr_control_open(&e->control, class);
    e->other_costs = e->control.costs;
}

static uint64_t add(uint64_t hash, uint64_t number)
{
    return fr_memory_hash(hash, &number, sizeof number);
}

/* Whatever a step's time depends on. */
void fr_adapt_plan(fr_engine *e)
{
    const fr_config *c = e->config;
    const uint64_t numbers[] = {e->context,    e->options.portable, c->n_layers,         c->dim, c->vocab, c->n_heads,
                                c->n_kv_heads, c->head_dim,         fr_expected_bytes(e)};
    uint64_t hash = fr_memory_hash(e->driver, e->adapter, strlen(e->adapter) + 1);
    hash = fr_memory_hash(hash, FR_VERSION, sizeof FR_VERSION);
    hash = fr_memory_hash(hash, e->name, strlen(e->name) + 1);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        hash = add(hash, numbers[i]);
    e->costs_key = hash;
    for (uint32_t i = 0; i < 16; i++)
        e->costs_name[i] = "0123456789abcdef"[hash >> (60 - 4 * i) & 15];
}

uint32_t fr_adapt_opening(const fr_engine *e, uint32_t widest)
{
    return fr_control_favourite(&e->control, 2 * widest - 1);
}

/* With a budget the device waits for every submission, so steps cost something else. */
void fr_adapt_begin(fr_engine *e)
{
    const bool paced = e->run.budget_ms > 0;
    if (paced != e->paced) {
        const fr_step_costs costs = e->control.costs;
        e->control.costs = e->other_costs;
        e->other_costs = costs;
        e->paced = paced;
    }
    fr_control_begin(&e->control);
}

fr_step_costs *fr_adapt_lasting(fr_engine *e)
{
    return e->paced ? &e->other_costs : &e->control.costs;
}

/* ---- before a window ---- */

/* Whether the kernels of a width are there; looks only at what compiles. *busy: some are on their way. */
static bool look(fr_engine *e, uint32_t nodes, bool start, bool *busy)
{
    fr_error_text error = {0};
    bool ready = false;
    if (!start && !fr_forward_begun(e->forward, nodes, FR_TAIL_TREE))
        return true;
    if (fr_forward_prepare(e->forward, nodes, FR_TAIL_TREE, &ready, &error) != FR_OK) {
        e->error = error;
        fr_engine_fail(e);
        return false;
    }
    if (ready)
        e->ready_widths |= 1u << fr_costs_index(nodes);
    else
        *busy = true;
    return true;
}

bool fr_adapt_next(fr_engine *e, uint32_t *width, uint32_t *window)
{
    fr_run *run = &e->run;
    bool busy = false;
    for (uint32_t nodes = 2; nodes <= run->widest; nodes *= 2)
        if (!(e->ready_widths & nodes) && !look(e, nodes, false, &busy))
            return false;
    const uint32_t widths = 2 * run->widest - 1; /* bit k is of 1 << k nodes */
    const fr_control_limits limits = {.widths = widths,
                                      .ready = e->ready_widths & widths,
                                      .window = !run->chosen ? run->window
                                                : run->emitted && run->budget_ms == 0 && fr_whole_tries(e, e->ready_widths & widths)
                                                    ? FR_COSTS_WINDOW
                                                    : 0,
                                      .budget_ms = run->budget_ms};
    const fr_control_choice choice = fr_control_next(&e->control, &limits);
    *width = choice.width;
    *window = choice.window;
    /* one width at a time, and behind the first token, which it would delay */
    const bool missing = !(e->ready_widths & choice.wanted);
    return !missing || busy || !run->emitted || look(e, choice.wanted, true, &busy);
}

/* ---- after a window ---- */

static void see_trees(fr_engine *e, const fr_window *w, const uint32_t *stats, uint32_t before, uint32_t done)
{
    const uint32_t top = fr_costs_index(w->width);
    for (uint32_t i = 0; i < done; i++) {
        const uint32_t *s = stats + 3 * ((before + i) % FR_STATS);
        uint8_t accepted[FR_COSTS_WIDTHS] = {0};
        for (uint32_t k = 1; k < top; k++)
            accepted[k] = s[1] >> (12 + 4 * k) & 15;
        accepted[top] = (uint8_t)((s[1] & 0xffff) - 1);
        fr_control_tree(&e->control, w->width, s[2], accepted);
    }
}

/* Clocks of browsers are coarse: windows that are read while one stands still are timed together with the next one, if they are alike. */
static void see_time(fr_engine *e, const fr_window *w, double now)
{
    fr_run *run = &e->run;
    if (run->timed.width != w->width || run->timed.window != w->steps) {
        run->timed.width = w->width;
        run->timed.window = w->steps;
        run->timed.steps = 0;
    }
    run->timed.steps += w->steps;
    if (now <= run->read_ms)
        return;
    /* compiling takes processors from what is timed on one */
    if (!e->device.is_cpu || !fr_gpu_compiling(e->gpu))
        fr_control_time(&e->control, w->width, w->steps, (now - run->read_ms) * w->steps / run->timed.steps);
    run->timed.steps = 0;
}

void fr_adapt_read(fr_engine *e, const fr_window *w, const uint32_t *stats, uint32_t before, uint32_t done, bool ended, double now)
{
    fr_run *run = &e->run;
    const uint32_t whole = done - (done && ended); /* what the last one accepted was cut short */
    if (w->width > 1)
        see_trees(e, w, stats, before, whole);
    else if (whole && !ended)
        fr_control_plain(
            &e->control, whole,
            fr_match_longest(e->history, e->history_end, e->recall.copy, e->recall.copy && run->searched ? e->recall.words : 0));
    const bool whole_window = done == w->steps && !ended;
    if (run->budget_ms > 0 && whole_window)
        fr_control_time(&e->control, w->width, w->steps, now - w->step_ms);
    if (run->budget_ms == 0 && w->follows && whole_window && !(w->trial && w->groups))
        see_time(e, w, now);
    else
        run->timed.steps = 0;
}

/* ---- the API ---- */

size_t fr_save_costs(fr_engine *e, void *bytes, size_t room)
{
    if (!e->costs_name[0]) {
        fr_engine_refuse(e, FR_BAD_ARGUMENT, "there is no model yet: feed it first");
        return 0;
    }
    if (bytes && room >= FR_COSTS_BYTES)
        fr_costs_save(fr_adapt_lasting(e), e->costs_key, bytes);
    return FR_COSTS_BYTES;
}

fr_status fr_load_costs(fr_engine *e, const void *bytes, size_t size, const char *name)
{
    fr_error_text error = {0};
    if (!e->costs_name[0])
        return fr_engine_refuse(e, FR_BAD_ARGUMENT, "there is no model yet: feed it first");
    return fr_costs_load(fr_adapt_lasting(e), e->costs_key, bytes, size, name, &error) == FR_OK
               ? FR_OK
               : fr_engine_refuse(e, error.status, error.text);
}
