/* selftest.c: forerun selftest. */
#include "ref/selftest.h"
#include "cli/verbs.h"

static void pump(void *host)
{
    fr_host_pump(host);
}

static void report(void *host, const char *name, bool ok, const char *text)
{
    (void)host;
    printf("%s  %s: %s\n", ok ? "ok    " : "FAILED", name, text);
    fflush(stdout);
}

fr_status fr_verb_selftest(const fr_verb *verb, int argc, char **argv, fr_error_text *err)
{
    const char *word, *adapter = NULL;
    const fr_arg table[] = {
        {FR_ARG_TEXT, "--adapter", "NAME", "a GPU whose name contains this, or cpu", &adapter, 0, 0},
        {0},
    };
    fr_args_result result = fr_args_parse(verb, table, argc, argv, &word, err);
    if (result != FR_ARGS_GO)
        return result == FR_ARGS_HELP ? FR_OK : err->status;
    if (word)
        return fr_fail(err, FR_BAD_ARGUMENT, "selftest takes no model, leave \"%.60s\" out", word);
    fr_host *host = fr_host_open(adapter, err);
    if (!host)
        return err->status;
    printf("%s\n", fr_host_device(host)->name);
    const int failures = fr_selftest(&(fr_selftest_host){fr_host_device(host), pump, report, host}, NULL);
    if (failures)
        fr_fail(err, FR_FAILED, "the self-test failed on %s%s%s; kernels do not give the expected bits there", fr_host_device(host)->name,
                fr_host_error(host)[0] ? ": " : "", fr_host_error(host));
    fr_host_close(host);
    return failures ? FR_FAILED : FR_OK;
}
