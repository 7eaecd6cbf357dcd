/* session_rig.h: an engine with a small random model, for the tests of requests. Failures end the test. */
#ifndef FR_TEST_SESSION_RIG_H
#define FR_TEST_SESSION_RIG_H

#include "cli/host.h"
#include "test/test.h"
#include "tools/tiny_model.h"

enum { TOKENS = 40, CONTEXT = 160 };

typedef struct session_rig {
    fr_host *host;
    fr_engine *engine, *keeper; /* the second: of the same model, if any; see session_open_as() */
} session_rig;

extern const tiny_model session_small;
extern const tiny_model session_portable; /* with biases and sizes that no tile divides, to be opened on default limits */

/* Polls until that state. */
fr_state session_drive(session_rig *, fr_state until);
/* All engines of a process are on one device. What it says of itself can be copied and changed for an engine, its clock for instance. */
const fr_device *session_device(void);
session_rig session_engine(const fr_device *, uint32_t context, bool portable);
void session_feed(session_rig *, const uint8_t *bytes, size_t size); /* a whole file */
void session_feed_model(session_rig *, const tiny_model *);
/* An engine that is ready. Another one with the same model stays open until the process ends and has the same kernels prepared: a device
 * compiles a kernel once while a pipeline of it is there. So models are static. */
session_rig session_open_as(const fr_device *, uint32_t context, const tiny_model *, bool portable);
session_rig session_open(const tiny_model *, bool portable); /* with a context of CONTEXT tokens */
void session_close(session_rig *);

void session_prepare(session_rig *, uint32_t width);                  /* compiles the kernels of a tree; 0: of the default width */
/* Gains of a model file as large as floats get: no logit is finite, so requests fail. */
void session_spoil_norms(uint8_t *file, size_t size);

/* Polls so often, or until the request has ended, then aborts it and waits. It ends as aborted, or at its length if it had. */
void session_abort(session_rig *, int polls);

/* Ids that look random and stay below 256, the bytes of every vocabulary. */
void session_prompt(uint32_t *ids, size_t n, uint32_t seed);
/* A request to its end; the answer's ids into out[CONTEXT]. Returns how many. */
size_t session_generate(session_rig *, const uint32_t *ids, size_t n, const fr_request *, uint32_t *out);
/* Two answers are equal. */
void session_same(const uint32_t *a, size_t n_a, const uint32_t *b, size_t n_b, const char *what);

#endif
