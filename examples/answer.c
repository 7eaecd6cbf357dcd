/* Answers one question with a GGUF file. cli/host.h is the native host: it finds a GPU and lets WebGPU run. */
#include <stdio.h>

#include "cli/host.h"

static int fail(const char *why)
{
    fprintf(stderr, "answer: %s\n", why);
    return 1;
}

/* Moves everything that can move until the engine is idle; prints text as it comes. */
static int drive(fr_engine *engine, fr_host *host)
{
    char text[256];
    for (;;) {
        fr_state state = fr_poll(engine);
        for (size_t n; (n = fr_take_text(engine, text, sizeof text)) > 0; fflush(stdout))
            fwrite(text, 1, n, stdout);
        if (state == FR_STATE_READY || state == FR_STATE_FAILED)
            return state == FR_STATE_READY;
        fr_host_pump(host);
    }
}

int main(int argc, char **argv)
{
    fr_error_text error = {0};
    FILE *file = argc == 3 ? fopen(argv[1], "rb") : NULL;
    if (!file)
        return fail(argc == 3 ? "the model file can't be opened" : "usage: answer MODEL.gguf QUESTION");
    fr_host *host = fr_host_open(NULL, &error); /* NULL: the most capable GPU */
    if (!host)
        return fail(error.text);
    fr_engine *engine = fr_open(fr_host_device(host), &(fr_options){0});
    fr_host_attach(host, engine);

    static char bytes[1 << 16];
    for (size_t n, done, used; (n = fread(bytes, 1, sizeof bytes, file)) > 0;)
        for (done = 0; done < n; done += used) {
            if (fr_feed(engine, bytes + done, n - done, &used) != FR_OK)
                return fail(fr_error(engine));
            if (used < n - done && fr_poll(engine) != FR_STATE_FAILED)
                fr_host_pump(host); /* the device catches up */
        }
    if (fr_feed_end(engine) != FR_OK || !drive(engine, host))
        return fail(fr_error(engine));

    uint32_t ids[1024];
    size_t n = fr_chat(engine, &(fr_message){"user", argv[2]}, 1, ids, 1024);
    if (n > 1024 || fr_generate(engine, ids, n, &(fr_request){.mode = FR_MODE_ADAPTIVE, .max_tokens = 32}) != FR_OK)
        return fail(n > 1024 ? "the question is too long" : fr_error(engine));
    if (!drive(engine, host))
        return fail(fr_error(engine));
    printf("\n[%s: %.1f ms a token]\n", fr_info(engine, FR_INFO_ADAPTER), fr_stat(engine, FR_STAT_MS_PER_TOKEN));

    fclose(file);
    fr_host_attach(host, NULL);
    fr_close(engine);
    fr_host_close(host);
    return 0;
}
