/* draft.h: what the drafter computes, exactly. No model: it looks for earlier occurrences of the last tokens, and blends what followed them
 * into a tree of guesses. All arithmetic is in whole numbers, so a kernel and its twin (ref/ref_draft.c) agree bit for bit.
 *
 * 1. The corpus is the session memory, oldest token first, then the sequence tokens[0 .. n): prompt, page and everything committed. A
 *    position of the corpus is a token that may come next; its place is its index in the corpus. Runs in memory end with FR_DRAFT_BREAK;
 *    memory and sequence are apart too, neither a match nor a continuation crosses.
 * 2. match(p), 0 to FR_DRAFT_ORDERS, is how many tokens directly before p equal the last tokens of the sequence: the one before p equals
 *    tokens[n - 1], the one before that tokens[n - 2], and so on.
 * 3. Candidates are the positions with match >= 1 that hold a token, not a break. The FR_DRAFT_CANDIDATES with the largest keys stay,
 *    largest first: key = match << FR_DRAFT_PLACE_BITS | place, so longer matches come first and, among equals, later places. 0 is no key.
 * 4. The continuation of a candidate is the up to FR_DRAFT_DEPTH tokens from its position on, to the break or to the end of the sequence.
 * 5. A node is a prefix of a continuation, of depth 1 to FR_DRAFT_DEPTH. The candidates that begin with it are its evidence.
 *    weight of candidate i, counted from 0 = (FR_DRAFT_WEIGHT << match) / (i + 1), rounded down;
 *    for places in memory                  = (FR_DRAFT_WEIGHT << match) / ((i + 1) << FR_DRAFT_MEMORY_SHIFT).
 *    Of the candidates that begin with the node's parent (all of them, if that is the root) and continue to the node's depth, T is the
 *    weight of all, plus FR_DRAFT_WEIGHT << their longest match, which stands for a token never seen here; W is the weight of those that
 *    begin with the node. T is less than 1 << FR_DRAFT_SUM_BITS.
 *    share = (W << FR_DRAFT_SHARE_BITS) / T
 *    score = parent's score * share >> FR_DRAFT_SHARE_BITS; that of the root is FR_DRAFT_ROOT_SCORE
 * 6. The tree is the root and the width - 1 nodes (or all, if there are fewer) with the largest scores, largest first; among equals the
 *    shallower, then the one whose first candidate is earlier. A child's score is at most its parent's, so parents come first, every prefix
 *    of the tree is a tree, and a narrower tree is the beginning of a wider one. As one number of 29 bits, to sort by, largest first:
 *    score << 9 | (511 - ((depth - 1) * FR_DRAFT_CANDIDATES + first candidate)).
 *
 * So a longer match counts twice as much, an earlier candidate of the list more than a later one, memory a quarter. These weights were
 * chosen by measurement: doc/acceptance.md. */
#ifndef FR_SPEC_DRAFT_H
#define FR_SPEC_DRAFT_H

#include <stdint.h>

enum {
    FR_DRAFT_WIDTH = 32, /* nodes of the widest tree, root included */
    FR_DRAFT_DEPTH = 8, /* drafted levels, so a step yields 1 to 9 tokens */
    FR_DRAFT_ORDERS = 8, /* longest match that counts */
    FR_DRAFT_CANDIDATES = 64, /* positions that a tree is made of; all their prefixes are 512 nodes at most */
    FR_DRAFT_PLACE_BITS = 28, /* of a key; memory and sequence together are shorter than 1 << 28 */
    FR_DRAFT_SUM_BITS = 20,
    FR_DRAFT_SHARE_BITS = 12, /* with either of the other two it fills 32 bits */
    FR_DRAFT_MEMORY_SHIFT = 2, /* evidence out of memory counts a quarter */
    FR_DRAFT_ROOT_SCORE = (1 << 20) - 1,
    FR_MEMORY_TOKENS = 32768, /* largest session memory, breaks included */
    FR_DRAFT_SLICE = 512, /* places that a workgroup of the first kernel searches */
};
#define FR_DRAFT_WEIGHT 512u /* so the least that there is, match 1 at rank 63 in memory, weighs 4 */
#define FR_DRAFT_BREAK UINT32_MAX /* in memory, behind each run; equals no token */

/* What the drafter reads. Memory is a ring: token i of `count`, oldest first, lies at ring[(head + capacity - count + i) % capacity]. */
typedef struct fr_draft_corpus {
    const uint32_t *ring; /* [capacity] */
    uint32_t capacity; /* at least `count` */
    uint32_t head; /* slot that is written next */
    uint32_t count; /* tokens and breaks in memory; 0: no memory */
    const uint32_t *tokens; /* [n] */
    uint32_t n; /* at least 1: the last one is the root of the tree */
} fr_draft_corpus;

typedef struct fr_draft_node {
    uint32_t token;
    uint32_t parent; /* index of the parent, smaller than the node's own; 0 for the root */
    uint32_t depth; /* 0 for the root */
    uint32_t match; /* longest match of the node's evidence; of the root: of all candidates, 0 if there is none */
} fr_draft_node;

#endif
