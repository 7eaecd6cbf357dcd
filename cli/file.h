/* file.h: what a model file says of itself. Reads the header only and needs no GPU. */
#ifndef FR_CLI_FILE_H
#define FR_CLI_FILE_H

#include "load/loader.h"
#include "text/tokenizer.h"

typedef struct fr_file {
    fr_loader *loader; /* header complete */
    uint64_t bytes;    /* of the file */
    const char *path;  /* the caller's */
} fr_file;

/* FR_BAD_MODEL: no such file, no GGUF, not supported, or shorter than its header promises. On failure nothing is left open. Errors name
 * the file, also those of fr_file_tokenizer(). `path` lives until the file is closed. */
fr_status fr_file_open(fr_file *, const char *path, fr_error_text *);
void fr_file_close(fr_file *);

fr_tokenizer *fr_file_tokenizer(const fr_file *, fr_error_text *);

#endif
