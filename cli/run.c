/* run.c: forerun run. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/costs_file.h"
#include "cli/json.h"
#include "cli/memory_file.h"
#include "cli/verbs.h"

typedef struct run_options {
    const char *model, *prompt, *file, *system, *mode, *memory, *conversation, *temp, *adapter;
    fr_list pages, stops;
    uint32_t max_tokens, window, width, context, budget, workgroups;
    bool raw, json;
} run_options;

/* The answer as it arrives: printed at once, or kept for --json. */
typedef struct answer {
    bool keep;
    fr_text text;
    uint32_t *prompt; /* ids, [n_prompt] */
    size_t n_prompt;
    char last; /* byte printed */
    fr_error_text err;
} answer;

static fr_args_result parse(const fr_verb *verb, run_options *o, int argc, char **argv, fr_error_text *err)
{
    const fr_arg table[] = {
        {FR_ARG_TEXT, "-p", "TEXT", "the prompt", &o->prompt, 0, 0},
        {FR_ARG_TEXT, "-f", "FILE", "the prompt from a file (- for standard input)", &o->file, 0, 0},
        {FR_ARG_LIST, "--page", "FILE", "a text that precedes the prompt, such as a page to ask about", &o->pages, 0, 0},
        {FR_ARG_TEXT, "--system", "TEXT", "system message instead of the model's own", &o->system, 0, 0},
        {FR_ARG_FLAG, "--raw", NULL, "no chat template; special tokens written out in the text count", &o->raw, 0, 0},
        {FR_ARG_COUNT, "-n", "MAX", "at most so many new tokens (default: until the context is full)", &o->max_tokens, 1, 1 << 24},
        {FR_ARG_TEXT, "--mode", "MODE",
         "greedy (a readback after every token), loop, tree (with drafts) or adaptive (the faster of the two, the default)", &o->mode, 0,
         0},
        {FR_ARG_COUNT, "--window", "W", "but in greedy: steps in a command buffer, 1 to 16", &o->window, 1, 16},
        {FR_ARG_COUNT, "--width", "N", "tree: nodes of a step, 2, 4, 8 (default), 16 or 32; adaptive: at most (32)", &o->width, 2, 32},
        {FR_ARG_COUNT, "--budget", "MS", "what else the GPU draws waits no longer than this, 1 to 1000; slower (default: none)", &o->budget,
         1, 1000},
        {FR_ARG_TEXT, "--memory", "FILE", "tree, adaptive: draft from the answers in FILE too; any mode: keep this one there", &o->memory,
         0, 0},
        {FR_ARG_TEXT, "--conversation", "NAME", "memory: search and add to this conversation only", &o->conversation, 0, 0},
        {FR_ARG_LIST, "--stop", "TEXT", "end where this text would come; may be repeated", &o->stops, 0, 0},
        {FR_ARG_COUNT, "--workgroups", "G", "of steps in one dispatch, at most; 0: no such steps (default: what proves faster)",
         &o->workgroups, 0, 1024},
        {FR_ARG_COUNT, "--context", "TOKENS", "room for prompt and answer (default: the model's, 4096 at most)", &o->context, 1, 1 << 24},
        {FR_ARG_TEXT, "--adapter", "NAME", "a GPU whose name contains this, or cpu", &o->adapter, 0, 0},
        {FR_ARG_FLAG, "--json", NULL, "one JSON object instead of text and statistics", &o->json, 0, 0},
        {FR_ARG_TEXT, "--temp", "T", NULL, &o->temp, 0, 0},
        {FR_ARG_LATER, "--heads", "FILE", NULL, NULL, 0, 0},
        {FR_ARG_LATER, "--top-k", "K", NULL, NULL, 0, 0},
        {FR_ARG_LATER, "--top-p", "P", NULL, NULL, 0, 0},
        {FR_ARG_LATER, "--min-p", "P", NULL, NULL, 0, 0},
        {FR_ARG_LATER, "--seed", "S", NULL, NULL, 0, 0},
        {0},
    };
    return fr_args_parse(verb, table, argc, argv, &o->model, err);
}

static const char *const mode_names[] = {
    [FR_MODE_GREEDY] = "greedy", [FR_MODE_LOOP] = "loop", [FR_MODE_TREE] = "tree", [FR_MODE_ADAPTIVE] = "adaptive"};

static fr_status check(const run_options *o, fr_mode *mode, fr_error_text *err)
{
    char *end = NULL;
    *mode = FR_MODE_ADAPTIVE;
    bool known = !o->mode;
    for (size_t i = 0; !known && i < sizeof mode_names / sizeof *mode_names; i++)
        if (!strcmp(o->mode, mode_names[i])) {
            *mode = (fr_mode)i;
            known = true;
        }
    if (!o->model)
        return fr_fail(err, FR_BAD_ARGUMENT, "run needs a model: forerun run MODEL -p TEXT");
    if (!known)
        return fr_fail(err, FR_BAD_ARGUMENT, "--mode is greedy, loop, tree or adaptive, not \"%.40s\"", o->mode);
    if (o->width && *mode != FR_MODE_TREE && *mode != FR_MODE_ADAPTIVE)
        return fr_fail(err, FR_BAD_ARGUMENT, "--width is for --mode tree and adaptive");
    if (o->width & (o->width - 1))
        return fr_fail(err, FR_BAD_ARGUMENT, "--width is 2, 4, 8, 16 or 32, not %u", o->width);
    if (o->conversation && !o->memory)
        return fr_fail(err, FR_BAD_ARGUMENT, "--conversation is for --memory FILE");
    if (o->conversation && !*o->conversation)
        return fr_fail(err, FR_BAD_ARGUMENT, "--conversation needs a name; leave it out for all of them");
    if (o->raw && o->system)
        return fr_fail(err, FR_BAD_ARGUMENT, "--raw has no system message; leave --system out, or write it into the prompt");
    if (o->temp && (strtod(o->temp, &end) != 0 || end == o->temp || *end))
        return fr_fail(err, FR_BAD_ARGUMENT, "--temp %.40s: sampling is not in this version; leave it out, or use 0", o->temp);
    return FR_OK;
}

static void trim(fr_text *text, size_t start)
{
    static const char spaces[] = " \t\r\n\f\v";
    while (text->size > start && strchr(spaces, text->data[text->size - 1]))
        text->size--;
    size_t lead = 0;
    while (start + lead < text->size && strchr(spaces, text->data[start + lead]))
        lead++;
    memmove(text->data + start, text->data + start + lead, text->size - start - lead);
    text->size -= lead;
    text->data[text->size] = 0;
}

/* Pages, then the prompt, an empty line between them: what the browser's `page` does with the last user message. */
static fr_status user_text(const run_options *o, fr_text *text, fr_error_text *err)
{
    fr_status status = FR_OK;
    size_t start = 0;
    for (size_t i = 0; i < o->pages.n && status == FR_OK; i++, start = text->size) {
        status = fr_text_read(text, o->pages.items[i], err);
        if (status == FR_OK) {
            trim(text, start);
            if (text->size > start)
                status = fr_text_append(text, "\n\n", 2, err);
        }
    }
    if (status == FR_OK)
        status = fr_text_prompt(text, o->prompt, o->file, err);
    /* The line end that editors and echo put behind a text is no part of a question. */
    while (status == FR_OK && !o->raw && text->size > start && strchr("\r\n", text->data[text->size - 1]))
        text->data[--text->size] = 0;
    if (status == FR_OK && text->size == start)
        status = fr_fail(err, FR_BAD_ARGUMENT, "the prompt is empty; give -p TEXT, -f FILE, or a text on standard input");
    return status;
}

static size_t encode(fr_engine *engine, const run_options *o, const fr_text *text, uint32_t *ids, size_t cap)
{
    if (o->raw)
        return fr_tokenize(engine, text->data, text->size, true, ids, cap);
    fr_message messages[2];
    size_t n = 0;
    if (o->system)
        messages[n++] = (fr_message){"system", o->system};
    messages[n++] = (fr_message){"user", text->data};
    return fr_chat(engine, messages, n, ids, cap);
}

static fr_status start(fr_engine *engine, const run_options *o, const fr_text *text, fr_mode mode, answer *a, fr_error_text *err)
{
    size_t n = encode(engine, o, text, NULL, 0);
    uint32_t *ids = n == SIZE_MAX ? NULL : malloc((n ? n : 1) * sizeof *ids);
    fr_request request = {.mode = mode,
                          .max_tokens = o->max_tokens,
                          .window = o->window,
                          .budget_ms = o->budget,
                          .width = o->width,
                          .workgroups = fr_drive_workgroups(o->workgroups),
                          .stop = o->stops.items,
                          .n_stop = o->stops.n,
                          .conversation = fr_conversation(o->conversation),
                          .scope = o->conversation ? FR_SCOPE_CONVERSATION : FR_SCOPE_ALL};
    fr_status status = FR_OK;
    if (ids && encode(engine, o, text, ids, n) == n)
        status = fr_generate(engine, ids, n, &request);
    else if (n == SIZE_MAX && fr_error(engine)[0])
        status = fr_error_status(engine) == FR_OK ? FR_FAILED : fr_error_status(engine);
    else
        status = fr_fail(err, n == SIZE_MAX ? FR_BAD_ARGUMENT : FR_FAILED,
                         n == SIZE_MAX ? "the prompt can't be tokenised" : "out of memory for a prompt of %zu tokens", n);
    a->prompt = ids;
    a->n_prompt = n;
    return status == FR_OK ? FR_OK : fr_drive_error(engine, status == FR_BAD_MODEL ? o->model : NULL, err);
}

static void take(void *user, fr_engine *engine)
{
    answer *a = user;
    char piece[1024];
    size_t n;
    while ((n = fr_take_text(engine, piece, sizeof piece)) > 0) {
        if (a->keep) {
            fr_text_append(&a->text, piece, n, &a->err);
        } else {
            fwrite(piece, 1, n, stdout);
            a->last = piece[n - 1];
            if (fr_flush(&a->err) != FR_OK)
                fr_abort(engine); /* nobody reads the rest */
        }
    }
}

static uint64_t stat_count(const fr_engine *e, fr_stat_id id)
{
    return (uint64_t)fr_stat(e, id);
}

static void print_statistics(const fr_engine *e, fr_mode mode, bool memory)
{
    double prefill = fr_stat(e, FR_STAT_PREFILL_MS), prompt = fr_stat(e, FR_STAT_PROMPT_TOKENS), cached = fr_stat(e, FR_STAT_CACHED_TOKENS);
    fprintf(stderr, "\n%s, %s", fr_info(e, FR_INFO_ADAPTER), mode_names[mode]);
    if (mode == FR_MODE_TREE)
        fprintf(stderr, " of %.0f nodes", fr_stat(e, FR_STAT_WIDTH));
    if (mode != FR_MODE_GREEDY)
        fprintf(stderr, ", window %.0f", fr_stat(e, FR_STAT_WINDOW));
    fprintf(stderr, ", %.0f dispatches a step\n", fr_stat(e, FR_STAT_DISPATCHES_PER_STEP));
    fprintf(stderr, "loaded in %.2f s; prompt of %.0f tokens in %.0f ms (%.0f tokens/s); first token after %.0f ms\n",
            fr_stat(e, FR_STAT_LOAD_MS) / 1000, prompt, prefill, prefill > 0 ? 1000 * (prompt - cached) / prefill : 0,
            fr_stat(e, FR_STAT_FIRST_TOKEN_MS));
    fprintf(stderr, "%.0f tokens, %.2f ms each", fr_stat(e, FR_STAT_COMPLETION_TOKENS), fr_stat(e, FR_STAT_MS_PER_TOKEN));
    if (mode == FR_MODE_TREE)
        fprintf(stderr, "; %.0f steps, %.0f of them over trees, %.0f of %.0f drafts accepted", fr_stat(e, FR_STAT_STEPS),
                fr_stat(e, FR_STAT_TREE_STEPS), fr_stat(e, FR_STAT_ACCEPTED), fr_stat(e, FR_STAT_DRAFTED));
    if (memory)
        fprintf(stderr, "; %.0f tokens of memory searched, %.0f there now", fr_stat(e, FR_STAT_MEMORY_SEARCHED),
                fr_stat(e, FR_STAT_MEMORY_TOKENS));
    fprintf(stderr, "\n");
}

static void print_usage(fr_json *j, const fr_engine *e)
{
    fr_json_open(j, "usage", '{');
    fr_json_count(j, "prompt_tokens", stat_count(e, FR_STAT_PROMPT_TOKENS));
    fr_json_count(j, "completion_tokens", stat_count(e, FR_STAT_COMPLETION_TOKENS));
    fr_json_count(j, "accepted_prediction_tokens", stat_count(e, FR_STAT_ACCEPTED));
    fr_json_count(j, "rejected_prediction_tokens", stat_count(e, FR_STAT_DRAFTED) - stat_count(e, FR_STAT_ACCEPTED));
    fr_json_count(j, "cached_tokens", stat_count(e, FR_STAT_CACHED_TOKENS));
    fr_json_close(j, '}');
}

static void print_timing(fr_json *j, const fr_engine *e)
{
    fr_json_open(j, "timing", '{');
    fr_json_number(j, "load_ms", fr_stat(e, FR_STAT_LOAD_MS));
    fr_json_number(j, "calibrate_ms", fr_stat(e, FR_STAT_PROBE_MS)); /* what was tried while the answer went on; nothing waits for it */
    fr_json_number(j, "prefill_ms", fr_stat(e, FR_STAT_PREFILL_MS));
    fr_json_number(j, "first_token_ms", fr_stat(e, FR_STAT_FIRST_TOKEN_MS));
    fr_json_number(j, "decode_ms", fr_stat(e, FR_STAT_DECODE_MS));
    fr_json_number(j, "ms_per_token", fr_stat(e, FR_STAT_MS_PER_TOKEN));
    fr_json_close(j, '}');
}

static void print_json(const fr_engine *e, const answer *a)
{
    static const char *const reasons[] = {[FR_FINISH_NONE] = "none",
                                          [FR_FINISH_STOP] = "stop",
                                          [FR_FINISH_LENGTH] = "length",
                                          [FR_FINISH_ABORT] = "abort",
                                          [FR_FINISH_ERROR] = "error"};
    fr_json j = {stdout, false};
    size_t n;
    const uint32_t *ids = fr_tokens(e, &n);
    fr_json_open(&j, NULL, '{');
    fr_json_bytes(&j, "text", a->text.data ? a->text.data : "", a->text.size);
    fr_json_open(&j, "tokens", '[');
    for (size_t i = 0; i < n; i++)
        fr_json_count(&j, NULL, ids[i]);
    fr_json_close(&j, ']');
    fr_json_open(&j, "prompt_ids", '[');
    for (size_t i = 0; i < a->n_prompt; i++)
        fr_json_count(&j, NULL, a->prompt[i]);
    fr_json_close(&j, ']');
    fr_json_text(&j, "finish_reason", reasons[fr_finish_reason(e)]);
    print_usage(&j, e);
    print_timing(&j, e);
    uint64_t steps = stat_count(e, FR_STAT_STEPS), made = stat_count(e, FR_STAT_COMPLETION_TOKENS);
    fr_json_count(&j, "steps", steps);
    fr_json_number(&j, "tau", steps ? (double)made / (double)steps : 0); /* tokens of the answer a step */
    fr_json_open(&j, "widths", '{');
    for (int k = 0; k < 6; k++) { /* the prompt's last step is plain */
        char width[16];
        const uint64_t n = stat_count(e, (fr_stat_id)(FR_STAT_STEPS_1 + k));
        snprintf(width, sizeof width, "%d", 1 << k);
        if (n || !k)
            fr_json_count(&j, width, n);
    }
    fr_json_close(&j, '}');
    fr_json_count(&j, "window", stat_count(e, FR_STAT_WINDOW));
    fr_json_count(&j, "probes", stat_count(e, FR_STAT_PROBES));
    fr_json_count(&j, "dispatches_per_step", stat_count(e, FR_STAT_DISPATCHES_PER_STEP));
    fr_json_open(&j, "memory", '{');
    fr_json_count(&j, "tokens", stat_count(e, FR_STAT_MEMORY_TOKENS));
    fr_json_count(&j, "searched", stat_count(e, FR_STAT_MEMORY_SEARCHED));
    fr_json_close(&j, '}');
    fr_json_count(&j, "submits", stat_count(e, FR_STAT_SUBMITS));
    fr_json_text(&j, "adapter", fr_info(e, FR_INFO_ADAPTER));
    fr_json_close(&j, '}');
    putchar('\n');
}

static fr_status answer_prompt(fr_drive *d, const run_options *o, const fr_text *text, fr_mode mode, const fr_memory_file *memory,
                               fr_error_text *err)
{
    answer a = {.keep = o->json};
    fr_status status = start(d->engine, o, text, mode, &a, err), kept = FR_OK;
    if (status == FR_OK)
        status = fr_drive_wait(d, take, &a, err);
    if (status == FR_OK && o->memory)
        kept = fr_memory_file_save(memory, d->engine, err); /* the answer is shown all the same */
    if (status == FR_OK && a.err.status != FR_OK)
        status = fr_fail(err, a.err.status, "%s", a.err.text);
    if (a.last && a.last != '\n')
        putchar('\n');
    if (status == FR_OK) {
        if (o->json)
            print_json(d->engine, &a);
        status = fr_flush(err);
        if (!o->json)
            print_statistics(d->engine, mode, o->memory != NULL);
    }
    fr_text_free(&a.text);
    free(a.prompt);
    if (status == FR_OK && fr_interrupted())
        status = fr_fail(err, FR_FAILED, "interrupted");
    return status == FR_OK ? kept : status;
}

fr_status fr_verb_run(const fr_verb *verb, int argc, char **argv, fr_error_text *err)
{
    run_options o = {.workgroups = FR_DRIVE_AUTO};
    fr_args_result result = parse(verb, &o, argc, argv, err);
    if (result != FR_ARGS_GO)
        return result == FR_ARGS_HELP ? FR_OK : err->status;
    fr_mode mode;
    fr_text text = {0};
    fr_drive drive = {0};
    fr_memory_file memory = {0};
    fr_options options = {.context = o.context};
    fr_status status = check(&o, &mode, err);
    if (status == FR_OK)
        status = user_text(&o, &text, err);
    if (status == FR_OK && o.memory)
        status = fr_memory_file_open(&memory, o.memory, err);
    if (status == FR_OK) {
        fr_interrupt_catch();
        status = fr_drive_open(&drive, o.model, o.adapter, &options, !o.json && isatty(STDERR_FILENO), err);
    }
    if (status == FR_OK) {
        status = o.memory ? fr_memory_file_load(&memory, drive.engine, err) : FR_OK;
        if (status == FR_OK) {
            fr_costs_file_load(drive.engine);
            status = answer_prompt(&drive, &o, &text, mode, &memory, err);
            fr_costs_file_save(drive.engine);
        }
        fr_drive_close(&drive);
    }
    fr_memory_file_close(&memory);
    fr_text_free(&text);
    return status;
}
