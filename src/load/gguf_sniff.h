/* gguf_sniff.h: what a file that is no GGUF may be. */
#ifndef FR_LOAD_GGUF_SNIFF_H
#define FR_LOAD_GGUF_SNIFF_H

#include "base/error.h"

enum { GGUF_SNIFF = 64 }; /* first bytes that are looked at */

/* Ends a sentence that says that the file is no GGUF: a guess from its first bytes and what to do. */
const char *gguf_sniff(const uint8_t *bytes, size_t size);

#endif
