/* cases.c: the table of cases. Shapes are small, but of every kind: see the names and the comments. */
#include "ref/case.h"

#define STEP(at, n, ...) {.pos = at, .count = n, __VA_ARGS__}
#define NONE .tail = FR_TAIL_NONE
#define EMIT .tail = FR_TAIL_EMIT
#define SCORE .tail = FR_TAIL_SCORE
#define WIDE .wide = true

/* Prompts of every length that tiles round up, some across a chunk, and single tokens at the edges of chunks. */
#define PROMPTS STEP(0, 32, WIDE, NONE, .more = 3), STEP(32, 5, WIDE, EMIT), STEP(1, 31, WIDE, NONE), STEP(95, 1, WIDE, EMIT)
#define TOKENS STEP(0, 1, EMIT), STEP(31, 1, EMIT), STEP(32, 1, EMIT, .more = 1), STEP(64, 1, EMIT)
#define SCORES STEP(63, 2, WIDE, SCORE), STEP(33, 1, SCORE)
/* Trees of every bucket, as wide as it is and narrower, where the root or the drafts begin a chunk; and those that the step drafts itself,
 * with session memory of several slices, and where the cache ends. Far: where spans of attention begin. */
#define TREE(n, at, nodes, of) {.tail = FR_TAIL_TREE, .tree = n, .pos = at, .count = nodes, .shape = RIG_##of}
#define DRAFT(n, ...) {.tail = FR_TAIL_TREE, .tree = n, .drafted = true, .pos = __VA_ARGS__}
#define FAR TREE(8, 509, 5, CHAIN), TREE(8, 1023, 8, BUSHY), STEP(506, 9, WIDE, EMIT), STEP(1024, 1, EMIT)
#define TREES_2 TREE(2, 0, 2, CHAIN), TREE(2, 31, 2, CHAIN), TREE(2, 63, 1, STAR)
#define TREES_4 TREE(4, 0, 4, BUSHY), TREE(4, 30, 4, CHAIN), TREE(4, 61, 3, STAR)
#define TREES_8 TREE(8, 28, 8, DEEP), TREE(8, 62, 5, BUSHY)
#define TREES_16 TREE(16, 29, 16, DEEP), TREE(16, 65, 11, BUSHY)
#define TREES_32 TREE(32, 28, 32, DEEP), TREE(32, 60, 32, BUSHY), TREE(32, 31, 19, CHAIN)
/* A finished request: no kernel may write anything. */
#define FINISHED STEP(40, 3, WIDE, EMIT, .finished = FR_RUN_END), STEP(40, 1, EMIT, .finished = FR_RUN_LIMIT)

const kernel_case kernel_cases[] = {
    /* one leaf tree of two; a hidden layer and a vocabulary that no tile divides; tied head */
    {"llama.q8_0",
     {.model = {.type = "q8_0", .dim = 64, .heads = 2, .ffn = 96, .vocab = 331}, .context = 128},
     true,
     false,
     {PROMPTS, TOKENS, SCORES, FINISHED, TREES_8, DRAFT(8, 66, .memory = 600)}},
    /* SmolLM2's layer: groups of 3 heads, 18 blocks a row in 6 leaves */
    {"llama.q4_1",
     {.model = {.type = "q4_1", .head_type = "q8_0", .layers = 1, .dim = 576, .heads = 9, .kv_heads = 3, .ffn = 416, .vocab = 300},
      .context = 128},
     false,
     false,
     {PROMPTS, TOKENS}},
    /* Qwen2.5-0.5B's layer: biases, permuted rows, groups of 7 heads, a head of its own; rows of 28 leaves, and of 32 leaves of 2 blocks */
    {"qwen2.q4_0",
     {.model = {.arch = "qwen2",
                .type = "q4_0",
                .head_type = "q8_0",
                .untied = true,
                .layers = 1,
                .dim = 896,
                .heads = 14,
                .kv_heads = 2,
                .ffn = 2048},
      .context = 96},
     false,
     false,
     {STEP(30, 5, WIDE, EMIT), STEP(0, 1, EMIT), STEP(63, 1, EMIT)}},
    /* q, k and v apart; gate and up made equal; wide heads, more of them than fit the residual; scaled rope; the kernels of GPUs */
    {"llama.mixed",
     {.model = {.type = "q4_0",
                .v_type = "q8_0",
                .up_type = "q4_1",
                .head_type = "q4_1",
                .dim = 96,
                .heads = 4,
                .kv_heads = 1,
                .head_dim = 128,
                .ffn = 1120,
                .rope_factors = true},
      .context = 128,
      .gpu_tiles = true},
     true,
     false,
     {PROMPTS, TOKENS, TREE(8, 30, 8, BUSHY)}},
    /* every matrix in several parts and pools; a context that is not made of whole chunks; WebGPU's default limits */
    {"pools.mixed",
     {.model = {.type = "q4_1", .v_type = "q6_k", .layers = 2, .dim = 256, .heads = 8, .ffn = 288, .untied = true, .vocab = 331},
      .context = 100,
      .pool_bytes = 32768,
      .portable = true},
     false,
     false,
     {PROMPTS, TOKENS}},
    /* the kernels of GPUs: many lanes a row, 4 leaves by shuffles even where subgroups are small, 25 through workgroup memory; matrices of
       all stored types; gate and up in parts */
    {"gpu.lanes",
     {.model = {.arch = "qwen2",
                .type = "q4_0",
                .v_type = "q8_0",
                .head_type = "q4_1",
                .layers = 1,
                .dim = 128,
                .heads = 4,
                .kv_heads = 2,
                .ffn = 800},
      .context = 128,
      .pool_bytes = 32768,
      .gpu_tiles = true},
     false,
     false,
     {TOKENS, STEP(20, 70, WIDE, EMIT)}},
    /* trees, with matrices of all stored types, which are dealt out differently in the next case: the kernels of CPU adapters */
    {"tree.cpu",
     {.model = {.arch = "qwen2",
                .type = "q4_1",
                .v_type = "q4_0",
                .up_type = "q4_0",
                .head_type = "q8_0",
                .dim = 128,
                .heads = 4,
                .kv_heads = 2,
                .ffn = 288,
                .context = 8192},
      .context = 4100},
     false,
     true,
     {TREES_2, TREES_4, TREES_8, TREES_16, TREES_32, FAR, DRAFT(8, 50), DRAFT(32, 66, .memory = 1500), DRAFT(32, 4120), DRAFT(4, 0),
      DRAFT(8, 33, .finished = FR_RUN_END)}},
    /* and those of GPUs: leaves in many lanes, fewer the wider the tree; matrices in several parts */
    {"tree.gpu",
     {.model = {.arch = "qwen2",
                .type = "q4_0",
                .v_type = "q8_0",
                .head_type = "q4_1",
                .dim = 128,
                .heads = 4,
                .kv_heads = 2,
                .ffn = 288,
                .context = 8192},
      .context = 4100,
      .pool_bytes = 32768,
      .gpu_tiles = true},
     false,
     true,
     {TREES_2, TREES_4, TREES_8, TREES_16, TREES_32, FAR, DRAFT(16, 61, .memory = 700)}},
    /* all layers in one dispatch */
    {"layers.q4_1",
     {.model = {.type = "q4_1", .dim = 320, .heads = 5, .kv_heads = 1, .head_dim = 64, .ffn = 1504, .layers = 2},
      .context = 1088,
      .groups = 16},
     false,
     true,
     {{0}}},
    {"layers.q8_0",
     {.model = {.type = "q8_0", .dim = 64, .heads = 4, .kv_heads = 2, .head_dim = 32, .ffn = 3872, .layers = 1},
      .context = 1088,
      .groups = 16},
     false,
     true,
     {{0}}},
    {"layers.q4_0",
     {.model = {.arch = "qwen2", .type = "q4_0", .dim = 288, .heads = 3, .kv_heads = 3, .head_dim = 96, .ffn = 64, .layers = 1},
      .context = 256,
      .groups = 16},
     false,
     true,
     {{0}}},
    /* the end of a context so long that WebGPU's default limits leave memory for trees of 16 nodes only; for the self-test on GPUs: on a
       CPU it takes more than a minute */
    {"tree.long",
     {.model = {.type = "q8_0", .layers = 1, .heads = 8, .kv_heads = 1, .head_dim = 128, .ffn = 64, .context = 16384},
      .context = 16000,
      .portable = true,
      .gpu_tiles = true},
     false,
     false,
     {TREE(16, 15967, 16, BUSHY), DRAFT(16, 15990)}},
    {0},
};
