/* engine.c: opening, loading, text and numbers. session.c has the requests, session_memory.c the memory. */
#include <stdlib.h>
#include <string.h>

#include "base/line.h"
#include "load/vocabulary.h"
#include "session.h"

enum { DEFAULT_CONTEXT = 4096 };

double fr_now(const fr_engine *e)
{
    return e->device.now_ms ? e->device.now_ms(e->device.now_user) : 0;
}

void fr_engine_fail(fr_engine *e)
{
    e->state = FR_STATE_FAILED;
    if (e->run.task != FR_TASK_NONE && e->run.finish == FR_FINISH_NONE)
        e->run.finish = FR_FINISH_ERROR;
}

/* ---- opening and loading ---- */

/* The header of the file is complete: everything that has a size gets it now. */
static fr_status on_plan(void *user, const fr_config *config, const fr_weights *weights, const gguf_meta *meta, fr_error_text *error)
{
    fr_engine *e = user;
    e->config = config;
    e->tokenizer = fr_vocabulary_read(meta, error);
    if (!e->tokenizer)
        return error->status;
    gguf_string text = {0};
    gguf_str(meta, "tokenizer.chat_template", &text);
    fr_chat_detect(&e->chat, text.data, text.size, e->tokenizer);
    if (gguf_str(meta, "general.name", &text))
        fr_line_copy(e->name, sizeof e->name, text.data, text.size);
    e->context = e->options.context                        ? e->options.context
                 : config->train_context < DEFAULT_CONTEXT ? config->train_context
                                                           : DEFAULT_CONTEXT;
    if (e->context > config->train_context)
        return fr_fail(error, FR_BAD_ARGUMENT, "a context of %u tokens was asked for, the model was trained for %u: ask for no more",
                       e->context, config->train_context);
    fr_adapt_plan(e);
    e->compile_start_ms = fr_now(e);
    e->forward = fr_forward_new(e->gpu, config, weights, e->context, error);
    return e->forward && fr_forward_begin(e->forward, error) == FR_OK ? fr_session_init(e, error) : error->status;
}

static bool on_weights(void *user, uint32_t buffer, uint64_t offset, const void *bytes, size_t size)
{
    fr_engine *e = user;
    return fr_gpu_upload(e->gpu, fr_forward_weight_buffer(e->forward, buffer), offset, bytes, size);
}

fr_engine *fr_open(const fr_device *device, const fr_options *options)
{
    fr_engine *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->device = *device;
    if (options)
        e->options = *options;
    const char *adapter = device->name ? device->name : "";
    fr_line_copy(e->adapter, sizeof e->adapter, adapter, strlen(adapter));
    e->device.name = e->adapter;
    e->state = FR_STATE_LOADING;
    fr_adapt_open(e);
    e->gpu = fr_gpu_new(&e->device, e->options.portable, &e->error);
    if (e->gpu) {
        fr_whole_open(e);
        const fr_sink sink = {e, on_plan, on_weights};
        e->loader = fr_loader_new(&sink, fr_gpu_get_limits(e->gpu)->binding);
        if (!e->loader)
            fr_fail(&e->error, FR_FAILED, "out of memory");
        else
            fr_recall_open(e, &e->error);
    }
    if (e->error.status != FR_OK)
        fr_engine_fail(e);
    return e;
}

void fr_close(fr_engine *e)
{
    if (!e)
        return;
    fr_session_free(e);
    fr_recall_close(e);
    fr_forward_free(e->forward);
    fr_loader_free(e->loader);
    fr_tokenizer_free(e->tokenizer);
    fr_gpu_free(e->gpu);
    free(e);
}

const char *fr_error(const fr_engine *e)
{
    return e->error.text;
}

fr_status fr_error_status(const fr_engine *e)
{
    return e->error.status;
}

static bool device_failed(fr_engine *e)
{
    if (!e->gpu || fr_gpu_error(e->gpu)->status == FR_OK)
        return false;
    if (e->state != FR_STATE_FAILED) {
        e->error = *fr_gpu_error(e->gpu);
        fr_engine_fail(e);
    }
    return true;
}

fr_status fr_engine_refuse(fr_engine *e, fr_status status, const char *what)
{
    if (e->state == FR_STATE_FAILED)
        return e->error.status;
    e->error = (fr_error_text){0};
    return fr_fail(&e->error, status, "%s", what);
}

/* A load has an error text of its own, so that a call that is refused meanwhile does not end it. */
static fr_status loading(fr_engine *e, fr_status status)
{
    if (status != FR_OK) {
        e->error = e->load_error;
        fr_engine_fail(e);
    }
    return status;
}

fr_status fr_feed(fr_engine *e, const void *bytes, size_t size, size_t *used)
{
    *used = 0;
    if (e->state == FR_STATE_FAILED || device_failed(e))
        return e->error.status;
    if (e->state != FR_STATE_LOADING || e->ended)
        return fr_engine_refuse(e, FR_BAD_ARGUMENT, "the model is loaded already: open another engine for another file");
    if (e->load_start_ms == 0)
        e->load_start_ms = fr_now(e);
    return loading(e, fr_loader_feed(e->loader, bytes, size, used, &e->load_error));
}

fr_status fr_feed_end(fr_engine *e)
{
    if (e->state == FR_STATE_FAILED)
        return e->error.status;
    e->ended = true;
    bool done;
    return loading(e, fr_loader_end(e->loader, &done, &e->load_error));
}

uint64_t fr_expected_bytes(const fr_engine *e)
{
    return e->loader ? fr_loader_expected_bytes(e->loader) : 0;
}

static void poll_loading(fr_engine *e)
{
    size_t used;
    bool done = false;
    if (!e->ended) {
        loading(e, fr_loader_feed(e->loader, NULL, 0, &used, &e->load_error)); /* what the device refused before */
        return;
    }
    if (loading(e, fr_loader_end(e->loader, &done, &e->load_error)) == FR_OK && done)
        e->state = FR_STATE_PREPARING;
}

static void poll_preparing(fr_engine *e)
{
    if (e->compile_ms == 0 && !fr_gpu_compiling(e->gpu))
        e->compile_ms = fr_now(e) - e->compile_start_ms;
    bool done;
    if (loading(e, fr_forward_loaded(e->forward, &done, &e->load_error)) != FR_OK)
        return;
    bool ready = true;
    const fr_tail tail = e->prepare_width > 1 ? FR_TAIL_TREE : FR_TAIL_EMIT;
    if (e->prepare_width && loading(e, fr_forward_prepare(e->forward, e->prepare_width, tail, &ready, &e->load_error)) != FR_OK)
        return;
    if (e->prepare_width) {
        fr_whole_prepare(e, 1);
        fr_whole_prepare(e, e->prepare_width);
    }
    if (!done || !ready || fr_gpu_compiling(e->gpu) || !fr_gpu_upload_idle(e->gpu))
        return;
    if (e->load_ms == 0)
        e->load_ms = fr_now(e) - e->load_start_ms;
    e->prepare_width = 0;
    e->state = FR_STATE_READY;
}

fr_state fr_poll(fr_engine *e)
{
    if (e->state == FR_STATE_FAILED || device_failed(e))
        return FR_STATE_FAILED;
    if (e->state == FR_STATE_LOADING) {
        if (e->forward && e->compile_ms == 0 && !fr_gpu_compiling(e->gpu))
            e->compile_ms = fr_now(e) - e->compile_start_ms;
        poll_loading(e);
    }
    if (e->state == FR_STATE_PREPARING)
        poll_preparing(e);
    if (e->state == FR_STATE_PREFILLING || e->state == FR_STATE_DECODING)
        fr_session_poll(e);
    device_failed(e);
    return e->state;
}

void fr_device_lost(fr_engine *e, const char *message)
{
    if (e->gpu)
        fr_gpu_set_error(e->gpu, FR_FAILED, "the GPU device was lost, load the model again", message ? message : "");
}

void fr_device_error(fr_engine *e, const char *message)
{
    if (e->gpu)
        fr_gpu_set_error(e->gpu, FR_FAILED, "the GPU reported an error", message ? message : "");
}

/* ---- text ---- */

size_t fr_take_text(fr_engine *e, char *out, size_t size)
{
    return e->run.text ? fr_detokenizer_take(e->run.text, out, size) : 0;
}

const uint32_t *fr_tokens(const fr_engine *e, size_t *n)
{
    const bool generated = e->run.task == FR_TASK_GENERATE;
    *n = generated ? e->run.shown : 0;
    return generated ? e->history + e->run.prompt : NULL;
}

fr_finish fr_finish_reason(const fr_engine *e)
{
    return e->run.finish;
}

static size_t give_ids(uint32_t *found, size_t n, uint32_t *ids, size_t cap)
{
    if (n && cap)
        memcpy(ids, found, sizeof *ids * (n < cap ? n : cap));
    free(found);
    return n;
}

bool fr_engine_has_vocabulary(fr_engine *e)
{
    if (!e->tokenizer)
        fr_engine_refuse(e, FR_BAD_ARGUMENT, "there is no vocabulary yet: feed the model first");
    return e->tokenizer != NULL;
}

size_t fr_tokenize(fr_engine *e, const char *text, size_t size, bool special, uint32_t *ids, size_t cap)
{
    uint32_t *found = NULL;
    size_t n = 0;
    if (!fr_engine_has_vocabulary(e))
        return SIZE_MAX;
    if (!fr_tokenizer_encode(e->tokenizer, text, size, special, true, &found, &n)) {
        free(found);
        fr_engine_refuse(e, FR_FAILED, "out of memory for the tokens of a text: give less at a time");
        return SIZE_MAX;
    }
    return give_ids(found, n, ids, cap);
}

const char *fr_token_bytes(const fr_engine *e, uint32_t id, size_t *size)
{
    *size = 0;
    return e->tokenizer ? fr_tokenizer_bytes(e->tokenizer, id, false, size) : "";
}

size_t fr_chat(fr_engine *e, const fr_message *messages, size_t n, uint32_t *ids, size_t cap)
{
    uint32_t *found = NULL;
    size_t n_found = 0;
    fr_error_text error = {0};
    if (!fr_engine_has_vocabulary(e))
        return SIZE_MAX;
    if (fr_chat_encode(&e->chat, e->tokenizer, messages, n, &found, &n_found, &error) != FR_OK) {
        free(found);
        fr_engine_refuse(e, error.status, error.text);
        return SIZE_MAX;
    }
    return give_ids(found, n_found, ids, cap);
}

/* ---- numbers ---- */

static double request_stat(const fr_engine *e, fr_stat_id id)
{
    const fr_run *r = &e->run;
    const double decode = r->emitted ? r->last_ms - r->first_ms : 0;
    switch (id) {
    case FR_STAT_PREFILL_MS:
    case FR_STAT_FIRST_TOKEN_MS:
        return r->emitted ? r->first_ms - r->start_ms : 0;
    case FR_STAT_DECODE_MS:
        return decode;
    case FR_STAT_MS_PER_TOKEN:
        return r->emitted > 1 ? decode / (r->emitted - 1) : 0;
    case FR_STAT_PROMPT_TOKENS:
        return r->prompt;
    case FR_STAT_CACHED_TOKENS:
        return r->cached;
    case FR_STAT_COMPLETION_TOKENS:
        return r->shown;
    case FR_STAT_STEPS:
        return r->steps;
    case FR_STAT_WINDOW:
        return r->window;
    case FR_STAT_WIDTH:
        return r->width;
    case FR_STAT_DRAFTED:
        return r->drafted;
    case FR_STAT_ACCEPTED:
        return r->accepted;
    case FR_STAT_TREE_STEPS:
        return r->trees;
    case FR_STAT_MEMORY_SEARCHED:
        return r->searched;
    case FR_STAT_WHOLE_STEPS:
        return r->whole;
    case FR_STAT_PROBES:
        return r->mode == FR_MODE_ADAPTIVE ? e->control.probes : 0;
    case FR_STAT_PROBE_MS:
        return r->mode == FR_MODE_ADAPTIVE ? e->control.probe_ms : 0;
    case FR_STAT_SUBMITS:
        return e->gpu ? (double)(fr_gpu_submits(e->gpu) - r->submits0) : 0;
    default:
        return id >= FR_STAT_STEPS_1 && id <= FR_STAT_STEPS_32 ? r->by_width[id - FR_STAT_STEPS_1] : 0;
    }
}

double fr_stat(const fr_engine *e, fr_stat_id id)
{
    switch (id) {
    case FR_STAT_LOAD_MS:
        return e->load_ms;
    case FR_STAT_COMPILE_MS:
        return e->compile_ms;
    case FR_STAT_DISPATCHES_PER_STEP:
        return e->dispatches;
    case FR_STAT_BYTES_PER_STEP:
        return e->forward ? (double)fr_forward_step_bytes(e->forward, e->history_end) : 0;
    case FR_STAT_CONTEXT:
        return e->context;
    case FR_STAT_VOCABULARY:
        return e->config ? e->config->vocab : 0;
    case FR_STAT_LAYERS:
        return e->config ? e->config->n_layers : 0;
    case FR_STAT_PARAMETERS:
        return e->config ? (double)fr_loader_weights(e->loader)->parameters : 0;
    case FR_STAT_DEVICE_BYTES:
        return e->gpu ? (double)fr_gpu_bytes(e->gpu) : 0;
    case FR_STAT_PIPELINES:
        return e->gpu ? fr_gpu_pipelines(e->gpu) : 0;
    case FR_STAT_LOST_STEPS:
        return e->whole.losses;
    case FR_STAT_MEMORY_TOKENS:
        return e->recall.memory.count - e->recall.memory.n_runs; /* each run ends with a break */
    default:
        if (id >= FR_STAT_COST_1 && id <= FR_STAT_COST_32)
            return fr_costs_timed(&e->control.costs) ? fr_costs_step(&e->control.costs, id - FR_STAT_COST_1, FR_COSTS_WINDOW) : 0;
        return request_stat(e, id);
    }
}

const char *fr_info(const fr_engine *e, fr_info_id id)
{
    switch (id) {
    case FR_INFO_ADAPTER:
        return e->adapter;
    case FR_INFO_NAME:
        return e->name;
    case FR_INFO_ARCHITECTURE:
        return e->config ? e->config->architecture : "";
    case FR_INFO_QUANTISATION:
        return e->config ? fr_loader_types(e->loader) : "";
    case FR_INFO_TEMPLATE:
        return fr_chat_name(e->chat.family);
    case FR_INFO_TOKENIZER:
        return e->tokenizer ? fr_tokenizer_pre(e->tokenizer) : "";
    case FR_INFO_COSTS:
        return e->costs_name;
    }
    return "";
}
