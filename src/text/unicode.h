/* unicode.h: the character classes of the pre-tokenizers, and NFC. The tables are generated (tools/unicode_tables.py). */
#ifndef FR_TEXT_UNICODE_H
#define FR_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/utf8.h"

typedef enum fr_class { FR_OTHER, FR_LETTER, FR_NUMBER, FR_SPACE } fr_class; /* \p{L}, \p{N}, \s and the rest, with what is no UTF-8 */

fr_class fr_code_class(uint32_t code);

/* Normalisation form C. *out stays NULL where the text is its own NFC already (all that is below U+0300, for one); otherwise
 * it is a new buffer that the caller frees. False: out of memory. */
bool fr_nfc(const uint8_t *text, size_t size, uint8_t **out, size_t *out_size);

#endif
