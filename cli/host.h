/* host.h: the native host of the core: a Dawn device, a clock and a way to wait. The only native file that knows Dawn's instance,
 * adapters and feature numbers. Used by the command line and by the tests. */
#ifndef FR_CLI_HOST_H
#define FR_CLI_HOST_H

#include "base/error.h"

typedef struct fr_host fr_host;

/* Picks an adapter: `adapter` NULL or "": the most capable GPU; else one whose name contains it (case-insensitive), "swiftshader" and "cpu"
 * included. Without a GPU that works, SwiftShader is used. FR_NO_GPU lists what was found. The device has every limit the core can use and
 * the features "subgroups" and "timestamp-query" where there are. */
fr_host *fr_host_open(const char *adapter, fr_error_text *);
/* Close the engines first: what they began ends here. */
void fr_host_close(fr_host *);

const fr_device *fr_host_device(const fr_host *);
/* Whether the device can read the GPU's clock (fr_gpu_start_clock). */
bool fr_host_can_time(const fr_host *);
/* Device events (lost, uncaptured errors) go to this engine from now on; NULL: nowhere. */
void fr_host_attach(fr_host *, fr_engine *);
/* The first device event since the host was opened, one line; "" if none. What an engine's fr_error() says, for users without an engine. */
const char *fr_host_error(const fr_host *);
/* Sleeps a moment (about 50 us; 200 us on a software adapter), then delivers the WebGPU callbacks that are due. */
void fr_host_pump(fr_host *);

#endif
