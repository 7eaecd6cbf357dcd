#include "test/kernels_help.h"

#include "cli/host.h"
#include "test/test.h"

static void pump(void *host)
{
    fr_host_pump(host);
}

rig_host open_host(void)
{
    fr_error_text e = {0};
    fr_host *host = fr_host_open(NULL, &e);
    CHECK_MSG(host, "%s", e.text);
    return (rig_host){fr_host_device(host), pump, host};
}

void open_rig(rig *r, const rig_host *host, const rig_options *o)
{
    CHECK_MSG(rig_open(r, host, o), "%s", r->error.text);
}

void run_cases(const char *group)
{
    const rig_host host = open_host();
    uint32_t n = 0;
    for (const kernel_case *k = kernel_cases; k->name; k++) {
        fr_error_text e = {0};
        uint32_t dispatches, nodes;
        if (strncmp(k->name, group, strlen(group)))
            continue;
        CHECK_MSG(kernel_case_run(&host, k, &dispatches, &nodes, &e), "%s", e.text);
        printf("  %s: %u dispatches\n", k->name, dispatches);
        n += dispatches;
    }
    CHECK(n > 0);
    fr_host_close(host.user);
}
