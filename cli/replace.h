/* replace.h: a file replaced as a whole. */
#ifndef FR_CLI_REPLACE_H
#define FR_CLI_REPLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes a new file beside the old one and renames it: whoever reads it sees the old one or the new one. False, with errno: the old one is
 * there still. */
bool fr_replace(const char *path, unsigned mode, const uint8_t *bytes, size_t size);

#endif
