/* fixed.c: the drafter of the device, through its twin. */
#include "cli/sim/drafters.h"

#include "ref/ref_draft.h"

static uint32_t draft(void *self, const sim_corpus *c, uint32_t width, fr_draft_node *tree)
{
    (void)self;
    const uint32_t count = c->sequence - c->memory;
    return ref_draft(&(fr_draft_corpus){c->ids + c->memory, count, 0, count, c->ids + c->sequence, c->n - c->sequence}, width, tree);
}

const sim_drafter sim_fixed = {.name = "fixed", .nested = true, .draft = draft};
