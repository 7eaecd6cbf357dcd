/* gguf_build.h: GGUF files written by hand, piece by piece; integers are little endian. Running out of memory fails the test. */
#ifndef FR_TEST_GGUF_BUILD_H
#define FR_TEST_GGUF_BUILD_H

#include "load/gguf.h"

typedef struct gguf_build {
    uint8_t *bytes; /* free() it */
    size_t size, room;
} gguf_build;

void gguf_build_bytes(gguf_build *, const void *bytes, size_t size);
void gguf_build_int(gguf_build *, uint64_t v, size_t size);
void gguf_build_string(gguf_build *, const char *);
void gguf_build_head(gguf_build *, uint64_t tensors, uint64_t pairs);
/* Pairs; an array's items follow by gguf_build_int() or gguf_build_string(). */
void gguf_build_scalar(gguf_build *, const char *key, gguf_type, uint64_t bits, size_t size);
void gguf_build_array(gguf_build *, const char *key, gguf_type item, uint64_t count);

#endif
