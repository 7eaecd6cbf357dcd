/* forerun.h: the whole C API.
 *
 * One fr_engine is one model on one GPU device with one timeline (KV cache). Nothing here blocks, does I/O, reads the
 * clock of the system or starts a thread: the host feeds the bytes of a GGUF file, calls fr_poll() until it says what
 * it waits for, and lets WebGPU deliver its callbacks between the calls. Every function of one engine is called on one thread.
 *
 *     fr_engine *e = fr_open(&device, &options);
 *     while (bytes left) { fr_feed(e, p, n, &used); if (used < n) fr_poll(e) and let WebGPU run; }
 *     fr_feed_end(e);
 *     until fr_poll(e) == FR_STATE_READY
 *     fr_generate(e, ids, n, &request);
 *     until fr_poll(e) == FR_STATE_READY { fr_take_text(e, buffer, size) }
 *     fr_close(e);
 *
 * Callers never see tensors or webgpu.h. Text is UTF-8. Strings that a function returns belong to the engine. */
#ifndef FORERUN_H
#define FORERUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FR_VERSION "0.1.0"

/* Outcomes. The command-line program exits with the same numbers. */
typedef enum fr_status {
    FR_OK = 0,
    FR_FAILED = 1,       /* the run failed: device lost, out of memory, logits that are no numbers */
    FR_BAD_ARGUMENT = 2, /* the caller's arguments are wrong; the engine is as before */
    FR_BAD_MODEL = 3,    /* the model file is bad or not supported */
    FR_NO_GPU = 4        /* no usable GPU, or one whose limits are too small (the message says which, by how much) */
} fr_status;

typedef enum fr_state {
    FR_STATE_LOADING,    /* wants fr_feed(), or waits for the device to take what was fed */
    FR_STATE_PREPARING,  /* file complete; pipelines compile, uploads drain */
    FR_STATE_READY,      /* idle: takes fr_generate() or fr_score(); the last request's results stay readable */
    FR_STATE_PREFILLING, /* a request's prompt is being processed */
    FR_STATE_DECODING,   /* tokens are being generated */
    FR_STATE_FAILED      /* for good: fr_error() says why; only fr_close() is left */
} fr_state;

/* Decoding modes, which give the same tokens: `greedy` reads every token back before the next step, `loop` lets the GPU go
 * on, `tree` lets it draft too: each step verifies a tree of guesses and yields 1 to 9 tokens. `adaptive` decides between the last two, and
 * how wide trees are, from what steps cost on this device and what they yield on this text: the fastest one nearly everywhere. What is not
 * in the list is refused with FR_BAD_ARGUMENT. */
typedef enum fr_mode { FR_MODE_GREEDY, FR_MODE_LOOP, FR_MODE_TREE, FR_MODE_ADAPTIVE } fr_mode;

typedef enum fr_finish {
    FR_FINISH_NONE,   /* still running, or no request yet */
    FR_FINISH_STOP,   /* the model ended its turn (an end token) or a stop string was met */
    FR_FINISH_LENGTH, /* max_tokens reached or the context is full */
    FR_FINISH_ABORT,  /* fr_abort() */
    FR_FINISH_ERROR   /* the request failed, fr_error() says why; the engine takes the next one, unless it is FR_STATE_FAILED */
} fr_finish;

/* What of session memory (below) a request drafts from, and whether its answer goes there. No answer depends on it. */
typedef enum fr_scope {
    FR_SCOPE_ALL,          /* drafts come from the answers of all conversations */
    FR_SCOPE_CONVERSATION, /* from those of the request's own conversation only */
    FR_SCOPE_NONE          /* from none, and the answer is not remembered */
} fr_scope;

/* A WebGPU device made by the host, with the adapter's limits and the feature "subgroups" if it has that. The engine takes
 * its own reference of `device`. Strings are copied. */
typedef struct fr_device {
    void *device;              /* WGPUDevice */
    const char *name;          /* for people: vendor, architecture, description */
    const char *driver;        /* what else times depend on: the driver's version, the browser's; may be NULL */
    bool is_cpu;               /* a software adapter such as SwiftShader */
    bool is_integrated;        /* a GPU without memory of its own: wide steps are taken to be dear until they are measured */
    bool has_subgroups;        /* the device was created with the feature */
    uint32_t subgroup_min;     /* of the adapter; 0 if unknown */
    uint32_t subgroup_max;
    double (*now_ms)(void *);  /* a clock for `adaptive` and the timings in fr_stat(); NULL: timings are 0, costs stay guesses */
    void *now_user;
} fr_device;

/* Zero means default everywhere. A context larger than the model was trained for ends the load with FR_BAD_ARGUMENT. */
typedef struct fr_options {
    uint32_t context;          /* tokens of KV cache; default min(the model's training context, 4096) */
    bool portable;             /* ignore optional features and use the default limits of WebGPU only (tests) */
} fr_options;

#define FR_NEVER UINT32_MAX /* fr_request.workgroups */

typedef struct fr_request {
    fr_mode mode;              /* default FR_MODE_GREEDY is 0; hosts that want the fast one say FR_MODE_ADAPTIVE */
    uint32_t max_tokens;       /* at most this many new tokens; default: until the context is full */
    uint32_t window;           /* W, steps per command buffer but in `greedy`, 1 to 16; default chosen by the engine */
    uint32_t width;            /* N, nodes of a `tree`: 2, 4, 8 (default), 16 or 32; `adaptive`: of the widest (default 32) */
    const char *const *stop;   /* stop strings, not part of the text; copied */
    size_t n_stop;             /* at most 16 */
    bool ignore_eos;           /* benchmarks: an end token is an ordinary token */
    uint64_t conversation;     /* whose answer it is in session memory: any number, or fr_conversation(); 0 is the engine's default */
    fr_scope scope;            /* default FR_SCOPE_ALL is 0 */
    /* Frame budget: a submission keeps the GPU for about so many milliseconds at most, and the next one waits until it is done, so that
     * what a page draws waits no longer; steps are cut in pieces if need be. Needs a clock. 0: none, which is faster; at most 1000. */
    double budget_ms;
    /* Steps that have all layers of the model in one dispatch, whose workgroups run at the same time: at most so many. 0: the engine finds
     * out whether this adapter can, and if it is faster; FR_NEVER: no such steps. The tokens are the same. */
    uint32_t workgroups;
} fr_request;

typedef struct fr_engine fr_engine;

/* Never NULL but for lack of memory; an engine that can't work is in FR_STATE_FAILED with its reason in fr_error(). */
fr_engine *fr_open(const fr_device *device, const fr_options *options);
void fr_close(fr_engine *);

/* The last error, or why the last call was refused, one line: what, where, what to do. "" if none since the last request began. */
const char *fr_error(const fr_engine *);
fr_status fr_error_status(const fr_engine *);

/* Takes up to `size` bytes of the GGUF file, any number at a time, in order. *used < size means that the device must
 * catch up: poll, then feed the rest. An error moves the engine to FR_STATE_FAILED, but for FR_BAD_ARGUMENT behind
 * fr_feed_end(): an engine holds one model, and stays as it is. */
fr_status fr_feed(fr_engine *, const void *bytes, size_t size, size_t *used);
fr_status fr_feed_end(fr_engine *);
/* Bytes of the file as its header promises them; 0 before the header is complete. */
uint64_t fr_expected_bytes(const fr_engine *);

/* Moves everything that can move and returns at once. */
fr_state fr_poll(fr_engine *);

/* What the host saw outside: the device's lost and uncaptured-error callbacks. */
void fr_device_lost(fr_engine *, const char *message);
void fr_device_error(fr_engine *, const char *message);

/* Starts a request over `ids` (the whole prompt; what the KV cache already holds of it is not computed again).
 * FR_BAD_ARGUMENT: empty, as long as the context or longer (the answer needs room), an id outside the vocabulary, an
 * unknown mode or scope, a width that is none or for which the context leaves no memory, a window, a budget or a number of stop
 * strings that is too large, not FR_STATE_READY. FR_FAILED: out of memory, which ends the engine. */
fr_status fr_generate(fr_engine *, const uint32_t *ids, size_t n, const fr_request *);
/* Compiles the kernels of a mode and width (as in fr_request; of `adaptive`, the width it would begin with), if they are not ready yet:
 * FR_STATE_PREPARING until they are. Without it a request compiles them while plain steps go on, which give the same tokens.
 * FR_BAD_ARGUMENT as fr_generate. */
fr_status fr_prepare(fr_engine *, fr_mode mode, uint32_t width);
/* Ends the request in flight at the next window; poll until FR_STATE_READY. Harmless otherwise. */
void fr_abort(fr_engine *);
/* Forgets the KV cache: the next request computes its whole prompt. Does nothing unless the state is FR_STATE_READY; tokens
 * and text of the last request stay, and so does session memory, which fr_clear_memory() forgets. */
void fr_reset(fr_engine *);

/* Moves up to `size` bytes of new text out, always whole code points; returns how many. `size` is at least 4, or a code
 * point may never fit. What is not taken is dropped when the next request starts. A stop string and what follows it are
 * no part of the text. */
size_t fr_take_text(fr_engine *, char *out, size_t size);
/* Tokens generated by the last request, end token not included. Those that a stop string is made of are: tokens are not
 * cut, the last one is that which completed it. Valid until the next call that starts a request. */
const uint32_t *fr_tokens(const fr_engine *, size_t *n);
fr_finish fr_finish_reason(const fr_engine *);

/* Teacher forcing: runs over `ids` and finds the most likely next token after each. top[i] follows ids[i].
 * `margin` (may be NULL) gets the difference between the two largest logits. Both are the caller's, n long, and must
 * live until the state is FR_STATE_READY again. Errors as fr_generate, but n may be the whole context. Finishes with
 * FR_FINISH_LENGTH once all are filled; with FR_FINISH_ERROR where logits are no numbers: entries from the position that
 * fr_error() names are not written. */
fr_status fr_score(fr_engine *, const uint32_t *ids, size_t n, uint32_t *top, float *margin);

/* ---- session memory ----
 *
 * What the engine remembers of earlier requests, so that `tree` drafts from it: the tokens of each answer with the last 8 of its prompt,
 * 32,768 in all (one more counts for each answer), the oldest go first. Every request that ended adds its answer, also an aborted one what
 * there is of it, in any mode; one that ended with an error adds nothing, and takes nothing away. Memory only proposes tokens, the model
 * decides: no answer depends on it. It lives in the engine, on the host and in a copy on the device, and leaves it through fr_save_memory()
 * alone. These functions may be called at any time: a request in flight goes on with what it began with, less what is cleared. */

/* Off: nothing is remembered, nothing is searched, and what there is stays. On is the default. */
void fr_set_memory(fr_engine *, bool on);
/* Forgets every answer, or those of one conversation (0: the default one). */
void fr_clear_memory(fr_engine *);
void fr_clear_conversation(fr_engine *, uint64_t conversation);
/* The number of a conversation that has a name; the same in every engine. 0 for NULL and "". */
uint64_t fr_conversation(const char *name);

/* Memory as bytes, for a file of the host's: answers and their conversations, with a fingerprint of the vocabulary, which gives ids their
 * meaning. Returns how many they are, and writes them if `room` suffices; also of an engine in FR_STATE_FAILED. 0 with fr_error(): no
 * vocabulary yet. */
size_t fr_save_memory(fr_engine *, void *bytes, size_t room);
/* Puts saved answers in place of those here. `name` (may be NULL) stands for the bytes in fr_error(). Refused, and memory and engine are
 * as before: FR_BAD_ARGUMENT if they are no memory, of another version, damaged, of another vocabulary, or there is no vocabulary yet;
 * FR_FAILED: out of memory. */
fr_status fr_load_memory(fr_engine *, const void *bytes, size_t size, const char *name);

/* ---- costs ----
 *
 * What `adaptive` has learnt about the time of steps on this device: the same for every request and worth keeping, so that a next engine
 * need not learn it again. Nothing waits for that: a request begins with a guess and measures as it goes. */

/* As bytes, for a file of the host's, named by fr_info(FR_INFO_COSTS). Returns how many they are, and writes them if `room` suffices. 0
 * with fr_error(): the header of a model is not complete yet. */
size_t fr_save_costs(fr_engine *, void *bytes, size_t room);
/* Goes on with saved costs, but those of fr_save_costs() alone: FR_BAD_ARGUMENT, and the engine is as before, if they are damaged or of
 * another adapter, driver, version of this library, model or context, or if there is no model yet. A host then goes on without. `name` (may
 * be NULL) stands for the bytes in fr_error(). */
fr_status fr_load_costs(fr_engine *, const void *bytes, size_t size, const char *name);

/* Text to ids. `special`: special tokens written out in the text are recognised (else they are plain text).
 * The BOS token comes first where the model wants it, and only once. Any bytes are taken. Returns the number of ids; writes
 * at most `cap` of them. SIZE_MAX with fr_error(): out of memory, or no vocabulary yet. */
size_t fr_tokenize(fr_engine *, const char *text, size_t size, bool special, uint32_t *ids, size_t cap);
/* The bytes of one token, not necessarily whole code points; "" and 0 for special tokens and ids out of range. */
const char *fr_token_bytes(const fr_engine *, uint32_t id, size_t *size);

typedef struct fr_message {
    const char *role; /* "system", "user", "assistant" */
    const char *content;
} fr_message;
/* Messages to the ids of a prompt, ending where the assistant answers, by the model's chat template family. The
 * contents never become special tokens. Returns as fr_tokenize; SIZE_MAX with fr_error() also for no messages, a role that
 * is none of the three, content that is NULL (FR_BAD_ARGUMENT), and a model without a template that is known
 * (FR_BAD_MODEL). The engine stays as it is. */
size_t fr_chat(fr_engine *, const fr_message *messages, size_t n, uint32_t *ids, size_t cap);

/* Numbers about the model, the device and the last request. Times are milliseconds. */
typedef enum fr_stat_id {
    FR_STAT_LOAD_MS, /* first fr_feed() to FR_STATE_READY */
    FR_STAT_COMPILE_MS, /* first pipeline asked for to last one ready */
    FR_STAT_PREFILL_MS, /* as FR_STAT_FIRST_TOKEN_MS: the last step of the prompt chooses the first token */
    FR_STAT_FIRST_TOKEN_MS, /* fr_generate() to the first token on the host */
    FR_STAT_DECODE_MS, /* first token to last token on the host */
    FR_STAT_MS_PER_TOKEN, /* decode_ms over the tokens after the first */
    FR_STAT_PROMPT_TOKENS,
    FR_STAT_CACHED_TOKENS, /* of the prompt, already in the KV cache */
    FR_STAT_COMPLETION_TOKENS,
    FR_STAT_STEPS, /* steps that chose a token, end token included: the prompt's last one and all decode steps */
    FR_STAT_WINDOW, /* W of the last request; `adaptive`: of its last window */
    FR_STAT_DISPATCHES_PER_STEP,
    FR_STAT_BYTES_PER_STEP, /* weights and KV read by a decode step at its last position */
    FR_STAT_SUBMITS,
    FR_STAT_CONTEXT, /* tokens the KV cache holds */
    FR_STAT_VOCABULARY,
    FR_STAT_LAYERS,
    FR_STAT_PARAMETERS, /* weights in matrices and vectors */
    FR_STAT_DEVICE_BYTES, /* GPU memory the engine holds */
    FR_STAT_PIPELINES,
    FR_STAT_WIDTH, /* N of the last request: nodes of a `tree`, of the last window of `adaptive`, else 1 */
    FR_STAT_DRAFTED, /* drafts that the last request verified */
    FR_STAT_ACCEPTED, /* of these, drafts that the model chose itself */
    FR_STAT_MEMORY_TOKENS, /* in session memory, of all conversations */
    FR_STAT_MEMORY_SEARCHED, /* of session memory, tokens that the last request could draft from; 0 in modes that don't draft */
    FR_STAT_TREE_STEPS, /* of the steps, those over a tree; the others are plain: the prompt's last, and while kernels compile */
    FR_STAT_STEPS_1, /* of the steps, those over so many nodes */
    FR_STAT_STEPS_2,
    FR_STAT_STEPS_4,
    FR_STAT_STEPS_8,
    FR_STAT_STEPS_16,
    FR_STAT_STEPS_32,
    FR_STAT_COST_1, /* `adaptive`: ms of a step over so many nodes, as it is taken to be now; 0 before a window was timed */
    FR_STAT_COST_2,
    FR_STAT_COST_4,
    FR_STAT_COST_8,
    FR_STAT_COST_16,
    FR_STAT_COST_32,
    FR_STAT_PROBES, /* `adaptive`: windows of the last request that tried a width */
    FR_STAT_PROBE_MS, /* ms that these were expected to lose */
    FR_STAT_WHOLE_STEPS, /* of the steps, those that had all layers in one dispatch */
    FR_STAT_LOST_STEPS /* steps of this kind, of all requests, that had to be made again with fewer workgroups */
} fr_stat_id;
double fr_stat(const fr_engine *, fr_stat_id);

/* Facts as text; "" if unknown. */
typedef enum fr_info_id {
    FR_INFO_ADAPTER,
    FR_INFO_NAME, /* general.name */
    FR_INFO_ARCHITECTURE, /* "llama", "qwen2" */
    FR_INFO_QUANTISATION, /* types of the matrices by share, "Q4_1, Q8_0" */
    FR_INFO_TEMPLATE, /* "chatml", "llama3" */
    FR_INFO_TOKENIZER, /* pre-tokenizer, "smollm" */
    FR_INFO_COSTS /* what fr_save_costs() is of, as 16 hexadecimal digits; "" before the header of a model is complete */
} fr_info_id;
const char *fr_info(const fr_engine *, fr_info_id);

#ifdef __cplusplus
}
#endif
#endif
