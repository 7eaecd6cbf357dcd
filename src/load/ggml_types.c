#include "load/gguf.h"

/* By number, as files carry it. Supported types have a size; the others are here to be named in errors. The gaps are numbers
 * that were withdrawn or reserved. */
static const struct {
    const char *name;
    uint8_t block_bytes;
    uint16_t block_size; /* elements */
} TYPES[] = {
    [0] = {"F32", 4, 1},         [1] = {"F16", 2, 1},         [2] = {"Q4_0", 18, 32},      [3] = {"Q4_1", 20, 32},
    [4] = {"Q4_2", 0, 0},        [5] = {"Q4_3", 0, 0},        [6] = {"Q5_0", 0, 0},        [7] = {"Q5_1", 0, 0},
    [8] = {"Q8_0", 34, 32},      [9] = {"Q8_1", 0, 0},        [10] = {"Q2_K", 0, 0},       [11] = {"Q3_K", 0, 0},
    [12] = {"Q4_K", 0, 0},       [13] = {"Q5_K", 0, 0},       [14] = {"Q6_K", 210, 256},   [15] = {"Q8_K", 0, 0},
    [16] = {"IQ2_XXS", 0, 0},    [17] = {"IQ2_XS", 0, 0},     [18] = {"IQ3_XXS", 0, 0},    [19] = {"IQ1_S", 0, 0},
    [20] = {"IQ4_NL", 0, 0},     [21] = {"IQ3_S", 0, 0},      [22] = {"IQ2_S", 0, 0},      [23] = {"IQ4_XS", 0, 0},
    [24] = {"I8", 0, 0},         [25] = {"I16", 0, 0},        [26] = {"I32", 0, 0},        [27] = {"I64", 0, 0},
    [28] = {"F64", 0, 0},        [29] = {"IQ1_M", 0, 0},      [30] = {"BF16", 2, 1},       [31] = {"Q4_0_4_4", 0, 0},
    [32] = {"Q4_0_4_8", 0, 0},   [33] = {"Q4_0_8_8", 0, 0},   [34] = {"TQ1_0", 0, 0},      [35] = {"TQ2_0", 0, 0},
    [36] = {"IQ4_NL_4_4", 0, 0}, [37] = {"IQ4_NL_4_8", 0, 0}, [38] = {"IQ4_NL_8_8", 0, 0}, [39] = {"MXFP4", 0, 0},
};

enum { N_TYPES = sizeof TYPES / sizeof *TYPES };

const char *ggml_type_name(uint32_t type)
{
    return type < N_TYPES && TYPES[type].name ? TYPES[type].name : NULL;
}

uint32_t ggml_block_size(uint32_t type)
{
    return type < N_TYPES ? TYPES[type].block_size : 0;
}

uint32_t ggml_block_bytes(uint32_t type)
{
    return type < N_TYPES ? TYPES[type].block_bytes : 0;
}
