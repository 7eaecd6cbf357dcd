#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

fr_status fr_fail(fr_error_text *e, fr_status status, const char *format, ...)
{
    if (e->status != FR_OK)
        return status;
    e->status = status;
    va_list args;
    va_start(args, format);
    vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    for (char *p = e->text; *p; p++) /* names from files may hold anything */
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    return status;
}
