#include "base/line.h"

#include <stdbool.h>
#include <string.h>

#include "base/utf8.h"

/* Whether the n bytes, which are no code point, would begin one if there were more of them. */
static bool is_cut(const uint8_t *p, size_t n)
{
    static const uint8_t ends[] = {0x80, 0xbf}; /* what a second byte may be at least and at most; each lead takes one of them */
    for (size_t i = 0; i < sizeof ends && n < 4; i++) {
        uint8_t whole[4];
        uint32_t code;
        memset(whole, ends[i], sizeof whole);
        memcpy(whole, p, n);
        if (fr_utf8_read(whole, sizeof whole, &code) > n)
            return true;
    }
    return false;
}

size_t fr_line_clean(char *bytes, size_t n)
{
    uint8_t *p = (uint8_t *)bytes;
    size_t out = 0;
    for (size_t i = 0, size; i < n; i += size) {
        uint32_t code;
        size = fr_utf8_read(p + i, n - i, &code);
        if (code & FR_CODE_BYTE) {
            if (is_cut(p + i, n - i))
                break;
            p[out++] = '?';
        } else if (code < 0x20 || (code >= 0x7f && code < 0xa0)) {
            p[out++] = ' ';
        } else {
            memmove(p + out, p + i, size);
            out += size;
        }
    }
    return out;
}

void fr_line_copy(char *to, size_t room, const char *bytes, size_t n)
{
    n = n < room - 1 ? n : room - 1;
    if (n)
        memcpy(to, bytes, n);
    to[fr_line_clean(to, n)] = 0;
}
