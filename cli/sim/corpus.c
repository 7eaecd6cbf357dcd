#include "cli/sim/corpus.h"

#include <stdlib.h>
#include <string.h>

#include "cli/sim/log.h"

fr_status sim_corpus_open(sim_corpus *c, uint32_t room, fr_error_text *err)
{
    *c = (sim_corpus){.room = room};
    c->ids = malloc((room + 1) * sizeof *c->ids);
    c->previous = malloc((room + 1) * sizeof *c->previous);
    c->last = malloc(SIM_MAX_ID * sizeof *c->last);
    if (!c->ids || !c->previous || !c->last) {
        sim_corpus_close(c);
        return fr_fail(err, FR_FAILED, "out of memory for %u tokens", room);
    }
    memset(c->last, 0xff, SIM_MAX_ID * sizeof *c->last);
    return FR_OK;
}

void sim_corpus_close(sim_corpus *c)
{
    free(c->ids);
    free(c->previous);
    free(c->last);
    *c = (sim_corpus){0};
}

void sim_corpus_push(sim_corpus *c, uint32_t token)
{
    c->ids[c->n] = token;
    c->previous[c->n] = SIM_NOWHERE;
    if (token != FR_DRAFT_BREAK) {
        c->previous[c->n] = c->last[token];
        c->last[token] = c->n;
    }
    c->n++;
}

void sim_corpus_cut(sim_corpus *c, uint32_t n)
{
    while (c->n > n) {
        c->n--;
        if (c->ids[c->n] != FR_DRAFT_BREAK)
            c->last[c->ids[c->n]] = c->previous[c->n];
    }
}
