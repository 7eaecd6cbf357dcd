/* utf8.h: code points from and to bytes. */
#ifndef FR_BASE_UTF8_H
#define FR_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* A byte that is not part of well-formed UTF-8 (overlong forms, surrogates and what lies above FR_CODE_MAX are not) is read as a unit of
 * its own. */
enum { FR_CODE_MAX = 0x10ffff };
#define FR_CODE_BYTE 0x80000000u /* | the byte */

/* Reads the first code point of text[0 .. size), size > 0, and returns how many bytes it takes. */
size_t fr_utf8_read(const uint8_t *text, size_t size, uint32_t *code);
/* Writes what fr_utf8_read() reads; returns its length. */
size_t fr_utf8_write(uint8_t out[4], uint32_t code);

#endif
