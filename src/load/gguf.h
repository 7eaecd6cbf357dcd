/* gguf.h: push parser for GGUF v2 and v3 (little endian; https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
 *
 * Bytes go in, in pieces of any size; metadata collects in a gguf_meta, tensor descriptions in a table, tensor bytes go
 * to a callback. Every count, length, type and offset is checked before use; offsets are 64-bit. */
#ifndef FR_LOAD_GGUF_H
#define FR_LOAD_GGUF_H

#include "base/error.h"
#include "load/heap.h"

typedef enum gguf_type { /* value types of metadata */
                         GGUF_U8,
                         GGUF_I8,
                         GGUF_U16,
                         GGUF_I16,
                         GGUF_U32,
                         GGUF_I32,
                         GGUF_F32,
                         GGUF_BOOL,
                         GGUF_STRING,
                         GGUF_ARRAY,
                         GGUF_U64,
                         GGUF_I64,
                         GGUF_F64
} gguf_type;

typedef enum ggml_type { /* tensor types that are understood */
                         GGML_F32 = 0,
                         GGML_F16 = 1,
                         GGML_Q4_0 = 2,
                         GGML_Q4_1 = 3,
                         GGML_Q8_0 = 8,
                         GGML_Q6_K = 14,
                         GGML_BF16 = 30
} ggml_type;

typedef struct gguf_string {
    const char *data;
    size_t size;
} gguf_string; /* not terminated; may hold any bytes */

typedef struct gguf_meta gguf_meta;

/* Lookups by key. False if the key is absent or of another kind. u32 accepts any integer type whose value fits; f32 any
 * float or integer. Strings and arrays point into the metadata and live as long as it. */
bool gguf_u32(const gguf_meta *, const char *key, uint32_t *);
bool gguf_f32(const gguf_meta *, const char *key, float *);
bool gguf_bool(const gguf_meta *, const char *key, bool *);
bool gguf_str(const gguf_meta *, const char *key, gguf_string *);
/* Arrays: element type and count; false if absent or no array. */
bool gguf_array(const gguf_meta *, const char *key, gguf_type *, size_t *count);
/* Element i of a string array (i < count; checked), and of an integer array. */
gguf_string gguf_array_str(const gguf_meta *, const char *key, size_t i);
int64_t gguf_array_int(const gguf_meta *, const char *key, size_t i);

/* Names of tensor types ("Q4_0"; NULL for unknown numbers), also of those that are not supported: those have block size 0. */
const char *ggml_type_name(uint32_t type);
uint32_t ggml_block_size(uint32_t type);  /* elements */
uint32_t ggml_block_bytes(uint32_t type);

enum {
    GGUF_MAX_PAIRS = 4096,                    /* metadata keys */
    GGUF_MAX_TENSORS = 65536,
    GGUF_MAX_KEY = 65535,                     /* bytes of a key or of a tensor's name */
    GGUF_MAX_META = 48 * 1024 * 1024,         /* bytes of all keys, values and names */
    GGUF_MAX_ITEM = 256 * 1024                /* bytes of a string in an array */
};

typedef struct gguf_tensor {
    const char *name;   /* NUL-terminated */
    uint32_t type;      /* ggml_type, a supported one */
    uint32_t n_dims;
    uint64_t dims[4];   /* dims[0], the row length, varies fastest; absent ones are 1; none is 0 */
    uint64_t offset;    /* of its first byte in the file */
    uint64_t bytes;
} gguf_tensor;

/* What the reader calls while it is fed. A status other than FR_OK ends the reading. */
typedef struct gguf_events {
    void *user;
    fr_status (*metadata)(void *user, fr_error_text *); /* all pairs are read, no tensor description yet */
    fr_status (*header)(void *user, fr_error_text *);   /* the tensor table is complete and sound */
    /* Bytes [at, at + size) of a tensor, in order, tensors in the order of their offsets; size > 0. Taking fewer (*used < size)
     * pauses the feed; the rest comes again. */
    fr_status (*data)(void *user, const gguf_tensor *, uint64_t at, const uint8_t *bytes, size_t size, size_t *used, fr_error_text *);
} gguf_events;

typedef struct gguf_reader gguf_reader;

/* Both must outlive the reader. NULL: out of memory. */
gguf_reader *gguf_reader_new(const gguf_events *, load_heap *);
void gguf_reader_free(gguf_reader *);

/* Takes bytes in order; *used < size with FR_OK means that events.data paused. Bytes behind the last tensor are ignored. After an error,
 * the reader's or an event's, only gguf_reader_free() is left. */
fr_status gguf_reader_feed(gguf_reader *, const uint8_t *bytes, size_t size, size_t *used, fr_error_text *);
/* The file ended: FR_BAD_MODEL says where, if it is truncated. */
fr_status gguf_reader_end(gguf_reader *, fr_error_text *);
const gguf_meta *gguf_reader_meta(const gguf_reader *);
/* From events.header on: by ascending offset; and the one with this name or NULL. */
const gguf_tensor *gguf_reader_tensors(const gguf_reader *, size_t *n);
const gguf_tensor *gguf_reader_find(const gguf_reader *, const char *name);
uint64_t gguf_reader_expected_bytes(const gguf_reader *); /* end of the last tensor in the file; 0 before events.header */

#endif
