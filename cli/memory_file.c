#include "cli/memory_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/replace.h"

enum { MOST_BYTES = 1 << 20 }; /* more than any memory has: what is larger is refused by its length */

/* The folder has to take a new file. */
static fr_status check_folder(const char *path, fr_error_text *err)
{
    char *folder = strdup(path);
    if (!folder)
        return fr_fail(err, FR_FAILED, "out of memory");
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    const bool writable = access(slash ? folder : ".", W_OK | X_OK) == 0;
    free(folder);
    return writable ? FR_OK
                    : fr_fail(err, FR_BAD_ARGUMENT, "%s: its folder can't be written to: %s; give a file in another folder", path,
                              strerror(errno));
}

static fr_status read_file(fr_memory_file *f, fr_error_text *err)
{
    FILE *in = fopen(f->path, "rb");
    if (!in)
        return fr_fail(err, FR_BAD_ARGUMENT, "%s can't be read: %s; make it readable, or give another file", f->path, strerror(errno));
    f->bytes = malloc(MOST_BYTES);
    if (f->bytes)
        f->size = fread(f->bytes, 1, MOST_BYTES, in);
    const bool failed = ferror(in) != 0;
    fclose(in);
    if (!f->bytes)
        return fr_fail(err, FR_FAILED, "out of memory for %s", f->path);
    return failed ? fr_fail(err, FR_BAD_ARGUMENT, "%s can't be read: %s; give another file", f->path, strerror(EIO)) : FR_OK;
}

fr_status fr_memory_file_open(fr_memory_file *f, const char *path, fr_error_text *err)
{
    struct stat facts;
    *f = (fr_memory_file){.mode = S_IRUSR | S_IWUSR}; /* what was asked and told is nobody else's business */
    const bool exists = stat(path, &facts) == 0;
    if (!exists && errno != ENOENT)
        return fr_fail(err, FR_BAD_ARGUMENT, "%s: %s; give session memory another file", path, strerror(errno));
    if (!exists && lstat(path, &facts) == 0) /* the new file would take the link's place */
        return fr_fail(err, FR_BAD_ARGUMENT, "%s is a link to a file that is not there; remove it, or give the file's own name", path);
    if (exists && S_ISDIR(facts.st_mode))
        return fr_fail(err, FR_BAD_ARGUMENT, "%s is a directory; give session memory a file in it, or elsewhere", path);
    if (exists && !S_ISREG(facts.st_mode))
        return fr_fail(err, FR_BAD_ARGUMENT, "%s is no regular file; give session memory a file of its own", path);
    if (exists && access(path, W_OK) != 0) /* it could be replaced all the same, but somebody has locked it */
        return fr_fail(err, FR_BAD_ARGUMENT, "%s can't be written to: %s; make it writable, or give another file", path, strerror(errno));
    f->path = exists ? realpath(path, NULL) : strdup(path);
    if (!f->path)
        return fr_fail(err, FR_FAILED, "%s: %s", path, strerror(errno));
    if (exists)
        f->mode = facts.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO);
    const fr_status status = check_folder(f->path, err);
    return status == FR_OK && exists ? read_file(f, err) : status;
}

void fr_memory_file_close(fr_memory_file *f)
{
    free(f->path);
    free(f->bytes);
    *f = (fr_memory_file){0};
}

fr_status fr_memory_file_load(const fr_memory_file *f, fr_engine *engine, fr_error_text *err)
{
    const fr_status status = f->bytes ? fr_load_memory(engine, f->bytes, f->size, f->path) : FR_OK;
    return status == FR_OK ? FR_OK : fr_fail(err, status, "%s", fr_error(engine));
}

fr_status fr_memory_file_save(const fr_memory_file *f, fr_engine *engine, fr_error_text *err)
{
    const size_t size = fr_save_memory(engine, NULL, 0);
    uint8_t *bytes = malloc(size ? size : 1);
    const bool done = bytes && fr_save_memory(engine, bytes, size) && fr_replace(f->path, f->mode, bytes, size);
    free(bytes);
    return done ? FR_OK : fr_fail(err, FR_FAILED, "%s can't be written: %s; it is as it was", f->path, strerror(errno));
}
