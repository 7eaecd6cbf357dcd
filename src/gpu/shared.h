/* shared.h: C side of shared.def. */
#ifndef FR_GPU_SHARED_H
#define FR_GPU_SHARED_H

#include <stdint.h>

#define FR_SHARED_u32 uint32_t
#define FR_SHARED_i32 int32_t
#define FR_SHARED_f32 float
#define FR_SHARED_vec4u fr_gpu_vec4u
typedef struct fr_gpu_vec4u {
    uint32_t x, y, z, w;
} fr_gpu_vec4u;
#define FR_STRUCT_BEGIN(name) typedef struct fr_gpu_##name {
#define FR_FIELD(type, name) FR_SHARED_##type name;
#define FR_FIELD_ARRAY(type, name, count) FR_SHARED_##type name[count];
#define FR_STRUCT_END(name)                                                                                                                \
    }                                                                                                                                      \
    fr_gpu_##name;
#include "gpu/shared.def"
#undef FR_STRUCT_BEGIN
#undef FR_FIELD
#undef FR_FIELD_ARRAY
#undef FR_STRUCT_END

enum { FR_PART_QKV, FR_PART_O, FR_PART_GATE, FR_PART_UP, FR_PART_DOWN, FR_PART_TABLE /* embedding or head */ }; /* Params.part */
enum { FR_RUN_ON = 0, FR_RUN_END = 1, FR_RUN_LIMIT = 2, FR_RUN_NOT_FINITE = 3, FR_RUN_LOST = 4 }; /* Control.finished */
/* Tokens, and steps over trees with three words each: nodes; tokens yielded, and in 4 bits each from bit 16 on how many drafts were
 * accepted of the first 2, 4, 8 and 16 nodes, which are what narrower trees would have been; longest match of the candidates. More than two
 * windows can bring, so the host misses none. */
enum { FR_RING = 512, FR_STATS = 64 };

_Static_assert(sizeof(fr_gpu_Control) == 80, "the state buffer's layout depends on it");
_Static_assert(sizeof(fr_gpu_Params) == 128, "uniform entries");

#endif
