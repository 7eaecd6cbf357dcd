#include "cli/replace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_all(int file, const uint8_t *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        const ssize_t n = write(file, bytes + done, size - done);
        if (n < 0 && errno != EINTR)
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

bool fr_replace(const char *path, unsigned mode, const uint8_t *bytes, size_t size)
{
    static const char suffix[] = ".XXXXXX";
    char *name = malloc(strlen(path) + sizeof suffix);
    if (!name)
        return false;
    strcat(strcpy(name, path), suffix);
    const int file = mkstemp(name);
    bool done = file >= 0;
    if (done) {
        done = write_all(file, bytes, size) && fchmod(file, (mode_t)mode) == 0 && fsync(file) == 0;
        done = close(file) == 0 && done && rename(name, path) == 0;
        const int why = errno;
        if (!done)
            unlink(name);
        errno = why;
    }
    free(name);
    return done;
}
