#include "ref/selftest.h"

#include <stdio.h>
#include <string.h>

#include "ref/case.h"

int fr_selftest(const fr_selftest_host *host, const char *only)
{
    const rig_host rig = {host->device, host->pump, host->user};
    int failures = 0, cases = 0;
    for (const kernel_case *c = kernel_cases; c->name; c++) {
        if (only ? strncmp(c->name, only, strlen(only)) != 0 : host->device->is_cpu && !c->quick)
            continue;
        fr_error_text error = {0};
        uint32_t dispatches, nodes;
        char text[96];
        const bool ok = kernel_case_run(&rig, c, &dispatches, &nodes, &error);
        snprintf(text, sizeof text, c->bits ? "%u dispatches, %u nodes" : "%u dispatches", dispatches, nodes);
        host->report(host->user, c->name, ok, ok ? text : error.text);
        failures += !ok;
        cases++;
    }
    return cases ? failures : -1;
}
