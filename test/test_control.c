/* The controller of mode adaptive: what it learns of costs, what it chooses on devices of known costs, and what it keeps between visits. */
#include "test/test.h"

#include <math.h>

#include "cli/sim/device.h"
#include "ref/ref_draft.h"
#include "spec/match.h"

static uint32_t next(uint32_t *seed)
{
    return (*seed = *seed * 1664525u + 1013904223u) >> 8;
}

static double chance(uint32_t *seed)
{
    return next(seed) / 16777216.0;
}

static bool near(double a, double b, double share)
{
    return fabs(a / b - 1) <= share;
}

static const sim_curve *curve(const char *name)
{
    const sim_curve *c = sim_curves;
    while (c->name && strcmp(c->name, name))
        c++;
    CHECK(c->name);
    return c;
}

/* ---- costs ---- */

enum { NODES_8 = 3 };

static void samples(fr_step_costs *c, uint32_t k, uint32_t steps, double ms, int n, uint32_t *seed)
{
    for (int i = 0; i < n; i++)
        fr_costs_sample(c, k, steps, ms * steps * (0.95 + 0.1 * chance(seed)));
}

/* Widths and windows in turn are told apart, also from far-off guesses. */
static void costs_are_learnt(void)
{
    fr_step_costs c;
    uint32_t seed = 1;
    fr_costs_open(&c, FR_ADAPTER_DISCRETE);
    CHECK(!fr_costs_timed(&c));
    static const double ms[FR_COSTS_WIDTHS] = {10, 14, 22, 41, 65, 130};
    for (int round = 0; round < 12; round++)
        for (uint32_t k = 0; k < FR_COSTS_WIDTHS; k++) {
            samples(&c, k, 4, ms[k], 1, &seed);
            samples(&c, k, 1, 1.3 * ms[k], 1, &seed);
        }
    CHECK(fr_costs_timed(&c));
    for (uint32_t k = 0; k < FR_COSTS_WIDTHS; k++)
        CHECK_MSG(near(fr_costs_step(&c, k, 4), ms[k], 0.05), "%u nodes: %g instead of %g", 1u << k, fr_costs_step(&c, k, 4), ms[k]);
    CHECK(near(exp(fr_costs_spread(&c, 0)), 1.3, 0.05) && fr_costs_spread(&c, 2) == 0);
    CHECK(fr_costs_doubt(&c, 3, 0) < 0.05);
}

/* A tab that sleeps, a machine that was suspended, a clock that is set, times that are none. */
static void outliers(void)
{
    static const double odd[] = {1e7, 1000, 1e-6, 0, -5, INFINITY, NAN};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        fr_step_costs c;
        uint32_t seed = 2;
        fr_costs_open(&c, FR_ADAPTER_DISCRETE);
        samples(&c, 0, 4, 2, 30, &seed);
        samples(&c, NODES_8, 4, 3, 30, &seed);
        for (int round = 0; round < 5; round++) {
            fr_costs_sample(&c, NODES_8, 4, odd[i]);
            fr_costs_sample(&c, NODES_8, 4, odd[i]); /* two in a row are no change yet */
            samples(&c, NODES_8, 4, 3, 5, &seed);
        }
        CHECK_MSG(near(fr_costs_step(&c, NODES_8, 4), 3, 0.1), "after %g: %g ms", odd[i], fr_costs_step(&c, NODES_8, 4));
        CHECK_MSG(near(fr_costs_step(&c, 0, 4), 2, 0.15), "after %g: %g ms a plain step", odd[i], fr_costs_step(&c, 0, 4));
    }
}

/* What stays changed is followed within 8 windows: everything three times as slow, then only trees of 8 nodes, then all as before. */
static void lasting_changes(void)
{
    fr_step_costs c;
    uint32_t seed = 3;
    fr_costs_open(&c, FR_ADAPTER_DISCRETE);
    samples(&c, 0, 4, 2, 20, &seed);
    samples(&c, NODES_8, 4, 3, 20, &seed);
    samples(&c, NODES_8, 4, 9, 8, &seed);
    CHECK_MSG(near(fr_costs_step(&c, NODES_8, 4), 9, 0.1), "%g ms", fr_costs_step(&c, NODES_8, 4));
    CHECK(fr_costs_doubt(&c, NODES_8, 0) > 0.2); /* it may be the device or this width: a plain step is worth a look */
    samples(&c, 0, 4, 6, 8, &seed);
    CHECK(near(fr_costs_step(&c, 0, 4), 6, 0.1) && near(fr_costs_step(&c, NODES_8, 4), 9, 0.1));
    samples(&c, NODES_8, 4, 27, 8, &seed);
    samples(&c, 0, 4, 6, 8, &seed);
    CHECK(near(fr_costs_step(&c, 0, 4), 6, 0.1) && near(fr_costs_step(&c, NODES_8, 4), 27, 0.1));
    samples(&c, 0, 4, 2, 8, &seed);
    CHECK_MSG(near(fr_costs_step(&c, 0, 4), 2, 0.1), "%g ms", fr_costs_step(&c, 0, 4));
    samples(&c, NODES_8, 4, 3, 8, &seed);
    CHECK_MSG(near(fr_costs_step(&c, NODES_8, 4), 3, 0.1), "%g ms", fr_costs_step(&c, NODES_8, 4));
}

/* Steps of a width that are done in another way, faster or not: what they take is known at once, the others' times stay. */
static void another_way(void)
{
    fr_step_costs c;
    uint32_t seed = 6;
    fr_costs_open(&c, FR_ADAPTER_DISCRETE);
    samples(&c, 0, 4, 2, 20, &seed);
    samples(&c, 0, 1, 2, 20, &seed);
    samples(&c, NODES_8, 4, 3, 20, &seed);
    fr_costs_changed(&c, 0, 1, 1u << NODES_8);
    CHECK(near(fr_costs_step(&c, 0, 4), 1, 0.01) && near(fr_costs_step(&c, NODES_8, 4), 3, 0.05));
    CHECK(fr_costs_spread(&c, 0) > 0.02 && c.windows[0] == 0); /* single steps may not keep up: they are looked at again */
    fr_costs_changed(&c, NODES_8, 1.5, 0);
    CHECK(near(fr_costs_step(&c, 0, 4), 1, 0.01) && near(fr_costs_step(&c, NODES_8, 4), 1.5, 0.01));
    samples(&c, 0, 4, 1, 8, &seed);
    samples(&c, 0, 1, 1.5, 8, &seed);
    CHECK(near(fr_costs_step(&c, 0, 4), 1, 0.05) && near(fr_costs_step(&c, 0, 1), 1.5, 0.1));
    fr_costs_changed(&c, 0, 0.5, 0); /* nobody says that the others stay as they are */
    CHECK(near(fr_costs_step(&c, NODES_8, 4), 0.75, 0.05));
    const fr_step_costs before = c;
    fr_costs_changed(&c, 0, 0, 0);
    fr_costs_changed(&c, 0, INFINITY, 0);
    CHECK(!memcmp(&c, &before, sizeof c));
    fr_costs_open(&c, FR_ADAPTER_DISCRETE); /* before anything was timed */
    const double ratio = fr_costs_step(&c, NODES_8, 4) / fr_costs_step(&c, 0, 4);
    fr_costs_changed(&c, 0, 3, 1u << NODES_8);
    CHECK(near(fr_costs_step(&c, 0, 4), 3, 0.01) && near(fr_costs_step(&c, NODES_8, 4), 3 * ratio, 0.01));
}

static void refuses(const uint8_t *bytes, size_t size, uint64_t key, const char *why)
{
    fr_step_costs c, before;
    fr_error_text err = {0};
    fr_costs_open(&c, FR_ADAPTER_CPU);
    before = c;
    CHECK_INT(fr_costs_load(&c, key, bytes, size, "file", &err), FR_BAD_ARGUMENT);
    CHECK_MSG(strstr(err.text, why) && !strncmp(err.text, "file: ", 6), "\"%s\", expected %s", err.text, why);
    CHECK(!memcmp(&c, &before, sizeof c));
}

static void costs_as_bytes(void)
{
    uint8_t bytes[FR_COSTS_BYTES], wrong[FR_COSTS_BYTES];
    fr_step_costs c, again;
    fr_error_text err = {0};
    uint32_t seed = 4;
    fr_costs_open(&c, FR_ADAPTER_DISCRETE);
    samples(&c, 0, 4, 2, 20, &seed);
    samples(&c, NODES_8, 1, 3, 20, &seed);
    fr_costs_save(&c, 77, bytes);
    CHECK_INT(fr_costs_load(&again, 77, bytes, sizeof bytes, NULL, &err), FR_OK);
    for (uint32_t k = 0; k < FR_COSTS_WIDTHS; k++)
        CHECK(fr_costs_step(&again, k, 4) == fr_costs_step(&c, k, 4) && again.samples[k] == c.samples[k]);
    refuses(bytes, sizeof bytes, 78, "another adapter");
    refuses(bytes, sizeof bytes - 1, 77, "damaged");
    refuses(bytes, 0, 77, "no costs");
    for (size_t i = 0; i < sizeof bytes; i++) {
        memcpy(wrong, bytes, sizeof bytes);
        wrong[i] ^= 0x10;
        refuses(wrong, sizeof wrong, 77, i < 8 ? "no costs" : "damaged");
    }
    for (int i = 0; i < 3; i++) { /* whole, but nothing that a device can have */
        again = c;
        again.mean[0] = i == 0 ? 1e9 : i == 1 ? NAN : again.mean[0];
        again.covariance[2][2] = i == 2 ? -1 : again.covariance[2][2];
        fr_costs_save(&again, 77, wrong);
        refuses(wrong, sizeof wrong, 77, "no times that a device can have");
    }
}

/* ---- texts of known yields ---- */

enum { LONG = 6000 };

typedef struct text {
    sim_line line;
    sim_trace trace;
    uint8_t bytes[6][LONG];
} text;

/* Of the drafts of 32 nodes, those that narrower trees have. */
static void put(text *t, uint32_t i, uint32_t match, uint32_t accepted, uint32_t *seed)
{
    t->trace.match[i] = (uint8_t)match;
    for (uint32_t w = 5; w-- > 0;) {
        t->trace.accepted[w][i] = (uint8_t)accepted;
        accepted = accepted > (1u << w) - (w > 0) || chance(seed) < 0.08 ? accepted - (accepted > 0) : accepted;
        accepted = accepted > (1u << w) - 1 ? (1u << w) - 1 : accepted;
    }
}

/* `copied`: share of the tokens that come in runs which stood before, where drafts are mostly right. */
static text *make_text(double copied, uint32_t length, uint32_t seed)
{
    text *t = calloc(1, sizeof *t);
    CHECK(t && length <= LONG);
    for (int w = 0; w < 5; w++)
        t->trace.accepted[w] = t->bytes[w];
    t->trace.match = t->bytes[5];
    t->line = (sim_line){.n_output = length, .loop = length};
    for (uint32_t i = 0; i < length;) {
        const bool copy = chance(&seed) < copied;
        const uint32_t run = 10 + next(&seed) % 40, end = i + run < length ? i + run : length;
        for (uint32_t begin = i; i < end; i++) {
            const uint32_t match = copy ? (i - begin < 8 ? 1 + i - begin : 8) : next(&seed) % 3;
            uint32_t accepted = 0;
            while (match && accepted < 8 && chance(&seed) < (copy ? 0.85 : 0.3))
                accepted++;
            put(t, i, match, accepted, &seed);
        }
    }
    return t;
}

static sim_tally decode(const sim_curve *c, fr_control *control, uint32_t width, const text *t)
{
    sim_device d = {.curve = c, .noise = 0.05, .random = 99, .control = control, .width = width};
    sim_tally tally = {0};
    sim_decode(&d, &t->line, &t->trace, true, &tally);
    return tally;
}

static double best_fixed(const sim_curve *c, const text *t)
{
    double best = INFINITY;
    for (uint32_t width = 1; width <= 32; width *= 2)
        best = fmin(best, decode(c, NULL, width, t).ms);
    return best;
}

/* On every device and text, from the first step of a first visit on. */
static void devices(void)
{
    static const double texts[] = {0, 0.1, 0.3, 0.6, 0.9};
    for (const sim_curve *c = sim_curves; c->name; c++) {
        printf("  %-13s", c->name);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            text *t = make_text(texts[i], LONG, (uint32_t)i + 5);
            fr_control control;
            fr_control_open(&control, c->class);
            const sim_tally adaptive = decode(c, &control, 0, t), plain = decode(c, NULL, 1, t);
            const double fixed = best_fixed(c, t), oracle = sim_oracle(c, &t->line, &t->trace, true);
            printf("  %+5.1f %+5.1f %+5.1f |", 100 * (adaptive.ms / fixed - 1), 100 * (adaptive.ms / plain.ms - 1),
                   100 * (adaptive.ms / oracle - 1));
            CHECK_MSG(adaptive.ms < 1.04 * fixed, "%s, %g copied: %g ms, the best fixed width %g", c->name, texts[i], adaptive.ms, fixed);
            CHECK_MSG(adaptive.ms < 1.02 * plain.ms, "%s, %g copied: %g ms, plain %g", c->name, texts[i], adaptive.ms, plain.ms);
            CHECK_MSG(control.probe_ms < 0.015 * adaptive.ms, "%s, %g copied: probes %g of %g ms", c->name, texts[i], control.probe_ms,
                      adaptive.ms);
            free(t);
        }
        puts("");
    }
    puts("  percent against the best fixed width, plain decoding, and the oracle, with 0, 10, 30, 60, 90 % of the text copied");
}

/* Matches that never come true: what it costs to find out again and again. */
static void false_promises(void)
{
    for (const sim_curve *c = sim_curves; c->name; c++) {
        text *t = make_text(0.5, LONG, 1);
        for (int w = 0; w < 5; w++)
            memset(t->bytes[w], 0, LONG);
        fr_control control;
        fr_control_open(&control, c->class);
        const sim_tally tally = decode(c, &control, 0, t);
        const double adaptive = tally.ms, plain = decode(c, NULL, 1, t).ms;
        printf("  %s: %+.2f %%; steps over 1 to 32 nodes", c->name, 100 * (adaptive / plain - 1));
        for (int k = 0; k < FR_COSTS_WIDTHS; k++)
            printf(" %u", (unsigned)tally.steps[k]);
        printf("; W %.2f; %u probes\n", (double)LONG / (double)tally.windows, control.probes);
        CHECK_MSG(adaptive < 1.04 * plain, "%s: %g ms, plain %g", c->name, adaptive, plain);
        free(t);
    }
}

/* ---- changes midway ---- */

/* Plain steps' worth of time that 300 tokens behind a change take more than with the best fixed width for them. */
static double lost(fr_control *control, const sim_curve *c, double copied, uint32_t seed)
{
    text *t = make_text(copied, 300, seed);
    const double more = (decode(c, control, 0, t).ms - best_fixed(c, t)) / c->ms[0];
    free(t);
    return more;
}

/* Text that begins to repeat what stood before, or ceases to; wide steps that become dear, or cheap, by ten times and by thirty. */
static void follows(void)
{
    static const double most_lost[] = {50, 50, 150, 150};
    for (const sim_curve *c = sim_curves; c->name; c++) {
        double more[4];
        text *odd = make_text(0, LONG / 4, 3), *mixed = make_text(0.3, LONG / 4, 6);
        fr_control control;
        fr_control_open(&control, c->class);
        decode(c, &control, 0, odd);
        more[0] = lost(&control, c, 1, 4);
        more[1] = lost(&control, c, 0, 5);
        decode(c, &control, 0, mixed);
        more[2] = lost(&control, curve("integrated2"), 0.3, 6);
        more[3] = lost(&control, curve("workstation"), 0.3, 7);
        printf("  %-13s", c->name);
        for (int i = 0; i < 4; i++)
            printf(" %6.1f", more[i]);
        puts("");
        for (int i = 0; i < 4; i++)
            CHECK_MSG(more[i] < most_lost[i], "%s, change %d: %g plain steps lost", c->name, i + 1, more[i]);
        free(odd);
        free(mixed);
    }
    puts("  plain steps lost in the 300 tokens behind a change: the text repeats itself; no longer; wide steps are dear; cheap");
}

/* Kernels that are not there are not chosen; on a CPU they are asked for once so much was missed as compiling them costs. */
static void waits_for_kernels(void)
{
    text *t = make_text(0.9, LONG, 8);
    for (int class = FR_ADAPTER_DISCRETE; class <= FR_ADAPTER_CPU; class ++) {
        fr_control c;
        fr_control_open(&c, (fr_adapter_class) class);
        const fr_control_limits limits = {.widths = 63, .ready = 1};
        uint32_t windows = 0, wanted = 1;
        for (; windows < 400 && wanted == 1; windows++) {
            const fr_control_choice w = fr_control_next(&c, &limits);
            CHECK_INT(w.width, 1);
            wanted = w.wanted;
            fr_control_plain(&c, w.window, 8);
            fr_control_time(&c, 1, w.window, 2.0 * w.window);
        }
        printf("  class %d: %u nodes are wanted after %u windows\n", class, wanted, windows);
        CHECK(wanted > 1 && (class == FR_ADAPTER_CPU ? windows > 10 : windows < 5));
    }
    free(t);
}

typedef struct recording {
    const sim_log *log;
    fr_control control;
    sim_device device;
    sim_tally adaptive, fixed[FR_COSTS_WIDTHS];
} recording;

static void each(void *user, size_t line, const sim_trace *trace)
{
    recording *r = user;
    sim_decode(&r->device, &r->log->lines[line], trace, true, &r->adaptive);
    for (uint32_t k = 0; k < FR_COSTS_WIDTHS; k++) {
        sim_device d = {.curve = r->device.curve, .noise = 0.05, .random = 5, .width = 1u << k};
        sim_decode(&d, &r->log->lines[line], trace, true, &r->fixed[k]);
    }
}

/* Three answers of the default model, each twice, so that the second time memory knows them: from the first step of a first visit on. */
static void recorded(void)
{
    char path[4096];
    size_t size;
    sim_log log;
    fr_error_text err = {0};
    snprintf(path, sizeof path, "%s/golden/control_log.jsonl", test_dir());
    char *bytes = test_read(path, &size);
    CHECK_MSG(sim_log_read(&log, bytes, size, path, &err) == FR_OK, "%s", err.text);
    free(bytes);
    const size_t order[] = {0, 1, 2, 0, 1, 2};
    for (const sim_curve *c = sim_curves; c->name; c++) {
        recording r = {.log = &log, .device = {.curve = c, .noise = 0.05, .random = 5}};
        r.device.control = &r.control;
        fr_control_open(&r.control, c->class);
        sim_result results[8] = {0};
        const sim_setup setup = {
            .drafter = &sim_fixed, .memory = SIM_ALL, .widths = {2, 4, 8, 16, 32}, .n_widths = 5, .each = each, .user = &r};
        sim_log twice = {.lines = calloc(2 * log.n, sizeof *log.lines), .n = 2 * log.n, .tasks = log.tasks, .n_tasks = log.n_tasks};
        CHECK(log.n == 3 && log.n_tasks <= 8 && twice.lines);
        for (size_t i = 0; i < twice.n; i++)
            twice.lines[i] = log.lines[order[i]];
        r.log = &twice;
        const size_t straight[] = {0, 1, 2, 3, 4, 5};
        CHECK_MSG(sim_replay(&twice, straight, &setup, results, &err) == FR_OK, "%s", err.text);
        free(twice.lines);
        double best = INFINITY;
        for (uint32_t k = 0; k < FR_COSTS_WIDTHS; k++)
            best = fmin(best, r.fixed[k].ms);
        printf("  %-13s %+6.1f %+6.1f\n", c->name, 100 * (r.adaptive.ms / best - 1), 100 * (r.adaptive.ms / r.fixed[0].ms - 1));
        /* 650 tokens are hardly more than a first look, which costs some plain steps */
        CHECK(r.adaptive.ms < 1.06 * best + 12 * c->ms[0] && r.adaptive.ms < 1.02 * r.fixed[0].ms + 12 * c->ms[0]);
    }
    sim_log_free(&log);
}

/* ---- what plain steps would have found ---- */

static void matches(void)
{
    enum { TEXT = 120, MEMORY = 90 };
    uint32_t seed = 11;
    for (int round = 0; round < 500; round++) {
        uint32_t tokens[TEXT], memory[MEMORY], keys[FR_DRAFT_CANDIDATES];
        const uint32_t n = 1 + next(&seed) % TEXT, m = next(&seed) % MEMORY, letters = 2 + next(&seed) % 6;
        for (uint32_t i = 0; i < n; i++)
            tokens[i] = i > 9 && next(&seed) % 4 ? tokens[i - 9] : next(&seed) % letters;
        for (uint32_t i = 0; i < m; i++)
            memory[i] = i + 1 == m || next(&seed) % 12 == 0 ? FR_DRAFT_BREAK : next(&seed) % letters;
        const fr_draft_corpus c = {.ring = memory, .capacity = m ? m : 1, .count = m, .tokens = tokens, .n = n};
        const uint32_t found = ref_draft_match(&c, keys);
        CHECK_INT(fr_match_longest(tokens, n, memory, m), found ? keys[0] >> FR_DRAFT_PLACE_BITS : 0);
    }
}

const fr_test control_tests[] = {
    {"control.costs_are_learnt", "times of widths and windows are told apart", costs_are_learnt},
    {"control.outliers", "sleeping tabs, suspended machines, clocks that are set: hardly any change", outliers},
    {"control.lasting_changes", "what stays changed is followed within 8 windows", lasting_changes},
    {"control.another_way", "steps that are done in another way from now on", another_way},
    {"control.costs_as_bytes", "kept costs; damaged, foreign and impossible ones are refused", costs_as_bytes},
    {"control.devices", "on nine devices and five texts: near the best fixed width, never behind plain decoding", devices},
    {"control.false_promises", "matches that never come true cost 4 % at most", false_promises},
    {"control.follows", "text or costs that change midway", follows},
    {"control.waits_for_kernels", "widths that are not compiled yet", waits_for_kernels},
    {"control.recorded", "recorded answers", recorded},
    {"control.matches", "the longest match of a text, as the drafter finds it", matches},
    {0},
};
