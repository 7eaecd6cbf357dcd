/* ref_draft.h: twin of the drafter that src/spec/draft.h defines, in the two halves that the kernels have. */
#ifndef FR_REF_DRAFT_H
#define FR_REF_DRAFT_H

#include "spec/draft.h"

/* Key of the position at this place; 0: no candidate. */
uint32_t ref_draft_key(const fr_draft_corpus *, uint32_t place);
/* Keys of the candidates, largest first; returns how many. */
uint32_t ref_draft_match(const fr_draft_corpus *, uint32_t keys[FR_DRAFT_CANDIDATES]);

/* The tree of at most `width` nodes (1 to FR_DRAFT_WIDTH), root included, that these candidates make; returns how many. */
uint32_t ref_draft_tree(const fr_draft_corpus *, const uint32_t *keys, uint32_t n_keys, uint32_t width, fr_draft_node *tree);

/* Both. */
uint32_t ref_draft(const fr_draft_corpus *, uint32_t width, fr_draft_node *tree);

#endif
