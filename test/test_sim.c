/* forerun sim: what a log must be, where outputs loop, and tokens per step of each drafter on logs small enough to work out by hand. */
#include "test/test.h"

#include "cli/sim/replay.h"

static fr_status read(sim_log *log, const char *text, fr_error_text *err)
{
    return sim_log_read(log, text, strlen(text), "log", err);
}

static sim_log read_good(const char *text)
{
    sim_log log;
    fr_error_text err = {0};
    CHECK_MSG(read(&log, text, &err) == FR_OK, "%s", err.text);
    return log;
}

/* ---- logs ---- */

static void log_lines(void)
{
    sim_log log = read_good(
        "{\"prompt_ids\":[1,2],\"tokens\":[3,4,5],\"task\":\"a\",\"finish_reason\":\"stop\"}\r\n"
        "\n"
        "  { \"usage\" : {\"n\":-1.5e3, \"x\":[null,true,{\"y\":\"}\\\"\"}]} , \"tokens\":[], \"prompt_ids\" : [ 7 ], \"task\":\"b\"}\n"
        "{\"task\":\"a\",\"tokens\":[1048575],\"prompt_ids\":[0],\"finish_reason\":\"length\"}");
    CHECK_INT(log.n, 3);
    CHECK_INT(log.n_tasks, 2);
    CHECK_STR(log.tasks[0], "a");
    CHECK_STR(log.tasks[1], "b");
    CHECK(log.lines[0].n_prompt == 2 && log.lines[0].n_output == 3 && log.lines[0].stopped && log.lines[0].output[2] == 5);
    CHECK(log.lines[1].n_prompt == 1 && log.lines[1].n_output == 0 && !log.lines[1].stopped && log.lines[1].task == 1);
    CHECK(log.lines[2].output[0] == 1048575 && !log.lines[2].stopped && log.lines[2].task == 0 && log.lines[2].loop == 1);
    sim_log_free(&log);
}

static void bad_logs(void)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "log has no lines"},
        {"\n \n", "log has no lines"},
        {"{\"prompt_ids\":[1],\"tokens\":[2]}\nnonsense\n", "log:2: the line is not a JSON object"},
        {"[1]", "log:1: the line is not a JSON object"},
        {"\n\n{\"tokens\":[2]}", "log:3: there is no \"prompt_ids\""},
        {"{}", "log:1: there is no \"prompt_ids\""},
        {"{\"prompt_ids\":[],\"tokens\":[2]}", "log:1: \"prompt_ids\" is empty"},
        {"{\"prompt_ids\":[1]}", "log:1: there is no \"tokens\""},
        {"{\"prompt_ids\":[1],\"tokens\":[1048576]}", "log:1: \"tokens\" is not a list of token ids below 1048576"},
        {"{\"prompt_ids\":[1],\"tokens\":[99999999999999999999]}", "log:1: \"tokens\" is not a list"},
        {"{\"prompt_ids\":[-1],\"tokens\":[2]}", "log:1: \"prompt_ids\" is not a list"},
        {"{\"prompt_ids\":\"text\",\"tokens\":[2]}", "log:1: \"prompt_ids\" is not a list"},
        {"{\"prompt_ids\":[1,],\"tokens\":[2]}", "log:1: \"prompt_ids\" is not a list"},
        {"{\"prompt_ids\":[1],\"tokens\":[2.5]}", "log:1: \"tokens\" is not a list"},
        {"{\"prompt_ids\":[1],\"tokens\":[2]", "log:1: the object has no end"},
        {"{\"prompt_ids\":[1],\"tokens\":[2]} {", "log:1: something follows the object"},
        {"{\"prompt_ids\":[1],\"tokens\":[2],\"x\":}", "log:1: this is not JSON"},
        {"{\"prompt_ids\":[1],\"tokens\":[2],\"x\":\"y", "log:1: a string has no end"},
        {"{\"prompt_ids\":[1],\"tokens\":[2],\"task\":5}", "log:1: a string is missing"},
        {"{\"prompt_ids\":[1],\"tokens\":[2],\"x\":[1,{\"y\":2]}", "log:1: a list or an object has no end"},
        {"{\"prompt_ids\"}", "log:1: a member has no name or no value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sim_log log;
        fr_error_text err = {0};
        CHECK_MSG(read(&log, cases[i].text, &err) == FR_BAD_ARGUMENT, "%s is taken for a log", cases[i].text);
        CHECK_MSG(!strncmp(err.text, cases[i].error, strlen(cases[i].error)), "%s: \"%s\", expected \"%s\"", cases[i].text, err.text,
                  cases[i].error);
        sim_log_free(&log);
    }
    char deep[400] = "{\"prompt_ids\":[1],\"tokens\":[2],\"x\":";
    memset(deep + strlen(deep), '[', 200);
    sim_log log;
    fr_error_text err = {0};
    CHECK_INT(read(&log, deep, &err), FR_BAD_ARGUMENT);
    CHECK_MSG(strstr(err.text, "nested too deeply"), "%s", err.text);
    sim_log_free(&log);
}

static void loops(void)
{
    uint32_t tokens[100];
    for (uint32_t i = 0; i < 100; i++)
        tokens[i] = i % 20;
    CHECK_INT(sim_loop(tokens, 100), 40); /* 20 tokens over and over: the third time begins at 40 */
    CHECK_INT(sim_loop(tokens, 56), 40);
    CHECK_INT(sim_loop(tokens, 55), 55); /* 15 tokens of the third time are no run yet */
    for (uint32_t i = 0; i < 100; i++)
        tokens[i] = 5;
    CHECK_INT(sim_loop(tokens, 18), 2);
    CHECK_INT(sim_loop(tokens, 17), 17);
    for (uint32_t i = 0; i < 100; i++)
        tokens[i] = i;
    CHECK_INT(sim_loop(tokens, 100), 100);
    memcpy(tokens + 30, tokens, 20 * sizeof *tokens);
    memcpy(tokens + 70, tokens, 16 * sizeof *tokens);
    CHECK_INT(sim_loop(tokens, 100), 70); /* the times need not touch */
    CHECK_INT(sim_loop(tokens, 0), 0);
}

/* ---- tokens per step ---- */

static sim_result replay(const char *text, const sim_drafter *drafter, uint32_t memory, bool of_task, uint32_t width)
{
    sim_log log = read_good(text);
    size_t order[16];
    sim_result results[4] = {0}, sum = {0};
    fr_error_text err = {0};
    CHECK(log.n <= 16 && log.n_tasks <= 4);
    for (size_t i = 0; i < log.n; i++)
        order[i] = i;
    const sim_setup setup = {.drafter = drafter, .memory = memory, .of_task = of_task, .widths = {width}, .n_widths = 1};
    CHECK_INT(sim_replay(&log, order, &setup, results, &err), FR_OK);
    for (size_t t = 0; t < log.n_tasks; t++) {
        sum.cut[0].tokens += results[t].cut[0].tokens;
        sum.cut[0].steps += results[t].cut[0].steps;
        sum.whole[0].tokens += results[t].whole[0].tokens;
        sum.whole[0].steps += results[t].whole[0].steps;
    }
    sim_log_free(&log);
    return sum;
}

static void check_steps(const char *text, const sim_drafter *drafter, uint32_t width, uint64_t tokens, uint64_t steps)
{
    const sim_result r = replay(text, drafter, 0, false, width);
    CHECK_MSG(r.cut[0].tokens == tokens && r.cut[0].steps == steps, "%s, %u nodes: %llu tokens in %llu steps, by hand %llu in %llu",
              drafter->name, width, (unsigned long long)r.cut[0].tokens, (unsigned long long)r.cut[0].steps, (unsigned long long)tokens,
              (unsigned long long)steps);
    CHECK(r.whole[0].tokens == r.cut[0].tokens && r.whole[0].steps == r.cut[0].steps);
}

/* The prefill yields 3. Behind 1 2 3 stands 4 5 6 7 .. in the prompt: 4 5 6 are accepted, 20 comes with them. Nothing is known of what
 * follows 20: one token, 3. Behind 3 stood 4 5 6 20 just now, and 4 5 6 7 8 before. Prompt lookup drafts the first, so 4 5 6 and 7 come,
 * and 8 needs one more step: 4. The others have both in a tree of 8 nodes (4, 5, 6, then 20 3 and 7 8): 3 steps. With 5 nodes they also
 * draft 4 5 6 20: 4 steps. With 2 nodes a step yields two tokens where its one draft is right: 4 5, 6 20, 3, 4 5, 6 7, 8. */
static void branches(void)
{
    static const char log[] = "{\"prompt_ids\":[1,2,3,4,5,6,7,8,9,1,2],\"tokens\":[3,4,5,6,20,3,4,5,6,7,8],\"finish_reason\":\"length\"}";
    check_steps(log, &sim_lookup, 8, 10, 4);
    check_steps(log, &sim_suffix, 8, 10, 3);
    check_steps(log, &sim_mixing, 8, 10, 3);
    check_steps(log, &sim_fixed, 8, 10, 3);
    check_steps(log, &sim_lookup, 2, 10, 6);
    check_steps(log, &sim_suffix, 2, 10, 6);
    check_steps(log, &sim_mixing, 2, 10, 6);
    check_steps(log, &sim_fixed, 2, 10, 6);
    check_steps(log, &sim_suffix, 5, 10, 4);
    check_steps(log, &sim_mixing, 5, 10, 4);
    check_steps(log, &sim_fixed, 5, 10, 4);
}

/* Behind 1 stood 2, 2 and, last, 3. One draft: the latest for lookup (3); the most frequent for suffix (2); fixed weighs 3 with 1 and 2
 * with 1/2 + 1/3 (3); mixing weighs 3 with 1 and 2 with 1/1.5 + 1/2 (2). The output goes on with 2: 2 60 in one step, or in two. */
static void frequent_or_late(void)
{
    static const char log[] = "{\"prompt_ids\":[1,2,50,1,2,51,1,3,52],\"tokens\":[1,2,60],\"finish_reason\":\"length\"}";
    check_steps(log, &sim_lookup, 2, 2, 2);
    check_steps(log, &sim_suffix, 2, 2, 1);
    check_steps(log, &sim_mixing, 2, 2, 1);
    check_steps(log, &sim_fixed, 2, 2, 2);
    check_steps(log, &sim_fixed, 3, 2, 1); /* two drafts hold both */
    /* Behind 1 stood 2, 2, 4 and, last, 3: 2 is the most frequent, but older, and mixing weighs it with 1/2 + 1/2.5, 3 with 1. */
    static const char older[] = "{\"prompt_ids\":[1,2,50,1,2,51,1,4,53,1,3,52],\"tokens\":[1,3,60],\"finish_reason\":\"length\"}";
    check_steps(older, &sim_suffix, 2, 2, 2);
    check_steps(older, &sim_mixing, 2, 2, 1);
}

/* The end of the turn is one more token, which a step must yield: behind 5, which is accepted, it comes in the same step. */
static void end_of_turn(void)
{
    check_steps("{\"prompt_ids\":[4,5,6,3],\"tokens\":[4,5],\"finish_reason\":\"stop\"}", &sim_lookup, 8, 2, 1);
    check_steps("{\"prompt_ids\":[4,5,6,3],\"tokens\":[4,7],\"finish_reason\":\"stop\"}", &sim_lookup, 8, 2, 2);
    check_steps("{\"prompt_ids\":[4,5,6,3],\"tokens\":[4,7],\"finish_reason\":\"length\"}", &sim_lookup, 8, 1, 1);
    check_steps("{\"prompt_ids\":[4],\"tokens\":[7],\"finish_reason\":\"length\"}", &sim_lookup, 8, 0, 0);
    check_steps("{\"prompt_ids\":[4],\"tokens\":[],\"finish_reason\":\"stop\"}", &sim_lookup, 8, 0, 0);
}

/* Memory after the first line is 3 7 8 9 10 11 12 and a break. The second line needs a step for each of 4 tokens without it, one with it,
 * and three if only 10 11 12 and the break are kept. The third line is of another task, and like the second. */
static void memory(void)
{
    static const char log[] = "{\"prompt_ids\":[3],\"tokens\":[7,8,9,10,11,12],\"task\":\"a\"}\n"
                              "{\"prompt_ids\":[5,7],\"tokens\":[8,9,10,11,12],\"task\":\"a\"}\n"
                              "{\"prompt_ids\":[5,7],\"tokens\":[8,9,10,11,12],\"task\":\"b\"}\n";
    static const sim_drafter *const drafters[] = {&sim_lookup, &sim_suffix, &sim_mixing, &sim_fixed};
    for (size_t i = 0; i < 4; i++) {
        CHECK_INT(replay(log, drafters[i], 0, false, 8).cut[0].steps, 5 + 4 + 4);
        CHECK_INT(replay(log, drafters[i], SIM_ALL, false, 8).cut[0].steps, 5 + 1 + 1);
        CHECK_INT(replay(log, drafters[i], 8, false, 8).cut[0].steps, 5 + 1 + 1);
        CHECK_INT(replay(log, drafters[i], 4, false, 8).cut[0].steps, 5 + 3 + 3);
        CHECK_INT(replay(log, drafters[i], SIM_ALL, true, 8).cut[0].steps, 5 + 1 + 4);
        CHECK_INT(replay(log, drafters[i], SIM_ALL, false, 8).cut[0].tokens, 5 + 4 + 4);
    }
}

/* 20 tokens three times: cut behind the second. Whole, 60 tokens and the end of the turn: the first 20 take 19 steps, and from the 21st on
 * the chain of 7 drafts is right. 41 more tokens (40 and the end): the first of them without a draft, then 8 a step. */
static void whole_and_cut(void)
{
    char log[1000] = "{\"prompt_ids\":[99],\"finish_reason\":\"stop\",\"tokens\":[";
    for (int i = 0; i < 60; i++)
        sprintf(log + strlen(log), i ? ",%d" : "%d", i % 20);
    strcat(log, "]}");
    const sim_result r = replay(log, &sim_lookup, 0, false, 8);
    CHECK_INT(r.cut[0].tokens, 39);
    CHECK_INT(r.cut[0].steps, 19 + 1 + 3);
    CHECK_INT(r.whole[0].tokens, 60);
    CHECK_INT(r.whole[0].steps, 19 + 1 + 5);
}

const fr_test sim_tests[] = {
    {"sim.log_lines", "members of a log's lines, whatever else is in them", log_lines},
    {"sim.bad_logs", "what is no log: one error, with the line", bad_logs},
    {"sim.loops", "where an output starts to loop", loops},
    {"sim.branches", "steps worked out by hand: two continuations of one match", branches},
    {"sim.frequent_or_late", "steps worked out by hand: what each drafter puts first", frequent_or_late},
    {"sim.end_of_turn", "the end of a turn, and outputs of one token or none", end_of_turn},
    {"sim.memory", "earlier lines as memory, its size and its scope, for each drafter", memory},
    {"sim.whole_and_cut", "an output that loops, whole and cut", whole_and_cut},
    {0},
};
