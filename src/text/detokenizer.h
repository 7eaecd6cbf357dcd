/* detokenizer.h: tokens to text as they come, whole code points only, with stop strings.
 *
 * Bytes that cannot begin or continue a code point become U+FFFD, as a browser's TextDecoder would do. Text that might be the
 * beginning of a stop string is held back until it is decided. */
#ifndef FR_TEXT_DETOKENIZER_H
#define FR_TEXT_DETOKENIZER_H

#include "text/tokenizer.h"

typedef struct fr_detokenizer fr_detokenizer;

/* `stop`: copied; empty strings are ignored. NULL: out of memory. */
fr_detokenizer *fr_detokenizer_new(const fr_tokenizer *, const char *const *stop, size_t n_stop);
void fr_detokenizer_free(fr_detokenizer *);

/* False: a stop string is complete, or memory ran out; the text before it is available, later tokens are ignored. */
bool fr_detokenizer_push(fr_detokenizer *, uint32_t id);
bool fr_detokenizer_failed(const fr_detokenizer *); /* memory ran out: text is missing at the end */
void fr_detokenizer_end(fr_detokenizer *); /* no more tokens: held-back text and half code points (as U+FFFD) are released */
size_t fr_detokenizer_take(fr_detokenizer *, char *out, size_t size); /* moves whole code points out */

#endif
