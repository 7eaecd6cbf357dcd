/* repack.h: one row of a tensor from the file's format to the GPU's (doc/weights.md). */
#ifndef FR_LOAD_REPACK_H
#define FR_LOAD_REPACK_H

#include "load/gguf.h"
#include "model/weights.h"

/* The stored type of a matrix of this file type. */
fr_wtype repack_type(ggml_type);

/* Converts a row of m->cols elements to `codes` (fr_matrix_code_bytes(m)) and `scales` (fr_matrix_scale_bytes(m)). The
 * file type goes to its own repack_type() or to FR_W_Q8. False: NaN, infinite, or too large for a 16-bit scale. */
bool repack_row(ggml_type, const fr_matrix *m, const uint8_t *row, uint8_t *codes, uint8_t *scales);

/* n elements of type F32, F16 or BF16 to f32. False if one is NaN or infinite. */
bool repack_floats(ggml_type, const uint8_t *bytes, size_t n, float *out);

/* IEEE 754 binary16, exact; to 16 bits rounds to nearest, ties to even. In software: the same bits on every machine. */
float repack_f16_to_f32(uint16_t);
uint16_t repack_f32_to_f16(float);

#endif
