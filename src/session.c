/* session.c: the life of a request.
 *
 * 1. fr_generate() compares the prompt with what the cache holds, writes the new ids and the control block, and returns.
 * 2. fr_poll() submits. The prompt goes in steps of up to N tokens, one a submission; then windows of W decode steps, one command buffer
 * each. Two submissions are in flight (one in `greedy`): the next is submitted before the previous is read.
 * 3. Each submission ends with a copy of the control block and the ring, which is mapped when the GPU gets there. Reading it, the host
 * learns new tokens and whether the request is finished. The GPU never waits for the host to decide: steps behind the end of a reply do
 * nothing.
 *    Under a frame budget one submission is in flight, and a step that takes longer than the budget goes in pieces (session_pace.c).
 * 4. Once the request is finished, stopped or aborted and nothing is in flight any more, the engine is ready. What the cache holds stays,
 * and the answer goes into session memory.
 */
#include "session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    READBACK_BYTES = sizeof(fr_gpu_Control) + 4 * (FR_RING + 3 * FR_STATS),
    MOST_A_STEP = FR_DRAFT_DEPTH + 1 /* tokens that a step over a tree yields */
};

typedef struct readback {
    fr_gpu_Control control;
    uint32_t ring[FR_RING];
    uint32_t stats[3 * FR_STATS];
} readback;
_Static_assert(sizeof(readback) == READBACK_BYTES, "layout of the state buffer");

fr_status fr_session_init(fr_engine *e, fr_error_text *error)
{
    const uint64_t scores = (uint64_t)fr_forward_prefill_nodes(e->forward) * sizeof(fr_score_entry);
    for (int i = 0; i < FR_WINDOWS; i++)
        if (!(e->windows[i].readback = fr_gpu_buffer(e->gpu, "read-back", FR_BUFFER_READBACK,
                                                     scores > READBACK_BYTES ? scores : READBACK_BYTES, error)))
            return error->status;
    e->history = malloc(sizeof *e->history * ((size_t)e->context + 1));
    return e->history ? FR_OK : fr_fail(error, FR_FAILED, "out of memory");
}

void fr_session_free(fr_engine *e)
{
    fr_detokenizer_free(e->run.text);
    free(e->history);
}

/* ---- starting ---- */

static fr_status refuse(fr_engine *e, const char *what)
{
    return fr_engine_refuse(e, FR_BAD_ARGUMENT, what);
}

static fr_status check_ready(fr_engine *e)
{
    return e->state == FR_STATE_READY ? FR_OK : refuse(e, "the engine is busy: poll until it is ready");
}

/* `room`: tokens that may be given. */
static fr_status check(fr_engine *e, const uint32_t *ids, size_t n, uint32_t room)
{
    const fr_status status = check_ready(e);
    if (status != FR_OK)
        return status;
    if (!n)
        return refuse(e, "the prompt is empty: give at least one token");
    if (n > room) {
        e->error = (fr_error_text){0};
        return fr_fail(&e->error, FR_BAD_ARGUMENT,
                       "the prompt has %zu tokens, the context holds %u%s: shorten it or load with a larger context", n, e->context,
                       room < e->context ? ", answer included" : "");
    }
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= e->config->vocab) {
            e->error = (fr_error_text){0};
            return fr_fail(&e->error, FR_BAD_ARGUMENT, "token %zu of the prompt is %u, the vocabulary has %u", i, ids[i], e->config->vocab);
        }
    return FR_OK;
}

/* Writes the ids from `cached` on and the control block: the GPU's view of a new request. */
static void set_state(fr_engine *e, const uint32_t *ids, uint32_t n, uint32_t cached, uint32_t limit, bool ignore_eos)
{
    fr_gpu_Control c = {.pos = cached, .end = n, .limit = limit, .epoch = ++e->run.epoch, .memory = fr_recall_begin(e)};
    if (!ignore_eos)
        c.n_ends = (uint32_t)fr_tokenizer_ends(e->tokenizer, c.ends);
    memcpy(e->history + cached, ids + cached, sizeof *ids * (n - cached));
    e->history_end = n;
    e->cache_end = cached;
    fr_buffer *state = fr_forward_state(e->forward);
    fr_gpu_write(e->gpu, state, fr_forward_tokens_offset() + 4 * (uint64_t)cached, ids + cached, 4 * (size_t)(n - cached));
    fr_gpu_write(e->gpu, state, 0, &c, sizeof c);
}

static void start_run(fr_engine *e, fr_task task)
{
    const uint32_t epoch = e->run.epoch;
    fr_detokenizer_free(e->run.text);
    e->run = (fr_run){.task = task, .epoch = epoch, .start_ms = fr_now(e), .submits0 = fr_gpu_submits(e->gpu)};
    e->error = (fr_error_text){0};
    e->state = FR_STATE_PREFILLING;
}

/* Tokens of the prompt that the cache holds. The last one is always computed: its logits are needed. */
static uint32_t common_prefix(const fr_engine *e, const uint32_t *ids, uint32_t n)
{
    uint32_t i = 0;
    while (i < e->cache_end && i + 1 < n && e->history[i] == ids[i])
        i++;
    return i;
}

/* Nodes of a step, of the widest for adaptive; or the refusal. */
static fr_status check_mode(fr_engine *e, fr_mode mode, uint32_t asked, uint32_t *width)
{
    const uint32_t widest = fr_forward_tree_nodes(e->forward);
    *width = 1;
    if (mode == FR_MODE_GREEDY || mode == FR_MODE_LOOP)
        return FR_OK;
    if (mode != FR_MODE_TREE && mode != FR_MODE_ADAPTIVE)
        return refuse(e, "unknown mode: greedy, loop, tree and adaptive exist");
    *width = asked ? asked : widest < 8 || mode == FR_MODE_ADAPTIVE ? widest : 8;
    if (*width < 2 || *width > FR_DRAFT_WIDTH || (*width & (*width - 1)))
        return refuse(e, "a tree has 2, 4, 8, 16 or 32 nodes");
    if (*width > widest)
        return refuse(e,
                      "so wide a tree needs more memory than a context this long leaves: ask for fewer nodes, or load with less context");
    return FR_OK;
}

fr_status fr_prepare(fr_engine *e, fr_mode mode, uint32_t asked)
{
    uint32_t width;
    const fr_status status = check_ready(e);
    if (status != FR_OK)
        return status;
    if (check_mode(e, mode, asked, &width) != FR_OK)
        return FR_BAD_ARGUMENT;
    if (mode == FR_MODE_ADAPTIVE)
        width = fr_adapt_opening(e, width);
    e->prepare_width = width;
    e->state = FR_STATE_PREPARING;
    return FR_OK;
}

fr_status fr_generate(fr_engine *e, const uint32_t *ids, size_t n, const fr_request *request)
{
    const fr_request r = request ? *request : (fr_request){0};
    const fr_status status = check(e, ids, n, e->context - 1);
    if (status != FR_OK)
        return status;
    uint32_t width;
    if (check_mode(e, r.mode, r.width, &width) != FR_OK)
        return FR_BAD_ARGUMENT;
    if (r.window > FR_MAX_WINDOW)
        return refuse(e, "a window has 1 to 16 steps");
    if (!(r.budget_ms >= 0 && r.budget_ms <= 1000))
        return refuse(e, "a frame budget has 0 to 1000 milliseconds");
    if (r.n_stop > FR_MAX_STOPS)
        return refuse(e, "at most 16 stop strings are possible");
    if (r.scope != FR_SCOPE_ALL && r.scope != FR_SCOPE_CONVERSATION && r.scope != FR_SCOPE_NONE)
        return refuse(e, "unknown scope of session memory: all, conversation and none exist");
    start_run(e, FR_TASK_GENERATE);
    fr_run *run = &e->run;
    run->mode = r.mode;
    run->width = r.mode == FR_MODE_ADAPTIVE ? 1 : width;
    run->widest = width;
    run->chosen = r.mode == FR_MODE_ADAPTIVE && !r.window;
    run->scope = r.scope;
    run->conversation = r.conversation ? r.conversation : FR_RECALL_DEFAULT;
    run->window = r.mode == FR_MODE_GREEDY ? 1 : r.window ? r.window : e->device.is_cpu ? 1 : 4;
    run->budget_ms = r.budget_ms;
    run->workgroups = r.workgroups;
    run->prompt = run->known = (uint32_t)n;
    run->cached = run->submitted = common_prefix(e, ids, run->prompt);
    run->limit = r.max_tokens && r.max_tokens < e->context - run->prompt ? run->prompt + r.max_tokens : e->context;
    run->text = fr_detokenizer_new(e->tokenizer, r.stop, r.n_stop);
    if (!run->text) {
        fr_fail(&e->error, FR_FAILED, "out of memory");
        fr_engine_fail(e);
        return FR_FAILED;
    }
    set_state(e, ids, run->prompt, run->cached, run->limit, r.ignore_eos);
    if (r.mode == FR_MODE_ADAPTIVE)
        fr_adapt_begin(e);
    return FR_OK;
}

fr_status fr_score(fr_engine *e, const uint32_t *ids, size_t n, uint32_t *top, float *margin)
{
    const fr_status status = check(e, ids, n, e->context);
    if (status != FR_OK)
        return status;
    start_run(e, FR_TASK_SCORE);
    e->run.prompt = e->run.limit = (uint32_t)n;
    e->run.top = top;
    e->run.margin = margin;
    set_state(e, ids, (uint32_t)n, 0, UINT32_MAX, true);
    return FR_OK;
}

void fr_abort(fr_engine *e)
{
    if (e->state != FR_STATE_PREFILLING && e->state != FR_STATE_DECODING)
        return;
    e->run.stopping = true;
    if (e->run.finish == FR_FINISH_NONE)
        e->run.finish = FR_FINISH_ABORT;
}

void fr_reset(fr_engine *e)
{
    if (e->state == FR_STATE_READY)
        e->cache_end = 0;
}

/* ---- submitting ---- */

static fr_window *free_window(fr_engine *e)
{
    const bool one = e->run.task == FR_TASK_GENERATE && (e->run.mode == FR_MODE_GREEDY || e->run.budget_ms > 0);
    const uint32_t depth = one ? 1 : FR_WINDOWS;
    return e->in_flight < depth ? &e->windows[(e->oldest + e->in_flight) % FR_WINDOWS] : NULL;
}

static void submitted(fr_engine *e, fr_window *w)
{
    w->follows = e->in_flight > 0;
    w->begun_ms = w->step_ms = fr_now(e);
    fr_gpu_submit(e->gpu);
    fr_gpu_map(e->gpu, w->readback);
    e->in_flight++;
}

/* False: the step's pipelines are still compiling, or can't be made, which ends the engine. */
static bool prepared(fr_engine *e, uint32_t nodes, fr_tail tail)
{
    fr_error_text error = {0};
    bool ready;
    if (fr_forward_prepare(e->forward, nodes, tail, &ready, &error) == FR_OK)
        return ready;
    e->error = error;
    fr_engine_fail(e);
    return false;
}

/* The state goes to the host behind a submission. */
static void submit_state(fr_engine *e, fr_window *w)
{
    fr_gpu_copy(e->gpu, fr_forward_state(e->forward), 0, w->readback, 0, READBACK_BYTES);
    submitted(e, w);
}

/* Steps alike, for what a frame budget allows: those of the prompt, and each width. */
static uint32_t kind_of(const fr_window *w)
{
    return w->prefill ? 0 : 1 + fr_costs_index(w->width);
}

/* As much of the step under way as the budget allows. The host hears of each piece, but the last one alone brings something. */
static bool submit_piece(fr_engine *e, fr_window *w)
{
    fr_pieces *p = &e->run.pieces;
    const uint32_t allowed = fr_pace_allowed(e, kind_of(&p->window)), left = p->total - p->at;
    uint32_t end = left <= allowed ? p->total : p->at + allowed;
    while (end < p->total && !strcmp(fr_forward_trace(e->forward, p->nodes, p->tail, end, p->positions).kernel, "compact"))
        end++; /* what a step accepted, and its move to its place, are read together */
    const bool first = p->at == 0;
    fr_buffer *readback = w->readback;
    *w = p->window;
    w->readback = readback;
    w->dispatches = end - p->at;
    if (end < p->total)
        w->steps = w->most = 0;
    fr_gpu_begin(e->gpu);
    for (; p->at < end; p->at++)
        fr_forward_trace_record(e->forward, p->nodes, p->tail, p->at, p->positions);
    submit_state(e, w);
    if (first)
        p->window.step_ms = w->step_ms;
    w->step_ms = p->window.step_ms;
    if (end == p->total)
        *p = (fr_pieces){0};
    return true;
}

/* Whether the budget is too small for a whole step; then its first piece is submitted. */
static bool cut(fr_engine *e, fr_window *w, uint32_t nodes, fr_tail tail, uint32_t positions)
{
    const uint32_t total = fr_forward_trace_count(e->forward, nodes, tail);
    if (e->run.budget_ms == 0 || fr_pace_allowed(e, kind_of(w)) >= total)
        return false;
    e->run.pieces = (fr_pieces){.nodes = nodes, .tail = tail, .positions = positions, .total = total, .window = *w};
    return submit_piece(e, w);
}

/* One step of the prompt. */
static bool submit_prefill(fr_engine *e, fr_window *w)
{
    fr_run *run = &e->run;
    const bool scoring = run->task == FR_TASK_SCORE;
    const uint32_t left = run->prompt - run->submitted, widest = fr_forward_prefill_nodes(e->forward);
    const uint32_t nodes = left == 1 && !scoring ? 1 : widest, take = left < nodes ? left : nodes;
    const fr_tail tail = scoring ? FR_TAIL_SCORE : take == left ? FR_TAIL_EMIT : FR_TAIL_NONE;
    if (!prepared(e, nodes, tail))
        return false;
    w->first = run->submitted;
    w->nodes = take;
    w->steps = w->most = 0;
    w->width = 1;
    w->prefill = true;
    w->groups = 0;
    fr_forward_set_groups(e->forward, 0);
    run->submitted += take;
    if (!scoring && cut(e, w, nodes, tail, run->submitted))
        return true;
    fr_gpu_begin(e->gpu);
    w->dispatches = fr_forward_step(e->forward, nodes, tail, run->submitted);
    if (scoring) {
        fr_forward_copy_scores(e->forward, w->readback, take);
        submitted(e, w);
    } else {
        submit_state(e, w);
    }
    return true;
}

/* The nodes of the window's steps. False: kernels are missing, or the engine has failed. */
static bool choose_width(fr_engine *e, fr_window *w)
{
    fr_run *run = &e->run;
    if (run->mode == FR_MODE_ADAPTIVE) {
        if (!fr_adapt_next(e, &run->width, &run->window))
            return false;
        w->width = run->width;
    } else {
        /* compiling begins behind the first token, which it would delay; meanwhile plain steps go on: they give the same tokens */
        const bool may = run->width > 1 && (run->emitted || fr_forward_begun(e->forward, run->width, FR_TAIL_TREE));
        w->width = may && prepared(e, run->width, FR_TAIL_TREE) ? run->width : 1;
    }
    return e->state != FR_STATE_FAILED && (w->width > 1 || prepared(e, 1, FR_TAIL_EMIT));
}

/* Up to W steps. A step over a tree processes 1 to 9 positions, and the host learns how many when it reads the window: `submitted` counts
 * what is certain. */
static bool submit_window(fr_engine *e, fr_window *w)
{
    fr_run *run = &e->run;
    if (!choose_width(e, w))
        return false;
    const bool tree = w->width > 1;
    const uint32_t most = tree ? MOST_A_STEP : 1, left = run->limit - run->submitted - 1;
    const fr_tail tail = tree ? FR_TAIL_TREE : FR_TAIL_EMIT;
    w->prefill = false;
    const uint32_t furthest = run->known + run->most_ahead + FR_MAX_WINDOW * most;
    w->groups = fr_whole_groups(e, w->width, furthest < e->context ? furthest : e->context, &w->trial);
    fr_forward_set_groups(e->forward, w->groups);
    e->dispatches = fr_forward_trace_count(e->forward, w->width, tail);
    const uint32_t fit = run->budget_ms > 0 ? fr_pace_allowed(e, kind_of(w)) / e->dispatches : left;
    uint32_t steps = run->window < left ? run->window : left;
    steps = steps < fit ? steps : fit ? fit : 1;
    w->steps = steps;
    w->most = steps * most;
    if (!cut(e, w, w->width, tail, run->known + run->most_ahead + most)) {
        fr_gpu_begin(e->gpu);
        for (uint32_t i = 1; i <= steps; i++)
            e->dispatches = fr_forward_step(e->forward, w->width, tail, run->known + run->most_ahead + i * most);
        w->dispatches = steps * e->dispatches;
        submit_state(e, w);
    }
    run->submitted += steps;
    run->steps_ahead += steps;
    run->most_ahead += steps * most;
    return true;
}

static bool submit_next(fr_engine *e)
{
    fr_run *run = &e->run;
    fr_window *w = free_window(e);
    if (!w)
        return false;
    if (run->pieces.total) /* a step that was begun is finished, whatever happens: it moves what the next request builds on */
        return submit_piece(e, w);
    if (run->lost && !e->in_flight) {
        fr_whole_lost(e);
        run->lost = false;
        run->submitted = run->known;
    }
    if (run->stopping || run->lost)
        return false;
    if (run->submitted < run->prompt)
        return submit_prefill(e, w);
    /* the step that processes position limit - 2 emits the last token */
    if (run->task == FR_TASK_GENERATE && run->submitted + 1 < run->limit)
        return submit_window(e, w);
    return false;
}

/* ---- reading ---- */

static void finish(fr_run *run, fr_finish reason)
{
    if (run->finish == FR_FINISH_NONE)
        run->finish = reason;
    run->stopping = true;
}

static const char no_text_memory[] = "out of memory for the text of the answer";

static void finish_with_error(fr_engine *e, const char *what)
{
    e->error = (fr_error_text){0};
    fr_fail(&e->error, FR_FAILED, "%s", what);
    finish(&e->run, FR_FINISH_ERROR);
}

/* Keys and values may hold what is no number, so nothing in the cache is of use any more. */
static void finish_not_finite(fr_engine *e, uint32_t position)
{
    e->cache_end = 0;
    if (e->run.finish != FR_FINISH_NONE)
        return; /* the answer was complete before */
    e->error = (fr_error_text){0};
    fr_fail(&e->error, FR_FAILED,
            "the model gave no finite logits at position %u on adapter \"%s\": try another adapter, or check the model file", position,
            e->adapter);
    finish(&e->run, FR_FINISH_ERROR);
}

static void take_token(fr_engine *e, uint32_t id)
{
    fr_run *run = &e->run;
    if (e->history_end <= e->context)
        e->history[e->history_end++] = id;
    run->emitted++;
    if (run->finish != FR_FINISH_NONE)
        return; /* behind a stop string, or after an abort */
    run->shown++;
    if (fr_detokenizer_push(run->text, id))
        return;
    if (fr_detokenizer_failed(run->text))
        finish_with_error(e, no_text_memory);
    else
        finish(run, FR_FINISH_STOP);
}

static void read_control(fr_engine *e, fr_window *w)
{
    fr_run *run = &e->run;
    readback r;
    if (!fr_gpu_take(e->gpu, w->readback, &r, sizeof r) || r.control.epoch != run->epoch)
        return;
    const double now = fr_now(e);
    const uint32_t before = run->steps, done = r.control.steps - before;
    if (r.control.emitted > run->emitted) {
        if (!run->emitted)
            run->first_ms = now;
        run->last_ms = now;
        e->state = FR_STATE_DECODING;
    }
    while (run->emitted < r.control.emitted)
        take_token(e, r.ring[run->emitted % FR_RING]);
    e->cache_end = r.control.pos;
    run->steps = r.control.steps;
    run->drafted = r.control.drafted;
    run->accepted = r.control.accepted;
    run->trees = r.control.trees;
    run->by_width[fr_costs_index(w->width)] += done;
    run->whole += w->groups ? done : 0;
    run->steps_ahead -= w->steps;
    run->most_ahead -= w->most;
    if (r.control.pos >= run->prompt) { /* the prompt's steps are counted when they are submitted */
        run->known = r.control.pos;
        if (run->submitted < run->known + run->steps_ahead)
            run->submitted = run->known + run->steps_ahead;
    }
    if (run->budget_ms > 0)
        fr_pace_read(e, kind_of(w), w->dispatches, now - w->begun_ms);
    if (run->mode == FR_MODE_ADAPTIVE && w->steps)
        fr_adapt_read(e, w, r.stats, before, done, r.control.finished != FR_RUN_ON, now);
    if (w->follows && done && done == w->steps && r.control.finished == FR_RUN_ON)
        fr_whole_read(e, w, now - run->read_ms);
    run->read_ms = now;
    run->lost |= r.control.finished == FR_RUN_LOST;
    if (r.control.finished == FR_RUN_END)
        finish(run, FR_FINISH_STOP);
    else if (r.control.finished == FR_RUN_LIMIT)
        finish(run, FR_FINISH_LENGTH);
    else if (r.control.finished == FR_RUN_NOT_FINITE)
        finish_not_finite(e, r.control.pos - 1);
    if (run->finish != FR_FINISH_NONE)
        fr_detokenizer_end(run->text);
}

static void read_scores(fr_engine *e, fr_window *w)
{
    const size_t size = sizeof(fr_score_entry) * w->nodes;
    fr_score_entry *scores = malloc(size);
    if (!scores || !fr_gpu_take(e->gpu, w->readback, scores, size)) {
        free(scores);
        e->error = (fr_error_text){0};
        fr_fail(&e->error, FR_FAILED, "the scores could not be read back: out of memory, or the GPU failed");
        fr_engine_fail(e);
        return;
    }
    if (e->run.finish == FR_FINISH_ERROR) { /* behind the position that failed */
        free(scores);
        return;
    }
    uint32_t i = 0;
    for (; i < w->nodes && fabsf(scores[i].value) < 3e38f; i++) { /* else no logit is finite (advance.wgsl) */
        e->run.top[w->first + i] = (uint32_t)scores[i].id;
        if (e->run.margin)
            e->run.margin[w->first + i] = scores[i].margin;
    }
    free(scores);
    e->cache_end = w->first + i;
    if (i < w->nodes)
        finish_not_finite(e, w->first + i);
    else if (e->cache_end == e->run.prompt)
        finish(&e->run, FR_FINISH_LENGTH);
}

static bool read_oldest(fr_engine *e)
{
    fr_window *w = &e->windows[e->oldest];
    if (!e->in_flight || !fr_gpu_mapped(w->readback))
        return false;
    if (e->run.task == FR_TASK_SCORE)
        read_scores(e, w);
    else
        read_control(e, w);
    e->in_flight--;
    e->oldest = (e->oldest + 1) % FR_WINDOWS;
    return true;
}

void fr_session_poll(fr_engine *e)
{
    while (e->state != FR_STATE_FAILED && (submit_next(e) || read_oldest(e)))
        if (fr_gpu_error(e->gpu)->status != FR_OK)
            return;
    if (e->run.stopping && !e->in_flight && !e->run.pieces.total && e->state != FR_STATE_FAILED) {
        if (e->run.text)
            fr_detokenizer_end(e->run.text);
        if (e->run.text && fr_detokenizer_failed(e->run.text) && e->run.finish != FR_FINISH_ERROR) {
            e->run.finish = FR_FINISH_NONE;
            finish_with_error(e, no_text_memory);
        }
        fr_recall_end(e);
        e->state = FR_STATE_READY;
    }
}
