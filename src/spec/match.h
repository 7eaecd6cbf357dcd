/* match.h: how much of a text's end stood somewhere before, on the host: what plain steps would have found if they had drafted. */
#ifndef FR_SPEC_MATCH_H
#define FR_SPEC_MATCH_H

#include "spec/draft.h"

/* The longest match that the drafter would find for tokens[0 .. n), n at least 1, with a session memory of ids and breaks, oldest first
 * (draft.h, 2 and 3): 0 to FR_DRAFT_ORDERS. */
uint32_t fr_match_longest(const uint32_t *tokens, uint32_t n, const uint32_t *memory, uint32_t n_memory);

#endif
