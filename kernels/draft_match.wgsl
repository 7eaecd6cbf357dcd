// Candidates of the drafter in a slice of SLICE places: the CANDIDATES largest keys, in order, and how many of them have each match
// (src/spec/draft.h, 1 to 3). Grid (slices). Result of a slice in act, vec4u: CANDIDATES / 4 of keys, then one with a byte for each match.
const_assert ORDERS == 8u;
const WORDS = SLICE / 32u;
var<workgroup> places: array<atomic<u32>, ORDERS * WORDS>; // of each match, a bit for each place
var<workgroup> totals: array<atomic<u32>, ORDERS>;

fn total(m: u32) -> u32 { return atomicLoad(&totals[m]); } // m counted from 0
fn word(i: u32) -> u32 { return atomicLoad(&places[i]); }
fn sum(v: vec4u) -> u32 { return v.x + v.y + v.z + v.w; }

// A place among the memory's tokens or the sequence's, from `base` on.
struct Place {
    base: u32,
    at: u32,
}
fn place_of(place: u32, memory: u32) -> Place {
    if (place < memory) {
        return Place(MEMORY_AT, place);
    }
    return Place(0u, place - memory);
}
fn token_before(p: Place, k: u32) -> u32 { return state.tokens[p.base + p.at - min(k, p.at)]; } // any, where there is none

fn match_at(p: Place, sequence: u32) -> u32 { // the token before it is the last
    if (p.base != 0u && state.tokens[p.base + p.at] == BREAK) {
        return 0u;
    }
    let most = min(ORDERS, min(p.at, sequence));
    var n = 1u;
    while (n < most && state.tokens[p.base + p.at - 1u - n] == state.tokens[sequence - 1u - n]) {
        n++;
    }
    return min(n, most);
}

@compute @workgroup_size(WG)
fn draft_match(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) group: vec3u) {
    let finished = state.control.finished;
    let memory = memory_count();
    let sequence = sequence_count();
    let first = group.x * SLICE;
    let end = min(first + SLICE, memory + sequence);
    if (finished != 0u || first >= end) {
        return;
    }
    let last = state.tokens[sequence - 1u];
    for (var i = first + lid; i < end; i += 4u * WG) { // the token before a place mostly differs: four at a time
        let four = min(vec4u(i, i + WG, i + 2u * WG, i + 3u * WG), vec4u(end - 1u));
        let before = vec4u(token_before(place_of(four.x, memory), 1u), token_before(place_of(four.y, memory), 1u),
                           token_before(place_of(four.z, memory), 1u), token_before(place_of(four.w, memory), 1u));
        for (var k = 0u; k < 4u && i + k * WG < end; k++) {
            if (before[k] == last) {
                let m = match_at(place_of(four[k], memory), sequence);
                if (m > 0u) {
                    let bit = four[k] - first;
                    atomicOr(&places[(m - 1u) * WORDS + bit / 32u], 1u << (bit % 32u));
                    atomicAdd(&totals[m - 1u], 1u);
                }
            }
        }
    }
    workgroupBarrier();
    let out = DRAFT_AT + group.x * DRAFT_SIZE;
    let near = vec4u(total(0u), total(1u), total(2u), total(3u)); // matches 1 to 4
    let far = vec4u(total(4u), total(5u), total(6u), total(7u));
    for (var e = lid; e < ORDERS * WORDS; e += WG) { // bits from the last to the first are keys in order
        var bits = atomicLoad(&places[e]);
        if (bits == 0u) {
            continue;
        }
        let m = vec4u(e / WORDS);
        var before = select(vec4u(), near, vec4u(0u, 1u, 2u, 3u) > m) + select(vec4u(), far, vec4u(4u, 5u, 6u, 7u) > m);
        for (var k = 0u; k < WORDS; k += 4u) {
            let w = m.x * WORDS + vec4u(k, k + 1u, k + 2u, k + 3u);
            before += select(vec4u(), countOneBits(vec4u(word(w.x), word(w.y), word(w.z), word(w.w))), w > vec4u(e));
        }
        for (var rank = sum(before); bits != 0u && rank < CANDIDATES; rank++) {
            let bit = firstLeadingBit(bits);
            bits ^= 1u << bit;
            act[out + (rank >> 2u)][rank & 3u] = ((m.x + 1u) << PLACE_BITS) | (first + e % WORDS * 32u + bit);
        }
    }
    for (var i = sum(near + far) + lid; i < CANDIDATES; i += WG) {
        act[out + (i >> 2u)][i & 3u] = 0u;
    }
    if (lid < 2u) { // four matches a thread
        let equal = select(near, far, lid == 1u);
        let above = select(sum(far), 0u, lid == 1u) + vec4u(equal.y + equal.z + equal.w, equal.z + equal.w, equal.w, 0u);
        let stay = min(equal, CANDIDATES - min(above, vec4u(CANDIDATES)));
        act[out + CANDIDATES / 4u][lid] = stay.x | (stay.y << 8u) | (stay.z << 16u) | (stay.w << 24u);
    }
}
