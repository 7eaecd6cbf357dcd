#include "cli/sim/frontier.h"

#include <string.h>

void sim_frontier_open(sim_frontier *f, fr_draft_node *tree, uint32_t root, uint32_t match)
{
    f->n = 0;
    f->p[0] = 1;
    tree[0] = (fr_draft_node){root, 0, 0, match};
}

void sim_frontier_offer(sim_frontier *f, const fr_draft_node *tree, uint32_t parent, uint32_t token, double p)
{
    const sim_guess g = {f->p[parent] * p, {token, parent, tree[parent].depth + 1, tree[parent].match}};
    uint32_t at = f->n;
    while (at > 0 && f->waiting[at - 1].p < g.p)
        at--;
    if (at == FR_DRAFT_WIDTH)
        return;
    f->n += f->n < FR_DRAFT_WIDTH;
    memmove(f->waiting + at + 1, f->waiting + at, (f->n - 1 - at) * sizeof *f->waiting);
    f->waiting[at] = g;
}

uint32_t sim_frontier_take(sim_frontier *f, fr_draft_node *tree, uint32_t n)
{
    if (!f->n)
        return 0;
    tree[n] = f->waiting[0].node;
    f->p[n] = f->waiting[0].p;
    memmove(f->waiting, f->waiting + 1, --f->n * sizeof *f->waiting);
    return 1;
}

void sim_frontier_path(const fr_draft_node *tree, uint32_t node, uint32_t path[FR_DRAFT_DEPTH])
{
    for (uint32_t d = tree[node].depth; d > 0; d--, node = tree[node].parent)
        path[d - 1] = tree[node].token;
}
