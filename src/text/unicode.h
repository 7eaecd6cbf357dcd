/* unicode.h: UTF-8, the character classes of the pre-tokenizers, and NFC. The tables are generated (tools/unicode_tables.py). */
#ifndef FR_TEXT_UNICODE_H
#define FR_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum fr_class { FR_OTHER, FR_LETTER, FR_NUMBER, FR_SPACE } fr_class; /* \p{L}, \p{N}, \s and the rest */

/* A byte that is not part of well-formed UTF-8 is read as a unit of its own, of class FR_OTHER. */
enum { FR_CODE_MAX = 0x10ffff };
#define FR_CODE_BYTE 0x80000000u /* | the byte */

/* Reads the first code point of text[0 .. size), size > 0, and returns how many bytes it takes. */
size_t fr_utf8_read(const uint8_t *text, size_t size, uint32_t *code);
/* Writes what fr_utf8_read() reads; returns its length. */
size_t fr_utf8_write(uint8_t out[4], uint32_t code);

fr_class fr_code_class(uint32_t code);

/* Normalisation form C. *out stays NULL where the text is its own NFC already (all that is below U+0300, for one); otherwise
 * it is a new buffer that the caller frees. False: out of memory. */
bool fr_nfc(const uint8_t *text, size_t size, uint8_t **out, size_t *out_size);

#endif
