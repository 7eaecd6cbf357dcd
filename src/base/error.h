/* error.h: how fallible functions of the core report. They return an fr_status and leave one line in an fr_error_text:
 * what, where, what to do. The first error wins: later ones are usually its consequences. */
#ifndef FR_BASE_ERROR_H
#define FR_BASE_ERROR_H

#include "forerun.h"

typedef struct fr_error_text {
    fr_status status; /* FR_OK: no error yet */
    char text[400];   /* one line of UTF-8 without control characters, always terminated */
} fr_error_text;

/* Records the error unless one is recorded already, and returns `status`. */
fr_status fr_fail(fr_error_text *, fr_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
