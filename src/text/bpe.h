/* bpe.h: byte-pair merging of one piece of text. */
#ifndef FR_TEXT_BPE_H
#define FR_TEXT_BPE_H

#include "text/vocab.h"

/* A growing array of ids, and the memory that merging works in; zero at first. */
typedef struct fr_ids {
    uint32_t *ids;
    size_t n, capacity;
} fr_ids;
bool fr_ids_push(fr_ids *, uint32_t id); /* false: out of memory */

typedef struct fr_bpe {
    struct fr_symbol *symbols;
    uint64_t *heap;
    size_t capacity; /* of both, in bytes of a piece */
} fr_bpe;
void fr_bpe_free(fr_bpe *);

/* Appends the ids of a piece: its bytes as tokens, then the merge of lowest rank first, of equal ones the leftmost, until
 * none applies. Bytes without a token are left out, as the reference does. O(n log n). False: out of memory. */
bool fr_bpe_encode(fr_bpe *, const fr_vocab *, const uint8_t *piece, size_t size, fr_ids *);

#endif
