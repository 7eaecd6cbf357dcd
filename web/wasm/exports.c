/* exports.c: forerun.h as WebAssembly exports. Only marshalling: every pointer lies in the module's memory, a 64-bit count comes
 * back as a double, and the host's clock is an import. web/src/core.ts is the caller. */
#include <stdlib.h>
#include <string.h>

#include "forerun.h"

#define EXPORT(name) __attribute__((export_name(name)))

/* performance.now() */
__attribute__((import_module("host"), import_name("now_ms"))) double host_now_ms(void);

/* core.ts writes arrays of these as pairs of pointers. */
_Static_assert(sizeof(fr_message) == 8 && offsetof(fr_message, content) == 4, "layout of fr_message");
_Static_assert(sizeof(size_t) == 4 && sizeof(char *) == 4, "wasm32");

EXPORT("alloc") void *web_alloc(size_t size);
EXPORT("release") void web_release(void *);
EXPORT("open")
fr_engine *web_open(size_t device, const char *name, const char *driver, bool is_cpu, bool is_integrated, bool has_subgroups,
                    uint32_t subgroup_min, uint32_t subgroup_max, uint32_t context, bool portable);
EXPORT("close") void web_close(fr_engine *);
EXPORT("error") const char *web_error(const fr_engine *);
EXPORT("error_status") int web_error_status(const fr_engine *);
EXPORT("feed") int web_feed(fr_engine *, const void *bytes, size_t size, size_t *used);
EXPORT("feed_end") int web_feed_end(fr_engine *);
EXPORT("expected_bytes") double web_expected_bytes(const fr_engine *);
EXPORT("poll") int web_poll(fr_engine *);
EXPORT("device_lost") void web_device_lost(fr_engine *, const char *message);
EXPORT("device_error") void web_device_error(fr_engine *, const char *message);
EXPORT("generate")
int web_generate(fr_engine *, const uint32_t *ids, size_t n, int mode, uint32_t max_tokens, uint32_t window, uint32_t width,
                 const char *const *stop, size_t n_stop, bool ignore_eos, const char *conversation, int scope, double budget_ms,
                 uint32_t workgroups);
EXPORT("prepare") int web_prepare(fr_engine *, int mode, uint32_t width);
EXPORT("clear_memory") void web_clear_memory(fr_engine *);
EXPORT("clear_conversation") void web_clear_conversation(fr_engine *, const char *conversation);
EXPORT("save_memory") size_t web_save_memory(fr_engine *, void *bytes, size_t room);
EXPORT("load_memory") int web_load_memory(fr_engine *, const void *bytes, size_t size);
EXPORT("save_costs") size_t web_save_costs(fr_engine *, void *bytes, size_t room);
EXPORT("load_costs") int web_load_costs(fr_engine *, const void *bytes, size_t size);
EXPORT("abort") void web_abort(fr_engine *);
EXPORT("reset") void web_reset(fr_engine *);
EXPORT("take_text") size_t web_take_text(fr_engine *, char *out, size_t size);
EXPORT("tokens") const uint32_t *web_tokens(const fr_engine *, size_t *n);
EXPORT("finish_reason") int web_finish_reason(const fr_engine *);
EXPORT("tokenize") size_t web_tokenize(fr_engine *, const char *text, size_t size, bool special, uint32_t *ids, size_t cap);
EXPORT("token_bytes") const char *web_token_bytes(const fr_engine *, uint32_t id, size_t *size);
EXPORT("chat") size_t web_chat(fr_engine *, const fr_message *messages, size_t n, uint32_t *ids, size_t cap);
EXPORT("stat") double web_stat(const fr_engine *, int id);
EXPORT("info") const char *web_info(const fr_engine *, int id);

static double now_ms(void *user)
{
    (void)user;
    return host_now_ms();
}

void *web_alloc(size_t size)
{
    return malloc(size ? size : 1);
}
void web_release(void *p)
{
    free(p);
}

fr_engine *web_open(size_t device, const char *name, const char *driver, bool is_cpu, bool is_integrated, bool has_subgroups,
                    uint32_t subgroup_min, uint32_t subgroup_max, uint32_t context, bool portable)
{
    const fr_device d = {
        .device = (void *)device, /* the binding's handle */
        .name = name,
        .driver = driver,
        .is_cpu = is_cpu,
        .is_integrated = is_integrated,
        .has_subgroups = has_subgroups,
        .subgroup_min = subgroup_min,
        .subgroup_max = subgroup_max,
        .now_ms = now_ms,
    };
    const fr_options o = {.context = context, .portable = portable};
    return fr_open(&d, &o);
}

void web_close(fr_engine *e)
{
    fr_close(e);
}
const char *web_error(const fr_engine *e)
{
    return fr_error(e);
}
int web_error_status(const fr_engine *e)
{
    return (int)fr_error_status(e);
}

int web_feed(fr_engine *e, const void *bytes, size_t size, size_t *used)
{
    return (int)fr_feed(e, bytes, size, used);
}
int web_feed_end(fr_engine *e)
{
    return (int)fr_feed_end(e);
}
double web_expected_bytes(const fr_engine *e)
{
    return (double)fr_expected_bytes(e);
}
int web_poll(fr_engine *e)
{
    return (int)fr_poll(e);
}
void web_device_lost(fr_engine *e, const char *message)
{
    fr_device_lost(e, message);
}
void web_device_error(fr_engine *e, const char *message)
{
    fr_device_error(e, message);
}

int web_generate(fr_engine *e, const uint32_t *ids, size_t n, int mode, uint32_t max_tokens, uint32_t window, uint32_t width,
                 const char *const *stop, size_t n_stop, bool ignore_eos, const char *conversation, int scope, double budget_ms,
                 uint32_t workgroups)
{
    const fr_request request = {
        .mode = (fr_mode)mode,
        .max_tokens = max_tokens,
        .window = window,
        .width = width,
        .stop = stop,
        .n_stop = n_stop,
        .ignore_eos = ignore_eos,
        .conversation = fr_conversation(conversation),
        .scope = (fr_scope)scope,
        .budget_ms = budget_ms,
        .workgroups = workgroups,
    };
    return (int)fr_generate(e, ids, n, &request);
}
int web_prepare(fr_engine *e, int mode, uint32_t width)
{
    return (int)fr_prepare(e, (fr_mode)mode, width);
}

void web_clear_memory(fr_engine *e)
{
    fr_clear_memory(e);
}
void web_clear_conversation(fr_engine *e, const char *conversation)
{
    fr_clear_conversation(e, fr_conversation(conversation));
}
size_t web_save_memory(fr_engine *e, void *bytes, size_t room)
{
    return fr_save_memory(e, bytes, room);
}
int web_load_memory(fr_engine *e, const void *bytes, size_t size)
{
    return (int)fr_load_memory(e, bytes, size, NULL);
}

size_t web_save_costs(fr_engine *e, void *bytes, size_t room)
{
    return fr_save_costs(e, bytes, room);
}
int web_load_costs(fr_engine *e, const void *bytes, size_t size)
{
    return (int)fr_load_costs(e, bytes, size, NULL);
}

void web_abort(fr_engine *e)
{
    fr_abort(e);
}
void web_reset(fr_engine *e)
{
    fr_reset(e);
}
size_t web_take_text(fr_engine *e, char *out, size_t size)
{
    return fr_take_text(e, out, size);
}
const uint32_t *web_tokens(const fr_engine *e, size_t *n)
{
    return fr_tokens(e, n);
}
int web_finish_reason(const fr_engine *e)
{
    return (int)fr_finish_reason(e);
}

size_t web_tokenize(fr_engine *e, const char *text, size_t size, bool special, uint32_t *ids, size_t cap)
{
    return fr_tokenize(e, text, size, special, ids, cap);
}
const char *web_token_bytes(const fr_engine *e, uint32_t id, size_t *size)
{
    return fr_token_bytes(e, id, size);
}
size_t web_chat(fr_engine *e, const fr_message *messages, size_t n, uint32_t *ids, size_t cap)
{
    return fr_chat(e, messages, n, ids, cap);
}

double web_stat(const fr_engine *e, int id)
{
    return fr_stat(e, (fr_stat_id)id);
}
const char *web_info(const fr_engine *e, int id)
{
    return fr_info(e, (fr_info_id)id);
}
