/* drive.h: an engine on the native host: opens model files, feeds them, waits. What the verbs and the tests that run whole models share. */
#ifndef FR_CLI_DRIVE_H
#define FR_CLI_DRIVE_H

#include <stdio.h>

#include "cli/host.h"

typedef struct fr_drive {
    fr_host *host;
    fr_engine *engine;
} fr_drive;

/* A model file for reading. FR_BAD_MODEL: not there, a directory, not readable. */
FILE *fr_model_open(const char *path, fr_error_text *);

/* fr_request.workgroups of --workgroups, whose value is FR_DRIVE_AUTO if it was not given. */
#define FR_DRIVE_AUTO UINT32_MAX
uint32_t fr_drive_workgroups(uint32_t option);

/* Host, engine and model, ready for requests. `adapter` as in fr_host_open(). `progress`: percentages on stderr.
 * On failure nothing is left open. */
fr_status fr_drive_open(fr_drive *, const char *path, const char *adapter, const fr_options *, bool progress, fr_error_text *);
void fr_drive_close(fr_drive *);

/* What the engine says, behind the name of its file; `path` NULL: the file is not to blame. */
fr_status fr_drive_error(const fr_engine *, const char *path, fr_error_text *);

/* Waits for a request's end. `step` (may be NULL) is called after every poll. The engine's failure is returned; an interrupt aborts the
 * request and is no error here. */
fr_status fr_drive_wait(fr_drive *, void (*step)(void *user, fr_engine *), void *user, fr_error_text *);

/* The first SIGINT from now on only sets a flag, which ends loads and requests; the second one kills. */
void fr_interrupt_catch(void);
bool fr_interrupted(void);

#endif
