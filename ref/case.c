#include "ref/case.h"
#include "spec/draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one dispatch ---- */

bool checker_open(checker *c, rig *r)
{
    *c = (checker){.rig = r};
    if (!rig_snapshot_new(r, &c->was) || !rig_snapshot_new(r, &c->now))
        return false;
    c->low = malloc(c->was.n * sizeof *c->low);
    c->high = malloc(c->was.n * sizeof *c->high);
    c->kind = malloc(c->was.n);
    if (!c->low || !c->high || !c->kind)
        fr_fail(&r->error, FR_FAILED, "out of memory");
    return r->error.status == FR_OK;
}

void checker_close(checker *c)
{
    free(c->was.words);
    free(c->now.words);
    free(c->low);
    free(c->high);
    free(c->kind);
}

static ref_words words_of(checker *c, uint32_t buffer)
{
    const size_t at = (size_t)(rig_part(c->rig, &c->was, buffer) - c->was.words);
    return (ref_words){c->was.words + at, c->low + at, c->high + at, c->kind + at, rig_words(c->rig, buffer)};
}

bool checker_expect(checker *c, uint32_t nodes, fr_tail tail, uint32_t index, uint32_t positions)
{
    const fr_trace t = fr_forward_trace(c->rig->forward, nodes, tail, index, positions);
    ref_step step = {0};
    void (*twin)(ref_step *);
    if (!rig_describe(c->rig, nodes, tail, index, positions, &step, &twin)) {
        fr_fail(&c->rig->error, FR_FAILED, "kernel %s has no twin", t.kernel);
        return false;
    }
    /* all stays as it was, but for what the twin says */
    memcpy(c->low, c->was.words, 4 * c->was.n);
    memcpy(c->high, c->was.words, 4 * c->was.n);
    memset(c->kind, REF_BITS, c->was.n);
    for (uint32_t b = 0; b < REF_KV; b++)
        step.buffers[b] = words_of(c, b);
    step.buffers[REF_KV] = words_of(c, REF_KV + t.kv_buffer);
    twin(&step);
    return true;
}

size_t checker_wrong(checker *c)
{
    const ref_words all = {c->was.words, c->low, c->high, c->kind, c->was.n};
    return ref_first_wrong(&all, c->now.words);
}

/* Puts the wrong word into words: buffer, place, what it is and what was expected. */
static void describe(checker *c, const char *name, uint32_t index, const fr_trace *t, size_t wrong)
{
    static const char *const names[REF_BUFFERS] = {[REF_ACT] = "act", [REF_WORK] = "work", [REF_STATE] = "state", [REF_KV] = "kv"};
    const bool written = c->kind[wrong] != REF_BITS || c->low[wrong] != c->was.words[wrong];
    uint32_t b = 0;
    size_t place = wrong;
    for (; place >= rig_words(c->rig, b); b++)
        place -= rig_words(c->rig, b);
    const uint32_t now = c->now.words[wrong], low = c->low[wrong], high = c->high[wrong];
    fr_fail(&c->rig->error, FR_FAILED, "%s: dispatch %u (%s, layer %u): word %zu of %s is 0x%08x (%g), %s 0x%08x (%g) to 0x%08x (%g)", name,
            index, t->kernel, t->layer, place, names[b < REF_KV ? b : REF_KV], now, (double)ref_bits_float(now),
            written ? "expected is" : "but should stay", low, (double)ref_bits_float(low), high, (double)ref_bits_float(high));
}

bool checker_run(checker *c, const char *name, uint32_t nodes, fr_tail tail, uint32_t index, uint32_t positions)
{
    rig *r = c->rig;
    const fr_trace t = fr_forward_trace(r->forward, nodes, tail, index, positions);
    if (!checker_expect(c, nodes, tail, index, positions))
        return false;
    fr_gpu_begin(r->gpu);
    fr_forward_trace_record(r->forward, nodes, tail, index, positions);
    fr_gpu_submit(r->gpu);
    if (!rig_read(r, &c->now))
        return false;
    const size_t wrong = checker_wrong(c);
    if (wrong < c->was.n)
        describe(c, name, index, &t, wrong);
    return wrong == c->was.n;
}

void checker_next(checker *c)
{
    memcpy(c->was.words, c->now.words, 4 * c->was.n);
}

/* ---- a case ---- */

/* Tokens that are the first and last row of a part of the embedding, before the random ones. */
static void edge_tokens(const rig *r, uint32_t *tokens, uint32_t count, uint32_t number)
{
    const fr_matrix *m = &r->weights->embed;
    for (uint32_t i = 0; i < count && i < 2 * m->n_parts; i++) {
        const fr_part *p = &m->parts[(number + i / 2) % m->n_parts];
        tokens[i] = (number + i) % 2 ? p->row0 + p->rows - 1 : p->row0;
    }
}

/* Two tokens in a random order, so that there is much to match, now and then a third. */
static void few_tokens(uint32_t *tokens, uint32_t n, uint64_t seed)
{
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = rig_random(seed, i) % 16 ? 7 + rig_random(seed, i) / 16 % 2 : 9;
}

/* Runs of some ten tokens, with a break behind each. */
static void few_runs(uint32_t *memory, uint32_t n, uint64_t seed)
{
    few_tokens(memory, n, seed);
    for (uint32_t i = 0; i < n; i++)
        if (rig_random(seed + 1, i) % 10 == 0)
            memory[i] = FR_DRAFT_BREAK;
}

/* What the step finds, `was`, into the device too. */
static void set_up(checker *c, const case_step *s, uint32_t number)
{
    rig *r = c->rig;
    rig_scramble(r, &c->was, number + 1);
    fr_gpu_Control *control = rig_control(r, &c->was);
    uint32_t *tokens = rig_tokens(r, &c->was);
    control->pos = s->pos;
    control->end = s->pos + (s->tree ? 1 : s->count) + s->more;
    control->finished = s->finished;
    control->memory = s->memory;
    control->steps = FR_STATS - 2 + number;
    control->emitted = FR_RING - 4;
    fr_forward_set_memory(r->forward, tokens + r->shape->memory_at, s->memory);
    if (s->drafted) {
        few_tokens(tokens, s->pos + 1, number);
        few_runs(tokens + r->shape->memory_at, s->memory, number + 1);
    } else if (s->tree) {
        edge_tokens(r, tokens + s->pos, 1, number);
        rig_plant_tree(r, &c->was, s->shape, s->count, number);
        edge_tokens(r, rig_tree(r, &c->was)->token, s->count, number);
    } else {
        edge_tokens(r, tokens + s->pos, s->count, number);
    }
    rig_write(r, &c->was);
}

/* A tree that is planted takes the place of the one that its step would draft. */
static bool drafts(const char *kernel)
{
    return !strcmp(kernel, "draft_match") || !strcmp(kernel, "draft_tree");
}

static bool run_step(checker *c, const kernel_case *k, uint32_t number, uint32_t *dispatches)
{
    rig *r = c->rig;
    const case_step *s = &k->steps[number];
    const uint32_t nodes = s->tree ? s->tree : s->wide ? fr_forward_prefill_nodes(r->forward) : 1;
    const uint32_t positions = s->tree ? s->pos + 1 + FR_DRAFT_DEPTH : s->pos + s->count;
    char name[96];
    if (s->tree)
        snprintf(name, sizeof name, "step %u (tree of %u at %u)", number, nodes, s->pos);
    else
        snprintf(name, sizeof name, "step %u (%u tokens at %u)", number, s->count, s->pos);
    if (!rig_prepare(r, nodes, s->tail))
        return false;
    set_up(c, s, number);
    for (uint32_t i = 0; i < fr_forward_trace_count(r->forward, nodes, s->tail); i++) {
        const char *kernel = fr_forward_trace(r->forward, nodes, s->tail, i, positions).kernel;
        if (!s->drafted && drafts(kernel))
            continue;
        if (!strcmp(kernel, "accept") && !s->finished) {
            rig_choose_path(r, &c->was, rig_head_tiles(r, nodes, s->tail), number);
            rig_write(r, &c->was);
        }
        if (!checker_run(c, name, nodes, s->tail, i, positions))
            return false;
        checker_next(c);
        ++*dispatches;
    }
    return true;
}

bool kernel_case_steps(rig *r, const kernel_case *k, uint32_t *dispatches)
{
    checker c;
    bool ok = checker_open(&c, r);
    for (uint32_t i = 0; ok && i < CASE_STEPS; i++)
        ok = (!k->steps[i].count && !k->steps[i].tree) || rig_leaves_out(r, k->steps[i].tree) || run_step(&c, k, i, dispatches);
    checker_close(&c);
    return ok;
}

bool kernel_case_bits(rig *r, uint32_t *nodes)
{
    /* A software adapter compiles a GPU's tiles for prompts for minutes; they have a test of their own. */
    const bool slow = rig_is_slow(r);
    bits b;
    if (r->groups) {
        const bool same = bits_open(&b, r) && bits_same_whole(&b) && bits_same_trees(&b, nodes) && bits_same_steps(&b, 8, nodes);
        bits_close(&b);
        return same;
    }
    bool ok = bits_open(&b, r) && (slow || bits_same_prompt(&b)) && bits_same_trees(&b, nodes);
    ok = ok && bits_same_steps(&b, 8, nodes) && (slow || bits_same_steps(&b, fr_forward_tree_nodes(r->forward), nodes));
    *nodes += ok && !slow ? BITS_TEXT : 0;
    bits_close(&b);
    return ok;
}

bool kernel_case_run(const rig_host *host, const kernel_case *k, uint32_t *dispatches, uint32_t *nodes, fr_error_text *error)
{
    rig r;
    *dispatches = *nodes = 0;
    const bool ok = rig_open(&r, host, &k->options) && kernel_case_steps(&r, k, dispatches) && (!k->bits || kernel_case_bits(&r, nodes));
    if (!ok)
        fr_fail(error, FR_FAILED, "%s: %s", k->name, r.error.text);
    rig_close(&r);
    return ok;
}
