/* session.h: the engine's insides. session.c is the state machine of a request (read it first), session_memory.c what is
 * remembered of requests, engine.c the rest of the API. */
#ifndef FR_SESSION_H
#define FR_SESSION_H

#include "load/loader.h"
#include "model/forward.h"
#include "spec/control.h"
#include "spec/memory.h"
#include "text/chat.h"
#include "text/detokenizer.h"

enum {
    FR_WINDOWS = 2,      /* in flight at most */
    FR_MAX_WINDOW = 16,  /* steps */
    FR_MAX_STOPS = 16
};

/* One submission under way. */
typedef struct fr_window {
    fr_buffer *readback; /* of Control and ring, or of the scores of one step */
    uint32_t first;      /* scoring: index of the step's first token */
    uint32_t nodes;
    uint32_t steps;      /* decode steps */
    uint32_t width;      /* nodes of each */
    uint32_t most;       /* positions that they process at most */
    uint32_t groups;     /* workgroups of steps whose layers are one dispatch; 0: they are many */
    bool trial;          /* timed to find out which of the two is faster */
    bool follows;        /* on another one that was in flight: the device did not wait for it */
    /* under a frame budget: */
    bool prefill;        /* a step of the prompt */
    uint32_t dispatches;
    double begun_ms, step_ms; /* submitted; of a step in pieces, its first one was */
} fr_window;

/* A step that is submitted in pieces, under a frame budget. */
typedef struct fr_pieces {
    uint32_t nodes, positions, at, total; /* at: dispatches submitted, of all; total 0: no such step is under way */
    fr_tail tail;
    fr_window window; /* what the last piece brings */
} fr_pieces;

/* What submissions took under a frame budget, by kind of step: the prompt's, then by width. */
enum { FR_PACES = 1 + FR_COSTS_WIDTHS };
typedef struct fr_pace {
    double trip_ms;           /* of a submission, besides its dispatches: the least seen; 0: none seen yet */
    double allowed[FR_PACES]; /* dispatches in a submission */
} fr_pace;

/* Whether all layers of a step are one dispatch: session_whole.c. */
enum { FR_TRIALS = 5 };
typedef struct fr_trial {
    double ms[2][FR_TRIALS]; /* a step, of windows timed without and with */
    uint32_t n[2], skipped;
    bool rejected;           /* it is not faster */
} fr_trial;
typedef struct fr_whole_state {
    uint32_t groups;         /* workgroups at most; 0: never, or not any more */
    uint32_t losses;         /* steps that were lost and made again */
    fr_trial trials[FR_COSTS_WIDTHS];
} fr_whole_state;

typedef enum fr_task { FR_TASK_NONE, FR_TASK_GENERATE, FR_TASK_SCORE } fr_task;

/* What the host knows of the request in flight. Positions count tokens of the sequence. */
typedef struct fr_run {
    fr_task task;
    fr_mode mode;
    uint32_t window;        /* W; adaptive: of the last window, if `chosen` */
    bool chosen;            /* W is left to the controller */
    uint32_t width;         /* nodes of a step; adaptive: of the last window's */
    uint32_t widest;        /* adaptive: nodes of the widest tree that may be taken */
    uint32_t prompt;        /* tokens of the prompt */
    uint32_t cached;        /* of these, in the cache from before */
    uint32_t limit;         /* tokens, prompt included, at which the request is complete */
    uint32_t submitted;     /* positions that will be processed once everything submitted has run, at least */
    uint32_t known;         /* positions processed, as of the last read-back, and the prompt */
    uint32_t steps_ahead;   /* decode steps submitted and not read yet */
    uint32_t most_ahead;    /* positions that these process at most */
    uint32_t emitted;       /* tokens read from the ring */
    uint32_t shown;         /* of these, up to the one that completed a stop string, or an abort */
    uint32_t epoch;
    uint32_t steps;
    uint32_t drafted, accepted; /* drafts verified, and those that the model chose */
    uint32_t trees;             /* of the steps, those over a tree */
    uint32_t by_width[FR_COSTS_WIDTHS]; /* steps, by nodes */
    struct {
        uint32_t width, window, steps;
    } timed; /* windows alike that were read since the clock moved: their nodes and steps, and all their steps */
    double budget_ms;
    fr_pieces pieces;
    fr_scope scope;
    uint64_t conversation;  /* never 0 */
    uint32_t searched;      /* tokens of session memory that were there to draft from */
    bool stopping;          /* nothing more is submitted */
    bool lost;              /* nor until what is in flight has been read: a step was lost */
    uint32_t workgroups;    /* as in the request */
    uint32_t whole;         /* of the steps, those whose layers were one dispatch */
    fr_finish finish;
    fr_detokenizer *text;
    uint32_t *top;          /* scoring: the caller's */
    float *margin;
    double start_ms, first_ms, last_ms, read_ms; /* read_ms: of the last window */
    uint64_t submits0;
} fr_run;

/* Session memory, and what of it lies on the device. */
typedef struct fr_recall {
    fr_memory memory;
    bool current;           /* the device has what follows, and nothing has changed since */
    uint64_t only;          /* conversation that was uploaded, or FR_MEMORY_EVERY */
    uint32_t words, tokens; /* that were: with breaks, and without */
    uint32_t written;       /* words of the device's copy that are not zero */
    uint32_t *copy;         /* [words] what the device has, for the controller; NULL: not there */
    uint64_t fingerprint;   /* of the vocabulary; 0: not computed yet */
} fr_recall;

struct fr_engine {
    fr_device device;
    fr_options options;
    char adapter[256], name[128];
    fr_state state;
    fr_error_text error;      /* what fr_error() says */
    fr_error_text load_error; /* of the load */
    bool ended;             /* fr_feed_end() was called */
    double load_start_ms, load_ms, compile_start_ms, compile_ms;
    fr_gpu *gpu;
    fr_loader *loader;
    fr_forward *forward;
    const fr_config *config;
    fr_tokenizer *tokenizer;
    fr_chat_template chat;
    uint32_t context;
    fr_window windows[FR_WINDOWS];
    uint32_t oldest, in_flight;
    fr_run run;
    uint32_t *history;      /* [context + 1] ids of the sequence on the GPU */
    uint32_t history_end;   /* ids known to the host */
    uint32_t cache_end;     /* of these, keys and values in the cache */
    uint32_t dispatches;    /* of the last decode step */
    fr_recall recall;
    uint32_t prepare_width; /* nodes of the tree whose kernels fr_prepare() asked for; 0: none */
    fr_control control;     /* of mode adaptive */
    fr_step_costs other_costs;   /* those without a budget while a request has one, and the other way round */
    bool paced;             /* control.costs are those with a budget */
    fr_pace pace;
    fr_whole_state whole;
    uint32_t ready_widths;  /* bit k: the kernels of 1 << k nodes are there */
    uint64_t driver;        /* hash of fr_device.driver */
    uint64_t costs_key;     /* hash of what costs depend on */
    char costs_name[17];    /* the same as text; "" before the header of a model is complete */
};

double fr_now(const fr_engine *);
/* Moves the engine to FR_STATE_FAILED; e->error says why. */
void fr_engine_fail(fr_engine *);
/* A call that can't be done: replaces the message and leaves the engine as it is. Returns the status, or that of a failed engine. */
fr_status fr_engine_refuse(fr_engine *, fr_status, const char *what);
/* False, and the call is refused: no file's header has been complete yet. */
bool fr_engine_has_vocabulary(fr_engine *);

/* Buffers of the session, once the model's are there. */
fr_status fr_session_init(fr_engine *, fr_error_text *);
/* Moves the request in flight. */
void fr_session_poll(fr_engine *);
void fr_session_free(fr_engine *);

/* Mode adaptive: session_control.c. */
void fr_adapt_open(fr_engine *);
/* The header of a model is complete. */
void fr_adapt_plan(fr_engine *);
void fr_adapt_begin(fr_engine *);
/* Width and steps of the next window; starts compiling what is wanted. False: the engine failed. */
bool fr_adapt_next(fr_engine *, uint32_t *width, uint32_t *window);
/* A window was read: `stats` and `before` are of the read-back and of Control.steps before it, `done` the steps that worked; `ended`: the
 * last of them ended the request. */
void fr_adapt_read(fr_engine *, const fr_window *, const uint32_t *stats, uint32_t before, uint32_t done, bool ended, double now);
/* The costs of steps without a budget. */
fr_step_costs *fr_adapt_lasting(fr_engine *);
/* What the mode would begin with: nodes. */
uint32_t fr_adapt_opening(const fr_engine *, uint32_t widest);

/* Frame budgets: session_pace.c. Dispatches that a submission may have, of steps of a kind. */
uint32_t fr_pace_allowed(fr_engine *, uint32_t kind);
/* A submission was read. */
void fr_pace_read(fr_engine *, uint32_t kind, uint32_t dispatches, double ms);

/* All layers of a step in one dispatch: session_whole.c. */
void fr_whole_open(fr_engine *);
/* Starts compiling for steps over so many nodes. */
void fr_whole_prepare(fr_engine *, uint32_t nodes);
/* Workgroups for the next window's steps, 0: not so; `trial`: the time of the window is needed to decide. */
uint32_t fr_whole_groups(fr_engine *, uint32_t nodes, uint32_t positions, bool *trial);
/* Whether windows of some of these widths (bit k: 1 << k nodes) are needed to decide; they have to have FR_COSTS_WINDOW steps. */
bool fr_whole_tries(const fr_engine *, uint32_t widths);
/* A window was read that the device had not waited for; `ms` since the one before. */
void fr_whole_read(fr_engine *, const fr_window *, double ms);
/* A step was lost, and nothing is in flight any more. */
void fr_whole_lost(fr_engine *);

/* Session memory: session_memory.c. */
#define FR_RECALL_DEFAULT FR_MEMORY_HASH /* conversation of requests that name none: the hash of an empty name */
fr_status fr_recall_open(fr_engine *, fr_error_text *);
void fr_recall_close(fr_engine *);
/* Brings what the request that begins may draft from to the device. Returns how many words that are, for Control.memory. */
uint32_t fr_recall_begin(fr_engine *);
/* Remembers the answer of the request that has ended. */
void fr_recall_end(fr_engine *);

#endif
