// Decode attention in one dispatch, for contexts of up to MOST_CHUNKS: a workgroup takes one query head of one node, 32 of its threads a chunk
// at a time; then what the chunks gave is folded in order of position. The same sums in the same order as attend_split and merge. For
// subgroups of 32 or more. Grid (heads, nodes).
const TOKS = 1u;
const QBLOCKS = HEAD_DIM / 32u;
var<workgroup> query: array<vec4f, HEAD_DIM / 4u>;
var<workgroup> chunk_ml: array<vec2f, MOST_CHUNKS>;                  // maximum and sum of a chunk
var<workgroup> chunk_ab: array<vec2f, MOST_CHUNKS>;                  // what it does to its span's values so far, and to its own (online.wgsl)
var<workgroup> span_max: array<f32, MOST_CHUNKS / SPAN>;             // its largest score
var<workgroup> chunk_o: array<vec4f, MOST_CHUNKS * (HEAD_DIM / 4u)>; // its values
var<private> node: u32;
var<private> head: u32;
var<private> value: vec4f; // of a thread below HEAD_DIM / 4: the result

fn gain(block: u32, e: u32) -> f32 { return 1.0; }
fn act_out(block: u32, token: u32) -> u32 { return ACT_A + ((node * HEADS + head) * QBLOCKS + block) * OUT_SIZE; }
fn quad(block: u32, e: u32, token: u32) -> vec4f { return value; }

// Adds the products of four words of a key, 32 dimensions.
fn score4(a: vec4f, q: u32, w: vec4u, x: vec4u, y: vec4u, z: vec4u) -> vec4f {
    let b = fma(unpack_hi(w), query[q + 1u], fma(unpack_lo(w), query[q], a));
    let c = fma(unpack_hi(x), query[q + 3u], fma(unpack_lo(x), query[q + 2u], b));
    let d = fma(unpack_hi(y), query[q + 5u], fma(unpack_lo(y), query[q + 4u], c));
    return fma(unpack_hi(z), query[q + 7u], fma(unpack_lo(z), query[q + 6u], d));
}

fn value_at(cache: u32, position: u32, n: u32, d8: u32) -> vec4u {
    return kv[cache + KV_STRIDE + slot_of(node, min(position, n - 1u)) * HD8 + min(d8, HD8 - 1u)];
}
fn load_values(cache: u32, q: u32, n: u32, d8: u32) -> Eight {
    return Eight(value_at(cache, q, n, d8), value_at(cache, q + 1u, n, d8), value_at(cache, q + 2u, n, d8), value_at(cache, q + 3u, n, d8),
                 value_at(cache, q + 4u, n, d8), value_at(cache, q + 5u, n, d8), value_at(cache, q + 6u, n, d8), value_at(cache, q + 7u, n, d8));
}

// One of the chunks of the `n` positions that the node sees. `p`: position within the chunk; `base`: lane of its first. Loads are written out,
// so that eight are under way at once; of an absent position the last one's are loaded, and weigh nothing.
fn attend_chunk(chunk: u32, n: u32, p: u32, base: u32) {
    let first = chunk * CHUNK;
    let cache = params.kv + head / (HEADS / KV_HEADS) * CTX * HD8;
    let slot = slot_of(node, min(first + p, n - 1u));
    var k = cache + (slot / 32u) * (HD8 * 32u) + slot % 32u;
    var a = vec4f();
    for (var j = 0u; j < HD8; j += 8u) {
        let w = kv[k];
        let x = kv[k + 32u];
        let y = kv[k + 64u];
        let z = kv[k + 96u];
        if (HD8 % 8u == 0u) {
            let w4 = kv[k + 128u];
            let x4 = kv[k + 160u];
            let y4 = kv[k + 192u];
            let z4 = kv[k + 224u];
            a = score4(score4(a, 2u * j, w, x, y, z), 2u * j + 8u, w4, x4, y4, z4);
        } else {
            a = score4(a, 2u * j, w, x, y, z);
            if (j + 8u <= HD8) {
                a = score4(a, 2u * j + 8u, kv[k + 128u], kv[k + 160u], kv[k + 192u], kv[k + 224u]);
            }
        }
        k += 256u;
    }
    let s = select(LOWEST, (a.x + a.y) + (a.z + a.w), first + p < n);
    var largest = s;
    for (var m = 1u; m < 32u; m <<= 1u) {
        largest = max(largest, subgroupShuffleXor(largest, m));
    }
    let e = exp(s - largest);
    var l = subgroupShuffle(e, base + (p & 3u)); // four sums over positions equal modulo 4
    for (var j = 1u; j < 8u; j++) {
        l += subgroupShuffle(e, base + (p & 3u) + 4u * j);
    }
    l += subgroupShuffleXor(l, 1u);
    l += subgroupShuffleXor(l, 2u);
    if (p == 0u) {
        chunk_ml[chunk] = vec2f(largest, l);
    }
    let b = base + p / 8u * 8u; // of the values, eight lanes take a quarter of the positions, eight dimensions each
    for (var d0 = 0u; d0 < HD8; d0 += 8u) {
        let v = load_values(cache, first + p / 8u * 8u, n, d0 + p % 8u);
        var o = Pair(vec4f(), vec4f());
        o = weigh(o, subgroupShuffle(e, b), v.a);
        o = weigh(o, subgroupShuffle(e, b + 1u), v.b);
        o = weigh(o, subgroupShuffle(e, b + 2u), v.c);
        o = weigh(o, subgroupShuffle(e, b + 3u), v.d);
        o = weigh(o, subgroupShuffle(e, b + 4u), v.e);
        o = weigh(o, subgroupShuffle(e, b + 5u), v.f);
        o = weigh(o, subgroupShuffle(e, b + 6u), v.g);
        o = weigh(o, subgroupShuffle(e, b + 7u), v.h);
        for (var m = 8u; m < 32u; m <<= 1u) {
            o = Pair(o.lo + subgroupShuffleXor(o.lo, m), o.hi + subgroupShuffleXor(o.hi, m));
        }
        if (p < 8u && d0 + p < HD8) {
            chunk_o[chunk * (HEAD_DIM / 4u) + 2u * (d0 + p)] = o.lo;
            chunk_o[chunk * (HEAD_DIM / 4u) + 2u * (d0 + p) + 1u] = o.hi;
        }
    }
}

struct Folded {
    sum: f32,
    values: vec4f,
}
fn fold(o: Folded, c: u32, d4: u32) -> Folded {
    let ab = chunk_ab[c];
    return Folded(fma(o.sum, ab.x, chunk_ml[c].y * ab.y), fma(o.values, vec4f(ab.x), chunk_o[c * (HEAD_DIM / 4u) + d4] * ab.y));
}

// Largest score of a span up to each of its chunks; `lane`: of the subgroup. Called by the first 32 threads, which have two spans at a time.
fn fold_maxima(lid: u32, chunks: u32, lane: u32) {
    let k = lid % SPAN; // chunk of the span
    for (var c0 = 0u; c0 < chunks; c0 += 2u * SPAN) {
        let c = c0 + lid;
        let mc = select(LOWEST, chunk_ml[min(c, chunks - 1u)].x, c < chunks);
        var after = mc;
        for (var m = 1u; m < SPAN; m <<= 1u) {
            after = max(after, subgroupShuffle(after, lane - k + max(k, m) - m)); // the first lane's is among those before anyway
        }
        let before = select(LOWEST, subgroupShuffle(after, lane - min(k, 1u)), k > 0u);
        chunk_ab[c] = select(vec2f(1.0, 0.0), vec2f(exp(before - after), exp(mc - after)), c < chunks); // absent ones change nothing
        if (k == SPAN - 1u) {
            span_max[c / SPAN] = after;
        }
    }
}

@compute @workgroup_size(WG)
fn attend_head(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) group: vec3u, @builtin(subgroup_invocation_id) lane: u32) {
    if (group.y >= node_count()) {
        return;
    }
    node = group.y;
    head = group.x;
    let n = node_position(group.y) + 1u;
    let chunks = (n + CHUNK - 1u) / CHUNK;
    if (lid < HEAD_DIM / 4u) {
        query[lid] = work[Q_AT + (node * HEADS + head) * (HEAD_DIM / 4u) + lid];
    }
    workgroupBarrier();
    for (var c = lid / CHUNK; c < chunks; c += WG / CHUNK) {
        attend_chunk(c, n, lid % CHUNK, lane & ~31u);
    }
    workgroupBarrier();
    if (lid < CHUNK) {
        fold_maxima(lid, chunks, lane);
    }
    workgroupBarrier();
    if (lid < HEAD_DIM / 4u) {
        var all = Folded(0.0, vec4f());
        var so_far = LOWEST;
        for (var first = 0u; first < chunks; first += SPAN) {
            var o = Folded(0.0, vec4f());
            for (var c = first; c < min(first + SPAN, chunks); c += 4u) { // written out, so that loads don't wait for sums
                o = fold(fold(fold(fold(o, c, lid), c + 1u, lid), c + 2u, lid), c + 3u, lid);
            }
            let largest = span_max[first / SPAN];
            let after = max(so_far, largest);
            let a = exp(so_far - after);
            let b = exp(largest - after);
            all = Folded(fma(all.sum, a, o.sum * b), fma(all.values, vec4f(a), o.values * b));
            so_far = after;
        }
        value = all.values / all.sum;
    }
    quantise(lid);
}
