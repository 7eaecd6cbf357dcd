/* sim.c: forerun sim. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/line.h"
#include "cli/json.h"
#include "cli/sim/control.h"
#include "cli/sim/replay.h"
#include "cli/verbs.h"

static const sim_drafter *const all_drafters[] = {&sim_lookup, &sim_suffix, &sim_mixing, &sim_fixed};
enum { N_DRAFTERS = sizeof all_drafters / sizeof *all_drafters, MAX_SIZES = 16 };

typedef struct sim_options {
    const char *log, *drafter_list, *width_list, *memory_list, *scope, *curves;
    uint32_t seed, noise;
    bool prompts, json, csv, control;
    const sim_drafter *drafters[N_DRAFTERS];
    uint32_t sizes[MAX_SIZES], widths[SIM_WIDTHS];
    uint32_t n_drafters, n_sizes, n_widths;
} sim_options;

/* A table of results: [drafter][size of memory][task]. */
typedef struct grid {
    const sim_options *o;
    const sim_log *log;
    sim_result *cells;
} grid;

/* ---- options ---- */

static fr_args_result parse(const fr_verb *verb, sim_options *o, int argc, char **argv, fr_error_text *err)
{
    const fr_arg table[] = {
        {FR_ARG_TEXT, "--drafters", "LIST", "of lookup, suffix, mixing, fixed (default: all of them)", &o->drafter_list, 0, 0},
        {FR_ARG_TEXT, "--widths", "LIST", "nodes of the trees, up to five numbers, rising, 2 to 32 (default: 8,16,32)", &o->width_list, 0,
         0},
        {FR_ARG_TEXT, "--memory", "LIST", "tokens of memory (default: 0,1K,2K,4K,8K,16K,32K,64K,all); --control: one size (32K)",
         &o->memory_list, 0, 0},
        {FR_ARG_TEXT, "--scope", "SCOPE", "memory holds earlier lines of all tasks (the default), or of the same task: all or task",
         &o->scope, 0, 0},
        {FR_ARG_FLAG, "--prompts", NULL, "memory holds whole prompts, too, not outputs alone", &o->prompts, 0, 0},
        {FR_ARG_COUNT, "--shuffle", "SEED", "take the lines in a random order", &o->seed, 1, UINT32_MAX},
        {FR_ARG_FLAG, "--control", NULL, "instead, the controller of mode adaptive against fixed widths on devices of known costs",
         &o->control, 0, 0},
        {FR_ARG_TEXT, "--curves", "LIST", "--control: these devices, such as h200 or laptop (default: all)", &o->curves, 0, 0},
        {FR_ARG_COUNT, "--noise", "PERCENT", "--control: by which a window's time varies (5)", &o->noise, 1, 100},
        {FR_ARG_FLAG, "--json", NULL, "one JSON object instead of tables", &o->json, 0, 0},
        {FR_ARG_FLAG, "--csv", NULL, "comma-separated values instead of tables; not with --control", &o->csv, 0, 0},
        {0},
    };
    return fr_args_parse(verb, table, argc, argv, &o->log, err);
}

/* Cuts the next word off a list; false at its end. */
static bool next_word(const char **list, char *word, size_t room)
{
    const size_t length = strcspn(*list, ",");
    if (!**list)
        return false;
    snprintf(word, room, "%.*s", (int)(length < room ? length : room), *list);
    *list += length + ((*list)[length] == ',');
    return true;
}

/* A number, perhaps with K for 1024. */
static bool read_count(const char *word, uint32_t *value)
{
    char *end;
    const unsigned long n = strtoul(word, &end, 10);
    const bool kilo = *end == 'K' || *end == 'k';
    *value = (uint32_t)n * (kilo ? 1024 : 1);
    return word[0] >= '0' && word[0] <= '9' && !end[kilo] && n <= (kilo ? 1u << 18 : 1u << 28);
}

static fr_status read_drafters(sim_options *o, fr_error_text *err)
{
    char word[40];
    const char *list = o->drafter_list ? o->drafter_list : "lookup,suffix,mixing,fixed";
    while (next_word(&list, word, sizeof word)) {
        const sim_drafter *found = NULL;
        for (size_t i = 0; i < N_DRAFTERS; i++)
            found = strcmp(all_drafters[i]->name, word) ? found : all_drafters[i];
        for (uint32_t i = 0; i < o->n_drafters; i++)
            found = o->drafters[i] == found ? NULL : found;
        if (!found)
            return fr_fail(err, FR_BAD_ARGUMENT, "--drafters is a list of lookup, suffix, mixing, fixed, each once; not \"%s\"", word);
        o->drafters[o->n_drafters++] = found;
    }
    return o->n_drafters ? FR_OK : fr_fail(err, FR_BAD_ARGUMENT, "--drafters is empty; for example --drafters lookup,fixed");
}

static fr_status read_widths(sim_options *o, fr_error_text *err)
{
    char word[40];
    const char *list = o->width_list ? o->width_list : "8,16,32";
    while (next_word(&list, word, sizeof word)) {
        uint32_t n, before = o->n_widths ? o->widths[o->n_widths - 1] : 1;
        if (!read_count(word, &n) || n <= before || n > FR_DRAFT_WIDTH || o->n_widths == SIM_WIDTHS)
            return fr_fail(err, FR_BAD_ARGUMENT, "--widths is a list of up to %d rising numbers from 2 to %d; not \"%s\"", SIM_WIDTHS,
                           FR_DRAFT_WIDTH, word);
        o->widths[o->n_widths++] = n;
    }
    return o->n_widths ? FR_OK : fr_fail(err, FR_BAD_ARGUMENT, "--widths is empty; for example --widths 8,16,32");
}

static fr_status read_sizes(sim_options *o, fr_error_text *err)
{
    char word[40];
    const char *list = o->memory_list ? o->memory_list : "0,1K,2K,4K,8K,16K,32K,64K,all";
    while (next_word(&list, word, sizeof word)) {
        uint32_t n = SIM_ALL;
        if ((strcmp(word, "all") && !read_count(word, &n)) || o->n_sizes == MAX_SIZES)
            return fr_fail(err, FR_BAD_ARGUMENT, "--memory is a list of up to %d sizes such as 0, 1000, 4K or all; not \"%s\"", MAX_SIZES,
                           word);
        o->sizes[o->n_sizes++] = n;
    }
    return o->n_sizes ? FR_OK : fr_fail(err, FR_BAD_ARGUMENT, "--memory is empty; for example --memory 0,32K");
}

static fr_status check(sim_options *o, fr_error_text *err)
{
    if (!o->log)
        return fr_fail(err, FR_BAD_ARGUMENT, "sim needs a log: forerun sim LOG (- for standard input)");
    if (o->json && o->csv)
        return fr_fail(err, FR_BAD_ARGUMENT, "--json and --csv exclude each other; give one of them");
    if (o->scope && strcmp(o->scope, "all") && strcmp(o->scope, "task"))
        return fr_fail(err, FR_BAD_ARGUMENT, "--scope is all or task, not \"%.40s\"", o->scope);
    if (!o->control && (o->curves || o->noise))
        return fr_fail(err, FR_BAD_ARGUMENT, "%s is for --control", o->curves ? "--curves" : "--noise");
    if (o->control && (o->drafter_list || o->width_list || o->scope || o->prompts || o->csv))
        return fr_fail(err, FR_BAD_ARGUMENT, "--control always has the drafter of the device, all widths and all tasks; leave %s out",
                       o->drafter_list ? "--drafters"
                       : o->width_list ? "--widths"
                       : o->scope      ? "--scope"
                       : o->prompts    ? "--prompts"
                                       : "--csv");
    fr_status status = read_drafters(o, err);
    if (status == FR_OK)
        status = read_widths(o, err);
    if (status == FR_OK)
        status = read_sizes(o, err);
    if (status == FR_OK && o->control && o->memory_list && o->n_sizes > 1)
        return fr_fail(err, FR_BAD_ARGUMENT, "--control takes one size of --memory, not \"%.40s\"", o->memory_list);
    return status;
}

/* ---- results ---- */

static sim_result *cell(const grid *g, uint32_t drafter, uint32_t size, size_t task)
{
    return &g->cells[((size_t)drafter * g->o->n_sizes + size) * g->log->n_tasks + task];
}

/* Of one task, or of all if `task` is n_tasks. */
static sim_count count_of(const grid *g, uint32_t drafter, uint32_t size, size_t task, uint32_t width, bool whole)
{
    sim_count sum = {0, 0};
    for (size_t t = 0; t < g->log->n_tasks; t++) {
        const sim_result *r = cell(g, drafter, size, t);
        const sim_count *c = whole ? &r->whole[width] : &r->cut[width];
        if (task == t || task == g->log->n_tasks) {
            sum.tokens += c->tokens;
            sum.steps += c->steps;
        }
    }
    return sum;
}

static double tau(sim_count c)
{
    return c.steps ? (double)c.tokens / (double)c.steps : 0;
}

static const char *size_name(uint32_t size, char text[16])
{
    if (size == SIM_ALL)
        return "all";
    snprintf(text, 16, size % 1024 || !size ? "%u" : "%uK", size % 1024 ? size : size / 1024);
    return text;
}

static void print_sizes(const grid *g, bool whole)
{
    const sim_options *o = g->o;
    char text[16];
    printf("\n  %-10s %5s", "memory", "nodes");
    for (uint32_t s = 0; s < o->n_sizes; s++)
        printf(" %7s", size_name(o->sizes[s], text));
    putchar('\n');
    for (uint32_t d = 0; d < o->n_drafters; d++)
        for (uint32_t w = 0; w < o->n_widths; w++) {
            printf("  %-10s %5u", w ? "" : o->drafters[d]->name, o->widths[w]);
            for (uint32_t s = 0; s < o->n_sizes; s++)
                printf(" %7.3f", tau(count_of(g, d, s, g->log->n_tasks, w, whole)));
            putchar('\n');
        }
}

/* A name from the log as a cell of a table, whatever it holds. */
static void print_name(const char *name, int width)
{
    char line[256];
    fr_line_copy(line, sizeof line, name, strlen(name));
    for (const char *c = line; *c; c++)
        width -= ((unsigned char)*c & 0xc0) != 0x80; /* continues a code point */
    printf("  %s%*s", line, width > 0 ? width : 0, "");
}

/* Drafters side by side at the widest width, with the first and the last size of memory. */
static void print_tasks(const grid *g, bool whole)
{
    const sim_options *o = g->o;
    const uint32_t shown[] = {0, o->n_sizes - 1}, n_shown = o->n_sizes > 1 ? 2 : 1;
    char text[16];
    printf("\n  %-18s %7s", "", "");
    for (uint32_t s = 0; s < n_shown; s++)
        printf("   %-*s", (int)(8 * o->n_drafters - 1), size_name(o->sizes[shown[s]], text));
    printf("\n  %-18s %7s", "task", "tokens");
    for (uint32_t s = 0; s < n_shown; s++)
        for (uint32_t d = 0; d < o->n_drafters; d++)
            printf("%s%7s", d ? " " : "   ", o->drafters[d]->name);
    putchar('\n');
    for (size_t t = 0; t < g->log->n_tasks; t++) {
        print_name(g->log->tasks[t][0] ? g->log->tasks[t] : "(no task)", 18);
        printf(" %7" PRIu64, count_of(g, 0, 0, t, 0, whole).tokens);
        for (uint32_t s = 0; s < n_shown; s++)
            for (uint32_t d = 0; d < o->n_drafters; d++)
                printf("%s%7.3f", d ? " " : "   ", tau(count_of(g, d, shown[s], t, o->n_widths - 1, whole)));
        putchar('\n');
    }
}

static void print_tables(const grid *g)
{
    for (uint32_t whole = 0; whole < 2; whole++) {
        printf("%sTokens per step, %s (%zu outputs, %" PRIu64 " tokens)\n", whole ? "\n" : "",
               whole ? "whole outputs" : "outputs cut where they start to loop", g->log->n,
               count_of(g, 0, 0, g->log->n_tasks, 0, whole).tokens);
        print_sizes(g, whole);
        printf("\n  by task, %u nodes, by memory and drafter\n", g->o->widths[g->o->n_widths - 1]);
        print_tasks(g, whole);
    }
}

static void csv_text(const char *text)
{
    putchar('"');
    for (; *text; text++)
        printf(*text == '"' ? "\"\"" : "%c", *text);
    putchar('"');
}

static void csv_count(sim_count c)
{
    printf(",%" PRIu64 ",%" PRIu64 ",%.4f", c.tokens, c.steps, tau(c));
}

/* A row, or an object, for every figure; without a task it is of all tasks. */
static void print_figure(const grid *g, fr_json *j, uint32_t d, uint32_t s, size_t t, uint32_t w)
{
    const sim_options *o = g->o;
    const bool one = t < g->log->n_tasks;
    if (o->csv) {
        printf("%s,%u,", o->drafters[d]->name, o->widths[w]);
        printf(o->sizes[s] == SIM_ALL ? "all," : "%u,", o->sizes[s]);
        csv_text(one ? g->log->tasks[t] : "*");
        csv_count(count_of(g, d, s, t, w, false));
        csv_count(count_of(g, d, s, t, w, true));
        putchar('\n');
        return;
    }
    fr_json_open(j, NULL, '{');
    fr_json_text(j, "drafter", o->drafters[d]->name);
    fr_json_count(j, "nodes", o->widths[w]);
    if (o->sizes[s] != SIM_ALL)
        fr_json_count(j, "memory", o->sizes[s]);
    if (one)
        fr_json_text(j, "task", g->log->tasks[t]);
    for (uint32_t whole = 0; whole < 2; whole++) {
        const sim_count c = count_of(g, d, s, t, w, whole);
        fr_json_open(j, whole ? "whole" : "cut", '{');
        fr_json_count(j, "tokens", c.tokens);
        fr_json_count(j, "steps", c.steps);
        fr_json_number(j, "tau", tau(c));
        fr_json_close(j, '}');
    }
    fr_json_close(j, '}');
}

static void print_figures(const grid *g)
{
    const sim_options *o = g->o;
    fr_json j = {stdout, false};
    if (o->csv) {
        puts("drafter,nodes,memory,task,cut_tokens,cut_steps,cut_tau,whole_tokens,whole_steps,whole_tau");
    } else {
        fr_json_open(&j, NULL, '{');
        fr_json_count(&j, "outputs", g->log->n);
        fr_json_text(&j, "scope", o->scope ? o->scope : "all");
        fr_json_bool(&j, "prompts", o->prompts);
        fr_json_open(&j, "figures", '[');
    }
    for (uint32_t d = 0; d < o->n_drafters; d++)
        for (uint32_t w = 0; w < o->n_widths; w++)
            for (uint32_t s = 0; s < o->n_sizes; s++)
                for (size_t t = 0; t <= g->log->n_tasks; t++)
                    print_figure(g, &j, d, s, g->log->n_tasks - t, w); /* all tasks first */
    if (!o->csv) {
        fr_json_close(&j, ']');
        fr_json_close(&j, '}');
        putchar('\n');
    }
}

/* ---- the verb ---- */

static void make_order(size_t *order, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = n; seed && i > 1; i--) {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        const size_t k = seed % i, other = order[k];
        order[k] = order[i - 1];
        order[i - 1] = other;
    }
}

static fr_status simulate(const sim_options *o, const sim_log *log, fr_error_text *err)
{
    grid g = {o, log, calloc((size_t)o->n_drafters * o->n_sizes * log->n_tasks, sizeof *g.cells)};
    size_t *order = malloc(log->n * sizeof *order);
    fr_status status = g.cells && order ? FR_OK : fr_fail(err, FR_FAILED, "out of memory for a log of %zu lines", log->n);
    if (status == FR_OK)
        make_order(order, log->n, o->seed);
    for (uint32_t d = 0; d < o->n_drafters && !o->control; d++)
        for (uint32_t s = 0; s < o->n_sizes && status == FR_OK; s++) {
            sim_setup setup = {.drafter = o->drafters[d],
                               .memory = o->sizes[s],
                               .of_task = o->scope && !strcmp(o->scope, "task"),
                               .prompts = o->prompts,
                               .n_widths = o->n_widths};
            memcpy(setup.widths, o->widths, sizeof setup.widths);
            status = sim_replay(log, order, &setup, cell(&g, d, s, 0), err);
        }
    if (status == FR_OK && o->control) {
        const sim_control_options c = {.curves = o->curves,
                                       .memory = o->memory_list ? o->sizes[0] : FR_MEMORY_TOKENS,
                                       .noise = 0.01 * (o->noise ? o->noise : 5),
                                       .json = o->json};
        status = sim_control(log, order, &c, err);
        free(g.cells);
        free(order);
        return status == FR_OK ? fr_flush(err) : status;
    }
    if (status == FR_OK && (o->json || o->csv))
        print_figures(&g);
    else if (status == FR_OK)
        print_tables(&g);
    free(g.cells);
    free(order);
    return status == FR_OK ? fr_flush(err) : status;
}

fr_status fr_verb_sim(const fr_verb *verb, int argc, char **argv, fr_error_text *err)
{
    sim_options o = {0};
    fr_args_result result = parse(verb, &o, argc, argv, err);
    if (result != FR_ARGS_GO)
        return result == FR_ARGS_HELP ? FR_OK : err->status;
    fr_text text = {0};
    sim_log log = {0};
    fr_status status = check(&o, err);
    if (status == FR_OK)
        status = fr_text_read(&text, o.log, err);
    if (status == FR_OK)
        status = sim_log_read(&log, text.data, text.size, strcmp(o.log, "-") ? o.log : "standard input", err);
    fr_text_free(&text);
    if (status == FR_OK)
        status = simulate(&o, &log, err);
    sim_log_free(&log);
    return status;
}
