/* drafters.h: what `forerun sim` compares. Each fills a tree of at most `width` nodes, root included, parents first, FR_DRAFT_DEPTH levels
 * deep at most. */
#ifndef FR_CLI_SIM_DRAFTERS_H
#define FR_CLI_SIM_DRAFTERS_H

#include "cli/sim/corpus.h"

typedef struct sim_drafter {
    const char *name;
    bool nested; /* a narrower tree is the beginning of a wider one, so only the widest is made */
    /* What it keeps between tokens; both NULL if it keeps nothing. open: NULL if memory is out. */
    void *(*open)(void);
    void (*close)(void *self);
    /* The tree that follows the corpus; returns its nodes. */
    uint32_t (*draft)(void *self, const sim_corpus *, uint32_t width, fr_draft_node *tree);
    /* The token that came behind the corpus that the last tree was for; may be NULL. */
    void (*learn)(void *self, uint32_t token);
} sim_drafter;

extern const sim_drafter sim_lookup, sim_suffix, sim_mixing, sim_fixed;

#endif
