/* suffix.c: a suffix tree with counts. The node of the tree that the longest matching suffix leads to has all its occurrences below it, so
 * what such a tree would give is found from the places of these: a child's probability is its count over its parent's. The published
 * form tries the suffixes of all lengths and keeps the one whose nodes promise most; so does this. */
#include "cli/sim/drafters.h"

#include <stdlib.h>

#include "cli/sim/frontier.h"

enum { LONGEST = 64 }; /* match that is told from longer ones */

typedef struct occurrence {
    uint32_t place, match;
} occurrence;

typedef struct suffix {
    occurrence *list;
    uint32_t n, room;
} suffix;

static void *open(void)
{
    return calloc(1, sizeof(suffix));
}

static void close(void *self)
{
    suffix *s = self;
    free(s->list);
    free(s);
}

static bool add(suffix *s, occurrence o)
{
    if (s->n == s->room) {
        const uint32_t room = s->room ? 2 * s->room : 1024;
        occurrence *more = realloc(s->list, room * sizeof *more);
        if (!more)
            return false;
        s->list = more;
        s->room = room;
    }
    s->list[s->n++] = o;
    return true;
}

/* Counts of the tokens behind the path, among occurrences of a match of at least `least`. */
static void offer_children(const suffix *s, const sim_corpus *c, sim_frontier *f, const fr_draft_node *tree, uint32_t node, uint32_t least)
{
    uint32_t path[FR_DRAFT_DEPTH], tokens[FR_DRAFT_WIDTH], counts[FR_DRAFT_WIDTH], n = 0, all = 0;
    const uint32_t depth = tree[node].depth;
    sim_frontier_path(tree, node, path);
    for (uint32_t i = 0; i < s->n; i++) {
        const uint32_t place = s->list[i].place;
        uint32_t d = 0;
        if (s->list[i].match < least)
            continue;
        while (d < depth && sim_goes_on(c, place + d) && c->ids[place + d] == path[d])
            d++;
        if (d < depth)
            continue;
        all++;
        if (!sim_goes_on(c, place + d))
            continue;
        uint32_t k = 0;
        while (k < n && tokens[k] != c->ids[place + d])
            k++;
        if (k == FR_DRAFT_WIDTH)
            continue; /* more distinct tokens than a tree has nodes: the earliest stay out */
        if (k == n) {
            tokens[n] = c->ids[place + d];
            counts[n++] = 0;
        }
        counts[k]++;
    }
    for (uint32_t k = 0; k < n; k++)
        sim_frontier_offer(f, tree, node, tokens[k], (double)counts[k] / all);
}

/* The tree of a suffix length, and what it promises: the sum of its nodes' probabilities. */
static uint32_t grow(const suffix *s, const sim_corpus *c, uint32_t least, uint32_t width, fr_draft_node *tree, double *promise)
{
    sim_frontier f;
    uint32_t n = 1;
    sim_frontier_open(&f, tree, c->ids[c->n - 1], least);
    *promise = 0;
    offer_children(s, c, &f, tree, 0, least);
    while (n < width && sim_frontier_take(&f, tree, n)) {
        *promise += f.p[n];
        if (tree[n].depth < FR_DRAFT_DEPTH)
            offer_children(s, c, &f, tree, n, least);
        n++;
    }
    return n;
}

static uint32_t draft(void *self, const sim_corpus *c, uint32_t width, fr_draft_node *tree)
{
    suffix *s = self;
    uint32_t longest = 0;
    bool seen[LONGEST + 1] = {false};
    s->n = 0;
    SIM_EACH(place, c, c->ids[c->n - 1])
    {
        const uint32_t m = sim_goes_on(c, place) ? sim_match(c, place, NULL, 0, LONGEST) : 0;
        if (m && add(s, (occurrence){place, m})) {
            seen[m] = true;
            longest = m > longest ? m : longest;
        }
    }
    double promise, best = -1;
    uint32_t n = 1;
    sim_frontier f;
    sim_frontier_open(&f, tree, c->ids[c->n - 1], longest);
    for (uint32_t m = longest; m > 0; m--) {
        fr_draft_node other[FR_DRAFT_WIDTH];
        if (!seen[m])
            continue; /* the same occurrences as for the next longer suffix */
        const uint32_t k = grow(s, c, m, width, other, &promise);
        if (promise > best) {
            best = promise;
            n = k;
            for (uint32_t i = 1; i < k; i++)
                tree[i] = other[i];
        }
    }
    return n;
}

const sim_drafter sim_suffix = {.name = "suffix", .open = open, .close = close, .draft = draft};
