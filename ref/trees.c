#include "ref/trees.h"

#include "spec/draft.h"

uint32_t rig_parent(const rig *r, rig_snapshot *s, uint32_t node)
{
    return rig_tree(r, s)->info[node] & 0xff;
}

uint32_t rig_depth(const rig *r, rig_snapshot *s, uint32_t node)
{
    return rig_tree(r, s)->info[node] >> 8;
}

/* Parent of node i > 0 that the shape wants; that it is too deep is the caller's business. */
static uint32_t parent_in(rig_shape shape, uint32_t i, uint32_t random)
{
    switch (shape) {
    case RIG_CHAIN:
        return i - 1;
    case RIG_BUSHY:
        return random % i;
    case RIG_DEEP:
        return i - 1 - (random % 4 == 0 ? random / 4 % i : 0);
    default:
        return 0;
    }
}

/* Whether a child of this parent before node `end` has the token. */
static bool has_child(const fr_gpu_Tree *t, uint32_t parent, uint32_t token, uint32_t end)
{
    for (uint32_t i = 1; i < end; i++)
        if ((t->info[i] & 0xff) == parent && t->token[i] == token)
            return true;
    return false;
}

static void set_byte(uint32_t words[2], uint32_t byte, uint32_t value)
{
    words[byte / 4] |= value << (8 * (byte % 4));
}

void rig_plant_tree(const rig *r, rig_snapshot *s, rig_shape shape, uint32_t count, uint64_t seed)
{
    fr_gpu_Tree *t = rig_tree(r, s);
    t->count = count;
    t->matched = rig_random(seed, 0) % (FR_DRAFT_ORDERS + 1);
    t->token[0] = rig_tokens(r, s)[rig_control(r, s)->pos];
    t->info[0] = t->path_lo[0] = t->path_hi[0] = 0;
    for (uint32_t i = 1; i < count; i++) {
        uint32_t parent = parent_in(shape, i, rig_random(seed, i)), k = 32 * i;
        while (t->info[parent] >> 8 == FR_DRAFT_DEPTH)
            parent = t->info[parent] & 0xff;
        uint32_t path[2] = {t->path_lo[parent], t->path_hi[parent]};
        set_byte(path, t->info[parent] >> 8, i);
        t->info[i] = parent | ((t->info[parent] >> 8) + 1) << 8;
        t->path_lo[i] = path[0];
        t->path_hi[i] = path[1];
        do
            t->token[i] = rig_random(seed + 1, k++) % r->config->vocab;
        while (has_child(t, parent, t->token[i], i));
    }
}

uint32_t rig_head_tiles(rig *r, uint32_t nodes, fr_tail tail)
{
    uint32_t tiles = 0;
    for (uint32_t i = 0; i < fr_forward_trace_count(r->forward, nodes, tail); i++) {
        const fr_trace t = fr_forward_trace(r->forward, nodes, tail, i, 1);
        tiles += t.matrix == &r->weights->head ? t.x : 0;
    }
    return tiles;
}

void rig_choose(const rig *r, rig_snapshot *s, uint32_t tiles, uint32_t node, uint32_t token)
{
    float *tile = (float *)rig_part(r, s, REF_WORK) + 4 * ((size_t)r->shape->head_at + (size_t)node * tiles + (token + node) % tiles);
    tile[0] = 1e6f;
    tile[1] = (float)token;
    tile[2] = 3;
}

void rig_choose_path(const rig *r, rig_snapshot *s, uint32_t tiles, uint64_t seed)
{
    const fr_gpu_Tree *t = rig_tree(r, s);
    uint32_t child[FR_DRAFT_WIDTH] = {0}; /* one of each node's, every one as likely */
    for (uint32_t i = 1, parent, seen[FR_DRAFT_WIDTH] = {0}; i < t->count; i++) {
        parent = t->info[i] & 0xff;
        if (rig_random(seed, i) % ++seen[parent] == 0)
            child[parent] = i;
    }
    for (uint32_t node = 0; node < t->count; node++)
        if (child[node] && rig_random(seed + 1, node) % 8)
            rig_choose(r, s, tiles, node, t->token[child[node]]);
}
