/* ref_tail.c: from the last layer to the next token. */
#include <math.h>

#include "ref/ref.h"
#include "spec/draft.h"

/* The logit nearest to -infinity that the kernels know: what stands where there is none. */
static const float no_logit = -3.4e38f;

typedef struct best {
    float value, id, second;
} best;

/* The larger logit wins, of equals the lower id; `second` is the largest of the rest. */
static best better(best a, best b)
{
    const bool first = a.value > b.value || (a.value == b.value && a.id <= b.id);
    const best win = first ? a : b, lose = first ? b : a;
    return (best){win.value, win.id, fmaxf(win.second, lose.value)};
}

static uint32_t tiles_of(const ref_step *s, const fr_part *part)
{
    return (part->rows + s->head_rows - 1) / s->head_rows;
}

static uint32_t all_tiles(const ref_step *s)
{
    return (s->weights->head.rows + s->head_rows - 1) / s->head_rows;
}

/* Rows from `row` to `end` for a node whose activations lie at `act`, into a partial maximum. Equal logits within the freedom of the factor
 * leave a choice of ids. */
static void head_tile(ref_step *s, ref_act act, uint32_t row, uint32_t end, size_t out)
{
    const ref_near f = ref_norm_factor(s, act, s->config->dim / FR_BLOCK);
    ref_words *work = &s->buffers[REF_WORK];
    best b = {no_logit, 0, no_logit};
    for (uint32_t r = row; r < end; r++)
        b = better(b, (best){ref_product(s, &s->weights->head, r, act) * f.v, (float)r, no_logit});
    const double freedom = fabs((double)b.value) * REF_INVERSE_SQRT;
    ref_put_near(work, out, (ref_near){b.value, freedom});
    ref_put_float(work, out + 1, b.id);
    ref_put_near(work, out + 2, (ref_near){b.second, b.second == no_logit ? 0 : fabs((double)b.second) * REF_INVERSE_SQRT});
    ref_put_float(work, out + 3, 0);
}

void ref_head(ref_step *s)
{
    const fr_matrix *m = &s->weights->head;
    const fr_part *part = &m->parts[s->part];
    uint32_t tile0 = 0;
    for (uint32_t i = 0; i < s->part; i++)
        tile0 += tiles_of(s, &m->parts[i]);
    const uint32_t count = ref_node_count(s), first = s->every_node || !count ? 0 : count - 1;
    for (uint32_t node = first; node < count; node++)
        for (uint32_t t = 0; t < tiles_of(s, part); t++) {
            const uint32_t row = part->row0 + t * s->head_rows, part_end = part->row0 + part->rows;
            const uint32_t end = row + s->head_rows < part_end ? row + s->head_rows : part_end;
            const size_t at = s->shape->head_at + (size_t)(node - first) * all_tiles(s) + tile0 + t;
            head_tile(s, (ref_act){s->shape->act_x + node * (s->config->dim / FR_BLOCK) * FR_ACT_FINE, FR_ACT_FINE, false}, row, end,
                      4 * at);
        }
}

/* The best of all tiles of a node, exactly: only comparisons. */
static best best_of_tiles(const ref_step *s, uint32_t node)
{
    best b = {no_logit, 0, no_logit};
    for (uint32_t t = 0; t < all_tiles(s); t++) {
        const size_t at = 4 * ((size_t)node * all_tiles(s) + t);
        b = better(b, (best){ref_work_was(s, s->shape->head_at, at), ref_work_was(s, s->shape->head_at, at + 1),
                             ref_work_was(s, s->shape->head_at, at + 2)});
    }
    return b;
}

void ref_score(ref_step *s)
{
    ref_words *work = &s->buffers[REF_WORK];
    for (uint32_t node = 0; node < ref_node_count(s); node++) {
        const best b = best_of_tiles(s, node);
        const size_t out = 4 * ((size_t)s->shape->score_at + node);
        ref_put_float(work, out, b.id);
        ref_put_float(work, out + 1, b.value - b.second);
        ref_put_float(work, out + 2, b.value);
        ref_put_float(work, out + 3, 0);
    }
}

/* ---- the end of a step ---- */

static bool ends_the_turn(const ref_step *s, uint32_t token)
{
    for (uint32_t i = 0; i < ref_control(s, offsetof(fr_gpu_Control, n_ends)); i++)
        if (ref_control(s, offsetof(fr_gpu_Control, ends) + 4 * (size_t)i) == token)
            return true;
    return false;
}

static bool is_logit(float value)
{
    return isfinite(value) && value != no_logit;
}

static void append(ref_step *s, uint32_t token)
{
    const uint32_t end = ref_control(s, offsetof(fr_gpu_Control, end)), emitted = ref_control(s, offsetof(fr_gpu_Control, emitted));
    ref_put_bits(&s->buffers[REF_STATE], REF_TOKENS_AT + end, token);
    ref_put_bits(&s->buffers[REF_STATE], REF_RING_AT + emitted % FR_RING, token);
    ref_put_control(s, offsetof(fr_gpu_Control, emitted), emitted + 1);
    ref_put_control(s, offsetof(fr_gpu_Control, end), end + 1);
    if (end + 1 >= ref_control(s, offsetof(fr_gpu_Control, limit)))
        ref_put_control(s, offsetof(fr_gpu_Control, finished), FR_RUN_LIMIT);
}

void ref_advance(ref_step *s)
{
    const uint32_t count = ref_node_count(s), pos = ref_control(s, offsetof(fr_gpu_Control, pos)) + count;
    if (!count)
        return;
    ref_put_control(s, offsetof(fr_gpu_Control, pos), pos);
    if (!s->emit || pos != ref_control(s, offsetof(fr_gpu_Control, end)))
        return; /* more of the prompt is to come, or nobody asked for a token */
    ref_put_control(s, offsetof(fr_gpu_Control, steps), ref_control(s, offsetof(fr_gpu_Control, steps)) + 1);
    const best b = best_of_tiles(s, 0);
    if (!is_logit(b.value))
        ref_put_control(s, offsetof(fr_gpu_Control, finished), FR_RUN_NOT_FINITE);
    else if (ends_the_turn(s, (uint32_t)b.id))
        ref_put_control(s, offsetof(fr_gpu_Control, finished), FR_RUN_END);
    else
        append(s, (uint32_t)b.id);
}

/* ---- the end of a step over a tree ---- */

/* The first child of a node that has this token; 0: none. */
static uint32_t child_with(const ref_step *s, uint32_t node, uint32_t token)
{
    for (uint32_t i = 1; i < ref_node_count(s); i++)
        if ((ref_tree_was(s)->info[i] & 0xff) == node && ref_tree_was(s)->token[i] == token)
            return i;
    return 0;
}

/* What the model says along its own choices, as far as the tree knows them. */
typedef struct walk {
    uint32_t tokens[FR_DRAFT_DEPTH + 1], n;
    uint32_t nodes[FR_DRAFT_DEPTH], accepted; /* drafts that it chose */
    uint32_t finished;
} walk;

static walk walk_tree(const ref_step *s)
{
    const uint32_t pos = ref_control(s, offsetof(fr_gpu_Control, pos)), limit = ref_control(s, offsetof(fr_gpu_Control, limit));
    walk w = {0};
    for (uint32_t node = 0;;) {
        const best b = best_of_tiles(s, node);
        if (!is_logit(b.value))
            w.finished = FR_RUN_NOT_FINITE;
        else if (ends_the_turn(s, (uint32_t)b.id))
            w.finished = FR_RUN_END;
        if (w.finished)
            return w;
        w.tokens[w.n++] = (uint32_t)b.id;
        if (pos + 1 + w.n >= limit)
            w.finished = FR_RUN_LIMIT;
        node = w.finished ? 0 : child_with(s, node, (uint32_t)b.id);
        if (!node)
            return w;
        w.nodes[w.accepted++] = node;
    }
}

static void put_tree(ref_step *s, size_t offset, uint32_t value)
{
    ref_put_bits(&s->buffers[REF_STATE], REF_TREE_AT + offset / 4, value);
}

static void add_control(ref_step *s, size_t offset, uint32_t more)
{
    ref_put_control(s, offset, ref_control(s, offset) + more);
}

void ref_accept(ref_step *s)
{
    ref_words *state = &s->buffers[REF_STATE];
    const uint32_t count = ref_node_count(s);
    if (!count) {
        put_tree(s, offsetof(fr_gpu_Tree, moved), 0);
        return;
    }
    const walk w = walk_tree(s);
    const uint32_t pos = ref_control(s, offsetof(fr_gpu_Control, pos)), emitted = ref_control(s, offsetof(fr_gpu_Control, emitted));
    for (uint32_t i = 0; i < w.n; i++) {
        ref_put_bits(state, REF_TOKENS_AT + pos + 1 + i, w.tokens[i]);
        ref_put_bits(state, REF_RING_AT + (emitted + i) % FR_RING, w.tokens[i]);
    }
    for (uint32_t i = 0; i < w.accepted; i++)
        put_tree(s, offsetof(fr_gpu_Tree, came_from) + 4 * (size_t)i, w.nodes[i]);
    put_tree(s, offsetof(fr_gpu_Tree, base), pos);
    put_tree(s, offsetof(fr_gpu_Tree, moved), w.accepted);
    const size_t stats = REF_STATS_AT + 3 * (ref_control(s, offsetof(fr_gpu_Control, steps)) % FR_STATS);
    ref_put_bits(state, stats, count);
    uint32_t yields = w.n; /* and, in 4 bits each from bit 16 on, drafts accepted of the first 2, 4, 8 and 16 nodes */
    for (uint32_t i = 0; i < w.accepted; i++)
        for (uint32_t k = 0; k < 4; k++)
            yields += w.nodes[i] < 2u << k ? 1u << (16 + 4 * k) : 0;
    ref_put_bits(state, stats + 1, yields);
    ref_put_bits(state, stats + 2, ref_tree_was(s)->matched);
    add_control(s, offsetof(fr_gpu_Control, pos), 1 + w.accepted); /* the root and the drafts */
    ref_put_control(s, offsetof(fr_gpu_Control, end), pos + 1 + w.n);
    add_control(s, offsetof(fr_gpu_Control, emitted), w.n);
    add_control(s, offsetof(fr_gpu_Control, steps), 1);
    add_control(s, offsetof(fr_gpu_Control, drafted), count - 1);
    add_control(s, offsetof(fr_gpu_Control, accepted), w.accepted);
    add_control(s, offsetof(fr_gpu_Control, trees), 1);
    ref_put_control(s, offsetof(fr_gpu_Control, finished), w.finished);
}
