/* test_model_tree.c: the default model answers short prompts of different tasks with trees as it does without. */
#include "cli/drive.h"
#include "test/test.h"

enum { TOKENS = 5, MOST_IDS = 256 };

static const char *const prompts[] = {
    "Repeat: the tide turns the mill, the tide turns the mill, the tide",
    "List the days of the week.",
    "Write a JSON object with the keys \"name\" and \"age\" for Ada, 36, and one for Bob, 41.",
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n",
    "Translate into French: the sea is calm.",
    "What is 12 + 30?",
    "The miller opens the gate at high water. The wheel turns at low water. Question: when does the wheel turn?",
    "Hello!",
};

static size_t answer(fr_drive *d, const uint32_t *ids, size_t n, fr_mode mode, uint32_t *out)
{
    const fr_request q = {.mode = mode, .width = mode == FR_MODE_TREE ? 4 : 0, .max_tokens = TOKENS, .window = 2};
    fr_error_text e = {0};
    CHECK_MSG(fr_generate(d->engine, ids, n, &q) == FR_OK, "%s", fr_error(d->engine));
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
    CHECK_INT(fr_prepare(d.engine, FR_MODE_TREE, 4), FR_OK);
    CHECK_INT(fr_drive_wait(&d, NULL, NULL, &e), FR_OK);
    unsigned accepted = 0;
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        const fr_message message = {"user", prompts[i]};
        uint32_t ids[MOST_IDS], want[TOKENS], got[TOKENS];
        const size_t n = fr_chat(d.engine, &message, 1, ids, MOST_IDS);
        CHECK(n < MOST_IDS - TOKENS);
        const size_t n_want = answer(&d, ids, n, FR_MODE_GREEDY, want), n_got = answer(&d, ids, n, FR_MODE_TREE, got);
        CHECK_MSG(n_want == n_got && !memcmp(want, got, n_got * sizeof *got), "\"%s\": tree gives other tokens than greedy", prompts[i]);
        accepted += (unsigned)fr_stat(d.engine, FR_STAT_ACCEPTED);
    }
    printf("  %u drafts accepted\n", accepted);
    CHECK(accepted > 0);
    fr_drive_close(&d);
}

const fr_test model_tree_tests[] = {
    {"model_tree.default", "the default model answers short prompts of eight tasks with trees as it does without", default_in_trees},
    {0},
};
