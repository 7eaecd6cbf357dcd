// The tree of the step: the candidates of all slices merged (lib/draft_merge), their continuations as a weighted trie, its best nodes
// (src/spec/draft.h, 3 to 6). One workgroup, whose time is that of its longest chain of loads: so what many threads need lies in vectors
// and bits, and levels do not wait for each other. Nodes of the trie are named by depth and the first candidate that has them:
// name = (depth - 1) * CANDIDATES + candidate. Sets of candidates are 64 bits.
const_assert DEPTH == 8u && CANDIDATES == 64u && ORDERS == 8u;
const NAMES = CANDIDATES * DEPTH;
const QUADS = CANDIDATES / 4u;
const PAIRS = NAMES / 2u; // of a candidate and two levels
const SUM_BITS = 20u;
const LOW = (1u << SUM_BITS) - 1u;
const THERE = CANDIDATES << SUM_BITS;                // in a node: it is one, of the candidate in the bits below
const CHOSEN = 1u << 31u;                            // and it is in the tree
var<workgroup> tokens: array<vec4u, DEPTH * QUADS>;  // [DEPTH][CANDIDATES]: continuations; one has ended at its first BREAK
var<workgroup> ended: array<vec2u, DEPTH>;           // candidates with a BREAK
var<workgroup> weights: array<u32, CANDIDATES * 4u>; // of each four candidates, the sums over their 16 subsets
var<workgroup> matches: array<u32, QUADS>;           // a byte for each candidate
// By turns: sums of the merge; candidates whose tokens are a candidate's in both levels of a pair; x: a candidate's largest key, y: how
// many are larger, of a quarter; y: keys that may be in the tree.
var<workgroup> alike: array<vec2u, PAIRS>;
// By turns, below first candidate << SUM_BITS: share, score, index in the tree. At first the two words of the candidates that are alike in
// the first level of a pair.
var<workgroup> nodes: array<u32, NAMES>;
var<workgroup> least: u32; // no key below it is in the tree
var<workgroup> left: atomic<u32>;

// A level of four candidates, and two of the subsets of their weights.
fn read_level(d: u32, q: u32) {
    let rank = 4u * q + vec4u(0u, 1u, 2u, 3u);
    let keys = merged_keys(rank);
    let none = keys == vec4u();
    let place = keys & vec4u((1u << PLACE_BITS) - 1u);
    let in_memory = place < vec4u(memory);
    let end = select(vec4u(memory + sequence), vec4u(memory), in_memory);
    let at = min(place + d, end - 1u);
    let i = select(at - memory, MEMORY_AT + at, in_memory);
    let t = vec4u(state.tokens[i.x], state.tokens[i.y], state.tokens[i.z], state.tokens[i.w]);
    tokens[d * QUADS + q] = select(t, vec4u(BREAK), none | (place + d >= end));
    let m = keys >> vec4u(PLACE_BITS);
    let w = select((vec4u(WEIGHT) << m) / ((rank + 1u) << select(vec4u(), vec4u(MEMORY_SHIFT), in_memory)), vec4u(), none);
    let sum = w.w * (d >> 2u) + w.z * ((d >> 1u) & 1u) + w.y * (d & 1u);
    weights[16u * q + 2u * d] = sum;
    weights[16u * q + 2u * d + 1u] = sum + w.x;
    if (d == 0u) {
        matches[q] = m.x | (m.y << 8u) | (m.z << 16u) | (m.w << 24u);
    }
}

fn equal_bits(at: u32, token: u32) -> u32 {
    let bits = select(vec4u(), vec4u(1u, 2u, 4u, 8u), tokens[at] == vec4u(token));
    return bits.x | bits.y | bits.z | bits.w;
}
fn token_at(i: u32, d: u32) -> u32 { return tokens[d * QUADS + i / 4u][i % 4u]; }

// Candidates with this one's token in the first of two levels, and with those of both; none if it is BREAK.
fn compare_levels(i: u32, pair: u32) {
    let d = 2u * pair;
    let t0 = token_at(i, d);
    let t1 = token_at(i, d + 1u);
    var equal = vec4u();
    for (var k = 0u; k < QUADS / 2u; k++) {
        let at = d * QUADS + k;
        equal |= vec4u(equal_bits(at, t0), equal_bits(at + QUADS / 2u, t0), equal_bits(at + QUADS, t1),
                       equal_bits(at + QUADS * 3u / 2u, t1)) << vec4u(4u * k);
    }
    let first = end_level(i, d, t0, equal.xy);
    alike[pair * CANDIDATES + i] = first & end_level(i, d + 1u, t1, equal.zw);
    nodes[d * CANDIDATES + i] = first.x;
    nodes[(d + 1u) * CANDIDATES + i] = first.y;
}
fn end_level(i: u32, d: u32, token: u32, equal: vec2u) -> vec2u {
    if (token != BREAK) {
        return equal;
    }
    if (first_of(equal) == i) {
        ended[d] = equal;
    }
    return vec2u();
}
fn first_of(mask: vec2u) -> u32 { return select(countTrailingZeros(mask.x), 32u + countTrailingZeros(mask.y), mask.x == 0u); }

// Two levels of a candidate: which others have the same prefix, and its share of those that have the parent's.
fn share_levels(i: u32, pair: u32) {
    let at = 2u * pair * CANDIDATES + i;
    var parent = vec2u(0xffffffffu);
    for (var p = 0u; p < pair; p++) {
        parent &= alike[p * CANDIDATES + i];
    }
    let same0 = parent & vec2u(nodes[at], nodes[at + CANDIDATES]);
    let same1 = parent & alike[pair * CANDIDATES + i];
    let all0 = parent & ~ended[2u * pair];
    let all1 = same0 & ~ended[2u * pair + 1u];
    var sums = vec4u();
    let x = vec4u(same0.x, same1.x, all0.x, all1.x);
    let y = vec4u(same0.y, same1.y, all0.y, all1.y);
    for (var k = 0u; k < 8u; k++) {
        let a = 16u * k + ((x >> vec4u(4u * k)) & vec4u(15u));
        let b = 16u * k + 128u + ((y >> vec4u(4u * k)) & vec4u(15u));
        sums += vec4u(weights[a.x], weights[a.y], weights[a.z], weights[a.w]) + vec4u(weights[b.x], weights[b.y], weights[b.z], weights[b.w]);
    }
    nodes[at] = share_of(same0, all0, sums.x, sums.z);
    nodes[at + CANDIDATES] = share_of(same1, all1, sums.y, sums.w);
}
fn share_of(same: vec2u, all: vec2u, evidence: u32, total: u32) -> u32 {
    let longest = match_of(first_of(all)); // keys fall
    let share = (evidence << SHARE_BITS) / (total + (WEIGHT << longest));
    return select(0u, THERE | (first_of(same) << SUM_BITS) | share, any(same != vec2u()));
}
fn match_of(i: u32) -> u32 { return (matches[min(i, CANDIDATES - 1u) / 4u] >> (8u * (i & 3u))) & 255u; }

// Scores of a candidate's prefixes; the largest key of those that it is the first to have.
fn score_levels(i: u32) {
    var above = ROOT_SCORE;
    var best = 0u;
    for (var d = 0u; d < DEPTH; d += 4u) {
        let at = d * CANDIDATES + i;
        let node = vec4u(nodes[at], nodes[at + CANDIDATES], nodes[at + 2u * CANDIDATES], nodes[at + 3u * CANDIDATES]);
        let share = node & vec4u(LOW);
        let a = (above * share.x) >> SHARE_BITS;
        let b = (a * share.y) >> SHARE_BITS;
        let c = (b * share.z) >> SHARE_BITS;
        above = (c * share.w) >> SHARE_BITS;
        let scored = (node & vec4u(~LOW)) | vec4u(a, b, c, above);
        nodes[at] = scored.x;
        nodes[at + CANDIDATES] = scored.y;
        nodes[at + 2u * CANDIDATES] = scored.z;
        nodes[at + 3u * CANDIDATES] = scored.w;
        best = max(best, max(max(key_of(scored.x, at), key_of(scored.y, at + CANDIDATES)),
                             max(key_of(scored.z, at + 2u * CANDIDATES), key_of(scored.w, at + 3u * CANDIDATES))));
    }
    alike[i].x = best;
}
fn key_of(node: u32, name: u32) -> u32 { // 0: no node of its own
    let key = (1u << 29u) | ((node & LOW) << 9u) | (NAMES - 1u - name);
    return select(0u, key, node >> SUM_BITS == CANDIDATES + name % CANDIDATES);
}

// If there are as many best keys of candidates as drafts in the tree, no key below these is in it. So at most DEPTH times as many are left.
fn find_least(i: u32, drafts: u32) {
    let rank = alike[i].y + alike[CANDIDATES + i].y + alike[2u * CANDIDATES + i].y + alike[3u * CANDIDATES + i].y;
    if (rank + 1u == drafts) {
        least = alike[i].x;
    }
}

fn rank_key(e: u32, keys: u32, drafts: u32) {
    let key = alike[e].y;
    var rank = 0u;
    for (var k = 0u; k < keys; k += 4u) { // behind the keys are counts, which are less
        rank += u32(alike[k].y > key) + u32(alike[k + 1u].y > key) + u32(alike[k + 2u].y > key) + u32(alike[k + 3u].y > key);
    }
    if (rank < drafts) {
        let name = NAMES - 1u - key % NAMES;
        nodes[name] = CHOSEN | (nodes[name] & ~LOW) | (rank + 1u);
    }
}

// The node of a candidate's prefix.
fn node_at(i: u32, d: u32) -> u32 {
    let first = (nodes[d * CANDIDATES + i] >> SUM_BITS) % CANDIDATES;
    return nodes[d * CANDIDATES + first] & LOW;
}
fn put_node(name: u32) {
    let node = nodes[name];
    if (node < CHOSEN) {
        return;
    }
    let depth = name / CANDIDATES + 1u;
    let i = name % CANDIDATES;
    var path = vec2u();
    for (var d = 0u; d < depth; d++) {
        let at = node_at(i, d) << (8u * (d & 3u));
        path |= select(vec2u(at, 0u), vec2u(0u, at), d > 3u);
    }
    let parent = select(select(path.x, path.y, depth > 5u) >> (8u * ((depth - 2u) & 3u)), 0u, depth == 1u) & 255u;
    put(node & LOW, token_at(i, depth - 1u), parent | (depth << 8u), path.x, path.y);
}
fn put(node: u32, token: u32, info: u32, lo: u32, hi: u32) {
    state.tree.token[node] = token;
    state.tree.info[node] = info;
    state.tree.path_lo[node] = lo;
    state.tree.path_hi[node] = hi;
}

@compute @workgroup_size(WG)
fn draft_tree(@builtin(local_invocation_index) lid: u32) {
    if (!merge(lid)) {
        return;
    }
    let drafts = min(N, CTX + 1u - sequence) - 1u; // the cache has room for so many
    if (lid == WG - 1u) {
        put(0u, state.tokens[sequence - 1u], 0u, 0u, 0u);
    }
    for (var i = lid; i < DEPTH * QUADS; i += WG) {
        read_level(i / QUADS, i % QUADS);
    }
    workgroupBarrier();
    for (var i = lid; i < PAIRS; i += WG) {
        compare_levels(i % CANDIDATES, i / CANDIDATES);
    }
    workgroupBarrier();
    for (var i = lid; i < PAIRS; i += WG) {
        share_levels(i % CANDIDATES, i / CANDIDATES);
    }
    workgroupBarrier();
    for (var i = lid; i < CANDIDATES; i += WG) {
        score_levels(i);
    }
    workgroupBarrier();
    for (var i = lid; i < PAIRS; i += WG) { // a quarter of the others each
        let key = alike[i % CANDIDATES].x;
        let at = i / CANDIDATES * QUADS;
        var rank = 0u;
        for (var k = at; k < at + QUADS; k += 4u) {
            rank += u32(alike[k].x > key) + u32(alike[k + 1u].x > key) + u32(alike[k + 2u].x > key) + u32(alike[k + 3u].x > key);
        }
        alike[i].y = rank;
    }
    workgroupBarrier();
    for (var i = lid; i < CANDIDATES; i += WG) {
        find_least(i, drafts);
    }
    workgroupBarrier();
    for (var i = lid; i < NAMES; i += WG) {
        let key = key_of(nodes[i], i);
        if (key != 0u && key >= least && drafts > 0u) {
            alike[atomicAdd(&left, 1u)].y = key;
        }
    }
    workgroupBarrier();
    let keys = atomicLoad(&left);
    for (var e = lid; e < keys; e += WG) {
        rank_key(e, keys, drafts);
    }
    workgroupBarrier();
    for (var e = lid; e < keys; e += WG) {
        put_node(NAMES - 1u - alike[e].y % NAMES);
    }
    if (lid == 0u) {
        state.tree.count = min(drafts, keys) + 1u;
        state.tree.matched = match_of(0u);
    }
}
