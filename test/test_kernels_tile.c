/* test_kernels_tile.c: attention of prompts on GPUs alone, in more shapes than whole models are compiled for. */
#include "cli/host.h"
#include "ref/case.h"
#include "test/kernels_help.h"
#include "test/test.h"

enum { CONTEXT = 1088, NODES = 256 };

typedef struct shape {
    uint32_t heads, kv_heads, head_dim;
    bool portable; /* 16 KB of workgroup memory */
} shape;

/* Groups with and without rows that fill up four; of the values, one thread for some dimensions or several. Whole models have others. */
static const shape shapes[] = {{6, 2, 64, false}, {7, 1, 64, true}, {2, 2, 96, false}, {16, 1, 128, true}};

/* Tokens at positions: within a chunk, over two, and where a second span begins, and a third, within a tile. */
static const struct {
    uint32_t pos, count;
} steps[] = {{0, 1}, {0, 41}, {505, 13}, {1022, 4}};

typedef struct bench {
    rig r;
    checker c;
    fr_kernel_set *wide, *single;
    const fr_attention *tile, *decode;
    const fr_group *group;
} bench;

static const fr_attention *kernels_of(rig *r, fr_kernel_set *k)
{
    CHECK(k);
    const fr_attention *a = fr_kernel_attention(k, &r->error);
    CHECK_MSG(a, "%s", r->error.text);
    while (!(fr_pipeline_ready(a->attend) && (!a->merge || fr_pipeline_ready(a->merge))) && fr_gpu_error(r->gpu)->status == FR_OK)
        r->host.pump(r->host.user);
    CHECK_MSG(fr_gpu_error(r->gpu)->status == FR_OK, "%s", fr_gpu_error(r->gpu)->text);
    return a;
}

static void open_bench(bench *b, const rig_host *host, const shape *s)
{
    const rig_options o = {
        .model = {.layers = 1, .dim = 32, .ffn = 32, .heads = s->heads, .kv_heads = s->kv_heads, .head_dim = s->head_dim},
        .context = CONTEXT,
        .portable = s->portable,
        .gpu_tiles = true};
    rig *r = &b->r;
    open_rig(r, host, &o);
    CHECK(checker_open(&b->c, r));
    b->wide = fr_kernel_set_new(r->gpu, r->config, r->shape, NODES, false);
    b->single = fr_kernel_set_new(r->gpu, r->config, r->shape, 1, false);
    b->tile = kernels_of(r, b->wide);
    b->decode = kernels_of(r, b->single);
    CHECK(!strcmp(fr_pipeline_name(b->tile->attend), "attend_tile"));
    fr_buffer *params = fr_gpu_buffer(r->gpu, "parameters of the bench", FR_BUFFER_UNIFORM, FR_PARAMS_STRIDE, &r->error);
    CHECK(params);
    const fr_bindings all = {.codes = fr_forward_weight_buffer(r->forward, 0),
                             .scales = fr_forward_weight_buffer(r->forward, 1),
                             .vectors = fr_forward_buffer(r->forward, FR_FORWARD_VECTORS),
                             .act = fr_forward_buffer(r->forward, FR_FORWARD_ACT),
                             .work = fr_forward_buffer(r->forward, FR_FORWARD_WORK),
                             .kv = fr_forward_buffer(r->forward, FR_FORWARD_KV),
                             .params = params,
                             .state = fr_forward_state(r->forward)};
    b->group = fr_gpu_group(r->gpu, &all, &r->error);
    CHECK(b->group);
}

static void close_bench(bench *b)
{
    checker_close(&b->c);
    fr_kernel_set_free(b->wide);
    fr_kernel_set_free(b->single);
    rig_close(&b->r);
}

/* Keys and values from a slot on become no numbers. */
static void spoil_cache(rig *r, rig_snapshot *s, uint32_t slot0)
{
    const fr_config *c = r->config;
    uint16_t *halves = (uint16_t *)rig_part(r, s, REF_KV);
    for (uint32_t area = 0; area < 2 * c->n_kv_heads; area++)
        for (uint32_t slot = slot0; slot < CONTEXT; slot++)
            for (uint32_t d = 0; d < c->head_dim; d++)
                halves[(size_t)area * CONTEXT * c->head_dim + ref_cache_place(area >= c->n_kv_heads, c->head_dim, slot, d)] = 0x7e00;
}

/* Queries about as large as the norm of a model leaves them, so that a chunk has some positions that matter. */
static void fill_queries(rig *r, rig_snapshot *s)
{
    float *q = (float *)(rig_part(r, s, REF_WORK) + 4 * (size_t)r->shape->q_at);
    for (uint32_t i = 0; i < NODES * r->config->n_heads * r->config->head_dim; i++)
        q[i] = ((float)(rig_random(5, i) & 0xffff) / 32768 - 1) / 8;
}

static void against_twin(bench *b, uint32_t pos, uint32_t count)
{
    checker *c = &b->c;
    rig *r = &b->r;
    const fr_config *config = r->config;
    rig_scramble(r, &c->was, pos + count);
    fill_queries(r, &c->was);
    spoil_cache(r, &c->was, pos + count);
    *rig_control(r, &c->was) = (fr_gpu_Control){.pos = pos, .end = pos + count, .limit = CONTEXT};
    rig_write(r, &c->was);
    ref_step step = {.config = config,
                     .weights = r->weights,
                     .shape = r->shape,
                     .pools = (const uint32_t *const *)r->pools,
                     .vectors = r->vectors,
                     .n = NODES,
                     .chunks = config->n_kv_heads,
                     .fused = r->fused};
    memcpy(c->low, c->was.words, 4 * c->was.n);
    memcpy(c->high, c->was.words, 4 * c->was.n);
    memset(c->kind, REF_BITS, c->was.n);
    for (uint32_t i = 0; i < REF_BUFFERS; i++) {
        const size_t at = (size_t)(rig_part(r, &c->was, i) - c->was.words);
        step.buffers[i] = (ref_words){c->was.words + at, c->low + at, c->high + at, c->kind + at, rig_words(r, i)};
    }
    ref_attend_stream(&step);
    fr_gpu_begin(r->gpu);
    fr_gpu_dispatch(r->gpu, b->tile->attend, b->group, 0, config->n_kv_heads, (NODES + b->tile->tile_nodes - 1) / b->tile->tile_nodes, 1);
    fr_gpu_submit(r->gpu);
    CHECK_MSG(rig_read(r, &c->now), "%s", r->error.text);
    const size_t wrong = checker_wrong(c);
    CHECK_MSG(wrong == c->was.n, "%u tokens at %u: word %zu is 0x%08x, expected 0x%08x to 0x%08x", count, pos, wrong, c->now.words[wrong],
              c->low[wrong], c->high[wrong]);
}

static uint32_t *attended(rig *r, rig_snapshot *s, uint32_t node)
{
    return rig_part(r, s, REF_ACT) +
           4 * ((size_t)r->shape->act_a + (size_t)node * (r->config->n_heads * r->config->head_dim / FR_BLOCK) * FR_ACT);
}

/* Each node of the step before, by the kernels of single tokens: the same bits. */
static void against_decoding(bench *b, uint32_t pos, uint32_t count)
{
    checker *c = &b->c;
    rig *r = &b->r;
    const fr_config *config = r->config;
    const uint32_t row = config->n_heads * config->head_dim, bytes = row / FR_BLOCK * FR_ACT * 16;
    const uint32_t *q = rig_part(r, &c->was, REF_WORK) + 4 * (size_t)r->shape->q_at;
    for (uint32_t node = 0; node < count; node++) {
        const uint32_t positions = pos + node + 1;
        const fr_gpu_Control control = {.pos = positions - 1, .end = positions, .limit = CONTEXT};
        fr_gpu_write(r->gpu, fr_forward_state(r->forward), 0, &control, sizeof control);
        fr_gpu_write(r->gpu, fr_forward_buffer(r->forward, FR_FORWARD_WORK), (uint64_t)r->shape->q_at * 16, q + (size_t)node * row,
                     4 * row);
        fr_gpu_begin(r->gpu);
        fr_gpu_dispatch(r->gpu, b->decode->attend, b->group, 0, (positions + FR_CHUNK - 1) / FR_CHUNK, config->n_kv_heads, 1);
        fr_gpu_dispatch(r->gpu, b->decode->merge, b->group, 0, (row / FR_BLOCK + b->decode->merge_blocks - 1) / b->decode->merge_blocks, 1,
                        1);
        fr_gpu_submit(r->gpu);
        CHECK_MSG(rig_read(r, &c->was), "%s", r->error.text);
        CHECK_MSG(!memcmp(attended(r, &c->now, node), attended(r, &c->was, 0), bytes), "%u tokens at %u: node %u differs from decoding",
                  count, pos, node);
    }
}

static void tiles(void)
{
    const rig_host host = open_host();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        bench b = {0};
        open_bench(&b, &host, &shapes[i]);
        for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
            against_twin(&b, steps[k].pos, steps[k].count);
            against_decoding(&b, steps[k].pos, steps[k].count);
        }
        printf("  %u heads, %u for keys, of %u: tiles of %u nodes\n", shapes[i].heads, shapes[i].kv_heads, shapes[i].head_dim,
               b.tile->tile_nodes);
        close_bench(&b);
    }
    fr_host_close(host.user);
}

const fr_test kernels_tile_tests[] = {
    {"kernels_tile.attention", "attention of prompts on GPUs, in many shapes: its twin agrees, and single tokens give the same bits",
     tiles},
    {0},
};
