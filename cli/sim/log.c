#include "cli/sim/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"

enum { DEPTH = 64 }; /* of nested values */

typedef struct reader {
    const char *at, *end; /* of the line */
    const char *name;
    size_t line;
    fr_error_text *err;
} reader;

static fr_status bad(const reader *r, const char *what)
{
    return fr_fail(r->err, FR_BAD_ARGUMENT, "%s:%zu: %s; a log has a line of \"forerun run --json\" for each answer", r->name, r->line,
                   what);
}

static void spaces(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

/* Passes over a character, if it comes next. */
static bool take(reader *r, char c)
{
    spaces(r);
    if (r->at >= r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

/* A string as it is written, without its quotes. */
static fr_status string(reader *r, const char **text, size_t *size)
{
    if (!take(r, '"'))
        return bad(r, "a string is missing");
    *text = r->at;
    while (r->at < r->end && *r->at != '"')
        r->at += *r->at == '\\' && r->at + 1 < r->end ? 2 : 1;
    if (r->at >= r->end)
        return bad(r, "a string has no end");
    *size = (size_t)(r->at++ - *text);
    return FR_OK;
}

static fr_status skip(reader *r, int depth)
{
    const char *text;
    size_t size;
    spaces(r);
    if (r->at >= r->end)
        return bad(r, "the object has no end");
    if (*r->at == '"')
        return string(r, &text, &size);
    const bool object = *r->at == '{';
    if (object || *r->at == '[') {
        const char close = object ? '}' : ']';
        r->at++;
        if (depth == DEPTH)
            return bad(r, "values are nested too deeply");
        if (take(r, close))
            return FR_OK;
        do {
            if (object && (string(r, &text, &size) != FR_OK || !take(r, ':')))
                return bad(r, "a member has no name or no value");
            if (skip(r, depth + 1) != FR_OK)
                return FR_BAD_ARGUMENT;
        } while (take(r, ','));
        return take(r, close) ? FR_OK : bad(r, "a list or an object has no end");
    }
    const char *start = r->at; /* a number, true, false, null */
    while (r->at < r->end && !strchr(" \t\r,]}", *r->at))
        r->at++;
    return r->at > start && strchr("-0123456789tfn", *start) ? FR_OK : bad(r, "this is not JSON");
}

static fr_status ids(reader *r, const char *member, uint32_t **list, uint32_t *n)
{
    char what[100];
    size_t room = 0;
    *n = 0;
    snprintf(what, sizeof what, "\"%s\" is not a list of token ids below %d", member, SIM_MAX_ID);
    free(*list);
    *list = NULL;
    if (!take(r, '['))
        return bad(r, what);
    if (take(r, ']'))
        return FR_OK;
    do {
        uint32_t id = 0, digits = 0;
        for (spaces(r); r->at < r->end && *r->at >= '0' && *r->at <= '9' && id < SIM_MAX_ID; r->at++, digits++)
            id = 10 * id + (uint32_t)(*r->at - '0');
        if (!digits || id >= SIM_MAX_ID)
            return bad(r, what);
        if (*n == room) {
            room = room ? 2 * room : 256;
            uint32_t *more = realloc(*list, room * sizeof *more);
            if (!more)
                return fr_fail(r->err, FR_FAILED, "out of memory for %s:%zu", r->name, r->line);
            *list = more;
        }
        (*list)[(*n)++] = id;
    } while (take(r, ','));
    return take(r, ']') ? FR_OK : bad(r, what);
}

static fr_status task_index(sim_log *log, reader *r, const char *written, size_t size, uint32_t *index)
{
    char **more = realloc(log->tasks, (log->n_tasks + 1) * sizeof *more);
    char *name = malloc(size + 1);
    if (more)
        log->tasks = more;
    if (!more || !name) {
        free(name);
        return fr_fail(r->err, FR_FAILED, "out of memory for the tasks of %s", r->name);
    }
    if (!fr_json_unescape(name, written, size)) {
        free(name);
        return bad(r, "\"task\" has an escape that JSON does not know");
    }
    *index = 0;
    while (*index < log->n_tasks && strcmp(log->tasks[*index], name))
        ++*index;
    if (*index < log->n_tasks)
        free(name);
    else
        log->tasks[log->n_tasks++] = name;
    return FR_OK;
}

static bool is(const char *text, size_t size, const char *name)
{
    return size == strlen(name) && !memcmp(text, name, size);
}

static fr_status object(sim_log *log, sim_line *line, reader *r)
{
    const char *key, *text, *task = "";
    size_t size, value_size, task_size = 0;
    bool has_prompt = false, has_output = false;
    if (!take(r, '{'))
        return bad(r, "the line is not a JSON object");
    fr_status status = FR_OK;
    if (!take(r, '}')) {
        do {
            if (string(r, &key, &size) != FR_OK || !take(r, ':'))
                return bad(r, "a member has no name or no value");
            if (is(key, size, "prompt_ids")) {
                has_prompt = true;
                status = ids(r, "prompt_ids", &line->prompt, &line->n_prompt);
            } else if (is(key, size, "tokens")) {
                has_output = true;
                status = ids(r, "tokens", &line->output, &line->n_output);
            } else if (is(key, size, "task")) {
                status = string(r, &task, &task_size);
            } else if (is(key, size, "finish_reason")) {
                status = string(r, &text, &value_size);
                line->stopped = status == FR_OK && is(text, value_size, "stop");
            } else {
                status = skip(r, 0);
            }
        } while (status == FR_OK && take(r, ','));
        if (status == FR_OK && !take(r, '}'))
            return bad(r, "the object has no end");
    }
    spaces(r);
    if (status == FR_OK && r->at < r->end)
        return bad(r, "something follows the object");
    if (status == FR_OK && (!has_prompt || !line->n_prompt))
        return bad(r, has_prompt ? "\"prompt_ids\" is empty" : "there is no \"prompt_ids\"");
    if (status == FR_OK && !has_output)
        return bad(r, "there is no \"tokens\"");
    return status == FR_OK ? task_index(log, r, task, task_size, &line->task) : status;
}

uint32_t sim_loop(const uint32_t *tokens, uint32_t n)
{
    for (uint32_t i = 2; i + SIM_LOOP <= n; i++) {
        uint32_t times = 0;
        for (uint32_t j = 0; j < i && times < 2; j++)
            times += !memcmp(tokens + i, tokens + j, SIM_LOOP * sizeof *tokens);
        if (times == 2)
            return i;
    }
    return n;
}

fr_status sim_log_read(sim_log *log, const char *text, size_t size, const char *name, fr_error_text *err)
{
    *log = (sim_log){0};
    size_t room = 0;
    reader r = {.end = text, .name = name, .err = err};
    for (const char *at = text; at < text + size; at = r.end + 1) {
        const char *end = memchr(at, '\n', (size_t)(text + size - at));
        r.at = at;
        r.end = end ? end : text + size;
        r.line++;
        spaces(&r);
        if (r.at == r.end)
            continue;
        if (log->n == room) {
            room = room ? 2 * room : 64;
            sim_line *more = realloc(log->lines, room * sizeof *more);
            if (!more)
                return fr_fail(err, FR_FAILED, "out of memory for %s", name);
            log->lines = more;
        }
        sim_line *line = &log->lines[log->n++];
        *line = (sim_line){0};
        fr_status status = object(log, line, &r);
        if (status != FR_OK)
            return status;
        line->loop = sim_loop(line->output, line->n_output);
    }
    return log->n ? FR_OK : fr_fail(err, FR_BAD_ARGUMENT, "%s has no lines; write some with \"forerun run --json >> FILE\"", name);
}

void sim_log_free(sim_log *log)
{
    for (size_t i = 0; i < log->n; i++) {
        free(log->lines[i].prompt);
        free(log->lines[i].output);
    }
    for (size_t i = 0; i < log->n_tasks; i++)
        free(log->tasks[i]);
    free(log->lines);
    free(log->tasks);
    *log = (sim_log){0};
}
