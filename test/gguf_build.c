#include "test/gguf_build.h"

#include "test/test.h"

void gguf_build_bytes(gguf_build *b, const void *bytes, size_t size)
{
    if (b->size + size > b->room) {
        b->room = 2 * (b->size + size);
        b->bytes = realloc(b->bytes, b->room);
        CHECK(b->bytes);
    }
    memcpy(b->bytes + b->size, bytes, size);
    b->size += size;
}

void gguf_build_int(gguf_build *b, uint64_t v, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = (uint8_t)(v >> 8 * i);
        gguf_build_bytes(b, &byte, 1);
    }
}

void gguf_build_string(gguf_build *b, const char *s)
{
    gguf_build_int(b, strlen(s), 8);
    gguf_build_bytes(b, s, strlen(s));
}

void gguf_build_head(gguf_build *b, uint64_t tensors, uint64_t pairs)
{
    gguf_build_bytes(b, "GGUF", 4);
    gguf_build_int(b, 2, 4);
    gguf_build_int(b, tensors, 8);
    gguf_build_int(b, pairs, 8);
}

void gguf_build_scalar(gguf_build *b, const char *key, gguf_type type, uint64_t bits, size_t size)
{
    gguf_build_string(b, key);
    gguf_build_int(b, type, 4);
    gguf_build_int(b, bits, size);
}

void gguf_build_array(gguf_build *b, const char *key, gguf_type item, uint64_t count)
{
    gguf_build_string(b, key);
    gguf_build_int(b, GGUF_ARRAY, 4);
    gguf_build_int(b, item, 4);
    gguf_build_int(b, count, 8);
}
