/* test_kernels_tree.c: steps over a tree of drafts. Every kernel against its twin, what a node leaves against decoding its path
 * (ref/bits.h), the drafter on the device against its definition, and the end of a step. */
#include <math.h>

#include "cli/host.h"
#include "ref/case.h"
#include "ref/ref_draft.h"
#include "test/kernels_help.h"
#include "test/test.h"

/* ---- the drafter ---- */

/* Tokens of an alphabet; of `copied` in eight begins a run that is copied from before. */
static void repetitive(uint32_t *tokens, uint32_t n, uint32_t alphabet, uint32_t copied, uint64_t seed)
{
    for (uint32_t i = 0, k = 0; i < n;) {
        const uint32_t random = rig_random(seed, k++), length = 1 + random / 8 % 20, from = i ? rig_random(seed, k++) % i : 0;
        if (i && random % 8 < copied)
            for (uint32_t j = 0; j < length && i < n; j++, i++)
                tokens[i] = tokens[from + j];
        else
            tokens[i++] = random / 256 % alphabet;
    }
}

typedef struct context {
    uint32_t n, memory, alphabet, copied, breaks; /* one token in `breaks` of the memory is one; 0: none */
} context;

/* The two kernels of the drafter against their twins, and the tree against the definition as a whole. Returns the tree's nodes. */
static uint32_t drafts_alike(checker *c, uint32_t bucket, const context *x, uint64_t seed)
{
    rig *r = c->rig;
    char what[128];
    snprintf(what, sizeof what, "%u tokens of %u, %u in memory, seed %u", x->n, x->alphabet, x->memory, (unsigned)seed);
    rig_scramble(r, &c->was, seed);
    uint32_t *tokens = rig_tokens(r, &c->was), *memory = tokens + r->shape->memory_at;
    repetitive(tokens, x->n, x->alphabet, x->copied, seed);
    repetitive(memory, x->memory, x->alphabet, x->copied, seed + 1);
    for (uint32_t i = 0; x->breaks && i < x->memory; i++)
        if (rig_random(seed + 2, i) % x->breaks == 0)
            memory[i] = FR_DRAFT_BREAK;
    fr_gpu_Control *control = rig_control(r, &c->was);
    control->pos = x->n - 1;
    control->end = x->n;
    control->memory = x->memory;
    fr_forward_set_memory(r->forward, memory, x->memory);
    rig_write(r, &c->was);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_MSG(checker_run(c, what, bucket, FR_TAIL_TREE, i, x->n + FR_DRAFT_DEPTH), "%s", r->error.text);
        checker_next(c);
    }
    const fr_draft_corpus corpus = {memory, x->memory ? x->memory : 1, 0, x->memory, tokens, x->n};
    const fr_gpu_Tree *t = rig_tree(r, &c->was);
    fr_draft_node want[FR_DRAFT_WIDTH];
    const uint32_t room = r->shape->context - control->pos, n = ref_draft(&corpus, bucket < room ? bucket : room, want);
    CHECK_MSG(t->count == n && t->matched == want[0].match, "%s: %u nodes, match %u, expected %u and %u", what, t->count, t->matched, n,
              want[0].match);
    for (uint32_t i = 0; i < n; i++)
        CHECK_MSG(t->token[i] == want[i].token && t->info[i] == (want[i].parent | want[i].depth << 8), "%s: node %u", what, i);
    return n;
}

static void draft_contexts(checker *c, uint32_t bucket, uint32_t rounds, uint64_t seed)
{
    static const uint32_t lengths[] = {1, 2, 3, 9, 64, 65, 511, 512, 513, 1024, 1500, 2600, 4000},
                          memories[] = {0, 1, 600, FR_MEMORY_TOKENS};
    static const uint32_t alphabets[] = {1, 2, 3, 8, 50, 300}, breaks[] = {0, 3, 12, 200};
    uint32_t trees = 0, nodes = 0;
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t i = 0; i < sizeof lengths / sizeof *lengths; i++, trees++) {
            const uint32_t random = rig_random(seed, trees);
            const context x = {.n = lengths[i] + (lengths[i] > 1024 ? random % 90 : 0),
                               .memory = memories[(i + round) % 4],
                               .alphabet = alphabets[random / 128 % 6],
                               .copied = random / 1024 % 8,
                               .breaks = breaks[random / 8192 % 4]};
            nodes += drafts_alike(c, bucket, &x, 1000 * seed + trees);
        }
    CHECK(nodes > 2 * trees);
    printf("  width %u: %u trees, %u nodes\n", bucket, trees, nodes);
}

/* One candidate less than there may be, all, one more; all that slices may have, in each; a cache that has room for few nodes, or one. */
static void draft_corners(checker *c, uint32_t bucket)
{
    const uint32_t end = c->rig->shape->context, most = FR_DRAFT_CANDIDATES;
    const context corners[] = {{most, 0, 1, 0, 0},
                               {most + 1, 0, 1, 0, 0},
                               {most + 2, 0, 1, 0, 0},
                               {1100, FR_MEMORY_TOKENS, 1, 0, 0},
                               {1100, FR_MEMORY_TOKENS, 2, 0, 2},
                               {end - 8, 600, 3, 4, 12},
                               {end - 1, 600, 3, 4, 12},
                               {end, 600, 3, 4, 12}};
    for (uint32_t i = 0; i < sizeof corners / sizeof *corners; i++)
        drafts_alike(c, bucket, &corners[i], 77 + i);
}

/* ---- the end of a step ---- */

enum { PATH = 9, MOST_CHOICES = 10, LAST = 10 };

/* Parents and tokens of the tree of these tests: 0 has the children 1 and 2, from 1 on goes a branch of eight, 2 has a child of a token
 * that is in that branch too. */
static const struct {
    uint32_t parent, token;
} drafts[LAST + 1] = {{0, 0}, {0, 10}, {0, 11}, {1, 12}, {3, 13}, {2, 12}, {4, 14}, {6, 15}, {7, 16}, {8, 17}, {9, 18}};

enum { NOTHING = 1000, INFINITE }; /* as a choice: the node has no logit that is a number */

typedef struct ending {
    const char *what;
    struct {
        uint32_t node, token;
    } choices[MOST_CHOICES]; /* of other nodes: token 99 */
    uint32_t end_token, limit; /* 0: none; tokens behind the root at which the request is complete, 0: many */
    uint32_t emitted, steps;   /* before */
    uint32_t tokens[PATH + 1], nodes[PATH]; /* expected, ended by 0 */
    uint32_t finished;
} ending;

#define WHOLE_PATH {{0, 10}, {1, 12}, {3, 13}, {4, 14}, {6, 15}, {7, 16}, {8, 17}, {9, 18}, {10, 50}}

static const ending endings[] = {
    {"no child", {{0, 98}}, 0, 0, 0, 0, {98}, {0}, FR_RUN_ON},
    {"a token of another branch", {{0, 12}}, 0, 0, 0, 0, {12}, {0}, FR_RUN_ON},
    {"one draft", {{0, 10}}, 0, 0, 0, 0, {10, 99}, {1}, FR_RUN_ON},
    {"the second child", {{0, 11}, {2, 12}}, 0, 0, 0, 0, {11, 12, 99}, {2, 5}, FR_RUN_ON},
    {"all of a branch", WHOLE_PATH, 0, 0, 0, 0, {10, 12, 13, 14, 15, 16, 17, 18, 50}, {1, 3, 4, 6, 7, 8, 9, 10}, FR_RUN_ON},
    {"the ring begins again", WHOLE_PATH, 0, 0, FR_RING - 4, 0, {10, 12, 13, 14, 15, 16, 17, 18, 50}, {1, 3, 4, 6, 7, 8, 9, 10}, FR_RUN_ON},
    {"the last of the statistics", {{0, 10}}, 0, 0, 0, 3 * FR_STATS - 1, {10, 99}, {1}, FR_RUN_ON},
    {"the statistics begin again", {{0, 10}}, 0, 0, 0, 3 * FR_STATS, {10, 99}, {1}, FR_RUN_ON},
    {"an end token at the root", {{0, 10}}, 10, 0, 0, 0, {0}, {0}, FR_RUN_END},
    {"an end token inside a branch", WHOLE_PATH, 14, 0, 0, 0, {10, 12, 13}, {1, 3, 4}, FR_RUN_END},
    {"an end token behind a branch", WHOLE_PATH, 50, 0, 0, 0, {10, 12, 13, 14, 15, 16, 17, 18}, {1, 3, 4, 6, 7, 8, 9, 10}, FR_RUN_END},
    {"the limit at the root", WHOLE_PATH, 0, 1, 0, 0, {10}, {0}, FR_RUN_LIMIT},
    {"the limit inside a branch", WHOLE_PATH, 0, 4, 0, 0, {10, 12, 13, 14}, {1, 3, 4}, FR_RUN_LIMIT},
    {"the limit behind a branch", WHOLE_PATH, 0, 9, 0, 0, {10, 12, 13, 14, 15, 16, 17, 18, 50}, {1, 3, 4, 6, 7, 8, 9, 10}, FR_RUN_LIMIT},
    {"an end token where the limit is", WHOLE_PATH, 14, 4, 0, 0, {10, 12, 13}, {1, 3, 4}, FR_RUN_END},
    {"the limit before an end token", WHOLE_PATH, 14, 3, 0, 0, {10, 12, 13}, {1, 3}, FR_RUN_LIMIT},
    {"no number at the root", {{0, NOTHING}}, 0, 0, 0, 0, {0}, {0}, FR_RUN_NOT_FINITE},
    {"no number behind a draft", {{0, 10}, {1, NOTHING}}, 0, 0, 0, 0, {10}, {1}, FR_RUN_NOT_FINITE},
    {"infinity behind two drafts", {{0, 10}, {1, 12}, {3, INFINITE}}, 0, 0, 0, 0, {10, 12}, {1, 3}, FR_RUN_NOT_FINITE},
    {"no number in another branch", {{0, 11}, {1, NOTHING}}, 0, 0, 0, 0, {11, 99}, {2}, FR_RUN_ON},
};

/* Partial maxima of a node: one tile has the token, the others less. */
static void set_tiles(float *tile, uint32_t tiles, uint32_t node, uint32_t token)
{
    for (uint32_t i = 0; i < tiles; i++) {
        tile[4 * i] = tile[4 * i + 2] = token == NOTHING ? NAN : -1000;
        tile[4 * i + 1] = (float)(32 * i);
    }
    if (token == NOTHING)
        return;
    float *best = tile + 4 * (size_t)((node + token) % tiles);
    best[0] = token == INFINITE ? INFINITY : -2.5f;
    best[1] = (float)token;
    best[2] = -3;
}

static void check_ending(checker *c, uint32_t bucket, const ending *e)
{
    enum { POS = 40 };
    rig *r = c->rig;
    const uint32_t tiles = rig_head_tiles(r, bucket, FR_TAIL_TREE), n = fr_forward_trace_count(r->forward, bucket, FR_TAIL_TREE);
    rig_scramble(r, &c->was, 5);
    fr_gpu_Control *control = rig_control(r, &c->was);
    *control = (fr_gpu_Control){.pos = POS,
                                .end = POS + 1,
                                .limit = e->limit ? POS + 1 + e->limit : r->context,
                                .emitted = e->emitted,
                                .steps = e->steps,
                                .n_ends = 8,
                                .drafted = 100,
                                .accepted = 50};
    for (uint32_t i = 0; i < 8; i++)
        control->ends[i] = e->end_token && i == 7 ? e->end_token : 300 + i;
    rig_plant_tree(r, &c->was, RIG_STAR, LAST + 1, 1);
    float *head = (float *)rig_part(r, &c->was, REF_WORK) + 4 * (size_t)r->shape->head_at;
    for (uint32_t i = 0; i <= LAST; i++) {
        fr_gpu_Tree *t = rig_tree(r, &c->was);
        t->token[i] = drafts[i].token;
        t->info[i] = drafts[i].parent | (i ? (t->info[drafts[i].parent] >> 8) + 1 : 0) << 8;
        set_tiles(head + (size_t)4 * tiles * i, tiles, i, 99);
    }
    for (uint32_t i = 0; i < MOST_CHOICES && e->choices[i].token; i++)
        set_tiles(head + (size_t)4 * tiles * e->choices[i].node, tiles, e->choices[i].node, e->choices[i].token);
    rig_write(r, &c->was);
    for (uint32_t i = n - 2; i < n; i++) {
        CHECK_MSG(checker_run(c, e->what, bucket, FR_TAIL_TREE, i, POS + 1 + FR_DRAFT_DEPTH), "%s", r->error.text);
        checker_next(c);
    }
    uint32_t tokens = 0, accepted = 0;
    for (; e->tokens[tokens]; tokens++) {
        CHECK_INT(rig_tokens(r, &c->was)[POS + 1 + tokens], e->tokens[tokens]);
        CHECK_INT(rig_part(r, &c->was, REF_STATE)[REF_RING_AT + (e->emitted + tokens) % FR_RING], e->tokens[tokens]);
    }
    for (; accepted < PATH && e->nodes[accepted]; accepted++)
        CHECK_INT(rig_tree(r, &c->was)->came_from[accepted], e->nodes[accepted]);
    control = rig_control(r, &c->was);
    CHECK_MSG(control->finished == e->finished, "%s: finished is %u", e->what, control->finished);
    CHECK_INT(rig_tree(r, &c->was)->moved, accepted);
    CHECK_INT(control->pos, POS + 1 + accepted);
    CHECK_INT(control->end, POS + 1 + tokens);
    CHECK_INT(control->emitted, e->emitted + tokens);
    CHECK_INT(control->steps, e->steps + 1);
    CHECK_INT(control->drafted, 100 + LAST);
    CHECK_INT(control->accepted, 50 + accepted);
    uint32_t yields = tokens; /* and drafts accepted of the first 2, 4, 8 and 16 nodes */
    for (uint32_t i = 0; i < accepted; i++)
        for (uint32_t k = 0; k < 4; k++)
            yields += (uint32_t)(e->nodes[i] < 2u << k) << (16 + 4 * k);
    CHECK_INT(rig_part(r, &c->was, REF_STATE)[REF_STATS_AT + 3 * (e->steps % FR_STATS) + 1], yields);
}

/* ---- all of it ---- */

/* The cases of a name, then all of the above with the pipelines that they have compiled: compiling takes most of the time. */
static void everything(const char *name, uint32_t widest, bool portable)
{
    const rig_host host = open_host();
    const kernel_case *k = kernel_cases;
    uint32_t dispatches = 0, nodes = 0;
    rig r;
    while (strcmp(k->name, name))
        k++;
    rig_options options = k->options;
    options.portable = portable;
    open_rig(&r, &host, &options);
    CHECK_MSG(kernel_case_steps(&r, k, &dispatches), "%s", r.error.text);
    printf("  %s: %u dispatches\n", k->name, dispatches);
    CHECK_MSG(kernel_case_bits(&r, &nodes), "%s", r.error.text);
    printf("  %u nodes as by decoding\n", nodes);
    checker c;
    CHECK(checker_open(&c, &r));
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        check_ending(&c, widest, &endings[i]);
    draft_contexts(&c, widest, 8, widest);
    draft_corners(&c, widest);
    checker_close(&c);
    rig_close(&r);
    fr_host_close(host.user);
}

static void on_cpus(void)
{
    everything("tree.cpu", 32, false);
}

/* With WebGPU's default limits, which wide trees must keep to, and without shuffles; llama.mixed has those. */
static void on_gpus(void)
{
    everything("tree.gpu", 32, true); /* rig_leaves_out: not 16 */
}

const fr_test kernels_tree_tests[] = {
    {"kernels_tree.cpu",
     "kernels of CPU adapters: twins agree; drafting as defined; nodes, accepted drafts and steps leave the bits of decoding", on_cpus},
    {"kernels_tree.gpu", "the same with the kernels of GPUs under the default limits, and weights in parts", on_gpus},
    {0},
};
