/* mixing.c: context mixing with online weights. At every node of the tree there is an expert for every order k up to 8 in the sequence, and
 * one for every order in memory. An expert's distribution f is of the tokens that followed the last k tokens there, later occurrences
 * counting more: the r-th latest counts 1 / (1 + RECENCY r). The blend is the sum of v f over the experts that found something. The weights
 * v are learnt while tokens come: each token shares out a vote among the experts by how much each gave to its probability, and the weights
 * move towards these votes at RATE. Expert 0 stands for "none of these" and votes as if it had given every token NOVEL. There is a
 * set of weights for each longest match and for how often that one occurred. */
#include "cli/sim/drafters.h"

#include <stdlib.h>
#include <string.h>

#include "cli/sim/frontier.h"
#include "cli/sim/log.h"

#define RECENCY 0.5
#define NOVEL 0.02
#define RATE 0.05
#define FLOOR 1e-4 /* of what an order gave to a token, so that none dies out */

enum {
    ORDERS = FR_DRAFT_ORDERS,
    EXPERTS = 2 * ORDERS, /* every order in the sequence, then every order in memory */
    SEEN = 3, /* classes of how often: once, up to 3 times, more */
};

typedef struct follower {
    uint32_t token;
    double part[EXPERTS + 1]; /* of expert k, of followers.all[k] */
} follower;

/* What followed a text. */
typedef struct followers {
    follower *list;
    uint32_t n, room;
    double all[EXPERTS + 1];
    uint32_t longest, times; /* which set of weights */
} followers;

typedef struct mixing {
    double weights[ORDERS + 1][SEEN][EXPERTS + 1]; /* [longest match][times][expert] */
    uint32_t *index; /* [SIM_MAX_ID] of a token in here.list, if it is stamped with `turn` */
    uint32_t *stamp; /* [SIM_MAX_ID] */
    uint32_t turn;
    followers here, root;
} mixing;

static void close(void *self)
{
    mixing *m = self;
    if (!m)
        return;
    free(m->index);
    free(m->stamp);
    free(m->here.list);
    free(m->root.list);
    free(m);
}

static void *open(void)
{
    mixing *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->index = calloc(SIM_MAX_ID, sizeof *m->index);
    m->stamp = calloc(SIM_MAX_ID, sizeof *m->stamp);
    if (!m->index || !m->stamp) {
        close(m);
        return NULL;
    }
    for (uint32_t longest = 1; longest <= ORDERS; longest++)
        for (uint32_t times = 0; times < SEEN; times++) {
            double *v = m->weights[longest][times], sum = 1;
            v[0] = 1;
            for (uint32_t k = 1; k <= longest; k++) { /* to begin with, an order counts three times as much as the next lower one */
                v[k] = k > 1 ? 3 * v[k - 1] : 1;
                v[ORDERS + k] = v[k] / 2;
                sum += v[k] + v[ORDERS + k];
            }
            for (uint32_t k = 0; k <= EXPERTS; k++)
                v[k] /= sum;
        }
    return m;
}

static follower *find_or_add(mixing *m, uint32_t token)
{
    followers *h = &m->here;
    if (m->stamp[token] == m->turn)
        return &h->list[m->index[token]];
    if (h->n == h->room) {
        const uint32_t room = h->room ? 2 * h->room : 256;
        follower *more = realloc(h->list, room * sizeof *more);
        if (!more)
            return NULL;
        h->list = more;
        h->room = room;
    }
    m->stamp[token] = m->turn;
    m->index[token] = h->n;
    h->list[h->n] = (follower){.token = token};
    return &h->list[h->n++];
}

/* What followed the sequence with `path` behind it. */
static void gather(mixing *m, const sim_corpus *c, const uint32_t *path, uint32_t n_path)
{
    followers *h = &m->here;
    uint32_t ranks[EXPERTS + 1] = {0};
    m->turn++;
    h->n = 0;
    h->longest = 0;
    memset(h->all, 0, sizeof h->all);
    SIM_EACH(place, c, n_path ? path[n_path - 1] : c->ids[c->n - 1])
    {
        const uint32_t match = sim_goes_on(c, place) ? sim_match(c, place, path, n_path, ORDERS) : 0;
        follower *f = match ? find_or_add(m, c->ids[place]) : NULL;
        if (!f)
            continue;
        const uint32_t first = place > c->sequence ? 0 : ORDERS;
        for (uint32_t k = first + 1; k <= first + match; k++) {
            const double part = 1 / (1 + RECENCY * ranks[k]++);
            f->part[k] += part;
            h->all[k] += part;
        }
        h->longest = match > h->longest ? match : h->longest;
    }
    const uint32_t seen = ranks[h->longest] + ranks[ORDERS + h->longest];
    h->times = seen <= 1 ? 0 : seen <= 3 ? 1 : 2;
}

static void offer(const mixing *m, sim_frontier *f, const fr_draft_node *tree, uint32_t node)
{
    const followers *h = &m->here;
    for (uint32_t i = 0; i < h->n; i++) {
        double p = 0;
        double sum = m->weights[h->longest][h->times][0];
        for (uint32_t k = 1; k <= EXPERTS; k++)
            if (h->all[k] > 0) {
                sum += m->weights[h->longest][h->times][k];
                p += m->weights[h->longest][h->times][k] * h->list[i].part[k] / h->all[k];
            }
        p /= sum;
        sim_frontier_offer(f, tree, node, h->list[i].token, p);
    }
}

static uint32_t draft(void *self, const sim_corpus *c, uint32_t width, fr_draft_node *tree)
{
    mixing *m = self;
    sim_frontier f;
    uint32_t n = 1, path[FR_DRAFT_DEPTH];
    gather(m, c, NULL, 0);
    sim_frontier_open(&f, tree, c->ids[c->n - 1], m->here.longest);
    offer(m, &f, tree, 0);
    const followers root = m->here;
    m->here = m->root;
    m->root = root;
    while (n < width && sim_frontier_take(&f, tree, n)) {
        if (tree[n].depth < FR_DRAFT_DEPTH && n + 1 < width) {
            sim_frontier_path(tree, n, path);
            gather(m, c, path, tree[n].depth);
            offer(m, &f, tree, n);
        }
        n++;
    }
    return n;
}

static void learn(void *self, uint32_t token)
{
    mixing *m = self;
    const followers *h = &m->root;
    double *v = m->weights[h->longest][h->times], vote[EXPERTS + 1], sum, present;
    uint32_t i = 0;
    if (!h->longest)
        return;
    while (i < h->n && h->list[i].token != token)
        i++;
    sum = vote[0] = v[0] * NOVEL;
    present = v[0];
    for (uint32_t k = 1; k <= EXPERTS; k++)
        if (h->all[k] > 0) {
            sum += vote[k] = v[k] * (FLOOR + (i < h->n ? h->list[i].part[k] / h->all[k] : 0));
            present += v[k];
        }
    for (uint32_t k = 0; k <= EXPERTS; k++)
        if (k == 0 || h->all[k] > 0)
            v[k] += RATE * (present * vote[k] / sum - v[k]);
}

const sim_drafter sim_mixing = {.name = "mixing", .nested = true, .open = open, .close = close, .draft = draft, .learn = learn};
