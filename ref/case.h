/* case.h: dispatches against their twins, steps against decoding; the table of cases. */
#ifndef FR_REF_CASE_H
#define FR_REF_CASE_H

#include "ref/bits.h"

enum { CASE_STEPS = 24 }; /* at most */

typedef struct case_step {
    uint32_t pos;    /* tokens in the cache */
    uint32_t count;  /* tokens to process, or nodes of a tree that is planted */
    bool wide;       /* the prefill bucket, else N = 1 */
    uint32_t tree;   /* N of a tree, with FR_TAIL_TREE */
    rig_shape shape; /* of a tree that is planted */
    bool drafted;    /* the step drafts its tree itself, out of few different tokens */
    uint32_t memory; /* tokens of session memory then */
    fr_tail tail;
    uint32_t more;   /* tokens behind these that are known but not for this step */
    uint32_t finished; /* Control.finished */
} case_step;

typedef struct kernel_case {
    const char *name; /* "types.q4_1" */
    rig_options options;
    bool quick;       /* part of the self-test on a software adapter */
    bool bits;        /* then steps over many nodes against decoding */
    case_step steps[CASE_STEPS]; /* those of no tokens and no tree are left out */
} kernel_case;

extern const kernel_case kernel_cases[]; /* ended by {0} */

/* Compares dispatches of a rig with their twins, one after the other. */
typedef struct checker {
    rig *rig;
    rig_snapshot was, now; /* before the last dispatch and after it */
    uint32_t *low, *high;  /* what was expected, as long as a snapshot */
    uint8_t *kind;         /* ref_kind */
} checker;

bool checker_open(checker *, rig *);
void checker_close(checker *);
/* Lets the twin say what the dispatch must make of `was`. */
bool checker_expect(checker *, uint32_t nodes, fr_tail, uint32_t index, uint32_t positions);
/* Index of the first word of `now`, all buffers behind each other, that is outside of what is expected, or its length. */
size_t checker_wrong(checker *);
/* Runs the dispatch on the device, which holds `was`, and compares. False: rig.error says what differs. */
bool checker_run(checker *, const char *name, uint32_t nodes, fr_tail, uint32_t index, uint32_t positions);
/* What came out is what the next dispatch finds. */
void checker_next(checker *);

/* Runs the steps of a case on a rig; false: rig.error. Adds to `dispatches` how many were compared. */
bool kernel_case_steps(rig *, const kernel_case *, uint32_t *dispatches);
/* Steps over many nodes against decoding, whatever the case has (bits.h): a prompt, trees of every bucket, whole steps of 8 nodes and of
 * the widest tree; where a rig has groups, all layers in one dispatch: of one token, trees of up to 8 nodes, whole steps. Adds to `nodes`
 * how many were compared. */
bool kernel_case_bits(rig *, uint32_t *nodes);
/* Runs a case; false and a line in `error` at the first word that is wrong: which, where, and what was expected. `dispatches` gets how many
 * were compared with their twins, `nodes` how many with decoding. */
bool kernel_case_run(const rig_host *, const kernel_case *, uint32_t *dispatches, uint32_t *nodes, fr_error_text *error);

#endif
