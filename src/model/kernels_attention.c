/* kernels_attention.c: attention of a bucket: which kernels, and how they cut their work. */
#include "model/kernel_set.h"

enum {
    TILE_ROWS = 32, /* query rows of a tile of attend_tile at most, and chunks that it takes at a time: 1, 2, 4, 8 or 16 */
    TILE_CHUNKS = 4
};

uint32_t fr_attention_split_bytes(const fr_config *c, uint32_t threads)
{
    const uint32_t rows = c->n_heads / c->n_kv_heads;
    return rows * c->head_dim * 4 /* query */ + rows * FR_CHUNK * 4 /* score */ + threads * 16 /* part */;
}

uint32_t fr_attention_stream_bytes(const fr_config *c, uint32_t nodes, uint32_t context)
{
    const uint32_t rows = nodes * (c->n_heads / c->n_kv_heads), padded = over(rows, 4) * 4, spans = context > FR_SPAN * FR_CHUNK ? 2 : 1;
    return padded * c->head_dim * 4 /* query */ + padded * FR_CHUNK * 4 /* score */ + spans * rows * c->head_dim * 4 /* val */ +
           spans * rows * 16 /* running */;
}

uint32_t fr_attention_tile_bytes(const fr_config *c, const fr_attention_tile *t)
{
    const uint32_t padded = over(t->nodes * (c->n_heads / c->n_kv_heads), 4) * 4, handed = t->chunks - t->chunks / t->sharers;
    return padded * c->head_dim * 4 /* query */ + padded * t->chunks * (FR_CHUNK + 4) * 4 /* score */ +
           padded * t->chunks * (4 + 16 + 8) /* peak, sums, ab */ + padded * (8 + 4) /* span_ab, top */ +
           larger(handed * padded * c->head_dim * 4, 16) /* handed */;
}

/* False with the error if even the smallest workgroup needs more than the adapter has. */
static bool attention_fits(const fr_kernel_set *k, uint32_t bytes, fr_error_text *e)
{
    const uint32_t room = fr_gpu_get_limits(k->gpu)->workgroup_bytes;
    if (bytes <= room)
        return true;
    fr_fail(
        e, FR_NO_GPU,
        "the GPU's maxComputeWorkgroupStorageSize is %u, attention with %u query heads of %u dimensions for each key head needs %u: try "
        "another adapter or model",
        room, k->config->n_heads / k->config->n_kv_heads, k->config->head_dim, bytes);
    return false;
}

/* Of a CPU adapter: more rows only save loads there (doc/performance.md). */
static uint32_t stream_nodes(const fr_kernel_set *k)
{
    const uint32_t group = k->config->n_heads / k->config->n_kv_heads, room = fr_gpu_get_limits(k->gpu)->workgroup_bytes;
    uint32_t nodes = 16 / group;
    nodes = nodes && !k->tree ? nodes : 1; /* rows that are worked on together share their ancestors' places */
    while (nodes & (nodes - 1))
        nodes--; /* a power of two divides every bucket */
    while (nodes > 1 && (nodes > k->nodes || fr_attention_stream_bytes(k->config, nodes, k->shape->context) > room))
        nodes /= 2;
    return nodes;
}

/* A thread has four rows and four positions of the scores, then four rows and four dimensions of the values: of the latter, threads that
 * are left share the chunks. */
static fr_attention_tile attention_tile(const fr_config *c, uint32_t nodes, uint32_t chunks)
{
    const uint32_t rows = nodes * (c->n_heads / c->n_kv_heads), scores = chunks * FR_CHUNK / 4, values = c->head_dim / 4;
    fr_attention_tile t = {.nodes = nodes, .chunks = chunks, .sharers = 1, .threads = over(rows, 4) * larger(scores, values)};
    while (2 * t.sharers <= chunks && 2 * t.sharers * values <= scores)
        t.sharers *= 2;
    return t;
}

/* Rows that only fill up a group of four cost as much as others; a dozen rows suffice to share what is loaded, of equals more are better;
 * fewer chunks at a time, with more barriers, only where tiles become better by it. */
static fr_attention_tile choose_attention_tile(const fr_kernel_set *k)
{
    const fr_gpu_limits *l = fr_gpu_get_limits(k->gpu);
    const uint32_t group = k->config->n_heads / k->config->n_kv_heads;
    fr_attention_tile best = {0};
    uint32_t most = 0;
    for (uint32_t chunks = TILE_CHUNKS, worth = 20; chunks; chunks /= 2, worth -= 4)
        for (uint32_t nodes = 1; nodes == 1 || (nodes <= k->nodes && nodes * group <= TILE_ROWS); nodes++) {
            const fr_attention_tile t = attention_tile(k->config, nodes, chunks);
            const uint32_t rows = nodes * group, value = worth + 8 * rows / over(rows, 4) + (rows < 12 ? rows : 12);
            if (t.threads > l->threads || fr_attention_tile_bytes(k->config, &t) > l->workgroup_bytes || value < most)
                continue;
            if (value > most || t.chunks == best.chunks)
                best = t;
            most = value;
        }
    return best;
}

/* Chunks of the longest context that attend_head takes: as many as fit workgroup memory, up to 64. 0 if the adapter or the model is not
 * made for it. */
static uint32_t whole_chunks(const fr_kernel_set *k)
{
    const uint32_t head_dim = k->config->head_dim, chunk = 16 + head_dim * 4, span = FR_SPAN * chunk + 4,
                   room = fr_gpu_get_limits(k->gpu)->workgroup_bytes;
    uint32_t spans = 4;
    while (spans > 2 && spans * span + head_dim * 4 > room)
        spans -= 2; /* maxima are folded 32 chunks at a time */
    return fr_kernel_has_lanes(k, FR_CHUNK) && head_dim % FR_BLOCK == 0 && spans * span + head_dim * 4 <= room ? spans * FR_SPAN : 0;
}

/* Of those that leave the result quantised. */
static void begin_attention(fr_kernel *b, const fr_kernel_set *k, uint32_t threads)
{
    fr_kernel_common(b, k, threads, fr_kernel_has_lanes(k, 8));
    fr_kernel_piece(b, "lib/state_read");
    fr_kernel_u32(b, "BLOCKS", k->config->n_heads * k->config->head_dim / FR_BLOCK);
    fr_kernel_piece(b, "lib/chunks");
    fr_kernel_piece(b, "lib/online");
    fr_kernel_quantise(b, k, FR_ACT);
}

static bool build_stream(fr_kernel_set *k, fr_error_text *e)
{
    const uint32_t threads = 4, nodes = stream_nodes(k); /* one SIMD group of SwiftShader: barriers switch between none */
    fr_kernel b;
    if (!attention_fits(k, fr_attention_stream_bytes(k->config, nodes, k->shape->context), e))
        return false;
    begin_attention(&b, k, threads);
    fr_kernel_u32(&b, "QNODES", nodes);
    fr_kernel_piece(&b, "lib/attend");
    fr_kernel_piece(&b, "lib/attend_rows");
    k->attention.tile_nodes = nodes;
    k->attention.attend = fr_kernel_build(&b, k->gpu, "attend_stream", FR_READS_STATE);
    return true;
}

static bool build_tile(fr_kernel_set *k, fr_error_text *e)
{
    const fr_attention_tile t = choose_attention_tile(k), least = attention_tile(k->config, 1, 1);
    fr_kernel b;
    if (!t.nodes) /* memory runs out before threads do, where both are as WebGPU's defaults or in proportion */
        return attention_fits(k, larger(fr_attention_tile_bytes(k->config, &least), fr_gpu_get_limits(k->gpu)->workgroup_bytes + 1), e);
    begin_attention(&b, k, t.threads);
    fr_kernel_u32(&b, "QNODES", t.nodes);
    fr_kernel_u32(&b, "BLOCK_CHUNKS", t.chunks);
    fr_kernel_u32(&b, "SHARERS", t.sharers);
    fr_kernel_piece(&b, "lib/weigh");
    fr_kernel_piece(&b, "lib/attend_block");
    k->attention.tile_nodes = t.nodes;
    k->attention.attend = fr_kernel_build(&b, k->gpu, "attend_tile", FR_READS_STATE);
    return true;
}

const fr_attention *fr_kernel_attention(fr_kernel_set *k, fr_error_text *e)
{
    fr_attention *a = &k->attention;
    if (a->attend)
        return a;
    const fr_gpu_limits *l = fr_gpu_get_limits(k->gpu);
    a->split = (k->nodes == 1 || k->tree) && !l->is_cpu;
    if (!a->split)
        return (l->is_cpu ? build_stream : build_tile)(k, e) ? a : NULL;
    const uint32_t group = k->config->n_heads / k->config->n_kv_heads;
    fr_kernel b;
    const uint32_t most = whole_chunks(k);
    if (most) {
        a->whole_positions = most * FR_CHUNK;
        fr_kernel_common(&b, k, l->threads < 512 ? 256 : 512, true);
        fr_kernel_piece(&b, "lib/state_read");
        fr_kernel_u32(&b, "MOST_CHUNKS", most);
        fr_kernel_piece(&b, "lib/chunks");
        fr_kernel_piece(&b, "lib/weigh");
        fr_kernel_quantise(&b, k, FR_ACT);
        a->whole = fr_kernel_build(&b, k->gpu, "attend_head", FR_READS_STATE);
    }
    const uint32_t threads = group <= 2 ? 64 : group <= 4 ? 128 : 256;
    if (!attention_fits(k, fr_attention_split_bytes(k->config, threads), e))
        return NULL;
    fr_kernel_common(&b, k, threads, false);
    fr_kernel_piece(&b, "lib/state_read");
    fr_kernel_piece(&b, "lib/chunks");
    fr_kernel_piece(&b, "lib/attend");
    fr_kernel_piece(&b, "lib/attend_row");
    a->attend = fr_kernel_build(&b, k->gpu, "attend_split", FR_READS_STATE);
    a->merge_blocks = 2;
    begin_attention(&b, k, a->merge_blocks * FR_BLOCK / 4);
    a->merge = fr_kernel_build(&b, k->gpu, "merge", FR_READS_STATE);
    return a;
}
