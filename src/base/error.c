#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/line.h"

fr_status fr_fail(fr_error_text *e, fr_status status, const char *format, ...)
{
    if (e->status != FR_OK)
        return status;
    e->status = status;
    va_list args;
    va_start(args, format);
    vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    e->text[fr_line_clean(e->text, strlen(e->text))] = 0; /* names from files may hold anything, and may be cut anywhere */
    return status;
}
