/* vocab.h: the tokens and merges of a tokenizer, in compact form: raw bytes behind each other, and two hash tables of
 * 32-bit slots. 152 thousand tokens with as many merges take about 6 MB. */
#ifndef FR_TEXT_VOCAB_H
#define FR_TEXT_VOCAB_H

#include "text/tokenizer.h"

#define FR_NO_TOKEN UINT32_MAX

typedef struct fr_vocab {
    uint32_t n_tokens, n_merges;
    uint8_t *bytes;    /* of all tokens, one behind the other */
    uint32_t *offsets; /* [n_tokens + 1] */
    uint8_t *kinds;    /* [n_tokens] FR_TOKEN_* and FR_KIND_RAW */
    uint32_t *slots;   /* token + 1 by text, 0 empty; slot_mask + 1 of them */
    uint32_t slot_mask;
    struct fr_merge {
        uint32_t left, right, result;
    } *merges;            /* [n_merges] by rank; `result` FR_NO_TOKEN: can never apply */
    uint32_t *merge_slots; /* rank + 1 by (left, right), 0 empty */
    uint32_t merge_mask;
    uint32_t byte_tokens[256]; /* FR_NO_TOKEN where the vocabulary lacks one */
} fr_vocab;

/* The text of the token is its bytes as they are. Otherwise it is the bytes in GPT-2's alphabet. Texts that read the same
 * either way (visible ASCII) do not have the flag. */
enum { FR_KIND_TYPE = 15, FR_KIND_RAW = 16 };

fr_status fr_vocab_init(fr_vocab *, const fr_vocab_source *, fr_error_text *); /* free it in any case */
void fr_vocab_free(fr_vocab *);

/* Control tokens steer the model: text never becomes one by merging. */
bool fr_vocab_is_control(const fr_vocab *, uint32_t id);
/* The token of these bytes; `raw` as FR_KIND_RAW. FR_NO_TOKEN: none. */
uint32_t fr_vocab_find(const fr_vocab *, const uint8_t *bytes, size_t size, bool raw);
/* The rank of the merge of two tokens; UINT32_MAX: none. */
uint32_t fr_vocab_rank(const fr_vocab *, uint32_t left, uint32_t right);

/* Token text to bytes, at most `size` of them, by GPT-2's alphabet of one visible character for each byte; *raw says that
 * a character is not of the alphabet, and that the text was copied as it is. `verbatim` asks for that. */
size_t fr_vocab_bytes(const char *text, size_t size, bool verbatim, uint8_t *out, bool *raw);

#endif
