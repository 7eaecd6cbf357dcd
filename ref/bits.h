/* bits.h: steps over many nodes against decoding token by token, bit for bit. What is compared is all that a node leaves: x behind the last
 * layer, its quantised forms (the last is what the head multiplies), its query, its keys and values, and its logits as far as any step
 * keeps them: the best of each tile of rows.
 *
 * The functions wait for the device. False: rig.error says what differs, where, and what decoding gives. */
#ifndef FR_REF_BITS_H
#define FR_REF_BITS_H

#include "ref/trees.h"

enum { BITS_TEXT = 100 }; /* tokens of the text: three chunks of attention and a bit */

/* A rig whose cache holds a text, decoded token by token. Steps start from there. */
typedef struct bits {
    rig *rig;
    rig_snapshot text, wide, single; /* the cached text; what a step over many nodes left, and what decoding left */
    uint32_t *nodes; /* [BITS_TEXT][bits_words(rig)]: what each token of the text left when it was decoded */
    uint32_t *node[2]; /* [bits_words(rig)] of the node at hand in either */
} bits;

bool bits_open(bits *, rig *);
void bits_close(bits *);

/* The text once more, in steps of the prefill bucket over 1 to 31 tokens. */
bool bits_same_prompt(bits *);
/* Some tokens of the text once more, in steps whose layers are one dispatch (rig.groups). */
bool bits_same_whole(bits *);
/* Trees of all shapes from 1 to N nodes, for every bucket N, whose nodes begin, end or cross a chunk; then the cache behind accepted
 * drafts. Adds to `nodes` how many were compared. */
bool bits_same_trees(bits *, uint32_t *nodes);
/* Whole steps as a window has them, of drafts that the device makes itself, none of them read in between: tokens and cache. Adds to
 * `tokens` how many there were. */
bool bits_same_steps(bits *, uint32_t bucket, uint32_t *tokens);

/* What a step leaves for a node but for keys, values and logits: bits_words() words. */
size_t bits_words(const rig *);
void bits_take(const rig *, rig_snapshot *, uint32_t node, uint32_t *out);

#endif
