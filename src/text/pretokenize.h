/* pretokenize.h: cuts text into the pieces that BPE works on, as the regular expressions of the model families do.
 *
 * No regex engine: each rule of each expression is a few lines that look at character classes. The expressions are quoted
 * in pretokenize.c. Linear in the size of the text. */
#ifndef FR_TEXT_PRETOKENIZE_H
#define FR_TEXT_PRETOKENIZE_H

#include "text/tokenizer.h"

typedef struct fr_pieces {
    fr_pretokenizer kind;
    const uint8_t *text;
    size_t at, end; /* the current piece is text[at .. end) */
    size_t size;    /* of the text */
    size_t limit;   /* FR_PRE_SMOLLM: no piece reaches beyond; the next digit */
} fr_pieces;

fr_pieces fr_pieces_of(fr_pretokenizer kind, const uint8_t *text, size_t size);
/* Moves to the next piece; false behind the last. Pieces are not empty and leave no gap. */
bool fr_pieces_next(fr_pieces *);

#endif
