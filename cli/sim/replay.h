/* replay.h: a log replayed with one drafter and one size of memory. */
#ifndef FR_CLI_SIM_REPLAY_H
#define FR_CLI_SIM_REPLAY_H

#include "cli/sim/drafters.h"
#include "cli/sim/log.h"

#define SIM_ALL UINT32_MAX /* memory without a limit */
enum { SIM_WIDTHS = 5 /* at most */ };

/* What a drafter did on one output, in front of each of its tokens, [n_output] (the first is the prefill's and has nothing). */
typedef struct sim_trace {
    uint8_t *accepted[SIM_WIDTHS]; /* drafts accepted by a step whose first new token is this one */
    uint8_t *match;                /* longest match of the candidates; 0 for drafters that don't say */
} sim_trace;

typedef struct sim_setup {
    const sim_drafter *drafter;
    uint32_t memory;             /* tokens of earlier lines, breaks included; or SIM_ALL */
    bool of_task;                /* only of lines of the same task */
    bool prompts;                /* whole prompts too */
    uint32_t widths[SIM_WIDTHS]; /* nodes, [n_widths] */
    uint32_t n_widths;
    void (*each)(void *user, size_t line, const sim_trace *); /* for every line, in the order in which they are taken; may be NULL */
    void *user;
} sim_setup;

/* Of some outputs: tokens that decoding steps yielded, and steps. The first token of an output comes out of the prefill and counts in
 * neither; the end of the turn counts as a token, since a step yields it. */
typedef struct sim_count {
    uint64_t tokens, steps;
} sim_count;

typedef struct sim_result {
    sim_count cut[SIM_WIDTHS], whole[SIM_WIDTHS]; /* outputs up to where they loop, and all of them */
} sim_result;

/* `results`, one per task of the log, begin as zero; lines are taken in the order `order`, [log->n]. FR_FAILED: out of memory. */
fr_status sim_replay(const sim_log *, const size_t *order, const sim_setup *, sim_result *results, fr_error_text *);

#endif
