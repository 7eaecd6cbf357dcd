// Candidates of the drafter in a slice of SLICE places: the CANDIDATES largest keys, in order, and how many of them have each match
// (src/spec/draft.h, 1 to 3). Grid (slices). Result of a slice in act, vec4u: CANDIDATES / 4 of keys, then one with a byte for each match.
var<workgroup> keys: array<u32, SLICE>;
var<workgroup> count: atomic<u32>;

fn match_at(place: u32) -> u32 {
    let m = memory_count();
    let last = state.control.pos;
    var n = 0u;
    if (place < m) {
        if (memory_token(place) == BREAK) {
            return 0u;
        }
        while (n < ORDERS && n < place && n <= last && memory_token(place - 1u - n) == state.tokens[last - n]) {
            n++;
        }
        return n;
    }
    let at = place - m;
    while (n < ORDERS && n < at && state.tokens[at - 1u - n] == state.tokens[last - n]) {
        n++;
    }
    return n;
}

@compute @workgroup_size(WG)
fn draft_match(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) group: vec3u) {
    if (state.control.finished != 0u || group.x >= slice_count()) {
        return;
    }
    let end = min(group.x * SLICE + SLICE, memory_count() + sequence_count());
    for (var place = group.x * SLICE + lid; place < end; place += WG) {
        let m = match_at(place);
        if (m > 0u) {
            keys[atomicAdd(&count, 1u)] = (m << PLACE_BITS) | place;
        }
    }
    workgroupBarrier();
    let n = atomicLoad(&count);
    let out = DRAFT_AT + group.x * DRAFT_SIZE;
    for (var i = lid; i < max(n, CANDIDATES); i += WG) { // keys differ, so each has a rank of its own
        var key = 0u;
        var rank = i;
        if (i < n) {
            key = keys[i];
            rank = 0u;
            for (var k = 0u; k < n; k++) {
                rank += u32(keys[k] > key);
            }
        }
        if (rank < CANDIDATES) {
            act[out + (rank >> 2u)][rank & 3u] = key;
        }
    }
    if (lid < 2u) { // four matches a thread
        var word = 0u;
        for (var b = 0u; b < 4u; b++) {
            let m = lid * 4u + b + 1u;
            var equal = 0u;
            var above = 0u;
            for (var k = 0u; k < n; k++) {
                equal += u32((keys[k] >> PLACE_BITS) == m);
                above += u32((keys[k] >> PLACE_BITS) > m);
            }
            word |= min(equal, CANDIDATES - min(above, CANDIDATES)) << (8u * b);
        }
        act[out + CANDIDATES / 4u][lid] = word;
    }
}
