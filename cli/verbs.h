/* verbs.h: the verbs of the command line and what they share. */
#ifndef FR_CLI_VERBS_H
#define FR_CLI_VERBS_H

#include <stdio.h>

#include "cli/args.h"
#include "cli/drive.h"

fr_status fr_verb_run(const fr_verb *, int argc, char **argv, fr_error_text *);
fr_status fr_verb_bench(const fr_verb *, int argc, char **argv, fr_error_text *);
fr_status fr_verb_info(const fr_verb *, int argc, char **argv, fr_error_text *);
fr_status fr_verb_tokenize(const fr_verb *, int argc, char **argv, fr_error_text *);
fr_status fr_verb_compare(const fr_verb *, int argc, char **argv, fr_error_text *);
fr_status fr_verb_sim(const fr_verb *, int argc, char **argv, fr_error_text *);
fr_status fr_verb_selftest(const fr_verb *, int argc, char **argv, fr_error_text *);

/* A growing text, NUL behind it; `data` is NULL until something is appended. */
typedef struct fr_text {
    char *data;
    size_t size, room;
} fr_text;
fr_status fr_text_append(fr_text *, const char *bytes, size_t size, fr_error_text *);
void fr_text_free(fr_text *);

/* Appends a whole text file ("-": standard input). FR_BAD_ARGUMENT: not readable, a NUL byte in it, or larger than 64 MiB. */
fr_status fr_text_read(fr_text *, const char *path, fr_error_text *);
/* What -p and -f mean together: one of them, else standard input if that is no terminal. */
fr_status fr_text_prompt(fr_text *, const char *prompt, const char *file, fr_error_text *);

/* Flushes stdout; FR_FAILED if what was written to it is lost. */
fr_status fr_flush(fr_error_text *);

#endif
