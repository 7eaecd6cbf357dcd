/* json.h: writes JSON to a stream. Commas are kept track of; keys are NULL inside arrays. Also reads strings. */
#ifndef FR_CLI_JSON_H
#define FR_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct fr_json {
    FILE *out;
    bool comma; /* a value precedes in the open object or array */
} fr_json;

void fr_json_open(fr_json *, const char *key, char bracket);  /* '{' or '[' */
void fr_json_close(fr_json *, char bracket);                  /* '}' or ']' */
void fr_json_text(fr_json *, const char *key, const char *text);
/* Bytes that are not UTF-8 become U+FFFD. */
void fr_json_bytes(fr_json *, const char *key, const char *bytes, size_t size);
void fr_json_count(fr_json *, const char *key, uint64_t);
void fr_json_bool(fr_json *, const char *key, bool);
/* To the 1000th; null if it is not finite. */
void fr_json_number(fr_json *, const char *key, double);

/* A string as it is written, [size] without its quotes, to what it means: `out` has room for size + 1 bytes and gets a NUL behind. \u0000
 * and half a surrogate pair become U+FFFD. False: an escape that JSON does not have. */
bool fr_json_unescape(char *out, const char *written, size_t size);

#endif
