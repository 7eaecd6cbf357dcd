/* gguf_meta.h: how the reader fills a gguf_meta. Everyone else uses the lookups in gguf.h.
 *
 * Keys, strings and arrays lie in an arena of chunks that never move and never grow, so that 48 MiB of metadata cost 48 MiB: a
 * growing buffer would need nearly twice that while it is copied. A place in the arena is a 32-bit reference. */
#ifndef FR_LOAD_GGUF_META_H
#define FR_LOAD_GGUF_META_H

#include "load/gguf.h"

enum { META_CHUNK = GGUF_MAX_ITEM + 4, META_MAX_CHUNKS = 1024 };
#define META_NONE UINT32_MAX

typedef struct meta_entry {
    uint32_t key, key_size; /* reference */
    uint32_t hash;
    gguf_type type;
    gguf_type item;  /* of an array */
    uint64_t count;  /* bytes of a string, elements of an array */
    uint64_t bits;   /* of a scalar: its bytes, little endian, zero-extended */
    /* Strings: the bytes. Arrays of numbers: the elements as in the file. Arrays of strings: `count` u32 references of
     * records, each a u32 size and the bytes. */
    uint32_t value;
} meta_entry;

struct gguf_meta {
    load_heap *heap;
    uint8_t *chunks[META_MAX_CHUNKS];
    uint32_t chunk_size[META_MAX_CHUNKS];
    uint32_t n_chunks;
    uint32_t open, open_used; /* the chunk that small pieces go to; META_NONE: none yet */
    size_t total;             /* bytes of all chunks */
    meta_entry *entries;
    uint32_t n_entries, cap_entries;
};

/* A piece of `size` bytes. META_NONE: more than GGUF_MAX_META in all (*too_large), or out of memory. */
uint32_t meta_alloc(gguf_meta *, uint64_t size, bool *too_large);
uint8_t *meta_at(const gguf_meta *, uint32_t reference);
/* NULL if absent. */
const meta_entry *meta_find(const gguf_meta *, const char *key, size_t size);
/* Copies the entry, whose key is in the arena already. False: out of memory. */
bool meta_add(gguf_meta *, meta_entry);
void meta_free(gguf_meta *);

/* Bytes of a scalar type; 0 for strings, arrays and numbers that are no type. */
uint32_t gguf_type_size(uint32_t type);

static inline uint32_t read_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t read_u64(const uint8_t *p)
{
    return read_u32(p) | (uint64_t)read_u32(p + 4) << 32;
}

static inline void write_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

#endif
