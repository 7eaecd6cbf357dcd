/* profile.c: forerun bench --profile.
 *
 * A kernel is timed in runs of a few thousand of its dispatches in one pass, since a pass each would cost more than the kernel. They depend
 * on each other through the buffers they write, as in a step. Twice: going through the layers in turn, so that weights come from as far
 * away as in a step, and the first layer's again and again, whose weights stay in the caches: what is left then is latency and arithmetic.
 */
#include "cli/profile.h"

#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "session.h"
#include "spec/draft.h"

enum {
    MOST_KERNELS = 32,
    MOST_DISPATCHES = 4096, /* in a timed pass */
    STEPS = 16,             /* decode steps in one */
    SKEW = 256              /* different tokens of the text that is drafted from: enough matches for full trees */
};
static const double warm_ms = 400, pass_ms = 20; /* the card's clocks rise under load; of a timed pass, about */

/* Dispatches of a step with one kernel over matrices of one shape. */
typedef struct kernel {
    char name[64], shape[32];
    uint32_t *dispatches; /* indices in the step, [n] */
    uint32_t n, in_pass[2];
    double bytes, products; /* of a step: read at least; multiply-adds */
    double us[2][FR_PROFILE_REPEATS]; /* a dispatch: layers in turn, and one layer */
} kernel;

typedef struct bucket {
    const char *name;
    uint32_t nodes;
    fr_tail tail;
    uint32_t steps, dispatches, n;
    kernel kernels[MOST_KERNELS];
    double step_ms[FR_PROFILE_REPEATS], encode_ms[FR_PROFILE_REPEATS];
} bucket;

typedef struct profile {
    fr_drive *drive;
    fr_engine *engine;
    const fr_profile_options *o;
    fr_costs costs;
    fr_buffer *readback;
} profile;

static double now(const profile *p)
{
    return fr_now(p->engine);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct spread {
    double median, least, most;
} spread;

static spread spread_of(const double *samples, uint32_t n)
{
    double s[FR_PROFILE_REPEATS];
    memcpy(s, samples, n * sizeof *s);
    qsort(s, n, sizeof *s, by_value);
    return (spread){n % 2 ? s[n / 2] : (s[n / 2 - 1] + s[n / 2]) / 2, s[0], s[n - 1]};
}

/* ---- the state that a step finds ---- */

/* Drafts are looked for in text and memory, so these hold tokens that recur. */
static fr_status write_tokens(profile *p, fr_error_text *err)
{
    fr_engine *e = p->engine;
    const uint32_t n = e->context > FR_MEMORY_TOKENS ? e->context : FR_MEMORY_TOKENS;
    uint32_t *tokens = malloc(n * sizeof *tokens), state = 1;
    if (!tokens)
        return fr_fail(err, FR_FAILED, "out of memory");
    for (uint32_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        tokens[i] = (state >> 8) % SKEW * ((state >> 20) % 4) % e->config->vocab;
    }
    fr_gpu_write(e->gpu, fr_forward_state(e->forward), fr_forward_tokens_offset(), tokens, e->context * sizeof *tokens);
    fr_forward_set_memory(e->forward, tokens, FR_MEMORY_TOKENS);
    free(tokens);
    return FR_OK;
}

/* A full tree in which each node has two children, for kernels behind the drafter's. */
static fr_gpu_Tree make_tree(uint32_t nodes)
{
    fr_gpu_Tree t = {.count = nodes, .moved = 2, .came_from = {2, 5}};
    for (uint32_t i = 1; i < nodes; i++) {
        const uint32_t parent = (i - 1) / 2, depth = (t.info[parent] >> 8) + 1, byte = depth - 1;
        t.token[i] = i;
        t.info[i] = parent | depth << 8;
        t.path_lo[i] = t.path_lo[parent] | (byte < 4 ? i << 8 * byte : 0);
        t.path_hi[i] = t.path_hi[parent] | (byte < 4 ? 0 : i << 8 * (byte - 4));
    }
    return t;
}

static uint32_t end_of(const profile *p, const bucket *b)
{
    return p->o->positions + (b->tail == FR_TAIL_NONE ? b->nodes : 1);
}

static void write_state(profile *p, const bucket *b)
{
    fr_buffer *state = fr_forward_state(p->engine->forward);
    const fr_gpu_Control c = {.pos = p->o->positions, .end = end_of(p, b), .limit = UINT32_MAX, .epoch = 1, .memory = FR_MEMORY_TOKENS};
    fr_gpu_Tree tree = make_tree(b->tail == FR_TAIL_TREE ? b->nodes : 1);
    tree.base = p->o->positions;
    fr_gpu_write(p->engine->gpu, state, 0, &c, sizeof c);
    fr_gpu_write(p->engine->gpu, state, fr_forward_tokens_offset() - sizeof tree, &tree, sizeof tree);
}

/* Tokens cached and processed at the end of a step, at most. */
static uint32_t positions_of(const profile *p, const bucket *b)
{
    return p->o->positions + b->nodes;
}

/* ---- timed passes ---- */

static fr_status check(const profile *p, fr_error_text *err)
{
    const fr_error_text *e = fr_gpu_error(p->engine->gpu);
    if (e->status != FR_OK)
        return fr_fail(err, e->status, "%s", e->text);
    return fr_interrupted() ? fr_fail(err, FR_FAILED, "interrupted") : FR_OK;
}

static void begin(profile *p, const bucket *b)
{
    write_state(p, b);
    fr_gpu_begin(p->engine->gpu);
    fr_gpu_start_clock(p->engine->gpu);
}

static fr_status end(profile *p, double *ms, fr_error_text *err)
{
    fr_gpu *gpu = p->engine->gpu;
    uint64_t ns[2];
    fr_gpu_stop_clock(gpu, p->readback);
    fr_gpu_submit(gpu);
    fr_gpu_map(gpu, p->readback);
    while (!fr_gpu_mapped(p->readback) && check(p, err) == FR_OK)
        fr_host_pump(p->drive->host);
    if (err->status == FR_OK && !fr_gpu_take(gpu, p->readback, ns, sizeof ns))
        return check(p, err) == FR_OK ? fr_fail(err, FR_FAILED, "the GPU's clock could not be read") : err->status;
    *ms = (double)(ns[1] - ns[0]) / 1e6;
    return err->status;
}

/* `count` dispatches of the kernel in one pass, those of all layers in turn or the first again and again. */
static fr_status time_kernel(profile *p, const bucket *b, const kernel *k, bool one, uint32_t count, double *ms, fr_error_text *err)
{
    begin(p, b);
    for (uint32_t i = 0; i < count; i++)
        fr_forward_trace_record(p->engine->forward, b->nodes, b->tail, k->dispatches[one ? 0 : i % k->n], positions_of(p, b));
    return end(p, ms, err);
}

static fr_status time_steps(profile *p, const bucket *b, double *ms, double *encode_ms, fr_error_text *err)
{
    begin(p, b);
    const double start = now(p);
    for (uint32_t i = 0; i < b->steps; i++)
        fr_forward_step(p->engine->forward, b->nodes, b->tail, positions_of(p, b) + i * (b->tail == FR_TAIL_TREE ? FR_DRAFT_DEPTH + 1 : 1));
    *encode_ms = (now(p) - start) / b->steps;
    const fr_status status = end(p, ms, err);
    *ms /= b->steps;
    return status;
}

/* How many dispatches make a pass of the wanted length. */
static fr_status choose_counts(profile *p, const bucket *b, kernel *k, fr_error_text *err)
{
    for (int one = 0; one < 2; one++) {
        double ms = 0;
        uint32_t count = 1;
        while (time_kernel(p, b, k, one, count, &ms, err) == FR_OK && ms < pass_ms / 4 && count < MOST_DISPATCHES)
            count *= 4;
        if (err->status != FR_OK)
            return err->status;
        const double wanted = count * pass_ms / ms, most = MOST_DISPATCHES;
        k->in_pass[one] = wanted < 1 ? 1 : (uint32_t)(wanted < most ? wanted : most);
    }
    return FR_OK;
}

/* ---- what a step is made of ---- */

/* What its dispatches must read, and their multiply-adds. `first`: the matrix was not counted yet (one of several parts has all of it). */
static void count_work(const profile *p, const bucket *b, kernel *k, const fr_trace *t, bool first)
{
    const fr_config *c = p->engine->config;
    const fr_matrix *m = t->matrix;
    const double nodes = b->nodes, positions = p->o->positions;
    if (m && first) {
        const double row = fr_matrix_code_bytes(m) + fr_matrix_scale_bytes(m), n = strcmp(t->kernel, "gateup") ? 1 : 2;
        const bool lookup = !strcmp(t->kernel, "embed");
        k->bytes += (lookup ? nodes : n * m->rows) * row;
        k->products += lookup ? 0 : n * m->rows * m->cols * nodes;
    } else if (!strncmp(t->kernel, "attend", 6)) {
        k->bytes += positions * c->n_kv_heads * c->head_dim * 2 * 2;
        k->products += (positions + (b->tail == FR_TAIL_NONE ? nodes / 2 : 0)) * nodes * c->n_heads * c->head_dim * 2;
    }
}

static kernel *kernel_of(bucket *b, const fr_trace *t)
{
    char shape[32] = "";
    if (t->matrix)
        snprintf(shape, sizeof shape, "%ux%u", t->matrix->rows, t->matrix->cols);
    for (uint32_t i = 0; i < b->n; i++)
        if (!strcmp(b->kernels[i].name, t->kernel) && !strcmp(b->kernels[i].shape, shape))
            return &b->kernels[i];
    if (b->n == MOST_KERNELS)
        return NULL;
    kernel *k = &b->kernels[b->n++];
    snprintf(k->name, sizeof k->name, "%s", t->kernel);
    memcpy(k->shape, shape, sizeof shape);
    return k;
}

static fr_status find_kernels(const profile *p, bucket *b, fr_error_text *err)
{
    const fr_matrix *last = NULL;
    const uint32_t recorded = fr_forward_trace_count(p->engine->forward, b->nodes, b->tail);
    for (uint32_t i = 0; i < recorded; i++) {
        const fr_trace t = fr_forward_trace(p->engine->forward, b->nodes, b->tail, i, positions_of(p, b));
        if (!t.x)
            continue; /* for contexts of another length */
        b->dispatches++;
        kernel *k = kernel_of(b, &t);
        if (!k)
            return fr_fail(err, FR_FAILED, "a step has more than %d kernels", MOST_KERNELS);
        uint32_t *grown = realloc(k->dispatches, (k->n + 1) * sizeof *grown);
        if (!grown)
            return fr_fail(err, FR_FAILED, "out of memory");
        k->dispatches = grown;
        k->dispatches[k->n++] = i;
        count_work(p, b, k, &t, t.matrix != last);
        last = t.matrix;
    }
    return FR_OK;
}

/* ---- measuring ---- */

static fr_status prepare(profile *p, const bucket *b, fr_error_text *err)
{
    bool ready = false;
    while (fr_forward_prepare(p->engine->forward, b->nodes, b->tail, &ready, err) == FR_OK && !ready && check(p, err) == FR_OK)
        fr_host_pump(p->drive->host);
    return err->status;
}

static fr_status warm(profile *p, const bucket *b, fr_error_text *err)
{
    double ms, encode;
    const double start = now(p);
    do
        time_steps(p, b, &ms, &encode, err);
    while (err->status == FR_OK && now(p) - start < warm_ms && !fr_host_device(p->drive->host)->is_cpu);
    return err->status;
}

static fr_status measure(profile *p, bucket *b, fr_error_text *err)
{
    if (prepare(p, b, err) != FR_OK || find_kernels(p, b, err) != FR_OK || warm(p, b, err) != FR_OK)
        return err->status;
    for (uint32_t i = 0; i < b->n; i++)
        if (choose_counts(p, b, &b->kernels[i], err) != FR_OK)
            return err->status;
    for (uint32_t r = 0; r < p->o->repeats; r++) {
        for (uint32_t i = 0; i < b->n; i++) {
            kernel *k = &b->kernels[(i + r) % b->n];
            for (int one = 0; one < 2; one++) {
                double ms;
                if (time_kernel(p, b, k, one, k->in_pass[one], &ms, err) != FR_OK)
                    return err->status;
                k->us[one][r] = 1000 * ms / k->in_pass[one];
            }
        }
        if (time_steps(p, b, &b->step_ms[r], &b->encode_ms[r], err) != FR_OK)
            return err->status;
    }
    return FR_OK;
}

/* ---- printing ---- */

static double us_a_step(const profile *p, const kernel *k)
{
    return spread_of(k->us[0], p->o->repeats).median * k->n;
}

static double sum_ms(const profile *p, const bucket *b)
{
    double us = 0;
    for (uint32_t i = 0; i < b->n; i++)
        us += us_a_step(p, &b->kernels[i]);
    return us / 1000;
}

/* A dispatch can't take less than one that does nothing, nor than reading its bytes. */
static double floor_us(const profile *p, const kernel *k)
{
    const double read = 1000 * k->bytes / k->n / p->costs.bytes_per_ms;
    return read > p->costs.dispatch_us ? read : p->costs.dispatch_us;
}

static double floor_ms(const profile *p, const bucket *b)
{
    double us = 0;
    for (uint32_t i = 0; i < b->n; i++)
        us += floor_us(p, &b->kernels[i]) * b->kernels[i].n;
    return us / 1000;
}

static void print_text(const profile *p, const bucket *b)
{
    const spread step = spread_of(b->step_ms, p->o->repeats), encode = spread_of(b->encode_ms, p->o->repeats);
    printf("\n%s of %u node%s behind %u tokens: %.3f ms (%.3f to %.3f), %u dispatches, %.3f ms to encode; floor %.3f ms\n", b->name,
           b->nodes, b->nodes == 1 ? "" : "s", p->o->positions, step.median, step.least, step.most, b->dispatches, encode.median,
           floor_ms(p, b));
    printf("%-14s %13s %4s %22s %10s %9s %6s %8s %9s %7s %8s\n", "kernel", "matrix", "n", "us each", "one layer", "ms a step", "share",
           "MB", "floor us", "GB/s", "Gmac/s");
    const double sum = sum_ms(p, b);
    for (uint32_t i = 0; i < b->n; i++) {
        const kernel *k = &b->kernels[i];
        const spread us = spread_of(k->us[0], p->o->repeats), one = spread_of(k->us[1], p->o->repeats);
        const double ms = us_a_step(p, k) / 1000;
        printf("%-14s %13s %4u %7.2f (%5.2f to %5.2f) %9.2f %9.3f %5.1f%% %8.2f %9.2f %7.0f %8.0f\n", k->name, k->shape, k->n, us.median,
               us.least, us.most, one.median, ms, 100 * ms / sum, k->bytes / 1e6, floor_us(p, k), k->bytes / ms / 1e6,
               k->products / ms / 1e6);
    }
    printf("all kernels one by one: %.3f ms\n", sum);
}

static void print_samples(fr_json *j, const char *key, const double *samples, uint32_t n)
{
    fr_json_open(j, key, '[');
    for (uint32_t i = 0; i < n; i++)
        fr_json_number(j, NULL, samples[i]);
    fr_json_close(j, ']');
}

static void print_json(fr_json *j, const profile *p, const bucket *b)
{
    const uint32_t n = p->o->repeats;
    fr_json_open(j, NULL, '{');
    fr_json_text(j, "name", b->name);
    fr_json_count(j, "nodes", b->nodes);
    fr_json_count(j, "positions", p->o->positions);
    fr_json_count(j, "dispatches", b->dispatches);
    fr_json_number(j, "step_ms", spread_of(b->step_ms, n).median);
    print_samples(j, "step_samples_ms", b->step_ms, n);
    fr_json_number(j, "encode_ms", spread_of(b->encode_ms, n).median);
    fr_json_number(j, "sum_ms", sum_ms(p, b));
    fr_json_number(j, "floor_ms", floor_ms(p, b));
    fr_json_open(j, "kernels", '[');
    for (uint32_t i = 0; i < b->n; i++) {
        const kernel *k = &b->kernels[i];
        fr_json_open(j, NULL, '{');
        fr_json_text(j, "kernel", k->name);
        fr_json_text(j, "matrix", k->shape);
        fr_json_count(j, "dispatches", k->n);
        fr_json_number(j, "us", spread_of(k->us[0], n).median);
        print_samples(j, "samples_us", k->us[0], n);
        fr_json_number(j, "one_layer_us", spread_of(k->us[1], n).median);
        print_samples(j, "one_layer_samples_us", k->us[1], n);
        fr_json_number(j, "floor_us", floor_us(p, k));
        fr_json_number(j, "bytes", k->bytes);
        fr_json_number(j, "products", k->products);
        fr_json_close(j, '}');
    }
    fr_json_close(j, ']');
    fr_json_close(j, '}');
}

static void print(const profile *p, const bucket *buckets, uint32_t n)
{
    const fr_engine *e = p->engine;
    if (!p->o->json) {
        printf("%s (%s) on %s: a dispatch %.2f us, reading %.0f GB/s\n", fr_info(e, FR_INFO_NAME), fr_info(e, FR_INFO_QUANTISATION),
               fr_info(e, FR_INFO_ADAPTER), p->costs.dispatch_us, p->costs.bytes_per_ms / 1e6);
        for (uint32_t i = 0; i < n; i++)
            print_text(p, &buckets[i]);
        return;
    }
    fr_json j = {stdout, false};
    fr_json_open(&j, NULL, '{');
    fr_json_text(&j, "name", fr_info(e, FR_INFO_NAME));
    fr_json_text(&j, "types", fr_info(e, FR_INFO_QUANTISATION));
    fr_json_text(&j, "adapter", fr_info(e, FR_INFO_ADAPTER));
    fr_json_number(&j, "dispatch_us", p->costs.dispatch_us);
    fr_json_number(&j, "read_gb_per_s", p->costs.bytes_per_ms / 1e6);
    fr_json_open(&j, "profiles", '[');
    for (uint32_t i = 0; i < n; i++)
        print_json(&j, p, &buckets[i]);
    fr_json_close(&j, ']');
    fr_json_close(&j, '}');
    putchar('\n');
}

/* ---- the verb ---- */

static fr_status open(profile *p, fr_error_text *err)
{
    fr_engine *e = p->engine;
    const uint32_t room = fr_forward_prefill_nodes(e->forward) + STEPS * (FR_DRAFT_DEPTH + 1) + FR_DRAFT_WIDTH;
    if (!fr_host_can_time(p->drive->host))
        return fr_fail(err, FR_NO_GPU, "%s has no clock (timestamp-query): a profile needs another adapter", fr_info(e, FR_INFO_ADAPTER));
    if (p->o->positions + room > e->context)
        return fr_fail(err, FR_BAD_ARGUMENT, "a profile behind %u tokens needs a context of %u: lower --prompt-tokens, or raise --context",
                       p->o->positions, p->o->positions + room);
    if (p->o->width > fr_forward_tree_nodes(e->forward) || (p->o->width & (p->o->width - 1)))
        return fr_fail(err, FR_BAD_ARGUMENT, "a tree has 2, 4, 8, 16 or 32 nodes, in this context at most %u",
                       fr_forward_tree_nodes(e->forward));
    p->readback = fr_gpu_buffer(e->gpu, "clock", FR_BUFFER_READBACK, 2 * sizeof(uint64_t), err);
    return p->readback ? write_tokens(p, err) : err->status;
}

fr_status fr_profile(fr_drive *drive, const fr_profile_options *o, fr_error_text *err)
{
    const bool cpu = fr_host_device(drive->host)->is_cpu;
    profile p = {.drive = drive, .engine = drive->engine, .o = o};
    if (open(&p, err) != FR_OK)
        return err->status;
    const uint32_t steps = cpu ? 1 : STEPS;
    bucket buckets[] = {
        {.name = "a step", .nodes = 1, .tail = FR_TAIL_EMIT, .steps = steps},
        {.name = "a step of the prompt", .nodes = fr_forward_prefill_nodes(p.engine->forward), .tail = FR_TAIL_NONE, .steps = 1},
        {.name = "a tree", .nodes = o->width, .tail = FR_TAIL_TREE, .steps = steps},
    };
    const uint32_t n = o->width > 1 ? 3 : 2;
    fr_status status = FR_OK;
    for (uint32_t i = 0; i < n && status == FR_OK; i++)
        status = measure(&p, &buckets[i], err);
    if (status == FR_OK)
        status = fr_adapter_measure(drive->host, &p.costs, err);
    if (status == FR_OK)
        print(&p, buckets, n);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < buckets[i].n; k++)
            free(buckets[i].kernels[k].dispatches);
    return status;
}
