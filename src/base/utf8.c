#include "base/utf8.h"

size_t fr_utf8_read(const uint8_t *text, size_t size, uint32_t *code)
{
    uint8_t lead = text[0];
    *code = lead;
    if (lead < 0x80)
        return 1;
    *code = FR_CODE_BYTE | lead;
    size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || length > size)
        return 1;
    uint32_t value = lead & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 1;
        value = value << 6 | (text[i] & 0x3fu);
    }
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (value < smallest[length] || value > FR_CODE_MAX || (value >= 0xd800 && value < 0xe000))
        return 1;
    *code = value;
    return length;
}

size_t fr_utf8_write(uint8_t out[4], uint32_t code)
{
    if (code < 0x80 || code & FR_CODE_BYTE) {
        out[0] = (uint8_t)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length; --i > 0; code >>= 6)
        out[i] = (uint8_t)(0x80 | (code & 0x3f));
    out[0] = (uint8_t)(0xf00u >> length | code);
    return length;
}
