/* kernel.h: from kernels/ to WGSL text. A kernel is a prelude of constants, library pieces and its own file, concatenated; a variant is
 * another piece with the same functions, or another constant (kernels/README.md). */
#ifndef FR_GPU_KERNEL_H
#define FR_GPU_KERNEL_H

#include <stdarg.h>

#include "gpu/gpu.h"

typedef struct fr_kernel {
    char *text; /* owned; NULL once memory ran out */
    size_t size, room;
} fr_kernel;

void fr_kernel_begin(fr_kernel *, bool subgroups);
void fr_kernel_u32(fr_kernel *, const char *name, uint32_t value);
void fr_kernel_bool(fr_kernel *, const char *name, bool value);
void fr_kernel_f32(fr_kernel *, const char *name, float value); /* exact */
/* Appends a piece by its path below kernels/ without ".wgsl", as "lib/q4a"; "shared" are the structures of shared.def. */
void fr_kernel_piece(fr_kernel *, const char *name);
/* Appends the kernel's own file, starts the compilation and frees the text. NULL: out of memory. */
fr_pipeline *fr_kernel_build(fr_kernel *, fr_gpu *, const char *entry, fr_layout);

#endif
