#include "base/line.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool continues(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

/* Size of the code point at p; 0: none that UTF-8 has. *cut: there would be one if there were more bytes. */
static size_t code_point(const uint8_t *p, size_t n, bool *cut)
{
    const uint8_t lead = p[0];
    *cut = false;
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    const size_t size = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < size; i++) {
        *cut = i == n;
        if (i == n || !continues(p[i]))
            return 0;
        if (i == 1 && ((lead == 0xe0 && p[1] < 0xa0) || (lead == 0xed && p[1] > 0x9f) || (lead == 0xf0 && p[1] < 0x90) ||
                       (lead == 0xf4 && p[1] > 0x8f)))
            return 0;
    }
    return size;
}

size_t fr_line_clean(char *bytes, size_t n)
{
    uint8_t *p = (uint8_t *)bytes;
    size_t out = 0;
    for (size_t i = 0; i < n;) {
        bool cut;
        const size_t size = code_point(p + i, n - i, &cut);
        if (cut)
            break;
        if (size == 0) {
            p[out++] = '?';
            i++;
        } else if (p[i] < 0x20 || p[i] == 0x7f || (p[i] == 0xc2 && p[i + 1] < 0xa0)) {
            p[out++] = ' ';
            i += size;
        } else {
            memmove(p + out, p + i, size);
            out += size;
            i += size;
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
