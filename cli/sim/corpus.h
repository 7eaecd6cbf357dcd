/* corpus.h: what drafters search: earlier runs (the memory), a break behind each, then the sequence of the request at hand. Every place
 * knows the one before it that holds the same token, so the places of a token are found without a scan, and tokens can be taken off the
 * end. */
#ifndef FR_CLI_SIM_CORPUS_H
#define FR_CLI_SIM_CORPUS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "spec/draft.h"

#define SIM_NOWHERE UINT32_MAX

typedef struct sim_corpus {
    uint32_t *ids;      /* [n] */
    uint32_t *previous; /* [n] the place before with the same token, or SIM_NOWHERE */
    uint32_t *last;     /* [SIM_MAX_ID] the last place of a token, or SIM_NOWHERE */
    uint32_t n, room;
    uint32_t memory;    /* first place of the memory that may be used: the rest is forgotten */
    uint32_t sequence;  /* first place of the sequence; all places below belong to memory */
} sim_corpus;

fr_status sim_corpus_open(sim_corpus *, uint32_t room, fr_error_text *);
void sim_corpus_close(sim_corpus *);
/* Room suffices: it is known from the log. */
void sim_corpus_push(sim_corpus *, uint32_t token);
void sim_corpus_cut(sim_corpus *, uint32_t n);

/* Calls for every usable place whose token before it is `token`, from the last to the first; see sim_match(). */
#define SIM_EACH(place, corpus, token)                                                                                                     \
    for (uint32_t place = (corpus)->last[token] + 1; place > (corpus)->memory; place = (corpus)->previous[place - 1] + 1)

/* Tokens directly before `place`, `most` at most, that equal the last ones of a text which ends with the `n_path` tokens of `path` behind
 * the sequence. */
static inline uint32_t sim_match(const sim_corpus *c, uint32_t place, const uint32_t *path, uint32_t n_path, uint32_t most)
{
    const uint32_t first = place > c->sequence ? c->sequence : c->memory, known = c->n - c->sequence + n_path;
    uint32_t m = 0;
    most = most < place - first ? most : place - first;
    most = most < known ? most : known;
    while (m < most && c->ids[place - 1 - m] == (m < n_path ? path[n_path - 1 - m] : c->ids[c->n - 1 - (m - n_path)]))
        m++;
    return m;
}

/* Whether a token that can be drafted lies at a place. */
static inline bool sim_goes_on(const sim_corpus *c, uint32_t place)
{
    return place < c->n && c->ids[place] != FR_DRAFT_BREAK;
}

#endif
