#include "cli/sim/replay.h"

#include <stdlib.h>
#include <string.h>

#include "spec/memory.h"

/* One line after the other behind a memory. What is accepted at a place depends on the tokens before it alone, not on where steps began; so
 * it is found once for every place of an output, and steps are counted afterwards. */
typedef struct replay {
    const sim_setup *setup;
    void *drafter;
    sim_corpus corpus;
    sim_trace trace; /* [tokens of the longest output] */
} replay;

/* Drafts that the output confirms: from the root along the child that holds the next token. */
static uint8_t accept(const fr_draft_node *tree, uint32_t n, const uint32_t *next, uint32_t n_next)
{
    uint32_t node = 0, depth = 0;
    for (uint32_t k = 1; k < n && depth < n_next; k++)
        if (tree[k].parent == node && tree[k].token == next[depth]) {
            node = k;
            depth++;
        }
    return (uint8_t)depth;
}

static void draft_at(replay *r, const sim_line *line, uint32_t i)
{
    const sim_setup *s = r->setup;
    fr_draft_node tree[FR_DRAFT_WIDTH] = {0};
    uint32_t n = 0;
    for (uint32_t w = s->n_widths; w-- > 0;) { /* the widest first */
        if (!s->drafter->nested || w == s->n_widths - 1)
            n = s->drafter->draft(r->drafter, &r->corpus, s->widths[w], tree);
        r->trace.accepted[w][i] = accept(tree, n < s->widths[w] ? n : s->widths[w], line->output + i, line->n_output - i);
    }
    r->trace.match[i] = (uint8_t)tree[0].match;
    if (s->drafter->learn)
        s->drafter->learn(r->drafter, line->output[i]);
}

static void count_steps(const uint8_t *accepted, uint32_t n, bool stopped, sim_count *count)
{
    const uint32_t end = n + stopped; /* the end of the turn is never drafted: a step that meets it ends as it is */
    for (uint32_t i = 1; i < end; i += i < n ? accepted[i] + 1u : 1)
        count->steps++;
    count->tokens += end > 1 ? end - 1 : 0;
}

static void push_all(sim_corpus *c, const uint32_t *tokens, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        sim_corpus_push(c, tokens[i]);
}

static void replay_line(replay *r, size_t index, const sim_line *line, sim_result *result)
{
    const sim_setup *s = r->setup;
    sim_corpus *c = &r->corpus;
    c->sequence = c->n;
    c->memory = c->n > s->memory ? c->n - s->memory : 0;
    push_all(c, line->prompt, line->n_prompt);
    for (uint32_t i = 0; i < line->n_output; i++) {
        if (i > 0)
            draft_at(r, line, i);
        sim_corpus_push(c, line->output[i]);
    }
    for (uint32_t w = 0; w < s->n_widths; w++) {
        const bool loops = line->loop < line->n_output;
        count_steps(r->trace.accepted[w], line->loop, line->stopped && !loops, &result->cut[w]);
        count_steps(r->trace.accepted[w], line->n_output, line->stopped, &result->whole[w]);
    }
    if (s->each)
        s->each(s->user, index, &r->trace);
    sim_corpus_cut(c, c->sequence);
    if (s->memory == 0 || line->n_output == 0)
        return;
    const uint32_t lead = s->prompts || line->n_prompt < FR_MEMORY_LEAD ? line->n_prompt : FR_MEMORY_LEAD;
    push_all(c, line->prompt + line->n_prompt - lead, lead);
    push_all(c, line->output, line->n_output);
    sim_corpus_push(c, FR_DRAFT_BREAK);
}

static fr_status open(replay *r, const sim_log *log, fr_error_text *err)
{
    size_t longest = 1, room = 0;
    for (size_t i = 0; i < log->n; i++) {
        room += (size_t)log->lines[i].n_prompt + log->lines[i].n_output + 1;
        longest = log->lines[i].n_output > longest ? log->lines[i].n_output : longest;
    }
    if (room >= 1u << FR_DRAFT_PLACE_BITS)
        return fr_fail(err, FR_BAD_ARGUMENT, "the log has %zu tokens, the drafters work on %u at most; replay parts of it", room,
                       1u << FR_DRAFT_PLACE_BITS);
    for (uint32_t w = 0; w < r->setup->n_widths; w++)
        if (!(r->trace.accepted[w] = calloc(longest, 1)))
            return fr_fail(err, FR_FAILED, "out of memory for an output of %zu tokens", longest);
    if (!(r->trace.match = calloc(longest, 1)))
        return fr_fail(err, FR_FAILED, "out of memory for an output of %zu tokens", longest);
    if (r->setup->drafter->open && !(r->drafter = r->setup->drafter->open()))
        return fr_fail(err, FR_FAILED, "out of memory for the drafter \"%s\"", r->setup->drafter->name);
    return sim_corpus_open(&r->corpus, (uint32_t)room, err);
}

static void close(replay *r)
{
    for (uint32_t w = 0; w < SIM_WIDTHS; w++)
        free(r->trace.accepted[w]);
    free(r->trace.match);
    if (r->drafter)
        r->setup->drafter->close(r->drafter);
    sim_corpus_close(&r->corpus);
}

fr_status sim_replay(const sim_log *log, const size_t *order, const sim_setup *setup, sim_result *results, fr_error_text *err)
{
    replay r = {.setup = setup};
    fr_status status = open(&r, log, err);
    const size_t rounds = setup->of_task ? log->n_tasks : 1;
    for (size_t task = 0; status == FR_OK && task < rounds; task++) {
        sim_corpus_cut(&r.corpus, 0);
        for (size_t i = 0; i < log->n; i++) {
            const sim_line *line = &log->lines[order[i]];
            if (!setup->of_task || line->task == task)
                replay_line(&r, order[i], line, &results[line->task]);
        }
    }
    close(&r);
    return status;
}
