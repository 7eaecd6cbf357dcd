#include "load/gguf_meta.h"

#include <math.h>
#include <string.h>

uint32_t gguf_type_size(uint32_t type)
{
    static const uint8_t sizes[] = {
        [GGUF_U8] = 1,   [GGUF_I8] = 1,     [GGUF_U16] = 2,   [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4,
        [GGUF_BOOL] = 1, [GGUF_STRING] = 0, [GGUF_ARRAY] = 0, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};
    return type < sizeof sizes ? sizes[type] : 0;
}

/* Arena. A reference is chunk number times META_CHUNK plus the place in the chunk. Small pieces share chunks of META_CHUNK bytes;
 * a larger piece has a chunk of its own, where it starts at 0, so its reference works, too, however long it is. */

static uint8_t *new_chunk(gguf_meta *m, uint32_t size, bool *too_large)
{
    *too_large = m->n_chunks == META_MAX_CHUNKS || size > GGUF_MAX_META - m->total;
    if (*too_large)
        return NULL;
    uint8_t *chunk = heap_alloc(m->heap, size);
    if (chunk) {
        m->chunks[m->n_chunks] = chunk;
        m->chunk_size[m->n_chunks++] = size;
        m->total += size;
    }
    return chunk;
}

uint32_t meta_alloc(gguf_meta *m, uint64_t size, bool *too_large)
{
    *too_large = size > GGUF_MAX_META;
    if (*too_large)
        return META_NONE;
    if (!size) /* a reference behind a chunk's last byte would belong to the next one */
        size = 1;
    if (size > META_CHUNK / 4) /* the rest of the open chunk is not given up for it */
        return new_chunk(m, (uint32_t)size, too_large) ? (m->n_chunks - 1) * META_CHUNK : META_NONE;
    if (m->open == META_NONE || size > META_CHUNK - m->open_used) {
        if (!new_chunk(m, META_CHUNK, too_large))
            return META_NONE;
        m->open = m->n_chunks - 1;
        m->open_used = 0;
    }
    uint32_t reference = m->open * META_CHUNK + m->open_used;
    m->open_used += (uint32_t)size;
    return reference;
}

uint8_t *meta_at(const gguf_meta *m, uint32_t reference)
{
    return m->chunks[reference / META_CHUNK] + reference % META_CHUNK;
}

void meta_free(gguf_meta *m)
{
    for (uint32_t i = 0; i < m->n_chunks; i++)
        heap_free(m->heap, m->chunks[i], m->chunk_size[i]);
    heap_free(m->heap, m->entries, m->cap_entries * sizeof *m->entries);
    m->n_chunks = m->n_entries = m->cap_entries = 0;
    m->total = 0;
    m->open = META_NONE;
    m->entries = NULL;
}

/* Entries. A few dozen in practice: a list with hashes is enough for lookups and for refusing duplicates. */

static uint32_t hash_of(const char *key, size_t size)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < size; i++)
        h = (h ^ (uint8_t)key[i]) * 16777619u;
    return h;
}

const meta_entry *meta_find(const gguf_meta *m, const char *key, size_t size)
{
    uint32_t hash = hash_of(key, size);
    for (uint32_t i = 0; i < m->n_entries; i++) {
        const meta_entry *e = &m->entries[i];
        if (e->hash == hash && e->key_size == size && !memcmp(meta_at(m, e->key), key, size))
            return e;
    }
    return NULL;
}

bool meta_add(gguf_meta *m, meta_entry e)
{
    if (m->n_entries == m->cap_entries) {
        uint32_t cap = m->cap_entries ? 2 * m->cap_entries : 64;
        meta_entry *grown = heap_grow(m->heap, m->entries, m->cap_entries * sizeof e, cap * sizeof e);
        if (!grown)
            return false;
        m->entries = grown;
        m->cap_entries = cap;
    }
    e.hash = hash_of((const char *)meta_at(m, e.key), e.key_size);
    m->entries[m->n_entries++] = e;
    return true;
}

/* Lookups */

static const meta_entry *find(const gguf_meta *m, const char *key)
{
    return meta_find(m, key, strlen(key));
}

static bool is_integer(gguf_type t)
{
    return t <= GGUF_I32 || t == GGUF_U64 || t == GGUF_I64;
}

/* U64 values above the range of int64_t become its largest value: too large for any use here, and never negative. */
static int64_t integer(gguf_type t, uint64_t bits)
{
    switch (t) {
    case GGUF_I8:
        return (int8_t)bits;
    case GGUF_I16:
        return (int16_t)bits;
    case GGUF_I32:
        return (int32_t)bits;
    case GGUF_I64:
        return (int64_t)bits;
    default:
        return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    }
}

bool gguf_u32(const gguf_meta *m, const char *key, uint32_t *out)
{
    const meta_entry *e = find(m, key);
    if (!e || !is_integer(e->type))
        return false;
    int64_t v = integer(e->type, e->bits);
    if (v < 0 || v > UINT32_MAX)
        return false;
    *out = (uint32_t)v;
    return true;
}

bool gguf_f32(const gguf_meta *m, const char *key, float *out)
{
    const meta_entry *e = find(m, key);
    if (!e)
        return false;
    if (e->type == GGUF_F32) {
        uint32_t bits = (uint32_t)e->bits;
        memcpy(out, &bits, sizeof *out);
        return true;
    }
    if (e->type == GGUF_F64) {
        double v;
        memcpy(&v, &e->bits, sizeof v);
        /* converting what a float can't hold is undefined */
        *out = v > 3.4028234663852886e38 ? INFINITY : v < -3.4028234663852886e38 ? -INFINITY : (float)v;
        return true;
    }
    if (!is_integer(e->type))
        return false;
    *out = (float)integer(e->type, e->bits);
    return true;
}

bool gguf_bool(const gguf_meta *m, const char *key, bool *out)
{
    const meta_entry *e = find(m, key);
    if (!e || e->type != GGUF_BOOL)
        return false;
    *out = e->bits != 0;
    return true;
}

bool gguf_str(const gguf_meta *m, const char *key, gguf_string *out)
{
    const meta_entry *e = find(m, key);
    if (!e || e->type != GGUF_STRING)
        return false;
    *out = (gguf_string){(const char *)meta_at(m, e->value), (size_t)e->count};
    return true;
}

bool gguf_array(const gguf_meta *m, const char *key, gguf_type *type, size_t *count)
{
    const meta_entry *e = find(m, key);
    if (!e || e->type != GGUF_ARRAY)
        return false;
    *type = e->item;
    *count = (size_t)e->count;
    return true;
}

static const meta_entry *find_item(const gguf_meta *m, const char *key, size_t i)
{
    const meta_entry *e = find(m, key);
    return e && e->type == GGUF_ARRAY && i < e->count ? e : NULL;
}

gguf_string gguf_array_str(const gguf_meta *m, const char *key, size_t i)
{
    const meta_entry *e = find_item(m, key, i);
    if (!e || e->item != GGUF_STRING)
        return (gguf_string){"", 0};
    const uint8_t *record = meta_at(m, read_u32(meta_at(m, e->value) + 4 * i));
    return (gguf_string){(const char *)record + 4, read_u32(record)};
}

int64_t gguf_array_int(const gguf_meta *m, const char *key, size_t i)
{
    const meta_entry *e = find_item(m, key, i);
    if (!e || !(is_integer(e->item) || e->item == GGUF_BOOL))
        return 0;
    uint32_t size = gguf_type_size(e->item);
    const uint8_t *p = meta_at(m, e->value) + size * i;
    uint64_t bits = 0;
    for (uint32_t k = 0; k < size; k++)
        bits |= (uint64_t)p[k] << 8 * k;
    return integer(e->item, bits);
}
