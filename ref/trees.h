/* trees.h: trees of drafts for the rig: random ones, and logits that make a step accept what a test wants. */
#ifndef FR_REF_TREES_H
#define FR_REF_TREES_H

#include "ref/rig.h"

typedef enum rig_shape {
    RIG_CHAIN, /* one branch, or as many as the depth asks for */
    RIG_STAR,  /* all below the root */
    RIG_BUSHY,
    RIG_DEEP, /* few branches, long */
    RIG_SHAPES
} rig_shape;

/* Puts a tree of `count` nodes at Control.pos into the state: its root is the token there, the others are random, siblings differ. */
void rig_plant_tree(const rig *, rig_snapshot *, rig_shape, uint32_t count, uint64_t seed);
uint32_t rig_parent(const rig *, rig_snapshot *, uint32_t node);
uint32_t rig_depth(const rig *, rig_snapshot *, uint32_t node);

/* Partial maxima that the head leaves for a node in such a step. */
uint32_t rig_head_tiles(rig *, uint32_t nodes, fr_tail);
/* Makes a token a node's best by far, whatever the head gave. */
void rig_choose(const rig *, rig_snapshot *, uint32_t tiles, uint32_t node, uint32_t token);
/* Makes some child the best of most nodes, so that a step accepts a path. */
void rig_choose_path(const rig *, rig_snapshot *, uint32_t tiles, uint64_t seed);

#endif
