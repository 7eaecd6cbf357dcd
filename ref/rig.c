#include "ref/rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KV_FIRST = 3 }; /* buffers in a snapshot: act, work, state, then the cache */

static bool failed(rig *r, const char *what)
{
    fr_fail(&r->error, FR_FAILED, "%s", what);
    return false;
}

static bool good(rig *r)
{
    const fr_error_text *e = r->gpu ? fr_gpu_error(r->gpu) : NULL;
    if (e && e->status != FR_OK)
        fr_fail(&r->error, e->status, "%s", e->text);
    return r->error.status == FR_OK;
}

/* ---- loading ---- */

static fr_status on_plan(void *user, const fr_config *config, const fr_weights *weights, const gguf_meta *meta, fr_error_text *error)
{
    (void)meta;
    rig *r = user;
    r->config = config;
    r->weights = weights;
    for (uint32_t i = 0; i < weights->n_pools; i++) {
        r->pools[2 * i] = calloc(1, (size_t)weights->pools[i].code_bytes);
        r->pools[2 * i + 1] = calloc(1, (size_t)weights->pools[i].scale_bytes);
        if (!r->pools[2 * i] || !r->pools[2 * i + 1])
            return fr_fail(error, FR_FAILED, "out of memory");
    }
    r->forward = fr_forward_new(r->gpu, config, weights, r->context, error);
    return r->forward ? FR_OK : error->status;
}

static bool on_write(void *user, uint32_t buffer, uint64_t offset, const void *bytes, size_t size)
{
    rig *r = user;
    if (!fr_gpu_upload(r->gpu, fr_forward_weight_buffer(r->forward, buffer), offset, bytes, size))
        return false;
    if (buffer != FR_SINK_VECTORS)
        memcpy((uint8_t *)r->pools[buffer] + offset, bytes, size);
    return true;
}

static bool load(rig *r, const uint8_t *file, size_t size)
{
    bool done = false;
    for (size_t at = 0, used; at < size && good(r); at += used)
        if (fr_loader_feed(r->loader, file + at, size - at, &used, &r->error) == FR_OK && !used)
            r->host.pump(r->host.user);
    while (good(r) && fr_loader_end(r->loader, &done, &r->error) == FR_OK && !done)
        r->host.pump(r->host.user);
    for (done = false; good(r) && fr_forward_loaded(r->forward, &done, &r->error) == FR_OK && !done;)
        r->host.pump(r->host.user);
    while (good(r) && !fr_gpu_upload_idle(r->gpu))
        r->host.pump(r->host.user);
    return good(r);
}

/* Copies buffers, one behind the other, into the read-back buffer, and from there `bytes` of them out. */
static bool read_buffers(rig *r, fr_buffer *const *buffers, uint32_t n, void *out, size_t bytes)
{
    uint64_t at = 0;
    fr_gpu_begin(r->gpu);
    for (uint32_t i = 0; i < n; i++) {
        fr_gpu_copy(r->gpu, buffers[i], 0, r->readback, at, fr_buffer_bytes(buffers[i]));
        at += fr_buffer_bytes(buffers[i]);
    }
    fr_gpu_submit(r->gpu);
    fr_gpu_map(r->gpu, r->readback);
    while (!fr_gpu_mapped(r->readback) && good(r))
        r->host.pump(r->host.user);
    return good(r) && (fr_gpu_take(r->gpu, r->readback, out, bytes) || failed(r, "nothing could be read from the device"));
}

static bool make_copies(rig *r)
{
    const uint64_t layer = (uint64_t)r->shape->kv_stride * 2 * 16;
    const uint64_t limit = fr_gpu_get_limits(r->gpu)->binding;
    uint64_t bytes = 0, vectors;
    fr_buffer *vector_buffer = fr_forward_buffer(r->forward, FR_FORWARD_VECTORS);
    r->kv_layers = (uint32_t)(fr_buffer_bytes(fr_forward_buffer(r->forward, FR_FORWARD_KV)) / layer);
    r->n_kv = (r->config->n_layers + r->kv_layers - 1) / r->kv_layers;
    for (uint32_t i = 0; i < rig_buffers(r); i++)
        bytes += fr_buffer_bytes(rig_buffer(r, i));
    vectors = fr_buffer_bytes(vector_buffer);
    bytes = bytes > vectors ? bytes : vectors;
    r->readback = fr_gpu_buffer(r->gpu, "snapshot", FR_BUFFER_READBACK, bytes < limit ? bytes : limit, &r->error);
    r->vectors = malloc((size_t)vectors);
    if (!r->vectors)
        return failed(r, "out of memory");
    return r->readback && read_buffers(r, &vector_buffer, 1, r->vectors, (size_t)vectors);
}

/* WGSL lets fma() round once or twice. Twins must know what this adapter does. */
static bool probe_fma(rig *r)
{
    static const char wgsl[] = "@group(0) @binding(4) var<storage, read_write> work: array<vec4f>;\n"
                               "@compute @workgroup_size(1)\n"
                               "fn probe() { work[1].x = fma(work[0].x, work[0].y, work[0].z); }\n";
    const float question[8] = {1 + 0x1p-12f, 1 + 0x1p-12f, -(1 + 0x1p-11f)}; /* 2^-24, which a rounded product loses */
    fr_buffer *work = fr_forward_buffer(r->forward, FR_FORWARD_WORK);
    fr_buffer *params = fr_gpu_buffer(r->gpu, "probe", FR_BUFFER_UNIFORM, FR_PARAMS_STRIDE, &r->error);
    fr_pipeline *pipeline = fr_gpu_pipeline(r->gpu, "probe", wgsl, FR_READS_STATE);
    if (!params || !pipeline)
        return failed(r, "out of memory");
    const fr_bindings b = {.codes = fr_forward_weight_buffer(r->forward, 0),
                           .scales = fr_forward_weight_buffer(r->forward, 1),
                           .vectors = fr_forward_buffer(r->forward, FR_FORWARD_VECTORS),
                           .act = fr_forward_buffer(r->forward, FR_FORWARD_ACT),
                           .work = work,
                           .kv = fr_forward_buffer(r->forward, FR_FORWARD_KV),
                           .params = params,
                           .state = fr_forward_state(r->forward)};
    const fr_group *group = fr_gpu_group(r->gpu, &b, &r->error);
    while (good(r) && !fr_pipeline_ready(pipeline))
        r->host.pump(r->host.user);
    if (!good(r))
        return false;
    float answer[8];
    fr_gpu_write(r->gpu, work, 0, question, sizeof question);
    fr_gpu_begin(r->gpu);
    fr_gpu_dispatch(r->gpu, pipeline, group, 0, 1, 1, 1);
    fr_gpu_submit(r->gpu);
    if (!read_buffers(r, &work, 1, answer, sizeof answer))
        return false;
    r->fused = answer[4] != 0;
    return true;
}

/* The device's rope table against the formula, to the last bit but one: pow, cos and sin of C libraries differ there. */
static bool check_rope(rig *r)
{
    const uint32_t dim = r->config->head_dim;
    for (uint32_t position = 0; position < r->shape->context; position++)
        for (uint32_t i = 0; i < dim; i += 2) {
            const float *have = r->vectors + r->shape->rope_at + (size_t)position * dim + i;
            float want[2];
            ref_rope(r->config, r->weights->rope_factors, position, i / 2, want);
            if (!(fabsf(have[0] - want[0]) < 0x1p-22f && fabsf(have[1] - want[1]) < 0x1p-22f)) {
                fr_fail(&r->error, FR_FAILED, "rope table: position %u, pair %u is (%g, %g), expected (%g, %g)", position, i / 2,
                        (double)have[0], (double)have[1], (double)want[0], (double)want[1]);
                return false;
            }
        }
    return true;
}

bool rig_open(rig *r, const rig_host *host, const rig_options *o)
{
    *r = (rig){.host = *host, .context = o->context, .groups = o->groups};
    fr_device device = *host->device;
    device.is_cpu = device.is_cpu && !o->gpu_tiles;
    if (r->groups > 1 && host->device->is_cpu)
        r->groups = 1; /* there workgroups don't run at the same time */
    size_t size;
    uint8_t *file = tiny_model_bytes(&o->model, &size);
    if (!file)
        return failed(r, "the options of the random model contradict each other");
    r->gpu = fr_gpu_new(&device, o->portable, &r->error);
    if (r->gpu) {
        const fr_sink sink = {r, on_plan, on_write};
        r->loader = fr_loader_new(&sink, o->pool_bytes ? o->pool_bytes : fr_gpu_get_limits(r->gpu)->binding);
    }
    bool ok = r->loader ? load(r, file, size) : failed(r, "out of memory");
    free(file);
    if (!ok)
        return false;
    r->shape = fr_forward_shape(r->forward);
    if (!make_copies(r) || !probe_fma(r))
        return false;
    return check_rope(r);
}

void rig_close(rig *r)
{
    while (r->gpu && fr_gpu_compiling(r->gpu)) /* a device without work left lets go of everything at once */
        r->host.pump(r->host.user);
    fr_forward_free(r->forward);
    fr_loader_free(r->loader);
    fr_gpu_free(r->gpu);
    for (uint32_t i = 0; i < 2 * FR_MAX_POOLS; i++)
        free(r->pools[i]);
    free(r->vectors);
}

bool rig_is_slow(const rig *r)
{
    return r->host.device->is_cpu && !fr_gpu_get_limits(r->gpu)->is_cpu;
}

bool rig_leaves_out(const rig *r, uint32_t tree_nodes)
{
    return rig_is_slow(r) && (tree_nodes == 4 || tree_nodes == 16);
}

bool rig_prepare(rig *r, uint32_t nodes, fr_tail tail)
{
    bool ready = false;
    while (good(r) && fr_forward_prepare(r->forward, nodes, tail, &ready, &r->error) == FR_OK && !ready)
        r->host.pump(r->host.user);
    while (r->groups && good(r) && fr_forward_whole(r->forward, nodes, tail, 1) == FR_WHOLE_COMPILING)
        r->host.pump(r->host.user);
    return good(r);
}

/* ---- snapshots ---- */

uint32_t rig_buffers(const rig *r)
{
    return KV_FIRST + r->n_kv;
}

fr_buffer *rig_buffer(const rig *r, uint32_t i)
{
    static const fr_forward_part first[KV_FIRST] = {FR_FORWARD_ACT, FR_FORWARD_WORK, FR_FORWARD_STATE};
    return fr_forward_buffer(r->forward, i < KV_FIRST ? first[i] : (fr_forward_part)(FR_FORWARD_KV + i - KV_FIRST));
}

size_t rig_words(const rig *r, uint32_t i)
{
    return (size_t)(fr_buffer_bytes(rig_buffer(r, i)) / 4);
}

uint32_t *rig_part(const rig *r, rig_snapshot *s, uint32_t i)
{
    uint32_t *p = s->words;
    for (uint32_t k = 0; k < i; k++)
        p += rig_words(r, k);
    return p;
}

bool rig_snapshot_new(rig *r, rig_snapshot *s)
{
    *s = (rig_snapshot){0};
    for (uint32_t i = 0; i < rig_buffers(r); i++)
        s->n += rig_words(r, i);
    s->words = calloc(s->n, sizeof *s->words);
    return s->words || failed(r, "out of memory");
}

/* As many buffers at a time as the read-back buffer holds; it holds all of them but for very large caches. */
bool rig_read(rig *r, rig_snapshot *s)
{
    enum { MOST = 16 };
    fr_buffer *batch[MOST];
    uint32_t *out = s->words;
    for (uint32_t i = 0, n; i < rig_buffers(r); i += n) {
        uint64_t bytes = 0;
        for (n = 0; n < MOST && i + n < rig_buffers(r); n++) {
            batch[n] = rig_buffer(r, i + n);
            if (bytes + fr_buffer_bytes(batch[n]) > fr_buffer_bytes(r->readback))
                break;
            bytes += fr_buffer_bytes(batch[n]);
        }
        if (!read_buffers(r, batch, n, out, (size_t)bytes))
            return false;
        out += bytes / 4;
    }
    return true;
}

void rig_write(rig *r, const rig_snapshot *s)
{
    const uint32_t *p = s->words;
    for (uint32_t i = 0; i < rig_buffers(r); i++) {
        fr_gpu_write(r->gpu, rig_buffer(r, i), 0, p, 4 * rig_words(r, i));
        p += rig_words(r, i);
    }
}

uint32_t rig_random(uint64_t seed, uint64_t n)
{
    uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + n; /* the finaliser of MurmurHash3 scatters the sum */
    x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return (uint32_t)(x >> 16);
}

/* An f16 with magnitude 2^-5 to 4: as keys and values are. */
static uint32_t random_half(uint32_t random)
{
    return (random & 0x8000) | (10 + random % 7) << 10 | (random >> 16 & 0x3ff);
}

/* Numbers in act that are none show up in whatever is computed from them. In work an addition would leave them as they are, so that a stray
 * `+=` would go unseen: there are large numbers instead, 2^40 and more. */
static uint32_t scrambled(uint32_t buffer, uint64_t seed, uint64_t n)
{
    const uint32_t random = rig_random(seed, n);
    if (buffer >= KV_FIRST)
        return random_half(random) | random_half(rig_random(seed + 1, n)) << 16;
    return buffer == REF_WORK ? 0x53800000 | (random & 0x7fffff) : 0x7fc00000 | (random & 0x3fffff);
}

void rig_scramble(rig *r, rig_snapshot *s, uint64_t seed)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < rig_buffers(r); i++) {
        uint32_t *words = rig_part(r, s, i);
        for (size_t w = 0; w < rig_words(r, i); w++)
            words[w] = scrambled(i, seed, n++);
    }
    *rig_control(r, s) = (fr_gpu_Control){.limit = r->context};
    for (uint32_t i = 0; i < r->context; i++)
        rig_tokens(r, s)[i] = rig_random(seed + 2, i) % r->config->vocab;
}

fr_gpu_Control *rig_control(const rig *r, rig_snapshot *s)
{
    return (fr_gpu_Control *)rig_part(r, s, 2);
}

uint32_t *rig_tokens(const rig *r, rig_snapshot *s)
{
    return rig_part(r, s, 2) + REF_TOKENS_AT;
}

fr_gpu_Tree *rig_tree(const rig *r, rig_snapshot *s)
{
    return (fr_gpu_Tree *)(rig_part(r, s, 2) + REF_TREE_AT);
}

/* ---- dispatches ---- */

/* The parts of a matrix follow each other. */
static uint32_t part_index(rig *r, uint32_t nodes, fr_tail tail, uint32_t index, const fr_trace *t)
{
    uint32_t part = 0;
    while (index && fr_forward_trace(r->forward, nodes, tail, --index, 1).matrix == t->matrix)
        part++;
    return part;
}

/* Rows of the head that a workgroup reduces: what makes the grid of the head's first part that wide. A power of two, 32 or more. */
static uint32_t head_rows(rig *r, uint32_t nodes, fr_tail tail)
{
    const fr_part *part = &r->weights->head.parts[0];
    uint32_t rows = 32;
    for (uint32_t i = 0; i < fr_forward_trace_count(r->forward, nodes, tail); i++) {
        const fr_trace t = fr_forward_trace(r->forward, nodes, tail, i, 1);
        if (t.matrix != &r->weights->head)
            continue;
        while ((part->rows + rows - 1) / rows > t.x)
            rows *= 2;
        break;
    }
    return rows;
}

typedef struct named_twin {
    const char *kernel;
    void (*run)(ref_step *);
} named_twin;

static const named_twin twins[] = {
    {"embed", ref_embed},
    {"qkv", ref_qkv},
    {"attend_split", ref_attend_split},
    {"merge", ref_merge},
    {"attend_stream", ref_attend_stream},
    {"attend_tile", ref_attend_stream},
    {"attend_head", ref_attend_stream},
    {"residual", ref_residual},
    {"gateup", ref_gateup},
    {"head", ref_head},
    {"score", ref_score},
    {"advance", ref_advance},
    {"draft_match", ref_match},
    {"draft_tree", ref_tree},
    {"accept", ref_accept},
    {"compact", ref_compact},
};

bool rig_describe(rig *r, uint32_t nodes, fr_tail tail, uint32_t index, uint32_t positions, ref_step *s, void (**twin)(ref_step *))
{
    const fr_trace t = fr_forward_trace(r->forward, nodes, tail, index, positions);
    const fr_layer *layer = &r->weights->layers[t.layer];
    s->config = r->config;
    s->weights = r->weights;
    s->shape = r->shape;
    s->pools = (const uint32_t *const *)r->pools;
    s->vectors = r->vectors;
    s->n = nodes;
    s->layer = t.layer;
    s->layer_in_kv = t.layer % r->kv_layers;
    s->matrix = t.matrix == &layer->qkv[1] ? 1 : t.matrix == &layer->qkv[2] ? 2 : 0;
    s->part = t.matrix ? part_index(r, nodes, tail, index, &t) : 0;
    s->head_rows = head_rows(r, nodes, tail);
    s->chunks = t.x;
    s->down = t.matrix == &layer->down;
    s->every_node = tail == FR_TAIL_SCORE || tail == FR_TAIL_TREE;
    s->emit = tail == FR_TAIL_EMIT;
    s->tree = tail == FR_TAIL_TREE;
    s->kv_layers = r->config->n_layers - t.layer < r->kv_layers ? r->config->n_layers - t.layer : r->kv_layers;
    s->fused = r->fused;
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++)
        if (!strcmp(twins[i].kernel, t.kernel)) {
            *twin = twins[i].run;
            return true;
        }
    return false;
}
