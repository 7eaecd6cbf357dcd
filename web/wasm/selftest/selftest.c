/* selftest.c: ref/selftest.h as a module of its own. The rig waits for the device in pump(), an import that suspends the module until
 * WebGPU has delivered (JavaScript Promise Integration), so the same code runs here as natively. web/demo/selftest.ts is the caller. */
#include <stdlib.h>

#include "ref/selftest.h"

#define EXPORT(name) __attribute__((export_name(name)))
#define IMPORT(name) __attribute__((import_module("host"), import_name(name)))

IMPORT("pump") void host_pump(void);
IMPORT("report") void host_report(const char *name, bool ok, const char *text);

EXPORT("alloc") void *selftest_alloc(size_t size);
EXPORT("release") void selftest_release(void *);
/* `device`: the binding's handle. `only`: "" for all that suit the adapter. Returns fr_selftest(). */
EXPORT("run")
int selftest_run(size_t device, const char *name, bool is_cpu, bool has_subgroups, uint32_t subgroup_min, uint32_t subgroup_max,
                 const char *only);

static void pump(void *user)
{
    (void)user;
    host_pump();
}

static void report(void *user, const char *name, bool ok, const char *text)
{
    (void)user;
    host_report(name, ok, text);
}

void *selftest_alloc(size_t size)
{
    return malloc(size ? size : 1);
}
void selftest_release(void *p)
{
    free(p);
}

int selftest_run(size_t device, const char *name, bool is_cpu, bool has_subgroups, uint32_t subgroup_min, uint32_t subgroup_max,
                 const char *only)
{
    const fr_device d = {
        .device = (void *)device,
        .name = name,
        .is_cpu = is_cpu,
        .has_subgroups = has_subgroups,
        .subgroup_min = subgroup_min,
        .subgroup_max = subgroup_max,
    };
    return fr_selftest(&(fr_selftest_host){&d, pump, report, NULL}, only[0] ? only : NULL);
}
