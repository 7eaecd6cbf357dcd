/* The reader copies into a destination until it is full, then calls the step that belongs to it, which checks what arrived and sets the
 * next destination. So a value may be cut anywhere, and each step is straight code over complete bytes.
 *
 *   magic > version > counts > { key size > key > value type > value }* > { name size > name > dimensions > rest }* > data
 *
 * Nothing is believed before it is checked: sizes are compared with a limit before they are added or allocated. */
#include "load/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "load/gguf_meta.h"
#include "load/gguf_sniff.h"

typedef fr_status (*step)(gguf_reader *, fr_error_text *);

struct gguf_reader {
    const gguf_events *events;
    load_heap *heap;
    gguf_meta meta;

    uint64_t position; /* bytes of the file taken */
    step next;         /* when `missing` is 0; NULL: the header is complete */
    uint8_t *to;
    uint64_t missing;
    uint8_t word[GGUF_SNIFF]; /* destination of everything that has a fixed size */

    uint64_t n_pairs, pair;
    meta_entry entry; /* being read */
    uint64_t item;    /* of a string array */

    gguf_tensor *tensors;
    const gguf_tensor **by_name;
    uint32_t name_size;
    uint32_t n_tensors, tensor; /* in the data: the one whose bytes come next */
    uint64_t data_start, tensor_at;
};

static fr_status bad(fr_error_text *e, const char *what)
{
    return fr_fail(e, FR_BAD_MODEL, "the model file is damaged or no valid GGUF: %s; download it again", what);
}

static fr_status no_memory(fr_error_text *e)
{
    return fr_fail(e, FR_FAILED, "out of memory while reading the model file's header");
}

static fr_status expect(gguf_reader *r, step next, uint8_t *to, uint64_t size)
{
    r->next = next;
    r->to = to;
    r->missing = size;
    return FR_OK;
}

static fr_status expect_word(gguf_reader *r, step next, uint64_t size)
{
    return expect(r, next, r->word, size);
}

/* Arena space for something from the file; META_NONE with the error set. `what` is for the message. */
static uint32_t take(gguf_reader *r, uint64_t size, const char *what, fr_error_text *e)
{
    bool too_large;
    uint32_t reference = meta_alloc(&r->meta, size, &too_large);
    if (reference == META_NONE && too_large)
        fr_fail(
            e, FR_BAD_MODEL,
            "the model file is damaged or not supported: its metadata takes more than %d MiB (%s at byte %llu); download it again or use "
            "another file",
            GGUF_MAX_META >> 20, what, (unsigned long long)r->position);
    else if (reference == META_NONE)
        no_memory(e);
    return reference;
}

/* Magic, version, counts */

static fr_status next_pair(gguf_reader *, fr_error_text *);
static fr_status next_tensor(gguf_reader *, fr_error_text *);

static fr_status fail_magic(const gguf_reader *r, size_t size, fr_error_text *e)
{
    return fr_fail(e, FR_BAD_MODEL, "not a GGUF model file: %s", gguf_sniff(r->word, size));
}

static fr_status on_foreign(gguf_reader *r, fr_error_text *e)
{
    return fail_magic(r, GGUF_SNIFF, e);
}

static fr_status on_counts(gguf_reader *r, fr_error_text *e)
{
    uint64_t tensors = read_u64(r->word);
    r->n_pairs = read_u64(r->word + 8);
    if (tensors > GGUF_MAX_TENSORS)
        return fr_fail(e, FR_BAD_MODEL,
                       "the model file claims %llu tensors, at most %d are supported; it may be damaged, download it again",
                       (unsigned long long)tensors, GGUF_MAX_TENSORS);
    if (r->n_pairs > GGUF_MAX_PAIRS)
        return fr_fail(e, FR_BAD_MODEL,
                       "the model file claims %llu metadata keys, at most %d are supported; it may be damaged, download it again",
                       (unsigned long long)r->n_pairs, GGUF_MAX_PAIRS);
    r->n_tensors = (uint32_t)tensors;
    return next_pair(r, e);
}

static fr_status on_version(gguf_reader *r, fr_error_text *e)
{
    uint32_t version = read_u32(r->word);
    if (version == 2 || version == 3)
        return expect_word(r, on_counts, 16);
    if (version == 1)
        return fr_fail(e, FR_BAD_MODEL, "the model file is GGUF version 1, versions 2 and 3 are supported; download a newer version of it");
    if (version && !(version & 0xffff))
        return fr_fail(e, FR_BAD_MODEL, "the model file is big-endian GGUF, which is not supported; use a little-endian one");
    return fr_fail(e, FR_BAD_MODEL, "the model file is GGUF version %u, versions 2 and 3 are supported; use another file", version);
}

static fr_status on_magic(gguf_reader *r, fr_error_text *e)
{
    (void)e;
    if (!memcmp(r->word, "GGUF", 4))
        return expect_word(r, on_version, 4);
    return expect(r, on_foreign, r->word + 4, GGUF_SNIFF - 4);
}

/* Metadata: pairs of key and value */

static const char *key_of(const gguf_reader *r, const meta_entry *entry)
{
    return (const char *)meta_at(&r->meta, entry->key);
}

static fr_status finish_pair(gguf_reader *r, fr_error_text *e)
{
    if (!meta_add(&r->meta, r->entry))
        return no_memory(e);
    r->pair++;
    return next_pair(r, e);
}

static fr_status on_value(gguf_reader *r, fr_error_text *e)
{
    return finish_pair(r, e);
}

static fr_status on_scalar(gguf_reader *r, fr_error_text *e)
{
    uint32_t size = gguf_type_size(r->entry.type);
    for (uint32_t i = 0; i < size; i++)
        r->entry.bits |= (uint64_t)r->word[i] << 8 * i;
    if (r->entry.type == GGUF_BOOL && r->entry.bits > 1)
        return fr_fail(e, FR_BAD_MODEL, "the model file is damaged: metadata key %.80s is a boolean of value %u; download it again",
                       key_of(r, &r->entry), r->word[0]);
    return finish_pair(r, e);
}

static fr_status on_string_size(gguf_reader *r, fr_error_text *e)
{
    r->entry.count = read_u64(r->word);
    r->entry.value = take(r, r->entry.count, key_of(r, &r->entry), e);
    if (r->entry.value == META_NONE)
        return e->status;
    return expect(r, on_value, meta_at(&r->meta, r->entry.value), r->entry.count);
}

static fr_status on_item_size(gguf_reader *, fr_error_text *);

static fr_status next_item(gguf_reader *r, fr_error_text *e)
{
    if (r->item == r->entry.count)
        return finish_pair(r, e);
    return expect_word(r, on_item_size, 8);
}

static fr_status on_item(gguf_reader *r, fr_error_text *e)
{
    r->item++;
    return next_item(r, e);
}

static fr_status on_item_size(gguf_reader *r, fr_error_text *e)
{
    uint64_t size = read_u64(r->word);
    if (size > GGUF_MAX_ITEM)
        return fr_fail(
            e, FR_BAD_MODEL,
            "the model file is damaged or not supported: item %llu of metadata key %.80s claims %llu bytes, at most %d are supported; "
            "download it again",
            (unsigned long long)r->item, key_of(r, &r->entry), (unsigned long long)size, GGUF_MAX_ITEM);
    uint32_t record = take(r, size + 4, key_of(r, &r->entry), e);
    if (record == META_NONE)
        return e->status;
    write_u32(meta_at(&r->meta, r->entry.value) + 4 * r->item, record);
    write_u32(meta_at(&r->meta, record), (uint32_t)size);
    return expect(r, on_item, meta_at(&r->meta, record) + 4, size);
}

static fr_status on_array(gguf_reader *r, fr_error_text *e)
{
    uint32_t item = read_u32(r->word);
    uint32_t size = item == GGUF_STRING ? 4 : gguf_type_size(item);
    if (!size)
        return fr_fail(e, FR_BAD_MODEL,
                       "metadata key %.80s is an array of %s (type %u), which is not supported; the file may be damaged, download it again",
                       key_of(r, &r->entry), item == GGUF_ARRAY ? "arrays" : "an unknown type", item);
    r->entry.item = (gguf_type)item;
    r->entry.count = read_u64(r->word + 4);
    uint64_t bytes = r->entry.count > GGUF_MAX_META ? UINT64_MAX : r->entry.count * size;
    r->entry.value = take(r, bytes, key_of(r, &r->entry), e);
    if (r->entry.value == META_NONE)
        return e->status;
    r->item = 0;
    return item == GGUF_STRING ? next_item(r, e) : expect(r, on_value, meta_at(&r->meta, r->entry.value), bytes);
}

static fr_status on_value_type(gguf_reader *r, fr_error_text *e)
{
    uint32_t type = read_u32(r->word);
    if (type > GGUF_F64)
        return fr_fail(e, FR_BAD_MODEL, "metadata key %.80s has the unknown type %u; the model file may be damaged, download it again",
                       key_of(r, &r->entry), type);
    r->entry.type = (gguf_type)type;
    if (type == GGUF_STRING)
        return expect_word(r, on_string_size, 8);
    if (type == GGUF_ARRAY)
        return expect_word(r, on_array, 12);
    return expect_word(r, on_scalar, gguf_type_size(type));
}

static fr_status on_key(gguf_reader *r, fr_error_text *e)
{
    const char *key = key_of(r, &r->entry); /* a NUL lies behind it: the arena is zeroed */
    if (memchr(key, 0, r->entry.key_size))
        return bad(e, "a metadata key holds a NUL byte");
    if (meta_find(&r->meta, key, r->entry.key_size))
        return fr_fail(e, FR_BAD_MODEL, "the model file is damaged: metadata key %.80s appears twice; download it again", key);
    return expect_word(r, on_value_type, 4);
}

static fr_status on_key_size(gguf_reader *r, fr_error_text *e)
{
    uint64_t size = read_u64(r->word);
    if (!size || size > GGUF_MAX_KEY)
        return fr_fail(e, FR_BAD_MODEL,
                       "the model file is damaged: the key at byte %llu claims %llu bytes, 1 to %d are allowed; download it again",
                       (unsigned long long)r->position, (unsigned long long)size, GGUF_MAX_KEY);
    r->entry = (meta_entry){.key_size = (uint32_t)size};
    r->entry.key = take(r, size + 1, "a key", e);
    return r->entry.key == META_NONE ? e->status : expect(r, on_key, meta_at(&r->meta, r->entry.key), size);
}

static fr_status start_tensors(gguf_reader *r, fr_error_text *e)
{
    fr_status s = r->events->metadata(r->events->user, e);
    if (s != FR_OK)
        return s;
    r->tensors = heap_alloc(r->heap, r->n_tensors * sizeof *r->tensors);
    r->by_name = heap_alloc(r->heap, r->n_tensors * sizeof *r->by_name);
    if (!r->tensors || !r->by_name)
        return no_memory(e);
    return next_tensor(r, e);
}

static fr_status next_pair(gguf_reader *r, fr_error_text *e)
{
    return r->pair < r->n_pairs ? expect_word(r, on_key_size, 8) : start_tensors(r, e);
}

/* Tensor descriptions */

/* Elements and bytes, with every product checked against 2^63. */
static fr_status measure(gguf_tensor *t, fr_error_text *e)
{
    uint64_t limit = INT64_MAX, rows = 1;
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (!t->dims[i])
            return fr_fail(e, FR_BAD_MODEL, "tensor %.80s has no elements; the model file may be damaged, download it again", t->name);
    uint32_t block = ggml_block_size(t->type);
    if (t->dims[0] % block)
        return fr_fail(e, FR_BAD_MODEL,
                       "tensor %.80s of type %s has rows of %llu elements, no multiple of %u; the model file may be damaged", t->name,
                       ggml_type_name(t->type), (unsigned long long)t->dims[0], block);
    bool fits = t->dims[0] / block <= limit / ggml_block_bytes(t->type);
    for (uint32_t i = 1; i < t->n_dims && fits; i++) {
        fits = t->dims[i] <= limit / rows;
        rows = fits ? rows * t->dims[i] : rows;
    }
    uint64_t row_bytes = fits ? t->dims[0] / block * ggml_block_bytes(t->type) : 0;
    if (!fits || rows > limit / row_bytes)
        return fr_fail(e, FR_BAD_MODEL, "tensor %.80s claims more than 2^63 bytes; the model file is damaged, download it again", t->name);
    t->bytes = rows * row_bytes;
    return FR_OK;
}

static fr_status on_tensor_rest(gguf_reader *r, fr_error_text *e)
{
    gguf_tensor *t = &r->tensors[r->tensor];
    for (uint32_t i = 0; i < 4; i++)
        t->dims[i] = i < t->n_dims ? read_u64(r->word + 8 * i) : 1;
    const uint8_t *rest = r->word + 8 * t->n_dims;
    t->type = read_u32(rest);
    t->offset = read_u64(rest + 4); /* from data_start until finish_header */
    const char *name = ggml_type_name(t->type);
    if (!name)
        return fr_fail(e, FR_BAD_MODEL,
                       "tensor %.80s has the unknown type %u; the file may be damaged or too new, use a Q4_0, Q4_1 or Q8_0 version of it",
                       t->name, t->type);
    if (!ggml_block_size(t->type))
        return fr_fail(e, FR_BAD_MODEL,
                       "tensor %.80s has type %s, which is not supported; use a file with Q4_0, Q4_1, Q8_0, Q6_K, F16, BF16 or F32",
                       t->name, name);
    fr_status s = measure(t, e);
    if (s != FR_OK)
        return s;
    r->tensor++;
    return next_tensor(r, e);
}

static fr_status on_tensor_dims(gguf_reader *r, fr_error_text *e)
{
    gguf_tensor *t = &r->tensors[r->tensor];
    t->n_dims = read_u32(r->word);
    if (t->n_dims < 1 || t->n_dims > 4)
        return fr_fail(e, FR_BAD_MODEL, "tensor %.80s has %u dimensions, 1 to 4 are allowed; the model file is damaged, download it again",
                       t->name, t->n_dims);
    return expect_word(r, on_tensor_rest, 8 * t->n_dims + 12);
}

static fr_status on_name(gguf_reader *r, fr_error_text *e)
{
    if (memchr(r->tensors[r->tensor].name, 0, r->name_size))
        return bad(e, "a tensor's name holds a NUL byte");
    return expect_word(r, on_tensor_dims, 4);
}

static fr_status on_name_size(gguf_reader *r, fr_error_text *e)
{
    uint64_t size = read_u64(r->word);
    if (!size || size > GGUF_MAX_KEY)
        return fr_fail(e, FR_BAD_MODEL,
                       "the model file is damaged: the tensor name at byte %llu claims %llu bytes, 1 to %d are allowed; download it again",
                       (unsigned long long)r->position, (unsigned long long)size, GGUF_MAX_KEY);
    uint32_t reference = take(r, size + 1, "a tensor name", e);
    if (reference == META_NONE)
        return e->status;
    uint8_t *name = meta_at(&r->meta, reference);
    r->tensors[r->tensor].name = (const char *)name;
    r->name_size = (uint32_t)size;
    return expect(r, on_name, name, size);
}

static int compare_offsets(const void *a, const void *b)
{
    const gguf_tensor *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Offsets become absolute; tensors must be aligned and must not overlap. */
static fr_status check_offsets(gguf_reader *r, uint32_t alignment, fr_error_text *e)
{
    qsort(r->tensors, r->n_tensors, sizeof *r->tensors, compare_offsets);
    uint64_t end = 0;
    const char *before = "";
    for (uint32_t i = 0; i < r->n_tensors; i++) {
        gguf_tensor *t = &r->tensors[i];
        unsigned long long offset = t->offset;
        if (t->offset % alignment)
            return fr_fail(e, FR_BAD_MODEL,
                           "tensor %.80s starts at offset %llu, no multiple of the file's alignment %u; the model file is damaged", t->name,
                           offset, alignment);
        if (t->offset > INT64_MAX - r->data_start || t->bytes > INT64_MAX - r->data_start - t->offset)
            return fr_fail(e, FR_BAD_MODEL, "tensor %.80s lies at offset %llu, beyond 2^63; the model file is damaged, download it again",
                           t->name, offset);
        if (t->offset < end)
            return fr_fail(e, FR_BAD_MODEL, "tensors %.80s and %.80s overlap at offset %llu; the model file is damaged, download it again",
                           before, t->name, offset);
        end = t->offset + t->bytes;
        before = t->name;
        t->offset += r->data_start;
    }
    return FR_OK;
}

static int compare_names(const void *a, const void *b)
{
    const gguf_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static fr_status index_names(gguf_reader *r, fr_error_text *e)
{
    for (uint32_t i = 0; i < r->n_tensors; i++)
        r->by_name[i] = &r->tensors[i];
    qsort(r->by_name, r->n_tensors, sizeof *r->by_name, compare_names);
    for (uint32_t i = 1; i < r->n_tensors; i++)
        if (!strcmp(r->by_name[i - 1]->name, r->by_name[i]->name))
            return fr_fail(e, FR_BAD_MODEL, "the model file is damaged: tensor %.80s appears twice; download it again",
                           r->by_name[i]->name);
    return FR_OK;
}

static fr_status finish_header(gguf_reader *r, fr_error_text *e)
{
    uint32_t alignment = 32;
    bool given = meta_find(&r->meta, "general.alignment", strlen("general.alignment")) != NULL;
    if (given && (!gguf_u32(&r->meta, "general.alignment", &alignment) || !alignment || alignment & (alignment - 1) || alignment > 1 << 20))
        return bad(e, "general.alignment is no power of two up to 2^20");
    r->data_start = (r->position + alignment - 1) / alignment * alignment;
    fr_status s = check_offsets(r, alignment, e);
    if (s == FR_OK)
        s = index_names(r, e);
    r->next = NULL;
    r->tensor = 0;
    return s == FR_OK ? r->events->header(r->events->user, e) : s;
}

static fr_status next_tensor(gguf_reader *r, fr_error_text *e)
{
    return r->tensor < r->n_tensors ? expect_word(r, on_name_size, 8) : finish_header(r, e);
}

/* Feeding */

static fr_status feed_header(gguf_reader *r, const uint8_t *bytes, size_t size, size_t *used, fr_error_text *e)
{
    while (r->next) {
        size_t n = r->missing < size - *used ? (size_t)r->missing : size - *used;
        if (n)
            memcpy(r->to, bytes + *used, n);
        r->to += n;
        r->missing -= n;
        r->position += n;
        *used += n;
        if (r->missing)
            return FR_OK;
        fr_status s = r->next(r, e);
        if (s != FR_OK)
            return s;
    }
    return FR_OK;
}

static fr_status feed_data(gguf_reader *r, const uint8_t *bytes, size_t size, size_t *used, fr_error_text *e)
{
    while (*used < size && r->tensor < r->n_tensors) {
        const gguf_tensor *t = &r->tensors[r->tensor];
        uint64_t gap = t->offset + r->tensor_at - r->position; /* padding in front of the tensor */
        size_t left = size - *used, taken = 0;
        if (gap) {
            taken = gap < left ? (size_t)gap : left;
        } else {
            uint64_t rest = t->bytes - r->tensor_at;
            size_t n = rest < left ? (size_t)rest : left;
            fr_status s = r->events->data(r->events->user, t, r->tensor_at, bytes + *used, n, &taken, e);
            if (s != FR_OK)
                return s;
            r->tensor_at += taken;
            if (!taken) /* paused */
                return FR_OK;
        }
        *used += taken;
        r->position += taken;
        if (r->tensor_at == t->bytes) {
            r->tensor++;
            r->tensor_at = 0;
        }
    }
    if (r->tensor == r->n_tensors) {
        r->position += size - *used;
        *used = size;
    }
    return FR_OK;
}

fr_status gguf_reader_feed(gguf_reader *r, const uint8_t *bytes, size_t size, size_t *used, fr_error_text *e)
{
    *used = 0;
    fr_status s = feed_header(r, bytes, size, used, e);
    return s == FR_OK && !r->next ? feed_data(r, bytes, size, used, e) : s;
}

/* Where in the header the file ended, for the message. */
static fr_status fail_truncated_header(const gguf_reader *r, fr_error_text *e)
{
    unsigned long long at = r->position;
    if (!at)
        return fr_fail(e, FR_BAD_MODEL, "the model file is empty; download it again");
    if (r->next == on_foreign || r->next == on_magic)
        return fail_magic(r, (size_t)at, e);
    if (r->tensors)
        return fr_fail(e, FR_BAD_MODEL,
                       "the model file is truncated: it ends at byte %llu in the description of tensor %u of %u; download it again", at,
                       r->tensor + 1, r->n_tensors);
    if (r->n_pairs)
        return fr_fail(e, FR_BAD_MODEL, "the model file is truncated: it ends at byte %llu in metadata key %llu of %llu; download it again",
                       at, (unsigned long long)r->pair + 1, (unsigned long long)r->n_pairs);
    return fr_fail(e, FR_BAD_MODEL, "the model file is truncated: it ends at byte %llu, in its first 24 bytes; download it again", at);
}

fr_status gguf_reader_end(gguf_reader *r, fr_error_text *e)
{
    if (r->next)
        return fail_truncated_header(r, e);
    if (r->tensor == r->n_tensors)
        return FR_OK;
    const gguf_tensor *t = &r->tensors[r->tensor];
    return fr_fail(
        e, FR_BAD_MODEL,
        "the model file is truncated: it ends at byte %llu of %llu, after %llu of the %llu bytes of tensor %.80s; download it again",
        (unsigned long long)r->position, (unsigned long long)gguf_reader_expected_bytes(r), (unsigned long long)r->tensor_at,
        (unsigned long long)t->bytes, t->name);
}

/* The rest */

gguf_reader *gguf_reader_new(const gguf_events *events, load_heap *heap)
{
    gguf_reader *r = heap_alloc(heap, sizeof *r);
    if (!r)
        return NULL;
    r->events = events;
    r->heap = heap;
    r->meta.heap = heap;
    r->meta.open = META_NONE;
    expect_word(r, on_magic, 4);
    return r;
}

void gguf_reader_free(gguf_reader *r)
{
    if (!r)
        return;
    meta_free(&r->meta);
    heap_free(r->heap, r->tensors, r->n_tensors * sizeof *r->tensors);
    heap_free(r->heap, r->by_name, r->n_tensors * sizeof *r->by_name);
    heap_free(r->heap, r, sizeof *r);
}

const gguf_meta *gguf_reader_meta(const gguf_reader *r)
{
    return &r->meta;
}

const gguf_tensor *gguf_reader_tensors(const gguf_reader *r, size_t *n)
{
    *n = r->n_tensors;
    return r->tensors;
}

const gguf_tensor *gguf_reader_find(const gguf_reader *r, const char *name)
{
    uint32_t low = 0, high = r->n_tensors;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const gguf_tensor *t = r->by_name[middle];
        int order = strcmp(name, t->name);
        if (!order)
            return t;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

uint64_t gguf_reader_expected_bytes(const gguf_reader *r)
{
    if (r->next)
        return 0;
    const gguf_tensor *last = r->n_tensors ? &r->tensors[r->n_tensors - 1] : NULL;
    return last ? last->offset + last->bytes : r->data_start;
}
