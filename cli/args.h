/* args.h: options of a verb from a table, which also writes its --help. */
#ifndef FR_CLI_ARGS_H
#define FR_CLI_ARGS_H

#include "base/error.h"

enum { FR_LIST_MAX = 16 };
typedef struct fr_list { /* of an option that may be repeated */
    const char *items[FR_LIST_MAX];
    size_t n;
} fr_list;

typedef enum fr_arg_kind {
    FR_ARG_FLAG,  /* target: bool */
    FR_ARG_TEXT,  /* target: const char * */
    FR_ARG_COUNT, /* target: uint32_t, min to max */
    FR_ARG_LIST,  /* target: fr_list */
    FR_ARG_LATER  /* has a value; refused: not in this version */
} fr_arg_kind;

typedef struct fr_arg {
    fr_arg_kind kind;
    const char *name;  /* "-n", "--mode" */
    const char *value; /* what the help calls the value, "MAX"; FILE and LOG are never empty; NULL for flags */
    const char *help;  /* NULL: not listed */
    void *target;
    uint32_t min, max;
} fr_arg;

typedef struct fr_verb {
    const char *name, *summary;
    const char *usage; /* behind "forerun NAME " */
    const char *notes; /* below the options; may be NULL */
    fr_status (*run)(const struct fr_verb *, int argc, char **argv, fr_error_text *);
} fr_verb;

typedef enum fr_args_result { FR_ARGS_GO, FR_ARGS_HELP, FR_ARGS_BAD } fr_args_result;

/* Reads the words behind the verb. `table` ends with a nameless entry. What is no option goes to `*word`, of which there can be one.
 * --help prints to stdout. Option values may be the next word or follow "=". "--" ends the options. */
fr_args_result fr_args_parse(const fr_verb *, const fr_arg *table, int argc, char **argv, const char **word, fr_error_text *);

#endif
