#include "ref/selftest.h"

#include "ref/case.h"

int fr_selftest(const fr_device *device, void (*pump)(void *user), void *user, FILE *out)
{
    const rig_host host = {device, pump, user};
    int failures = 0;
    for (const kernel_case *c = kernel_cases; c->name; c++) {
        if (device->is_cpu && !c->quick) /* compiling takes long there, and the test suite has the rest */
            continue;
        fr_error_text error = {0};
        uint32_t dispatches;
        const bool ok = kernel_case_run(&host, c, &dispatches, &error);
        if (out && ok)
            fprintf(out, "ok      %s: %u dispatches\n", c->name, dispatches);
        else if (out)
            fprintf(out, "FAILED  %s\n", error.text);
        failures += !ok;
    }
    return failures;
}
