#include "cli/drive.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FR_PIECE = 1 << 20 };

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

void fr_interrupt_catch(void)
{
    struct sigaction action = {0};
    action.sa_handler = on_interrupt;
    action.sa_flags = (int)SA_RESETHAND;
    sigaction(SIGINT, &action, NULL);
}

bool fr_interrupted(void)
{
    return interrupted != 0;
}

FILE *fr_model_open(const char *path, fr_error_text *err)
{
    struct stat facts;
    FILE *file = fopen(path, "rb");
    if (!file) {
        fr_fail(err, FR_BAD_MODEL, "%s: %s; give the path of a .gguf file", path, strerror(errno));
        return NULL;
    }
    if (fstat(fileno(file), &facts) == 0 && S_ISDIR(facts.st_mode)) {
        fclose(file);
        fr_fail(err, FR_BAD_MODEL, "%s is a directory; give the path of a .gguf file", path);
        return NULL;
    }
    return file;
}

fr_status fr_drive_error(const fr_engine *engine, const char *path, fr_error_text *err)
{
    const fr_status status = fr_error_status(engine) == FR_OK ? FR_FAILED : fr_error_status(engine);
    return path ? fr_fail(err, status, "%s: %s", path, fr_error(engine)) : fr_fail(err, status, "%s", fr_error(engine));
}

/* The file's next piece, however often the device has to catch up. */
static fr_status feed(fr_drive *d, const char *bytes, size_t size)
{
    size_t done = 0, used;
    while (done < size && !interrupted) {
        fr_status status = fr_feed(d->engine, bytes + done, size - done, &used);
        if (status != FR_OK)
            return status;
        done += used;
        if (fr_poll(d->engine) == FR_STATE_FAILED)
            return FR_FAILED;
        if (done < size)
            fr_host_pump(d->host);
    }
    return FR_OK;
}

static void show_progress(const fr_engine *engine, uint64_t done)
{
    uint64_t all = fr_expected_bytes(engine);
    if (all)
        fprintf(stderr, "\rloading %3u %%", (unsigned)(done >= all ? 100 : 100 * done / all));
}

static fr_status feed_file(fr_drive *d, FILE *file, const char *path, bool progress, fr_error_text *err)
{
    char *piece = malloc(FR_PIECE);
    if (!piece)
        return fr_fail(err, FR_FAILED, "out of memory reading %s", path);
    uint64_t done = 0;
    size_t n;
    fr_status status = FR_OK;
    while (status == FR_OK && !interrupted && (n = fread(piece, 1, FR_PIECE, file)) > 0) {
        status = feed(d, piece, n);
        done += n;
        if (progress)
            show_progress(d->engine, done);
    }
    free(piece);
    if (status == FR_OK && ferror(file) && !interrupted)
        return fr_fail(err, FR_BAD_MODEL, "%s: %s after %llu bytes", path, strerror(errno), (unsigned long long)done);
    if (status == FR_OK && !interrupted)
        status = fr_feed_end(d->engine);
    return status == FR_OK ? FR_OK : fr_drive_error(d->engine, path, err);
}

static fr_status load(fr_drive *d, FILE *file, const char *path, bool progress, fr_error_text *err)
{
    fr_status status = feed_file(d, file, path, progress, err);
    fr_state state = FR_STATE_LOADING;
    while (status == FR_OK && !interrupted && (state = fr_poll(d->engine)) != FR_STATE_READY) {
        if (state == FR_STATE_FAILED)
            status = fr_drive_error(d->engine, path, err);
        else
            fr_host_pump(d->host);
    }
    if (progress)
        fputs("\r              \r", stderr);
    return interrupted ? fr_fail(err, FR_FAILED, "interrupted while loading %s", path) : status;
}

uint32_t fr_drive_workgroups(uint32_t option)
{
    return option == FR_DRIVE_AUTO ? 0 : option ? option : FR_NEVER;
}

fr_status fr_drive_open(fr_drive *d, const char *path, const char *adapter, const fr_options *options, bool progress, fr_error_text *err)
{
    *d = (fr_drive){0};
    FILE *file = fr_model_open(path, err);
    if (!file)
        return err->status;
    fr_status status = FR_OK;
    if ((d->host = fr_host_open(adapter, err)) == NULL)
        status = err->status;
    else if ((d->engine = fr_open(fr_host_device(d->host), options)) == NULL)
        status = fr_fail(err, FR_FAILED, "out of memory opening the engine");
    else if (fr_poll(d->engine) == FR_STATE_FAILED)
        status = fr_drive_error(d->engine, NULL, err); /* the device is no good for any file */
    if (status == FR_OK) {
        fr_host_attach(d->host, d->engine);
        status = load(d, file, path, progress, err);
    }
    fclose(file);
    if (status != FR_OK)
        fr_drive_close(d);
    return status;
}

void fr_drive_close(fr_drive *d)
{
    if (d->host)
        fr_host_attach(d->host, NULL);
    if (d->engine)
        fr_close(d->engine);
    fr_host_close(d->host);
    *d = (fr_drive){0};
}

fr_status fr_drive_wait(fr_drive *d, void (*step)(void *, fr_engine *), void *user, fr_error_text *err)
{
    for (bool aborted = false;;) {
        fr_state state = fr_poll(d->engine);
        if (step)
            step(user, d->engine);
        if (state == FR_STATE_FAILED)
            return fr_drive_error(d->engine, NULL, err);
        if (state == FR_STATE_READY)
            break;
        if (interrupted && !aborted) {
            fr_abort(d->engine);
            aborted = true;
        }
        fr_host_pump(d->host);
    }
    return fr_finish_reason(d->engine) == FR_FINISH_ERROR ? fr_drive_error(d->engine, NULL, err) : FR_OK;
}
