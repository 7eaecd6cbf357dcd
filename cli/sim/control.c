#include "cli/sim/control.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "cli/sim/device.h"

enum { ADAPTIVE = FR_COSTS_WIDTHS, WAYS /* a fixed width each, and adaptive */, MOST_CURVES = 16, SAMPLES = 9 };

typedef struct ways {
    const sim_curve *curve;
    fr_control control;
    sim_device devices[WAYS];
    sim_tally *tallies[2]; /* cut and whole outputs, [n_tasks][WAYS] */
    double *oracle[2];     /* [n_tasks] */
} ways;

typedef struct simulation {
    const sim_log *log;
    ways *list;
    uint32_t n;
    /* steps of widest trees, by match length */
    uint64_t steps[FR_DRAFT_ORDERS + 1], accepted[FR_DRAFT_ORDERS + 1][SIM_WIDTHS];
} simulation;

static void each_line(void *user, size_t index, const sim_trace *trace)
{
    simulation *s = user;
    const sim_line *line = &s->log->lines[index];
    for (uint32_t i = 1; i < line->loop; i++) {
        s->steps[trace->match[i]]++;
        for (uint32_t k = 0; k < SIM_WIDTHS; k++)
            s->accepted[trace->match[i]][k] += trace->accepted[k][i];
    }
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t whole = 0; whole < 2; whole++) {
            ways *w = &s->list[i];
            for (uint32_t k = 0; k < WAYS; k++) {
                /* two runs of the controller would learn twice: the second has whole outputs only */
                sim_device d = w->devices[k];
                fr_control before = w->control;
                sim_decode(&d, line, trace, whole, &w->tallies[whole][line->task * WAYS + k]);
                w->devices[k].random = d.random;
                if (k == ADAPTIVE && whole)
                    w->control = before;
            }
            w->oracle[whole][line->task] += sim_oracle(w->curve, line, trace, whole);
        }
}

static sim_tally sum_of(const simulation *s, const ways *w, uint32_t whole, uint32_t way)
{
    sim_tally sum = {0};
    for (size_t task = 0; task < s->log->n_tasks; task++) {
        const sim_tally *t = &w->tallies[whole][task * WAYS + way];
        sum.tokens += t->tokens;
        sum.windows += t->windows;
        sum.ms += t->ms;
        sum.probes += t->probes;
        sum.probe_ms += t->probe_ms;
        for (uint32_t k = 0; k < FR_COSTS_WIDTHS; k++)
            sum.steps[k] += t->steps[k];
    }
    return sum;
}

static uint64_t steps_of(const sim_tally *t)
{
    uint64_t n = 0;
    for (uint32_t k = 0; k < FR_COSTS_WIDTHS; k++)
        n += t->steps[k];
    return n;
}

typedef struct summary {
    sim_tally ways[WAYS];
    double best, oracle, behind; /* ms of the best fixed width, and of the oracle; how far behind plain decoding at most, as a share */
    const char *behind_task;
} summary;

static summary sum_up(const simulation *s, const ways *w, uint32_t whole)
{
    summary r = {.best = INFINITY, .behind = -INFINITY, .behind_task = ""};
    for (uint32_t k = 0; k < WAYS; k++) {
        r.ways[k] = sum_of(s, w, whole, k);
        r.best = k < ADAPTIVE ? fmin(r.best, r.ways[k].ms) : r.best;
    }
    for (size_t task = 0; task < s->log->n_tasks; task++) {
        const double behind = w->tallies[whole][task * WAYS + ADAPTIVE].ms / w->tallies[whole][task * WAYS].ms - 1;
        r.oracle += w->oracle[whole][task];
        if (behind > r.behind) {
            r.behind = behind;
            r.behind_task = s->log->tasks[task];
        }
    }
    return r;
}

static void print_way(fr_json *j, const char *name, const sim_tally *t)
{
    fr_json_open(j, name, '{');
    fr_json_number(j, "ms_per_token", t->ms / (double)t->tokens);
    fr_json_number(j, "tau", (double)t->tokens / (double)steps_of(t));
    fr_json_number(j, "window", (double)steps_of(t) / (double)t->windows);
    fr_json_count(j, "probes", t->probes);
    fr_json_number(j, "probe_ms", t->probe_ms);
    fr_json_open(j, "widths", '{');
    for (uint32_t k = 0; k < FR_COSTS_WIDTHS; k++) {
        char width[16];
        snprintf(width, sizeof width, "%u", 1u << k);
        fr_json_count(j, width, t->steps[k]);
    }
    fr_json_close(j, '}');
    fr_json_close(j, '}');
}

static void print_json(const simulation *s)
{
    fr_json j = {stdout, false};
    fr_json_open(&j, NULL, '{');
    fr_json_count(&j, "outputs", s->log->n);
    fr_json_open(&j, "devices", '[');
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t whole = 0; whole < 2; whole++) {
            const summary r = sum_up(s, &s->list[i], whole);
            fr_json_open(&j, NULL, '{');
            fr_json_text(&j, "device", s->list[i].curve->name);
            fr_json_bool(&j, "whole", whole);
            fr_json_count(&j, "tokens", r.ways[0].tokens);
            fr_json_number(&j, "oracle_ms_per_token", r.oracle / (double)r.ways[0].tokens);
            fr_json_number(&j, "against_best_fixed", r.ways[ADAPTIVE].ms / r.best - 1);
            fr_json_number(&j, "against_plain", r.ways[ADAPTIVE].ms / r.ways[0].ms - 1);
            fr_json_number(&j, "regret", r.ways[ADAPTIVE].ms / r.oracle - 1);
            fr_json_number(&j, "most_behind_plain", r.behind);
            fr_json_text(&j, "most_behind_plain_task", r.behind_task);
            for (uint32_t k = 0; k < WAYS; k++) {
                char name[16];
                snprintf(name, sizeof name, k == ADAPTIVE ? "adaptive" : k ? "tree %u" : "plain", 1u << k);
                print_way(&j, name, &r.ways[k]);
            }
            fr_json_close(&j, '}');
        }
    fr_json_close(&j, ']');
    fr_json_close(&j, '}');
    putchar('\n');
}

static void print_curve(const simulation *s, const ways *w, uint32_t whole)
{
    const summary r = sum_up(s, w, whole);
    const sim_tally *t = &r.ways[ADAPTIVE];
    const double tokens = (double)t->tokens, steps = (double)steps_of(t);
    printf("%-12s", w->curve->name);
    for (uint32_t k = 0; k < WAYS; k++)
        printf(" %8.3f", r.ways[k].ms / tokens);
    printf(" %8.3f %+7.1f %+7.1f %+7.1f %+7.1f %6.2f %5.2f %6.2f  ", r.oracle / tokens, 100 * (t->ms / r.best - 1),
           100 * (t->ms / r.ways[0].ms - 1), 100 * r.behind, 100 * (t->ms / r.oracle - 1), tokens / steps, steps / (double)t->windows,
           100 * t->probe_ms / t->ms);
    for (uint32_t k = 0; k < FR_COSTS_WIDTHS; k++)
        printf("%s%.0f", k ? "/" : "", 100 * (double)t->steps[k] / steps);
    putchar('\n');
}

static void print_all(const simulation *s)
{
    puts("drafts accepted, by match length (share of steps) and nodes");
    uint64_t all = 0;
    for (uint32_t m = 0; m <= FR_DRAFT_ORDERS; m++)
        all += s->steps[m];
    for (uint32_t m = 0; m <= FR_DRAFT_ORDERS; m++) {
        printf("  %u (%4.1f %%)", m, 100 * (double)s->steps[m] / (double)all);
        for (uint32_t k = 0; k < SIM_WIDTHS; k++)
            printf(" %6.3f", s->steps[m] ? (double)s->accepted[m][k] / (double)s->steps[m] : 0);
        putchar('\n');
    }
    for (uint32_t whole = 0; whole < 2; whole++) {
        printf("\n%s: ms a token; then percent that adaptive takes more than the best width, than plain steps, the same on the task where "
               "that is "
               "worst, than the oracle; tau, W, percent for probes, percent of the steps by width\n%-12s",
               whole ? "Whole outputs" : "Outputs cut where they start to loop", "device");
        for (uint32_t k = 0; k < ADAPTIVE; k++)
            printf(" %8u", 1u << k);
        puts(" adaptive   oracle    best   plain   worst  oracle    tau     W probes  1/2/4/8/16/32");
        for (uint32_t i = 0; i < s->n; i++)
            print_curve(s, &s->list[i], whole);
    }
}

static bool is_listed(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
        if (!strncmp(list, name, length) && (!list[length] || list[length] == ','))
            return true;
    return false;
}

static fr_status unknown_curve(const char *list, fr_error_text *err)
{
    char names[200] = "";
    for (const sim_curve *c = sim_curves; c->name; c++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", names[0] ? ", " : "", c->name);
    return fr_fail(err, FR_BAD_ARGUMENT, "--curves is a list of %s, not \"%.*s\"", names, (int)strcspn(list, ","), list);
}

static fr_status open(simulation *s, const sim_control_options *o, fr_error_text *err)
{
    if (o->curves && !*o->curves)
        return unknown_curve(o->curves, err);
    for (const char *list = o->curves; list && *list; list += strcspn(list, ","), list += *list == ',') {
        const sim_curve *c = sim_curves;
        while (c->name && !(strlen(c->name) == strcspn(list, ",") && is_listed(list, c->name)))
            c++;
        if (!c->name)
            return unknown_curve(list, err);
    }
    s->list = calloc(MOST_CURVES, sizeof *s->list);
    if (!s->list)
        return fr_fail(err, FR_FAILED, "out of memory");
    for (const sim_curve *c = sim_curves; c->name; c++) {
        if (o->curves && !is_listed(o->curves, c->name))
            continue;
        ways *w = &s->list[s->n++];
        w->curve = c;
        fr_control_open(&w->control, c->class);
        for (uint32_t k = 0; k < WAYS; k++)
            w->devices[k] = (sim_device){.curve = c, .noise = o->noise, .random = 88172645463325252u, .width = 1u << (k % ADAPTIVE)};
        w->devices[ADAPTIVE].control = &w->control;
        for (uint32_t whole = 0; whole < 2; whole++) {
            w->tallies[whole] = calloc(s->log->n_tasks * WAYS, sizeof *w->tallies[whole]);
            w->oracle[whole] = calloc(s->log->n_tasks, sizeof *w->oracle[whole]);
            if (!w->tallies[whole] || !w->oracle[whole])
                return fr_fail(err, FR_FAILED, "out of memory");
        }
    }
    return FR_OK;
}

fr_status sim_control(const sim_log *log, const size_t *order, const sim_control_options *o, fr_error_text *err)
{
    simulation s = {.log = log};
    size_t first = 0;
    while (first < log->n && log->lines[first].n_output < 2)
        first++;
    if (first == log->n)
        return fr_fail(err, FR_BAD_ARGUMENT, "no answer of the log has a second token, so there is nothing to choose; give longer ones");
    fr_status status = open(&s, o, err);
    sim_result *results = calloc(log->n_tasks, sizeof *results);
    if (status == FR_OK && !results)
        status = fr_fail(err, FR_FAILED, "out of memory");
    const sim_setup setup = {
        .drafter = &sim_fixed, .memory = o->memory, .widths = {2, 4, 8, 16, 32}, .n_widths = SIM_WIDTHS, .each = each_line, .user = &s};
    if (status == FR_OK)
        status = sim_replay(log, order, &setup, results, err);
    if (status == FR_OK && o->json)
        print_json(&s);
    else if (status == FR_OK)
        print_all(&s);
    for (uint32_t i = 0; i < s.n; i++)
        for (uint32_t whole = 0; whole < 2; whole++) {
            free(s.list[i].tallies[whole]);
            free(s.list[i].oracle[whole]);
        }
    free(s.list);
    free(results);
    return status;
}
