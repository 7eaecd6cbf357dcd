#include "cli/costs_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/replace.h"

enum { MOST_BYTES = 1 << 16 };

/* False: there is no place. `make`: the folders are made. */
static bool path_of(const fr_engine *engine, char *path, size_t size, bool make)
{
    const char *own = getenv("FORERUN_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"),
               *name = fr_info(engine, FR_INFO_COSTS);
    int n = -1;
    if (own && *own)
        n = snprintf(path, size, "%s/costs", own);
    else if (xdg && *xdg)
        n = snprintf(path, size, "%s/forerun/costs", xdg);
    else if (home && *home)
        n = snprintf(path, size, "%s/.cache/forerun/costs", home);
    if (n < 0 || !*name || (size_t)n + strlen(name) + 2 > size)
        return false;
    for (char *at = path + 1; make && *at; at++)
        if (*at == '/') {
            *at = 0;
            mkdir(path, S_IRWXU);
            *at = '/';
        }
    if (make)
        mkdir(path, S_IRWXU);
    snprintf(path + n, size - (size_t)n, "/%s", name);
    return true;
}

void fr_costs_file_load(fr_engine *engine)
{
    char path[4096];
    FILE *in = path_of(engine, path, sizeof path, false) ? fopen(path, "rb") : NULL;
    uint8_t *bytes = in ? malloc(MOST_BYTES) : NULL;
    if (bytes)
        fr_load_costs(engine, bytes, fread(bytes, 1, MOST_BYTES, in), path);
    free(bytes);
    if (in)
        fclose(in);
}

void fr_costs_file_save(fr_engine *engine)
{
    char path[4096];
    const size_t size = fr_save_costs(engine, NULL, 0);
    uint8_t *bytes = size && path_of(engine, path, sizeof path, true) ? malloc(size) : NULL;
    if (bytes && fr_save_costs(engine, bytes, size) == size)
        fr_replace(path, S_IRUSR | S_IWUSR, bytes, size);
    free(bytes);
}
