/* compare.c: forerun compare: the prompts of a token log in every mode. All modes must give the same tokens: this is the check of that on
 * real text and a real GPU, and the measurement of what each mode gains. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/drive.h"
#include "cli/json.h"
#include "cli/sim/log.h"
#include "cli/verbs.h"

typedef struct way {
    const char *name;
    fr_mode mode;
    uint32_t width, window; /* 0: the default */
} way;

/* The first is what the others must equal. */
static const way ways[] = {
    {"greedy", FR_MODE_GREEDY, 0, 0},        {"loop", FR_MODE_LOOP, 0, 0},
    {"loop W1", FR_MODE_LOOP, 0, 1},         {"loop W8", FR_MODE_LOOP, 0, 8},
    {"tree 2", FR_MODE_TREE, 2, 0},          {"tree 4", FR_MODE_TREE, 4, 0},
    {"tree 8", FR_MODE_TREE, 8, 0},          {"tree 16", FR_MODE_TREE, 16, 0},
    {"tree 32", FR_MODE_TREE, 32, 0},        {"tree 8 W1", FR_MODE_TREE, 8, 1},
    {"tree 8 W2", FR_MODE_TREE, 8, 2},       {"tree 8 W8", FR_MODE_TREE, 8, 8},
    {"adaptive", FR_MODE_ADAPTIVE, 0, 0},    {"adaptive W1", FR_MODE_ADAPTIVE, 0, 1},
    {"adaptive W8", FR_MODE_ADAPTIVE, 0, 8},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* Of the tokens behind the first, which the prompt's last step yields. */
typedef struct tally {
    uint64_t tokens, steps, drafted, accepted;
    double ms;
} tally;

typedef struct comparison {
    const char *model, *log_path, *adapter;
    fr_list only; /* names of ways */
    uint32_t max_tokens, context, lines;
    bool json, memory;
    fr_drive drive;
    uint8_t *earlier; /* memory of the answers to earlier prompts, as bytes */
    size_t n_earlier;
    sim_log log;
    tally (*tallies)[WAYS]; /* [n_tasks] */
    uint32_t answers, different;
    bool left_out[WAYS];
} comparison;

static const char *log_name(const comparison *c)
{
    return strcmp(c->log_path, "-") ? c->log_path : "standard input";
}

/* Memory never holds the answer that is asked for: each way begins with what it was before this prompt. */
static fr_status run(comparison *c, const way *w, const sim_line *line, fr_error_text *err)
{
    fr_engine *engine = c->drive.engine;
    const fr_request request = {.mode = w->mode,
                                .width = w->width,
                                .workgroups = w->mode == FR_MODE_GREEDY ? FR_NEVER : 0, /* what all others are compared with */
                                .window = w->window,
                                .max_tokens = c->max_tokens,
                                .scope = c->memory ? FR_SCOPE_ALL : FR_SCOPE_NONE};
    fr_status status = c->memory ? fr_load_memory(engine, c->earlier, c->n_earlier, NULL) : FR_OK;
    if (status == FR_OK)
        status = fr_generate(engine, line->prompt, line->n_prompt, &request);
    if (status != FR_OK)
        return fr_fail(err, status, "%s: prompt %zu: %s", log_name(c), (size_t)(line - c->log.lines) + 1, fr_error(engine));
    return fr_drive_wait(&c->drive, NULL, NULL, err);
}

static fr_status remember(comparison *c, fr_error_text *err)
{
    const size_t size = fr_save_memory(c->drive.engine, NULL, 0);
    uint8_t *bytes = realloc(c->earlier, size);
    if (!bytes)
        return fr_fail(err, FR_FAILED, "out of memory for the answers to earlier prompts");
    c->earlier = bytes;
    c->n_earlier = fr_save_memory(c->drive.engine, bytes, size);
    return FR_OK;
}

static void add(tally *t, const fr_engine *engine)
{
    const double tokens = fr_stat(engine, FR_STAT_COMPLETION_TOKENS);
    if (tokens < 1)
        return;
    t->tokens += (uint64_t)tokens - 1;
    t->steps += (uint64_t)fr_stat(engine, FR_STAT_STEPS) - 1;
    t->drafted += (uint64_t)fr_stat(engine, FR_STAT_DRAFTED);
    t->accepted += (uint64_t)fr_stat(engine, FR_STAT_ACCEPTED);
    t->ms += fr_stat(engine, FR_STAT_DECODE_MS);
}

/* One prompt in all ways; says where an answer differs from the first way's. */
static fr_status compare_line(comparison *c, size_t index, fr_error_text *err)
{
    const sim_line *line = &c->log.lines[index];
    uint32_t *want = NULL;
    size_t n_want = 0;
    fr_status status = FR_OK;
    for (int i = 0; i < WAYS && status == FR_OK && !fr_interrupted(); i++) {
        if (c->left_out[i])
            continue;
        if ((status = run(c, &ways[i], line, err)) != FR_OK || fr_interrupted())
            break;
        size_t n;
        const uint32_t *got = fr_tokens(c->drive.engine, &n);
        add(&c->tallies[line->task][i], c->drive.engine);
        if (i == 0) {
            want = malloc((n ? n : 1) * sizeof *want);
            if (!want)
                return fr_fail(err, FR_FAILED, "out of memory for an answer of %zu tokens", n);
            memcpy(want, got, n * sizeof *want);
            n_want = n;
            continue;
        }
        c->answers++;
        size_t at = 0;
        while (at < n && at < n_want && got[at] == want[at])
            at++;
        if (at < n || at < n_want) {
            c->different++;
            fprintf(stderr, "prompt %zu: %s differs from %s at token %zu (%zu and %zu tokens)\n", index + 1, ways[i].name, ways[0].name, at,
                    n, n_want);
        }
    }
    free(want);
    return status;
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

static void print_tally(fr_json *j, const char *name, const tally *t)
{
    fr_json_open(j, name, '{');
    fr_json_count(j, "tokens", t->tokens);
    fr_json_count(j, "steps", t->steps);
    fr_json_number(j, "tau", ratio((double)t->tokens, (double)t->steps));
    fr_json_number(j, "ms_per_token", ratio(t->ms, (double)t->tokens));
    fr_json_number(j, "ms_per_step", ratio(t->ms, (double)t->steps));
    fr_json_count(j, "drafted", t->drafted);
    fr_json_count(j, "accepted", t->accepted);
    fr_json_close(j, '}');
}

static fr_status unknown_way(const char *name, fr_error_text *err)
{
    char names[300] = "";
    for (int i = 0; i < WAYS; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s\"%s\"", i ? ", " : "", ways[i].name);
    return fr_fail(err, FR_BAD_ARGUMENT, "--way %.40s: no such way; there are %s", name, names);
}

/* Only the ways that were named, if any were, and the first. */
static fr_status choose_ways(comparison *c, fr_error_text *err)
{
    for (int i = 1; i < WAYS; i++)
        c->left_out[i] = c->only.n > 0;
    for (size_t k = 0; k < c->only.n; k++) {
        int i = 0;
        while (i < WAYS && strcmp(ways[i].name, c->only.items[k]) != 0)
            i++;
        if (i == WAYS)
            return unknown_way(c->only.items[k], err);
        c->left_out[i] = false;
    }
    return FR_OK;
}

static void sum_tasks(const comparison *c, tally sums[WAYS])
{
    for (size_t task = 0; task < c->log.n_tasks; task++)
        for (int i = 0; i < WAYS; i++) {
            const tally *t = &c->tallies[task][i];
            sums[i].tokens += t->tokens;
            sums[i].steps += t->steps;
            sums[i].drafted += t->drafted;
            sums[i].accepted += t->accepted;
            sums[i].ms += t->ms;
        }
}

static void print_tallies(fr_json *j, const comparison *c, const tally tallies[WAYS])
{
    for (int i = 0; i < WAYS; i++)
        if (!c->left_out[i])
            print_tally(j, ways[i].name, &tallies[i]);
}

static void report(const comparison *c)
{
    tally sums[WAYS] = {0};
    sum_tasks(c, sums);
    if (!c->json) {
        printf("%-10s %8s %8s %8s %10s %10s\n", "way", "tokens", "steps", "tau", "ms/token", "ms/step");
        for (int i = 0; i < WAYS; i++)
            if (!c->left_out[i])
                printf("%-10s %8llu %8llu %8.3f %10.3f %10.3f\n", ways[i].name, (unsigned long long)sums[i].tokens,
                       (unsigned long long)sums[i].steps, ratio((double)sums[i].tokens, (double)sums[i].steps),
                       ratio(sums[i].ms, (double)sums[i].tokens), ratio(sums[i].ms, (double)sums[i].steps));
        printf("%u answers compared with those of %s on %s, %u differ\n", c->answers, ways[0].name,
               fr_info(c->drive.engine, FR_INFO_ADAPTER), c->different);
        return;
    }
    fr_json j = {stdout, false};
    fr_json_open(&j, NULL, '{');
    fr_json_text(&j, "adapter", fr_info(c->drive.engine, FR_INFO_ADAPTER));
    fr_json_text(&j, "model", fr_info(c->drive.engine, FR_INFO_NAME));
    fr_json_count(&j, "answers", c->answers);
    fr_json_count(&j, "different", c->different);
    fr_json_open(&j, "all", '{');
    print_tallies(&j, c, sums);
    fr_json_close(&j, '}');
    fr_json_open(&j, "tasks", '{');
    for (size_t task = 0; task < c->log.n_tasks; task++) {
        fr_json_open(&j, c->log.tasks[task], '{');
        print_tallies(&j, c, c->tallies[task]);
        fr_json_close(&j, '}');
    }
    fr_json_close(&j, '}');
    fr_json_close(&j, '}');
    putchar('\n');
}

static fr_status prepare(comparison *c, fr_error_text *err)
{
    for (int i = 0; i < WAYS; i++) {
        if (c->left_out[i])
            continue;
        const fr_status status = fr_prepare(c->drive.engine, ways[i].mode, ways[i].width);
        c->left_out[i] = status == FR_BAD_ARGUMENT; /* too wide for the context */
        if (c->left_out[i])
            fprintf(stderr, "%s is left out: %s\n", ways[i].name, fr_error(c->drive.engine));
        if (status != FR_OK && !c->left_out[i])
            return fr_fail(err, status, "%s", fr_error(c->drive.engine));
        if (fr_drive_wait(&c->drive, NULL, NULL, err) != FR_OK)
            return err->status;
    }
    return FR_OK;
}

static fr_status compare(comparison *c, fr_error_text *err)
{
    c->tallies = calloc(c->log.n_tasks ? c->log.n_tasks : 1, sizeof *c->tallies);
    if (!c->tallies)
        return fr_fail(err, FR_FAILED, "out of memory");
    fr_status status = prepare(c, err);
    if (status == FR_OK)
        status = remember(c, err);
    const size_t n = c->lines && c->lines < c->log.n ? c->lines : c->log.n;
    for (size_t i = 0; i < n && status == FR_OK && !fr_interrupted(); i++) {
        status = compare_line(c, i, err);
        if (status == FR_OK)
            status = remember(c, err);
    }
    if (status == FR_OK && fr_interrupted())
        status = fr_fail(err, FR_FAILED, "interrupted");
    if (status != FR_OK)
        return status;
    report(c);
    return c->different ? fr_fail(err, FR_FAILED, "%u answers differ from those of %s: a bug, please report it with the adapter's name",
                                  c->different, ways[0].name)
                        : FR_OK;
}

fr_status fr_verb_compare(const fr_verb *verb, int argc, char **argv, fr_error_text *err)
{
    comparison c = {.max_tokens = 128};
    const fr_arg table[] = {
        {FR_ARG_TEXT, "--log", "LOG", "the token log; a line of \"forerun run --json\" for each prompt (- for standard input)", &c.log_path,
         0, 0},
        {FR_ARG_COUNT, "-n", "MAX", "at most so many new tokens each (128)", &c.max_tokens, 2, 1 << 20},
        {FR_ARG_COUNT, "--lines", "N", "the first N prompts (all)", &c.lines, 1, 1 << 30},
        {FR_ARG_LIST, "--way", "NAME", "only this one, such as \"tree 8\", and greedy; may be repeated", &c.only, 0, 0},
        {FR_ARG_FLAG, "--memory", NULL, "draft from the answers to earlier prompts too", &c.memory, 0, 0},
        {FR_ARG_COUNT, "--context", "TOKENS", "room for prompt and answer (default: the model's, 4096 at most)", &c.context, 1, 1 << 24},
        {FR_ARG_TEXT, "--adapter", "NAME", "a GPU whose name contains this, or cpu", &c.adapter, 0, 0},
        {FR_ARG_FLAG, "--json", NULL, "one JSON object", &c.json, 0, 0},
        {0},
    };
    const fr_args_result result = fr_args_parse(verb, table, argc, argv, &c.model, err);
    if (result != FR_ARGS_GO)
        return result == FR_ARGS_HELP ? FR_OK : err->status;
    if (!c.model || !c.log_path)
        return fr_fail(err, FR_BAD_ARGUMENT, "compare needs a model and a log: forerun compare MODEL --log LOG");
    fr_text text = {0};
    const fr_options options = {.context = c.context};
    fr_status status = choose_ways(&c, err);
    if (status == FR_OK)
        status = fr_text_read(&text, c.log_path, err);
    if (status == FR_OK)
        status = sim_log_read(&c.log, text.data ? text.data : "", text.size, log_name(&c), err);
    if (status == FR_OK) {
        fr_interrupt_catch();
        status = fr_drive_open(&c.drive, c.model, c.adapter, &options, false, err);
    }
    if (status == FR_OK) {
        status = compare(&c, err);
        fr_drive_close(&c.drive);
    }
    free(c.earlier);
    free(c.tallies);
    sim_log_free(&c.log);
    fr_text_free(&text);
    return status;
}
