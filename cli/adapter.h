/* adapter.h: what the host's adapter offers, and what it costs at best. */
#ifndef FR_CLI_ADAPTER_H
#define FR_CLI_ADAPTER_H

#include "cli/host.h"

typedef struct fr_limit {
    const char *name; /* as in WebGPU */
    uint64_t value;
} fr_limit;
enum { FR_LIMITS = 9 };
/* Limits that matter to compute. */
bool fr_adapter_limits(const fr_host *, fr_limit out[FR_LIMITS]);

typedef struct fr_costs {
    double dispatch_us;  /* of one dispatch that needs the result of the one before and does next to nothing */
    double bytes_per_ms; /* read by a kernel that does nothing else, from a buffer larger than a cache */
} fr_costs;
/* Measures: takes about a second. */
fr_status fr_adapter_measure(fr_host *, fr_costs *, fr_error_text *);

#endif
