/* bench.c: forerun bench. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/adapter.h"
#include "cli/json.h"
#include "cli/profile.h"
#include "cli/verbs.h"

enum {
    FR_BENCH_REPEATS = 50,
    FR_BENCH_MODES = 4,
    FR_BENCH_WIDTHS = 6 /* 1, 2, 4, 8, 16, 32 */,
    FR_BENCH_WIDTH = 8,
    FR_BENCH_TREE = 2,
    FR_BENCH_ADAPTIVE = 3 /* of the modes */
};

static const struct {
    const char *name;
    fr_mode mode;
} modes[FR_BENCH_MODES] = {{"greedy", FR_MODE_GREEDY}, {"loop", FR_MODE_LOOP}, {"tree", FR_MODE_TREE}, {"adaptive", FR_MODE_ADAPTIVE}};

/* T(N): what a step over N nodes costs; of 1 node, a step of `loop`. */
typedef struct bench_width {
    double prepare_ms; /* compiling its kernels */
    double step_ms[FR_BENCH_REPEATS];
    double tau, dispatches;
} bench_width;

typedef struct bench {
    const char *model, *adapter;
    uint32_t tokens, prompt_tokens, repeats, window, widest, context, workgroups;
    bool json, profile, talk;
    fr_drive drive;
    uint32_t *prompt;
    uint32_t *first; /* tokens of the first run; every other run must give them again */
    size_t n_first, room;
    uint32_t step_tokens; /* tokens of a run that measures steps: trees need fewer steps for them */
    fr_costs costs;
    double prefill_ms[FR_BENCH_REPEATS];
    double token_ms[FR_BENCH_MODES][FR_BENCH_REPEATS];
    double submits[FR_BENCH_MODES], window_used[FR_BENCH_MODES], tau[FR_BENCH_MODES];
    double chosen[FR_BENCH_WIDTHS], probes; /* steps by width, and probes, of adaptive's last run */
    double step_dispatches, step_bytes, pipelines; /* of loop */
    bench_width widths[FR_BENCH_WIDTHS];
    uint32_t n_widths, width; /* trees of more nodes don't fit this context; nodes of mode tree */
} bench;

static double number(const bench *b, fr_stat_id id)
{
    return fr_stat(b->drive.engine, id);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *samples, uint32_t n)
{
    double sorted[FR_BENCH_REPEATS];
    memcpy(sorted, samples, n * sizeof *samples);
    qsort(sorted, n, sizeof *sorted, by_value);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* A software adapter is some hundred times slower, and less of everything tells as much there. */
static void set_defaults(bench *b)
{
    bool cpu = fr_host_device(b->drive.host)->is_cpu;
    b->tokens = b->tokens ? b->tokens : cpu ? 16 : 64;
    b->prompt_tokens = b->prompt_tokens ? b->prompt_tokens : cpu ? 128 : 512;
    b->repeats = b->repeats ? b->repeats : cpu ? 3 : 5;
    b->widest = b->widest ? b->widest : 32;
    b->pipelines = number(b, FR_STAT_PIPELINES); /* those of trees come later */
    b->step_tokens = cpu ? b->tokens : 4 * b->tokens;
}

/* Ordinary tokens, any order: what a step costs does not depend on them. */
static fr_status make_prompt(bench *b, fr_error_text *err)
{
    uint32_t vocab = (uint32_t)number(b, FR_STAT_VOCABULARY), n = 0, state = 1;
    double context = number(b, FR_STAT_CONTEXT);
    if ((double)b->prompt_tokens + (double)b->tokens > context)
        return fr_fail(err, FR_BAD_ARGUMENT, "%u + %u tokens do not fit a context of %.0f; lower --prompt-tokens or -n, or raise --context",
                       b->prompt_tokens, b->tokens, context);
    if (b->step_tokens > (uint32_t)context - b->prompt_tokens)
        b->step_tokens = (uint32_t)context - b->prompt_tokens;
    b->room = b->step_tokens;
    b->prompt = malloc(b->prompt_tokens * sizeof *b->prompt);
    b->first = malloc(b->room * sizeof *b->first);
    if (!b->prompt || !b->first)
        return fr_fail(err, FR_FAILED, "out of memory for %zu tokens", b->prompt_tokens + b->room);
    for (uint32_t tries = 0; n < b->prompt_tokens && tries < 10000 * b->prompt_tokens; tries++) {
        size_t size;
        state = state * 1664525u + 1013904223u;
        uint32_t id = (state >> 8) % vocab;
        fr_token_bytes(b->drive.engine, id, &size);
        if (size)
            b->prompt[n++] = id;
    }
    return n == b->prompt_tokens ? FR_OK
                                 : fr_fail(err, FR_BAD_MODEL, "the vocabulary has hardly any ordinary tokens; is the file damaged?");
}

/* Without memory: the prompt is always the same, and its answer would be known. */
static fr_status generate(bench *b, fr_mode mode, uint32_t width, uint32_t tokens, fr_error_text *err)
{
    fr_request request = {.mode = mode,
                          .width = width,
                          .max_tokens = tokens,
                          .window = b->window,
                          .ignore_eos = true,
                          .scope = FR_SCOPE_NONE,
                          .workgroups = fr_drive_workgroups(b->workgroups)};
    fr_status status = fr_generate(b->drive.engine, b->prompt, b->prompt_tokens, &request);
    if (status != FR_OK)
        return fr_fail(err, status, "%s", fr_error(b->drive.engine));
    status = fr_drive_wait(&b->drive, NULL, NULL, err);
    if (status == FR_OK && fr_interrupted())
        return fr_fail(err, FR_FAILED, "interrupted");
    return status;
}

/* Speed of a wrong answer is worth nothing: all runs have to agree. */
static fr_status check_tokens(bench *b, const char *mode, uint32_t expected, fr_error_text *err)
{
    size_t n;
    const uint32_t *ids = fr_tokens(b->drive.engine, &n);
    if (n != expected)
        return fr_fail(err, FR_FAILED, "%s gave %zu tokens instead of %u", mode, n, expected);
    for (; b->n_first < n; b->n_first++) /* behind those that are known */
        b->first[b->n_first] = ids[b->n_first];
    for (size_t i = 0; i < n; i++)
        if (ids[i] != b->first[i])
            return fr_fail(err, FR_FAILED, "%s gave token %u instead of %u at place %zu: runs of the same prompt disagree on %s", mode,
                           ids[i], b->first[i], i, fr_info(b->drive.engine, FR_INFO_ADAPTER));
    return FR_OK;
}

static void say(const bench *b, const char *what, uint32_t i)
{
    if (b->talk)
        fprintf(stderr, "\r%-8s %u of %u   ", what, i + 1, b->repeats);
}

/* Compiles the kernels of every tree, so that no run has to. */
static fr_status prepare(bench *b, fr_error_text *err)
{
    const fr_device *d = fr_host_device(b->drive.host);
    fr_status status = FR_OK;
    for (b->n_widths = 1; b->n_widths < FR_BENCH_WIDTHS && 1u << b->n_widths <= b->widest && status == FR_OK; b->n_widths++) {
        const double start = d->now_ms(d->now_user);
        if (fr_prepare(b->drive.engine, FR_MODE_TREE, 1u << b->n_widths) != FR_OK)
            break; /* so many nodes don't fit */
        if (b->talk)
            fprintf(stderr, "\rcompiling trees of %u nodes   ", 1u << b->n_widths);
        status = fr_drive_wait(&b->drive, NULL, NULL, err);
        b->widths[b->n_widths].prepare_ms = d->now_ms(d->now_user) - start;
    }
    const uint32_t widest = 1u << (b->n_widths - 1);
    b->width = widest < FR_BENCH_WIDTH ? widest : FR_BENCH_WIDTH;
    if (status == FR_OK && fr_interrupted())
        return fr_fail(err, FR_FAILED, "interrupted");
    return status;
}

static double tokens_per_step(const bench *b)
{
    return number(b, FR_STAT_COMPLETION_TOKENS) / number(b, FR_STAT_STEPS);
}

/* Modes with trees, where there are none. */
static bool left_out(const bench *b, uint32_t mode)
{
    return b->width < 2 && modes[mode].mode >= FR_MODE_TREE;
}

static fr_status measure_modes(bench *b, fr_error_text *err)
{
    fr_status status = FR_OK;
    for (uint32_t i = 0; i < b->repeats; i++)
        for (uint32_t k = 0; k < FR_BENCH_MODES && status == FR_OK; k++) {
            uint32_t m = (i + k) % FR_BENCH_MODES; /* who goes first alternates */
            if (left_out(b, m))
                continue;
            say(b, modes[m].name, i);
            status = generate(b, modes[m].mode, modes[m].mode == FR_MODE_ADAPTIVE ? 1u << (b->n_widths - 1) : b->width, b->tokens, err);
            if (status == FR_OK)
                status = check_tokens(b, modes[m].name, b->tokens, err);
            b->token_ms[m][i] = number(b, FR_STAT_MS_PER_TOKEN);
            b->submits[m] = number(b, FR_STAT_SUBMITS);
            b->window_used[m] = number(b, FR_STAT_WINDOW);
            b->tau[m] = tokens_per_step(b);
            for (int w = 0; modes[m].mode == FR_MODE_ADAPTIVE && w < FR_BENCH_WIDTHS; w++)
                b->chosen[w] = number(b, (fr_stat_id)(FR_STAT_STEPS_1 + w));
            if (modes[m].mode == FR_MODE_ADAPTIVE)
                b->probes = number(b, FR_STAT_PROBES);
            if (modes[m].mode == FR_MODE_LOOP) {
                b->step_dispatches = number(b, FR_STAT_DISPATCHES_PER_STEP);
                b->step_bytes = number(b, FR_STAT_BYTES_PER_STEP);
            }
        }
    return status;
}

/* Decoding begins behind the first token, which a step of the prompt chose. */
static fr_status measure_widths(bench *b, fr_error_text *err)
{
    fr_status status = FR_OK;
    for (uint32_t i = 0; i < b->repeats; i++)
        for (uint32_t k = 0; k < b->n_widths && status == FR_OK; k++) {
            uint32_t w = (i + k) % b->n_widths;
            char name[16];
            snprintf(name, sizeof name, "%u nodes", 1u << w);
            say(b, name, i);
            status = generate(b, w ? FR_MODE_TREE : FR_MODE_LOOP, w ? 1u << w : 0, b->step_tokens, err);
            if (status == FR_OK)
                status = check_tokens(b, name, b->step_tokens, err);
            const double steps = number(b, FR_STAT_STEPS) - 1;
            b->widths[w].step_ms[i] = steps > 0 ? number(b, FR_STAT_DECODE_MS) / steps : 0;
            b->widths[w].tau = tokens_per_step(b);
            b->widths[w].dispatches = number(b, FR_STAT_DISPATCHES_PER_STEP);
        }
    return status;
}

static fr_status measure(bench *b, fr_error_text *err)
{
    fr_status status = prepare(b, err);
    if (status == FR_OK)
        status = generate(b, FR_MODE_LOOP, 0, b->tokens, err); /* warms everything up */
    for (uint32_t i = 0; i < b->repeats && status == FR_OK; i++) {
        say(b, "prefill", i);
        fr_reset(b->drive.engine);
        status = generate(b, FR_MODE_LOOP, 0, 1, err);
        b->prefill_ms[i] = number(b, FR_STAT_PREFILL_MS);
    }
    if (status == FR_OK)
        status = measure_modes(b, err);
    if (status == FR_OK)
        status = measure_widths(b, err);
    if (status == FR_OK)
        status = fr_adapter_measure(b->drive.host, &b->costs, err);
    if (b->talk)
        fputs("\r                                \r", stderr);
    return status;
}

/* What a step must cost: its dispatches, one after the other, and its bytes, read once. The GPU may do both at a time, so the larger of
 * the two is the floor. */
static double dispatch_ms(const bench *b)
{
    return b->step_dispatches * b->costs.dispatch_us / 1000;
}
static double read_ms(const bench *b)
{
    return b->step_bytes / b->costs.bytes_per_ms;
}

static double floor_ms(const bench *b)
{
    return dispatch_ms(b) > read_ms(b) ? dispatch_ms(b) : read_ms(b);
}

static double prefill_rate(const bench *b)
{
    double ms = median(b->prefill_ms, b->repeats);
    return ms > 0 ? 1000 * (double)b->prompt_tokens / ms : 0;
}

static void print_samples(fr_json *j, const char *key, const double *samples, uint32_t n)
{
    fr_json_open(j, key, '[');
    for (uint32_t i = 0; i < n; i++)
        fr_json_number(j, NULL, samples[i]);
    fr_json_close(j, ']');
}

static void print_widths(fr_json *j, const bench *b)
{
    fr_json_count(j, "step_tokens", b->step_tokens);
    fr_json_open(j, "steps", '[');
    for (uint32_t w = 0; w < b->n_widths; w++) {
        fr_json_open(j, NULL, '{');
        fr_json_count(j, "width", 1u << w);
        fr_json_number(j, "ms_per_step", median(b->widths[w].step_ms, b->repeats));
        print_samples(j, "samples_ms", b->widths[w].step_ms, b->repeats);
        fr_json_number(j, "tau", b->widths[w].tau);
        fr_json_count(j, "dispatches_per_step", (uint64_t)b->widths[w].dispatches);
        fr_json_number(j, "prepare_ms", b->widths[w].prepare_ms);
        fr_json_close(j, '}');
    }
    fr_json_close(j, ']');
}

static void print_json(const bench *b)
{
    const fr_engine *e = b->drive.engine;
    fr_json j = {stdout, false};
    fr_json_open(&j, NULL, '{');
    fr_json_text(&j, "name", fr_info(e, FR_INFO_NAME));
    fr_json_text(&j, "types", fr_info(e, FR_INFO_QUANTISATION));
    fr_json_text(&j, "adapter", fr_info(e, FR_INFO_ADAPTER));
    fr_json_count(&j, "parameters", (uint64_t)number(b, FR_STAT_PARAMETERS));
    fr_json_count(&j, "device_bytes", (uint64_t)number(b, FR_STAT_DEVICE_BYTES));
    fr_json_count(&j, "context", (uint64_t)number(b, FR_STAT_CONTEXT));
    fr_json_count(&j, "prompt_tokens", b->prompt_tokens);
    fr_json_count(&j, "tokens", b->tokens);
    fr_json_number(&j, "load_ms", number(b, FR_STAT_LOAD_MS));
    fr_json_number(&j, "compile_ms", number(b, FR_STAT_COMPILE_MS));
    fr_json_count(&j, "pipelines", (uint64_t)b->pipelines);
    fr_json_count(&j, "dispatches_per_step", (uint64_t)b->step_dispatches);
    fr_json_count(&j, "bytes_per_step", (uint64_t)b->step_bytes);
    fr_json_open(&j, "prefill", '{');
    fr_json_number(&j, "tokens_per_s", prefill_rate(b));
    print_samples(&j, "samples_ms", b->prefill_ms, b->repeats);
    fr_json_close(&j, '}');
    for (int m = 0; m < FR_BENCH_MODES; m++) {
        if (left_out(b, (uint32_t)m))
            continue;
        fr_json_open(&j, modes[m].name, '{');
        fr_json_number(&j, "ms_per_token", median(b->token_ms[m], b->repeats));
        print_samples(&j, "samples_ms", b->token_ms[m], b->repeats);
        fr_json_number(&j, "submits", b->submits[m]);
        if (modes[m].mode != FR_MODE_GREEDY)
            fr_json_number(&j, "window", b->window_used[m]);
        if (modes[m].mode == FR_MODE_TREE) {
            fr_json_count(&j, "width", b->width);
            fr_json_number(&j, "tau", b->tau[m]);
        }
        if (modes[m].mode == FR_MODE_ADAPTIVE) {
            fr_json_number(&j, "tau", b->tau[m]);
            fr_json_number(&j, "probes", b->probes);
            fr_json_open(&j, "widths", '{');
            for (int w = 0; w < FR_BENCH_WIDTHS; w++) {
                char width[16];
                snprintf(width, sizeof width, "%d", 1 << w);
                fr_json_number(&j, width, b->chosen[w]);
            }
            fr_json_close(&j, '}');
        }
        fr_json_close(&j, '}');
    }
    print_widths(&j, b);
    fr_json_open(&j, "floor", '{');
    fr_json_number(&j, "ms", floor_ms(b));
    fr_json_number(&j, "dispatch_us", b->costs.dispatch_us);
    fr_json_number(&j, "read_gb_per_s", b->costs.bytes_per_ms / 1e6);
    fr_json_close(&j, '}');
    fr_json_close(&j, '}');
    putchar('\n');
}

static void print_text_samples(const double *samples, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        printf("%s%.3f", i ? " " : "(", samples[i]);
    puts(")");
}

static void print_line(const char *name, const double *samples, uint32_t n)
{
    printf("%-10s %8.3f ms a token   ", name, median(samples, n));
    print_text_samples(samples, n);
}

static void print_steps(const bench *b)
{
    const double loop = median(b->widths[0].step_ms, b->repeats);
    if (b->width > 1)
        printf("           the tree has %u nodes and yields %.2f tokens a step\n", b->width, b->tau[FR_BENCH_TREE]);
    if (b->width > 1) {
        printf("           adaptive yields %.2f; steps over 1 to 32 nodes:", b->tau[FR_BENCH_ADAPTIVE]);
        for (int w = 0; w < FR_BENCH_WIDTHS; w++)
            printf(" %.0f", b->chosen[w]);
        printf("; %.0f probes\n", b->probes);
    }
    puts("     nodes  ms a step  of loop's  tokens a step  dispatches  compile ms");
    for (uint32_t w = 0; w < b->n_widths; w++) {
        const bench_width *x = &b->widths[w];
        printf("%10u   %8.3f   %8.2f   %12.2f  %10.0f  %10.0f   ", 1u << w, median(x->step_ms, b->repeats),
               median(x->step_ms, b->repeats) / loop, x->tau, x->dispatches, x->prepare_ms);
        print_text_samples(x->step_ms, b->repeats);
    }
}

static void print_text(const bench *b)
{
    const fr_engine *e = b->drive.engine;
    printf("%s (%s) on %s\n", fr_info(e, FR_INFO_NAME), fr_info(e, FR_INFO_QUANTISATION), fr_info(e, FR_INFO_ADAPTER));
    printf("load       %8.0f ms, of which %.0f ms had shaders to compile (%.0f pipelines)\n", number(b, FR_STAT_LOAD_MS),
           number(b, FR_STAT_COMPILE_MS), b->pipelines);
    printf("prefill    %8.0f tokens/s     (%u tokens in", prefill_rate(b), b->prompt_tokens);
    for (uint32_t i = 0; i < b->repeats; i++)
        printf(" %.1f", b->prefill_ms[i]);
    puts(" ms)");
    for (int m = 0; m < FR_BENCH_MODES; m++)
        if (!left_out(b, (uint32_t)m))
            print_line(modes[m].name, b->token_ms[m], b->repeats);
    print_steps(b);
    printf("a step     %8.0f dispatches, %.1f MB read; loop has windows of %.0f steps\n", b->step_dispatches, b->step_bytes / 1e6,
           b->window_used[1]);
    printf("floor      %8.3f ms a step    (dispatches %.3f at %.2f us, reading %.3f at %.1f GB/s)\n", floor_ms(b), dispatch_ms(b),
           b->costs.dispatch_us, read_ms(b), b->costs.bytes_per_ms / 1e6);
}

static fr_args_result parse(const fr_verb *verb, bench *b, int argc, char **argv, fr_error_text *err)
{
    const fr_arg table[] = {
        {FR_ARG_COUNT, "-n", "TOKENS", "tokens a run (64; on a software adapter 16)", &b->tokens, 2, 1 << 20},
        {FR_ARG_COUNT, "--prompt-tokens", "TOKENS", "before them (512; on a software adapter 128)", &b->prompt_tokens, 1, 1 << 20},
        {FR_ARG_COUNT, "--repeats", "N", "runs of each kind, up to 50 (5; on a software adapter 3)", &b->repeats, 1, FR_BENCH_REPEATS},
        {FR_ARG_COUNT, "--window", "W", "but in greedy: steps in a command buffer, 1 to 16", &b->window, 1, 16},
        {FR_ARG_COUNT, "--width", "N", "nodes of the widest tree: 1 (no trees), 2, 4, 8, 16 or 32 (32; profile: 8)", &b->widest, 1, 32},
        {FR_ARG_FLAG, "--profile", NULL, "instead, what each kernel of a step takes, by the GPU's clock", &b->profile, 0, 0},
        {FR_ARG_COUNT, "--workgroups", "G", "of steps in one dispatch, at most; 0: no such steps (default: what proves faster)",
         &b->workgroups, 0, 1024},
        {FR_ARG_COUNT, "--context", "TOKENS", "room for prompt and tokens (default: the model's, 4096 at most)", &b->context, 1, 1 << 24},
        {FR_ARG_TEXT, "--adapter", "NAME", "a GPU whose name contains this, or cpu", &b->adapter, 0, 0},
        {FR_ARG_FLAG, "--json", NULL, "one JSON object", &b->json, 0, 0},
        {0},
    };
    return fr_args_parse(verb, table, argc, argv, &b->model, err);
}

static fr_status speeds(bench *b, fr_error_text *err)
{
    set_defaults(b);
    fr_status status = make_prompt(b, err);
    if (status == FR_OK)
        status = measure(b, err);
    if (status == FR_OK && b->json)
        print_json(b);
    else if (status == FR_OK)
        print_text(b);
    return status;
}

static fr_status profile(bench *b, fr_error_text *err)
{
    fr_profile_options o = {.width = b->widest ? b->widest : FR_BENCH_WIDTH, .json = b->json};
    set_defaults(b);
    o.positions = b->prompt_tokens;
    o.repeats = b->repeats;
    return fr_profile(&b->drive, &o, err);
}

fr_status fr_verb_bench(const fr_verb *verb, int argc, char **argv, fr_error_text *err)
{
    bench b = {.workgroups = FR_DRIVE_AUTO};
    fr_args_result result = parse(verb, &b, argc, argv, err);
    if (result != FR_ARGS_GO)
        return result == FR_ARGS_HELP ? FR_OK : err->status;
    if (!b.model)
        return fr_fail(err, FR_BAD_ARGUMENT, "bench needs a model: forerun bench MODEL");
    if (b.widest & (b.widest - 1))
        return fr_fail(err, FR_BAD_ARGUMENT, "--width is 1, 2, 4, 8, 16 or 32, not %u", b.widest);
    fr_options options = {.context = b.context};
    b.talk = !b.json && isatty(STDERR_FILENO);
    fr_interrupt_catch();
    fr_status status = fr_drive_open(&b.drive, b.model, b.adapter, &options, b.talk, err);
    if (status != FR_OK)
        return status;
    status = b.profile ? profile(&b, err) : speeds(&b, err);
    free(b.prompt);
    free(b.first);
    fr_drive_close(&b.drive);
    return status;
}
