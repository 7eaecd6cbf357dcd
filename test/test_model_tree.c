/* test_model_tree.c: the default model answers short prompts of different tasks with trees as it does without. */
#include "cli/drive.h"
#include "test/test.h"

enum { TOKENS = 6, MOST_IDS = 256 };

/* Every width and every window, with drafts from the text alone and from memory, which has the same answer. A CPU adapter takes eight times
 * as long for a step of 32 nodes as for a plain one, so a prompt has one of them. */
static const struct {
    const char *task, *prompt;
    uint32_t width, window;
    fr_scope scope;
} prompts[] = {
    {"repeating", "Repeat: the tide turns, the tide turns", 32, 1, FR_SCOPE_NONE},
    {"JSON", "Write JSON with \"name\" for Ada.", 4, 2, FR_SCOPE_NONE},
    {"code", "def add(a, b):\n", 16, 4, FR_SCOPE_ALL},
    {"arithmetic", "What is 12 + 30?", 8, 8, FR_SCOPE_ALL},
    {"summing up", "In one sentence: The gate shuts at low water.", 2, 1, FR_SCOPE_ALL},
};

static size_t answer(fr_drive *d, const uint32_t *ids, size_t n, const fr_request *q, uint32_t *out)
{
    fr_error_text e = {0};
    CHECK_MSG(fr_generate(d->engine, ids, n, q) == FR_OK, "%s", fr_error(d->engine));
    CHECK_MSG(fr_drive_wait(d, NULL, NULL, &e) == FR_OK, "%s", e.text);
    size_t got;
    const uint32_t *tokens = fr_tokens(d->engine, &got);
    CHECK(got <= TOKENS);
    memcpy(out, tokens, got * sizeof *out);
    return got;
}

static void default_in_trees(void)
{
    fr_drive d;
    fr_error_text e = {0};
    const fr_options options = {.context = MOST_IDS};
    if (!test_model()[0])
        test_skip("the default model is not in the cache; make model fetches it");
    CHECK_MSG(fr_drive_open(&d, test_model(), NULL, &options, false, &e) == FR_OK, "%s", e.text);
    for (uint32_t width = 2; width <= 32; width *= 2) {
        CHECK_INT(fr_prepare(d.engine, FR_MODE_TREE, width), FR_OK);
        CHECK_INT(fr_drive_wait(&d, NULL, NULL, &e), FR_OK);
    }
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        const fr_message message = {"user", prompts[i].prompt};
        uint32_t ids[MOST_IDS], want[TOKENS], got[TOKENS];
        const size_t n = fr_chat(d.engine, &message, 1, ids, MOST_IDS);
        CHECK(n < MOST_IDS - TOKENS);
        const fr_request greedy = {.mode = FR_MODE_GREEDY, .max_tokens = TOKENS}, tree = {.mode = FR_MODE_TREE,
                                                                                          .max_tokens = TOKENS,
                                                                                          .width = prompts[i].width,
                                                                                          .window = prompts[i].window,
                                                                                          .scope = prompts[i].scope};
        const size_t n_want = answer(&d, ids, n, &greedy, want), n_got = answer(&d, ids, n, &tree, got);
        const double accepted = fr_stat(d.engine, FR_STAT_ACCEPTED), steps = fr_stat(d.engine, FR_STAT_TREE_STEPS);
        printf("  %s, %u nodes, W = %u: %zu tokens, %.0f drafts accepted\n", prompts[i].task, tree.width, tree.window, n_got, accepted);
        CHECK_MSG(n_want == n_got && !memcmp(want, got, n_got * sizeof *got), "\"%s\": tree gives other tokens than greedy",
                  prompts[i].prompt);
        CHECK(n_want > 1 && steps > 0 && steps + 1 == fr_stat(d.engine, FR_STAT_STEPS));
        if (prompts[i].scope == FR_SCOPE_ALL) /* it is all there */
            CHECK_MSG(accepted > 0, "\"%s\": nothing is accepted of what memory has", prompts[i].prompt);
    }
    fr_drive_close(&d);
}

const fr_test model_tree_tests[] = {
    {"model_tree.default",
     "the default model answers short prompts of five tasks with trees of 2 to 32 nodes, W = 1 to 8, as it does without", default_in_trees},
    {0},
};
