#include "ref/case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a case carries from one dispatch to the next. */
typedef struct run {
    rig rig;
    rig_snapshot was, now;
    uint32_t *low, *high; /* as long as a snapshot */
    uint8_t *kind;
} run;

static const char *const buffer_names[REF_BUFFERS] = {[REF_ACT] = "act", [REF_WORK] = "work", [REF_STATE] = "state", [REF_KV] = "kv"};

static bool run_open(run *u, const rig_host *host, const kernel_case *c)
{
    if (!rig_open(&u->rig, host, &c->options) || !rig_snapshot_new(&u->rig, &u->was) || !rig_snapshot_new(&u->rig, &u->now))
        return false;
    u->low = malloc(u->was.n * sizeof *u->low);
    u->high = malloc(u->was.n * sizeof *u->high);
    u->kind = malloc(u->was.n);
    if (!u->low || !u->high || !u->kind)
        fr_fail(&u->rig.error, FR_FAILED, "out of memory");
    return u->rig.error.status == FR_OK;
}

static void run_close(run *u)
{
    rig_close(&u->rig);
    free(u->was.words);
    free(u->now.words);
    free(u->low);
    free(u->high);
    free(u->kind);
}

static ref_words words_of(run *u, uint32_t buffer)
{
    const size_t at = (size_t)(rig_part(&u->rig, &u->was, buffer) - u->was.words);
    return (ref_words){u->was.words + at, u->low + at, u->high + at, u->kind + at, rig_words(&u->rig, buffer)};
}

/* Everything stays as it was: what a twin changes its mind about comes on top. */
static void expect_nothing(run *u)
{
    memcpy(u->low, u->was.words, 4 * u->was.n);
    memcpy(u->high, u->was.words, 4 * u->was.n);
    memset(u->kind, REF_BITS, u->was.n);
}

static bool compare(run *u, const char *kernel, uint32_t index, uint32_t layer, const char *name)
{
    for (uint32_t b = 0; b < rig_buffers(&u->rig); b++) {
        const ref_words w = words_of(u, b);
        const uint32_t *now = rig_part(&u->rig, &u->now, b);
        const size_t i = ref_first_wrong(&w, now);
        if (i == w.n)
            continue;
        const bool written = w.kind[i] != REF_BITS || w.low[i] != w.was[i];
        fr_fail(&u->rig.error, FR_FAILED, "%s: dispatch %u (%s, layer %u): %s[%zu] is 0x%08x (%g), %s 0x%08x (%g) to 0x%08x (%g)", name,
                index, kernel, layer, buffer_names[b < REF_BUFFERS ? b : REF_BUFFERS - 1], i, now[i], (double)ref_bits_float(now[i]),
                written ? "expected" : "was and should stay", w.low[i], (double)ref_bits_float(w.low[i]), w.high[i],
                (double)ref_bits_float(w.high[i]));
        return false;
    }
    return true;
}

static bool run_dispatch(run *u, const char *name, uint32_t nodes, fr_tail tail, uint32_t index, uint32_t positions)
{
    rig *r = &u->rig;
    const fr_trace t = fr_forward_trace(r->forward, nodes, tail, index, positions);
    ref_step step = {0};
    void (*twin)(ref_step *);
    if (!rig_describe(r, nodes, tail, index, positions, &step, &twin)) {
        fr_fail(&r->error, FR_FAILED, "%s: kernel %s has no twin", name, t.kernel);
        return false;
    }
    expect_nothing(u);
    for (uint32_t b = 0; b < REF_KV; b++)
        step.buffers[b] = words_of(u, b);
    step.buffers[REF_KV] = words_of(u, REF_KV + t.kv_buffer);
    twin(&step);
    fr_gpu_begin(r->gpu);
    fr_forward_trace_record(r->forward, nodes, tail, index, positions);
    fr_gpu_submit(r->gpu);
    if (!rig_read(r, &u->now) || !compare(u, t.kernel, index, t.layer, name))
        return false;
    memcpy(u->was.words, u->now.words, 4 * u->was.n);
    return true;
}

static bool run_step(run *u, const kernel_case *c, uint32_t number, uint32_t *dispatches)
{
    rig *r = &u->rig;
    const case_step *s = &c->steps[number];
    const uint32_t nodes = s->wide ? fr_forward_prefill_nodes(r->forward) : 1, positions = s->pos + s->count;
    char name[96];
    snprintf(name, sizeof name, "%s, step %u (%u tokens at %u)", c->name, number, s->count, s->pos);
    if (!rig_prepare(r, nodes, s->tail))
        return false;
    rig_scramble(r, &u->was, number + 1);
    fr_gpu_Control *control = rig_control(r, &u->was);
    control->pos = s->pos;
    control->end = positions + s->more;
    control->finished = s->finished;
    rig_write(r, &u->was);
    for (uint32_t i = 0; i < fr_forward_trace_count(r->forward, nodes, s->tail); i++, (*dispatches)++)
        if (!run_dispatch(u, name, nodes, s->tail, i, positions))
            return false;
    return true;
}

bool kernel_case_run(const rig_host *host, const kernel_case *c, uint32_t *dispatches, fr_error_text *error)
{
    run u = {0};
    bool ok = run_open(&u, host, c);
    *dispatches = 0;
    for (uint32_t i = 0; ok && i < CASE_STEPS && c->steps[i].count; i++)
        ok = run_step(&u, c, i, dispatches);
    if (!ok)
        fr_fail(error, FR_FAILED, "%s", u.rig.error.text);
    run_close(&u);
    return ok;
}
