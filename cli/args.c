#include "cli/args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_help(const fr_verb *verb, const fr_arg *table)
{
    printf("usage: forerun %s %s\n\n%s\n\n", verb->name, verb->usage, verb->summary);
    for (const fr_arg *a = table; a->name; a++) {
        char left[64];
        if (!a->help)
            continue;
        snprintf(left, sizeof left, "%s%s%s", a->name, a->value ? " " : "", a->value ? a->value : "");
        printf("  %-23s %s\n", left, a->help);
    }
    printf("  %-23s %s\n", "--help", "this text");
    if (verb->notes)
        printf("\n%s", verb->notes);
}

static const fr_arg *find(const fr_arg *table, const char *word, size_t length)
{
    for (const fr_arg *a = table; a->name; a++)
        if (strlen(a->name) == length && !memcmp(a->name, word, length))
            return a;
    return NULL;
}

static fr_status set_count(const fr_arg *a, const char *value, fr_error_text *err)
{
    char *end;
    errno = 0;
    unsigned long v = strtoul(value, &end, 10);
    bool digits = value[0] >= '0' && value[0] <= '9' && !*end && !errno;
    if (!digits || v < a->min || v > a->max)
        return fr_fail(err, FR_BAD_ARGUMENT, "%s wants a whole number from %u to %u, not \"%s\"", a->name, a->min, a->max, value);
    *(uint32_t *)a->target = (uint32_t)v;
    return FR_OK;
}

static fr_status set(const fr_arg *a, const char *value, fr_error_text *err)
{
    fr_list *list = a->target;
    if (value && !*value && (!strcmp(a->value, "FILE") || !strcmp(a->value, "LOG")))
        return fr_fail(err, FR_BAD_ARGUMENT, "%s needs the name of a file, not \"\"", a->name);
    switch (a->kind) {
    case FR_ARG_FLAG:
        *(bool *)a->target = true;
        return FR_OK;
    case FR_ARG_TEXT:
        *(const char **)a->target = value;
        return FR_OK;
    case FR_ARG_COUNT:
        return set_count(a, value, err);
    case FR_ARG_LIST:
        if (list->n == FR_LIST_MAX)
            return fr_fail(err, FR_BAD_ARGUMENT, "%s may be given %d times at most", a->name, FR_LIST_MAX);
        list->items[list->n++] = value;
        return FR_OK;
    case FR_ARG_LATER:
        break;
    }
    return fr_fail(err, FR_BAD_ARGUMENT, "%s is not in this version; leave it out", a->name);
}

/* The option argv[*i], with its value; moves *i to the last word used. */
static fr_status option(const fr_verb *verb, const fr_arg *table, int argc, char **argv, int *i, fr_error_text *err)
{
    const char *word = argv[*i], *equals = word[1] == '-' ? strchr(word, '=') : NULL;
    const fr_arg *a = find(table, word, equals ? (size_t)(equals - word) : strlen(word));
    if (!a)
        return fr_fail(err, FR_BAD_ARGUMENT, "%s has no option %.40s; \"forerun %s --help\" lists them", verb->name, word, verb->name);
    if (a->kind == FR_ARG_FLAG) {
        if (equals)
            return fr_fail(err, FR_BAD_ARGUMENT, "%s takes no value", a->name);
        return set(a, NULL, err);
    }
    if (equals)
        return set(a, equals + 1, err);
    if (*i + 1 >= argc)
        return fr_fail(err, FR_BAD_ARGUMENT, "%s needs a value: %s %s", a->name, a->name, a->value);
    return set(a, argv[++*i], err);
}

fr_args_result fr_args_parse(const fr_verb *verb, const fr_arg *table, int argc, char **argv, const char **word, fr_error_text *err)
{
    bool options = true;
    *word = NULL;
    for (int i = 0; i < argc; i++) {
        if (options && !strcmp(argv[i], "--")) {
            options = false;
        } else if (options && (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))) {
            print_help(verb, table);
            return FR_ARGS_HELP;
        } else if (options && argv[i][0] == '-' && argv[i][1]) {
            if (option(verb, table, argc, argv, &i, err) != FR_OK)
                return FR_ARGS_BAD;
        } else if (*word) {
            fr_fail(err, FR_BAD_ARGUMENT, "%s takes one file, not also \"%.60s\"; quote texts with spaces", verb->name, argv[i]);
            return FR_ARGS_BAD;
        } else if (!argv[i][0]) {
            fr_fail(err, FR_BAD_ARGUMENT, "%s needs the name of a file, not \"\"; \"forerun %s --help\" tells more", verb->name,
                    verb->name);
            return FR_ARGS_BAD;
        } else {
            *word = argv[i];
        }
    }
    return FR_ARGS_GO;
}
