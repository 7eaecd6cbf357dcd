/* memory_file.h: session memory in a file (src/spec/memory.h has the format), read before a run and replaced as a whole after it. */
#ifndef FR_CLI_MEMORY_FILE_H
#define FR_CLI_MEMORY_FILE_H

#include "base/error.h"

typedef struct fr_memory_file {
    char *path; /* where the file is, links followed */
    uint8_t *bytes; /* NULL: there is no file yet */
    size_t size;
    unsigned mode; /* permissions */
} fr_memory_file;

/* Reads what is there. FR_BAD_ARGUMENT: not readable, not writable, no regular file, a link to nothing, or a folder in which it can't be
 * replaced. Close it in any case. */
fr_status fr_memory_file_open(fr_memory_file *, const char *path, fr_error_text *);
void fr_memory_file_close(fr_memory_file *);

/* Gives it to an engine; errors as fr_load_memory(). */
fr_status fr_memory_file_load(const fr_memory_file *, fr_engine *, fr_error_text *);
/* Puts the engine's memory in the file's place, in one move: whoever reads it sees the old one or the new one. FR_FAILED: the old one is
 * there still. */
fr_status fr_memory_file_save(const fr_memory_file *, fr_engine *, fr_error_text *);

#endif
