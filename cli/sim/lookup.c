/* lookup.c: prompt lookup. The longest match, of these the latest, is copied: a chain. */
#include "cli/sim/drafters.h"

static uint32_t draft(void *self, const sim_corpus *c, uint32_t width, fr_draft_node *tree)
{
    (void)self;
    const uint32_t root = c->ids[c->n - 1];
    uint32_t best = 0, from = 0, n = 1;
    SIM_EACH(place, c, root)
    {
        const uint32_t m = sim_goes_on(c, place) ? sim_match(c, place, NULL, 0, FR_DRAFT_ORDERS) : 0;
        if (m > best) {
            best = m;
            from = place;
        }
    }
    tree[0] = (fr_draft_node){root, 0, 0, best};
    for (; best && n < width && n <= FR_DRAFT_DEPTH && sim_goes_on(c, from + n - 1); n++)
        tree[n] = (fr_draft_node){c->ids[from + n - 1], n - 1, n, best};
    return n;
}

const sim_drafter sim_lookup = {.name = "lookup", .nested = true, .draft = draft};
