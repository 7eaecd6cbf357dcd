/* gguf.h: push parser for GGUF v2 and v3 (little endian; https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
 *
 * Bytes go in, in pieces of any size; metadata collects in a gguf_meta, tensor descriptions in a table, tensor bytes go
 * to a callback. Every count, length, type and offset is checked before use; offsets are 64-bit. */
#ifndef FR_LOAD_GGUF_H
#define FR_LOAD_GGUF_H

#include "base/error.h"

typedef enum gguf_type { /* value types of metadata */
    GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY, GGUF_U64, GGUF_I64, GGUF_F64
} gguf_type;

typedef enum ggml_type { /* tensor types that are understood */
    GGML_F32 = 0, GGML_F16 = 1, GGML_Q4_0 = 2, GGML_Q4_1 = 3, GGML_Q8_0 = 8, GGML_Q6_K = 14, GGML_BF16 = 30
} ggml_type;

typedef struct gguf_string { const char *data; size_t size; } gguf_string; /* not terminated; may hold any bytes */

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

#endif
