// Attention of a tile of QNODES nodes of a chain, quantised for the output projection: prefill on GPUs. The same sums in the same order as
// attend_split and merge. BLOCK_CHUNKS chunks at a time, a block: scores, each thread's of four rows and four positions; the softmax of every
// chunk (lib/attend_block.wgsl); values, each thread's of four rows and four dimensions, which stay in registers. What the cache has is
// loaded a step ahead of its use, the first of it ahead of the barriers before. Where threads outnumber such values, SHARERS of them share
// the chunks of a block, and the first folds what the others hand over. Grid (kv heads, nodes / QNODES).
const TOKS = QNODES;
const QBLOCKS = GROUP * HEAD_DIM / 32u;
const VALUES = PADDED / 4u * HD4;     // of four rows and dimensions
const SHARE = BLOCK_CHUNKS / SHARERS; // chunks
const_assert VALUES * SHARERS <= WG && PADDED <= WG && SPAN % BLOCK_CHUNKS == 0u;
var<workgroup> handed: array<vec4f, max((BLOCK_CHUNKS - SHARE) * VALUES * 4u, 1u)>; // [chunk behind the first sharer's][row of four][VALUES]
var<workgroup> span_ab: array<vec2f, PADDED>; // what the span does to those before it, and to its own
var<private> values: u32; // dimensions of the thread, in the cache: words `half` and the next
var<private> half: u32;

fn gain(block: u32, e: u32) -> f32 { return 1.0; }
fn act_out(block: u32, token: u32) -> u32 {
    return select(SKIP, ACT_A + ((node0 + token) * BLOCKS + kv_head * QBLOCKS + block) * OUT_SIZE, node0 + token < node_count());
}
fn quad(block: u32, e: u32, token: u32) -> vec4f { // of the result, in place of the query; its sum in that of the largest score
    let q = block * 8u + e; // of the group's heads
    let row = token * GROUP + q / HD4;
    return query[row * HD4 + q % HD4] / top[row];
}

fn value_at(position: u32) -> vec2u {
    let i = values + slot_of(node0, min(position, last)) * HD8;
    return vec2u(kv[i][half], kv[i][half + 1u]);
}
fn load_values(p: u32) -> Four { // a quarter of a chunk
    return Four(vec4u(value_at(p), value_at(p + 1u)), vec4u(value_at(p + 2u), value_at(p + 3u)), vec4u(value_at(p + 4u), value_at(p + 5u)),
                vec4u(value_at(p + 6u), value_at(p + 7u)));
}
fn weights(e: u32) -> mat4x4f { // of four positions, [position]
    return transpose(mat4x4f(score[e], score[e + ROW_STRIDE], score[e + 2u * ROW_STRIDE], score[e + 3u * ROW_STRIDE]));
}
fn add_position(o: mat4x4f, e: vec4f, v: vec4f) -> mat4x4f {
    return mat4x4f(fma(vec4f(e.x), v, o[0]), fma(vec4f(e.y), v, o[1]), fma(vec4f(e.z), v, o[2]), fma(vec4f(e.w), v, o[3]));
}
fn quarter_values(e: u32, v: Four) -> mat4x4f {
    let w = weights(e);
    let o = add_position(add_position(add_position(add_position(mat4x4f(), w[0], unpack_lo(v.a)), w[1], unpack_hi(v.a)), w[2], unpack_lo(v.b)), w[3], unpack_hi(v.b));
    let x = weights(e + 1u);
    return add_position(add_position(add_position(add_position(o, x[0], unpack_lo(v.c)), x[1], unpack_hi(v.c)), x[2], unpack_lo(v.d)), x[3], unpack_hi(v.d));
}

fn fold_row(value: vec4f, f: vec2f, o: vec4f) -> vec4f { return fma(value, vec4f(f.x), o * f.y); }
fn fold(value: mat4x4f, row: u32, c: u32, o: mat4x4f) -> mat4x4f {
    let x = row * BLOCK_CHUNKS + c;
    return mat4x4f(fold_row(value[0], ab[x], o[0]), fold_row(value[1], ab[x + BLOCK_CHUNKS], o[1]), fold_row(value[2], ab[x + 2u * BLOCK_CHUNKS], o[2]),
                   fold_row(value[3], ab[x + 3u * BLOCK_CHUNKS], o[3]));
}

@compute @workgroup_size(WG)
fn attend_tile(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) group: vec3u) {
    let nodes = node_count();
    let tile0 = group.y * QNODES;
    if (tile0 >= nodes) {
        return;
    }
    let end = node_position(min(tile0 + QNODES, nodes) - 1u) + 1u;
    let item = lid % VALUES; // of the values
    let sharer = lid / VALUES;
    let row = item / HD4 * 4u;
    node0 = tile0;
    kv_head = group.x;
    last = end - 1u;
    keys = params.kv + kv_head * CTX * HD8;
    values = keys + KV_STRIDE + item % HD4 / 2u;
    half = item % 2u * 2u;
    var k = load_keys(keys_at(lid % APART), 0u);
    load_queries(lid, nodes);
    if (lid < PADDED) {
        top[lid] = LOWEST;
    }
    var span = mat4x4f(); // values so far, [row]; of the first sharer
    var all = mat4x4f();  // of the spans before
    let sum_row = WG - 1u - lid; // of maximum and sum; the last threads have the least to do then
    var span_sum = online_start();
    var all_sum = online_start();
    workgroupBarrier();
    for (var first = 0u; first < end; first += BLOCK) {
        block_scores(lid, first, k);
        var v = load_values(first + sharer * SHARE * CHUNK);
        workgroupBarrier();
        find_peaks(lid);
        workgroupBarrier();
        exponentials(lid, first);
        workgroupBarrier();
        let chunks = min(BLOCK_CHUNKS, (end - first + CHUNK - 1u) / CHUNK);
        for (var c = sharer * SHARE; c < min(chunks, min(sharer + 1u, SHARERS) * SHARE); c++) {
            var o = mat4x4f();
            for (var h = 0u; h < 2u; h++) { // halves
                let e = row * ROW_STRIDE + c * STRIDE + h * 4u;
                let p = first + c * CHUNK + h * 16u;
                let v1 = load_values(p + 8u);
                let o0 = quarter_values(e, v);
                v = load_values(p + 16u);
                o += o0 + quarter_values(e + 2u, v1); // the first to zero
            }
            if (sharer == 0u) {
                span = fold(span, row, c, o);
            } else {
                let at = (c - SHARE) * VALUES * 4u + item;
                handed[at] = o[0];
                handed[at + VALUES] = o[1];
                handed[at + 2u * VALUES] = o[2];
                handed[at + 3u * VALUES] = o[3];
            }
        }
        k = load_keys(keys_at(first + BLOCK + lid % APART), 0u);
        workgroupBarrier();
        for (var c = SHARE; c < chunks && sharer == 0u; c++) {
            let at = (c - SHARE) * VALUES * 4u + item;
            span = fold(span, row, c, mat4x4f(handed[at], handed[at + VALUES], handed[at + 2u * VALUES], handed[at + 3u * VALUES]));
        }
        let span_ends = first + BLOCK >= end || (first + BLOCK) % (SPAN * CHUNK) == 0u;
        if (sum_row < QROWS) {
            for (var x = sum_row * BLOCK_CHUNKS; x < sum_row * BLOCK_CHUNKS + chunks; x++) {
                span_sum.l = fma(span_sum.l, ab[x].x, ((sums[x].x + sums[x].y) + (sums[x].z + sums[x].w)) * ab[x].y);
                span_sum.m = max(span_sum.m, peak[x]);
            }
            if (span_ends) {
                all_sum = online_fold(all_sum, span_sum.m, span_sum.l);
                span_ab[sum_row] = vec2f(all_sum.a, all_sum.b);
                span_sum = online_start();
            }
            top[sum_row] = span_sum.m;
        }
        if (span_ends) {
            workgroupBarrier();
            all = mat4x4f(fold_row(all[0], span_ab[row], span[0]), fold_row(all[1], span_ab[row + 1u], span[1]), fold_row(all[2], span_ab[row + 2u], span[2]),
                          fold_row(all[3], span_ab[row + 3u], span[3]));
            span = mat4x4f();
        }
    }
    if (sharer == 0u) {
        let at = row * HD4 + item % HD4;
        query[at] = all[0];
        query[at + HD4] = all[1];
        query[at + 2u * HD4] = all[2];
        query[at + 3u * HD4] = all[3];
    }
    if (sum_row < QROWS) {
        top[sum_row] = all_sum.l;
    }
    workgroupBarrier();
    quantise(lid);
}
