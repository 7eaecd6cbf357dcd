/* frontier.h: a tree grown best first. Guesses wait with the probability that they and all their parents are right; the likeliest becomes
 * a node, whose own guesses then wait too. */
#ifndef FR_CLI_SIM_FRONTIER_H
#define FR_CLI_SIM_FRONTIER_H

#include "spec/draft.h"

/* Only as many can become nodes as a tree has room for, so no more wait: the least likely makes room. */
typedef struct sim_guess {
    double p;
    fr_draft_node node;
} sim_guess;

typedef struct sim_frontier {
    sim_guess waiting[FR_DRAFT_WIDTH]; /* [n], likeliest first; among equals the earlier */
    uint32_t n;
    double p[FR_DRAFT_WIDTH];          /* of the nodes of the tree */
} sim_frontier;

void sim_frontier_open(sim_frontier *, fr_draft_node *tree, uint32_t root, uint32_t match);
/* Offers a child of node `parent`, with its own probability if the parent is right. */
void sim_frontier_offer(sim_frontier *, const fr_draft_node *tree, uint32_t parent, uint32_t token, double p);
/* Makes the likeliest guess node n of the tree; 0 if none waits, else 1. */
uint32_t sim_frontier_take(sim_frontier *, fr_draft_node *tree, uint32_t n);
/* Tokens from the root's child to a node, which has `depth` of them. */
void sim_frontier_path(const fr_draft_node *tree, uint32_t node, uint32_t path[FR_DRAFT_DEPTH]);

#endif
