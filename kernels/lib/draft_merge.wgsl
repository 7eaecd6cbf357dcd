// The CANDIDATES largest keys of all slices: longer matches first, of equals later slices, which have later places. So the candidates of a
// slice with one match, a run, are one behind the other in the whole, too: only its begin is looked for.
const SCAN = min(WG, PAIRS / 2u);                 // threads
const RUN = (SLICES + SCAN - 1u) / SCAN;          // slices of a thread
var<workgroup> starts: array<atomic<u32>, 2>;     // a bit for each rank: a run begins there
var<workgroup> runs: array<u32, CANDIDATES>;      // where in all slices it comes from
var<workgroup> working: u32;                      // slices; 0: nothing to do
var<private> memory: u32;
var<private> sequence: u32;
var<private> known: u32;                          // candidates

// Counts, a byte for each match, which go up to 127: more than CANDIDATES is all the same.
fn add_counts(a: vec2u, b: vec2u) -> vec2u {
    let sum = a + b;
    let over = (sum >> vec2u(7u)) & vec2u(0x01010101u);
    return (sum | ((over << vec2u(7u)) - over)) & vec2u(0x7f7f7f7fu);
}
fn longer_by(v: vec2u, bytes: u32) -> vec2u { return vec2u((v.x >> (8u * bytes)) | (v.y << (32u - 8u * bytes)), v.y >> (8u * bytes)); }

// Ranks of a slice's runs. `place`: candidates before them, for each match.
fn put_runs(slice: u32, counts: vec2u, place: vec2u) {
    var i = slice * CANDIDATES;
    for (var m = ORDERS; m > 0u; m--) {
        let shift = 8u * ((m - 1u) & 3u);
        let n = (select(counts.x, counts.y, m > 4u) >> shift) & 255u;
        let rank = (select(place.x, place.y, m > 4u) >> shift) & 255u;
        if (n > 0u && rank < CANDIDATES) {
            runs[rank] = i;
            atomicOr(&starts[rank / 32u], 1u << (rank % 32u));
        }
        i += n;
    }
}

// False for the whole workgroup if there is nothing to do. Then merged_keys may be called.
fn merge(lid: u32) -> bool {
    memory = memory_count();
    sequence = sequence_count();
    if (lid == 0u) {
        working = select(0u, (memory + sequence + SLICE - 1u) / SLICE, state.control.finished == 0u);
    }
    let slices = workgroupUniformLoad(&working);
    if (slices == 0u) {
        return false;
    }
    var counts: array<vec2u, RUN>;
    var sum = vec2u();
    for (var k = 0u; k < RUN; k++) {
        let slice = lid * RUN + k;
        if (lid < SCAN && slice < slices) {
            counts[k] = act[DRAFT_AT + slice * DRAFT_SIZE + CANDIDATES / 4u].xy;
            sum = add_counts(sum, counts[k]);
        }
    }
    var half = 0u; // two halves by turns
    if (lid < SCAN) {
        alike[lid] = sum;
    }
    workgroupBarrier();
    for (var m = 1u; m * RUN < slices; m *= 2u) { // sums over all slices from a thread's on
        if (lid + m < SCAN) {
            sum = add_counts(sum, alike[half + lid + m]);
        }
        half = SCAN - half;
        if (lid < SCAN) {
            alike[half + lid] = sum;
        }
        workgroupBarrier();
    }
    let all = alike[half];
    var longer = longer_by(all, 1u);
    longer = add_counts(longer, longer_by(longer, 1u));
    longer = add_counts(longer, longer_by(longer, 2u));
    longer = add_counts(longer, vec2u(longer.y, 0u));
    known = min(add_counts(longer, all).x & 255u, CANDIDATES);
    if (lid < SCAN) {
        var place = longer;
        if (lid + 1u < SCAN) {
            place = add_counts(longer, alike[half + lid + 1u]);
        }
        for (var k = RUN; k > 0u; k--) {
            if (any(counts[k - 1u] != vec2u())) {
                put_runs(lid * RUN + k - 1u, counts[k - 1u], place);
                place = add_counts(place, counts[k - 1u]);
            }
        }
    }
    workgroupBarrier();
    return true;
}

// Keys of four ranks of a multiple of four; 0: none.
fn merged_keys(rank: vec4u) -> vec4u {
    let r = min(rank, vec4u(max(known, 1u) - 1u));
    let lo = atomicLoad(&starts[0]) | 1u;
    let begun = select(vec4u(lo), vec4u(atomicLoad(&starts[1])), r >= vec4u(32u)) & (vec4u(0xffffffffu) >> (31u - r % 32u));
    let start = select((r & vec4u(32u)) + firstLeadingBit(begun), vec4u(firstLeadingBit(lo)), begun == vec4u());
    let i = vec4u(runs[start.x], runs[start.y], runs[start.z], runs[start.w]) + r - start;
    let at = DRAFT_AT + i / CANDIDATES * DRAFT_SIZE + (i % CANDIDATES) / 4u;
    let keys = vec4u(act[at.x][i.x & 3u], act[at.y][i.y & 3u], act[at.z][i.z & 3u], act[at.w][i.w & 3u]);
    return select(keys, vec4u(), rank >= vec4u(known));
}
