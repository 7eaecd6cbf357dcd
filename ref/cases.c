/* cases.c: the table of cases. Shapes are small, but of every kind: see the names. */
#include "ref/case.h"

#define STEP(at, n, ...) {.pos = at, .count = n, __VA_ARGS__}
#define WIDE .wide = true

/* A prompt that crosses a chunk, a step of it that is scored, and decoding at the edges of chunks. */
#define STEPS                                                                                                                              \
    {STEP(0, 5, WIDE, .tail = FR_TAIL_EMIT), STEP(30, 5, WIDE, .tail = FR_TAIL_SCORE), STEP(31, 1, .tail = FR_TAIL_EMIT),                  \
     STEP(32, 1, .tail = FR_TAIL_EMIT)}

const kernel_case kernel_cases[] = {
    {"types.q8_0", {.model = {.type = "q8_0"}, .context = 96}, true, STEPS},
    {"types.q4_0", {.model = {.type = "q4_0"}, .context = 96}, true, STEPS},
    {"types.q4_1", {.model = {.type = "q4_1"}, .context = 96}, true, STEPS},
    {0},
};
