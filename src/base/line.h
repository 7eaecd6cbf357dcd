/* line.h: text from outside, such as names in files, as one line that can be shown. */
#ifndef FR_BASE_LINE_H
#define FR_BASE_LINE_H

#include <stddef.h>

/* Makes a line of UTF-8 of bytes[0 .. n): control characters (C0, DEL, C1) become spaces, bytes that are no UTF-8 become '?', a code point
 * that is cut at the end goes. In place; returns the new size, never more. */
size_t fr_line_clean(char *bytes, size_t n);
/* Copies n bytes, as many as there is room for, as such a line with NUL behind. */
void fr_line_copy(char *to, size_t room, const char *bytes, size_t n);

#endif
