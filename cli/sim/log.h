/* log.h: token logs, JSON lines of what `forerun run --json` prints. */
#ifndef FR_CLI_SIM_LOG_H
#define FR_CLI_SIM_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { SIM_MAX_ID = 1 << 20 }; /* ids of a log are smaller */

typedef struct sim_line {
    uint32_t *prompt, *output; /* ids, [n_prompt] and [n_output] */
    uint32_t n_prompt, n_output;
    uint32_t loop;  /* tokens of the output before it loops; n_output if it does not */
    uint32_t task;  /* index into sim_log.tasks */
    bool stopped;   /* the model ended its turn behind the output */
} sim_line;

typedef struct sim_log {
    sim_line *lines;
    size_t n;
    char **tasks; /* names, in order of appearance; "" for lines without one */
    size_t n_tasks;
} sim_log;

/* Reads lines of JSON objects with "prompt_ids" and "tokens", perhaps "task" and "finish_reason"; other members are passed over. `name`
 * stands for the file in errors: "name:line: what; what to do", FR_BAD_ARGUMENT. On failure too the caller frees. */
fr_status sim_log_read(sim_log *, const char *text, size_t size, const char *name, fr_error_text *);
void sim_log_free(sim_log *);

/* Index at which an output starts to loop: the first from which SIM_LOOP tokens are the same as from two earlier ones. n: nowhere. */
enum { SIM_LOOP = 16 };
uint32_t sim_loop(const uint32_t *tokens, uint32_t n);

#endif
