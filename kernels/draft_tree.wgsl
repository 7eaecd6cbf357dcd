// The tree of the step: the candidates of all slices merged, their continuations as a weighted trie, its best nodes (src/spec/draft.h, 3 to
// 6). One workgroup. Nodes of the trie are named by depth and the first candidate that has them: name = (depth - 1) * CANDIDATES + candidate.
const NAMES = CANDIDATES * DEPTH;
const NONE = 0xffffu;
var<workgroup> counts: array<vec2u, SLICES>;        // of a slice, a byte for each match
var<workgroup> found: array<u32, CANDIDATES>;       // keys, largest first; 0: none
var<workgroup> weight: array<u32, CANDIDATES>;
var<workgroup> token: array<u32, NAMES>;            // continuations; BREAK: it has ended
var<workgroup> first: array<u32, NAMES>;            // name's first candidate with the same prefix
var<workgroup> score: array<u32, NAMES>;            // of the node of this name, then its index in the tree
var<workgroup> total: atomic<u32>;

fn count_of(slice: u32, m: u32) -> u32 { // m counted from 0
    let w = select(counts[slice].x, counts[slice].y, m >= 4u);
    return (w >> (8u * (m & 3u))) & 255u;
}

// Puts the candidates of a slice with one match at their places in the whole: behind those with longer matches, and later slices.
fn merge_slice(slice: u32, m: u32, slices: u32) {
    let n = count_of(slice, m);
    if (n == 0u) {
        return;
    }
    var longer = 0u; // in this slice
    for (var k = m + 1u; k < ORDERS; k++) {
        longer += count_of(slice, k);
    }
    var rank = longer;
    for (var s = 0u; s < slices; s++) {
        if (s == slice) {
            continue;
        }
        for (var k = m + 1u; k < ORDERS; k++) {
            rank += count_of(s, k);
        }
        if (s > slice) {
            rank += count_of(s, m);
        }
    }
    for (var j = 0u; j < n && rank + j < CANDIDATES; j++) {
        let i = longer + j;
        found[rank + j] = act[DRAFT_AT + slice * DRAFT_SIZE + (i >> 2u)][i & 3u];
    }
}

fn read_candidate(i: u32) {
    let key = found[i];
    let place = key & ((1u << PLACE_BITS) - 1u);
    let m = memory_count();
    var gone = key == 0u;
    for (var d = 0u; d < DEPTH; d++) {
        var t = BREAK;
        if (!gone) {
            if (place < m) {
                if (place + d < m) {
                    t = memory_token(place + d);
                }
            } else if (place + d < m + sequence_count()) {
                t = state.tokens[place + d - m];
            }
        }
        gone = t == BREAK;
        token[d * CANDIDATES + i] = t;
    }
    weight[i] = select((WEIGHT << (key >> PLACE_BITS)) / ((i + 1u) << select(0u, MEMORY_SHIFT, place < m)), 0u, key == 0u);
}

// First candidate with the same prefix of depth d + 1, and the score of the prefix.
fn score_prefix(i: u32, d: u32) {
    let t = token[d * CANDIDATES + i];
    if (t == BREAK) {
        first[d * CANDIDATES + i] = NONE;
        return;
    }
    var parent = 0u;
    var above = ROOT_SCORE;
    if (d > 0u) {
        parent = first[(d - 1u) * CANDIDATES + i];
        above = score[(d - 1u) * CANDIDATES + i];
    }
    var name = CANDIDATES;
    var evidence = 0u;
    var all = 0u;
    var longest = 0u;
    for (var j = 0u; j < CANDIDATES; j++) {
        let other = token[d * CANDIDATES + j];
        var sibling = other != BREAK;
        if (d > 0u) {
            sibling = sibling && first[(d - 1u) * CANDIDATES + j] == parent;
        }
        if (sibling) {
            all += weight[j];
            longest = max(longest, found[j] >> PLACE_BITS);
            if (other == t) {
                evidence += weight[j];
                name = min(name, j);
            }
        }
    }
    first[d * CANDIDATES + i] = name;
    score[d * CANDIDATES + i] = (above * ((evidence << SHARE_BITS) / (all + (WEIGHT << longest)))) >> SHARE_BITS;
}

fn sort_key(name: u32) -> u32 { // 0: no node of its own
    return select(0u, (1u << 29u) | (score[name] << 9u) | (NAMES - 1u - name), first[name] == name % CANDIDATES);
}

fn put_node(node: u32, name: u32) {
    let depth = name / CANDIDATES + 1u;
    let i = name % CANDIDATES;
    var path = vec2u();
    var parent = 0u;
    for (var d = 0u; d < depth; d++) {
        parent = select(path_byte(path, d - 1u), 0u, d == 0u);
        let at = score[d * CANDIDATES + first[d * CANDIDATES + i]]; // by now an index
        if (d < 4u) {
            path.x |= at << (8u * d);
        } else {
            path.y |= at << (8u * (d - 4u));
        }
    }
    state.tree.token[node] = token[name];
    state.tree.info[node] = parent | (depth << 8u);
    state.tree.path_lo[node] = path.x;
    state.tree.path_hi[node] = path.y;
}
fn path_byte(path: vec2u, d: u32) -> u32 { return (select(path.x, path.y, d >= 4u) >> (8u * (d & 3u))) & 255u; }

var<workgroup> running: u32;
@compute @workgroup_size(WG)
fn draft_tree(@builtin(local_invocation_index) lid: u32) {
    if (lid == 0u) {
        running = u32(state.control.finished == 0u);
    }
    if (workgroupUniformLoad(&running) == 0u) {
        return;
    }
    let slices = slice_count();
    for (var s = lid; s < slices; s += WG) {
        counts[s] = act[DRAFT_AT + s * DRAFT_SIZE + CANDIDATES / 4u].xy;
    }
    workgroupBarrier();
    for (var i = lid; i < slices * ORDERS; i += WG) {
        merge_slice(i / ORDERS, i % ORDERS, slices);
    }
    workgroupBarrier();
    for (var i = lid; i < CANDIDATES; i += WG) {
        read_candidate(i);
    }
    workgroupBarrier();
    for (var d = 0u; d < DEPTH; d++) {
        for (var i = lid; i < CANDIDATES; i += WG) {
            score_prefix(i, d);
        }
        workgroupBarrier();
    }
    let width = min(N, CTX - state.control.pos); // the cache has room for so many
    var mine: array<u32, (NAMES + WG - 1u) / WG>;
    for (var k = 0u; lid + k * WG < NAMES; k++) {
        let key = sort_key(lid + k * WG);
        mine[k] = NONE;
        if (key != 0u) {
            var rank = 0u;
            for (var j = 0u; j < NAMES; j++) {
                rank += u32(sort_key(j) > key);
            }
            mine[k] = rank + 1u;
            atomicAdd(&total, 1u);
        }
    }
    workgroupBarrier();
    for (var k = 0u; lid + k * WG < NAMES; k++) {
        score[lid + k * WG] = mine[k];
    }
    workgroupBarrier();
    for (var k = 0u; lid + k * WG < NAMES; k++) {
        if (mine[k] < width) {
            put_node(mine[k], lid + k * WG);
        }
    }
    if (lid == 0u) {
        state.tree.token[0] = state.tokens[state.control.pos];
        state.tree.info[0] = 0u;
        state.tree.path_lo[0] = 0u;
        state.tree.path_hi[0] = 0u;
        state.tree.count = min(width, atomicLoad(&total) + 1u);
        state.tree.matched = found[0] >> PLACE_BITS;
    }
}
