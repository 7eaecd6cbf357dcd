#include "load/gguf_sniff.h"

#include <string.h>

static bool starts(const uint8_t *p, size_t n, const char *with)
{
    size_t len = strlen(with);
    return n >= len && !memcmp(p, with, len);
}

/* Skips white space and a UTF-8 byte order mark. */
static const uint8_t *text_start(const uint8_t *p, const uint8_t *end)
{
    if (starts(p, (size_t)(end - p), "\xef\xbb\xbf"))
        p += 3;
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n'))
        p++;
    return p;
}

const char *gguf_sniff(const uint8_t *bytes, size_t size)
{
    static const char *const old_magics[] = {"lmgg", "fmgg", "tjgg", "algg"};
    for (size_t i = 0; i < sizeof old_magics / sizeof *old_magics; i++)
        if (starts(bytes, size, old_magics[i]))
            return "it is a GGML file from before GGUF; convert it, or download a GGUF version";
    if (starts(bytes, size, "FUGG"))
        return "it is a byte-swapped GGUF file; use a little-endian one";
    if (starts(bytes, size, "PK\x03\x04") || starts(bytes, size, "\x80\x02"))
        return "it looks like a PyTorch checkpoint or a zip archive; convert it to GGUF";
    if (starts(bytes, size, "\x1f\x8b"))
        return "it is compressed with gzip; decompress it first";
    if (starts(bytes, size, "version https://git-lfs"))
        return "it is a Git LFS pointer, not the file itself; download it with git lfs pull";
    if (size > 8 && bytes[8] == '{' && !bytes[5] && !bytes[6] && !bytes[7])
        return "it looks like a safetensors file; convert it to GGUF";
    const uint8_t *text = text_start(bytes, bytes + size);
    if (text < bytes + size && *text == '<')
        return "it looks like an HTML page; the address may need a login or lead to a web page about the file";
    if (text < bytes + size && *text == '{')
        return "it looks like JSON, perhaps a server's error message; check the address";
    return "use a .gguf model file";
}
