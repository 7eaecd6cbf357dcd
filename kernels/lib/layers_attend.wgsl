// Attention of layers.wgsl in the order of attend_head.wgsl, in two parts: chunks, one for each 32 threads, whose keys and values are loaded before the
// query is there; and folding what the chunks gave a head. Over one node (SPREAD) the chunks are spread over workgroups and their results go through
// the exchange; of trees, which have more heads than that, a workgroup takes all chunks of one head of one node.
const SPREAD = N == 1u;
const SPLIT = WG / CHUNK; // chunks
const CHUNK_WORDS = HEAD_DIM + 4u; // values, maximum, sum, nothing
const OWN_K = HEAD_DIM / 4u; // in the inbox, vec4u: behind the query
const OWN_V = OWN_K + N * HD8;
const RESULTS = OWN_V + N * HD8; // [chunk][CHUNK_WORDS / 4]
var<workgroup> chunk_ab: array<vec2f, (MOST_CHUNKS + CHUNK - 1u) / CHUNK * CHUNK>;

// A key from dimension 8 j on. What lies behind its end is not used.
fn load_key(cache: u32, slot: u32, j: u32) -> Eight {
    let k = cache + (slot / 32u) * (HD8 * 32u) + slot % 32u + 32u * j;
    return Eight(kv[k], kv[k + 32u], kv[k + 64u], kv[k + 96u], kv[k + 128u], kv[k + 160u], kv[k + 192u], kv[k + 224u]);
}
fn own_key(own: u32, j: u32) -> Eight {
    let i = OWN_K + own * HD8 + j;
    return Eight(inbox[i], inbox[i + 1u], inbox[i + 2u], inbox[i + 3u], inbox[i + 4u], inbox[i + 5u], inbox[i + 6u], inbox[i + 7u]);
}
fn score8(a: vec4f, q: u32, w: vec4u) -> vec4f {
    return fma(unpack_hi(w), bitcast<vec4f>(inbox[q + 1u]), fma(unpack_lo(w), bitcast<vec4f>(inbox[q]), a));
}
fn score(a: vec4f, query: u32, j: u32, w: Eight) -> vec4f {
    let q = query + 2u * j;
    let half = score8(score8(score8(score8(a, q, w.a), q + 2u, w.b), q + 4u, w.c), q + 6u, w.d);
    if (HD8 % 8u != 0u && j + 8u > HD8) {
        return half;
    }
    return score8(score8(score8(score8(half, q + 8u, w.e), q + 10u, w.f), q + 12u, w.g), q + 14u, w.h);
}
fn value_at(values: u32, slot: u32, d8: u32) -> vec4u { return kv[values + slot * HD8 + d8]; }
fn load_values(values: u32, q: u32, last: u32, d8: u32) -> Eight {
    return Eight(value_at(values, min(q, last), d8), value_at(values, min(q + 1u, last), d8), value_at(values, min(q + 2u, last), d8),
                 value_at(values, min(q + 3u, last), d8), value_at(values, min(q + 4u, last), d8), value_at(values, min(q + 5u, last), d8),
                 value_at(values, min(q + 6u, last), d8), value_at(values, min(q + 7u, last), d8));
}
fn own_or(v: vec4u, node: u32, position: u32, n: u32, pos: u32, d8: u32) -> vec4u {
    if (position < pos) {
        return v;
    }
    return inbox[OWN_V + (slot_of(node, min(position, n - 1u)) - pos) * HD8 + d8]; // an absent position weighs nothing
}
fn values_of(v: Eight, node: u32, q: u32, n: u32, pos: u32, d8: u32) -> Eight {
    if (q + 7u < pos) {
        return v;
    }
    return Eight(own_or(v.a, node, q, n, pos, d8), own_or(v.b, node, q + 1u, n, pos, d8), own_or(v.c, node, q + 2u, n, pos, d8),
                 own_or(v.d, node, q + 3u, n, pos, d8), own_or(v.e, node, q + 4u, n, pos, d8), own_or(v.f, node, q + 5u, n, pos, d8),
                 own_or(v.g, node, q + 6u, n, pos, d8), own_or(v.h, node, q + 7u, n, pos, d8));
}

fn chunk_at(layer: u32, chunk: u32, head: u32) -> u32 { return CHUNKS_AT + ((chunk * LAYERS + layer) * HEADS + head) * CHUNK_WORDS; }
fn put_result(layer: u32, chunk: u32, head: u32, k: u32, x: f32) {
    if (SPREAD) {
        hand_out(chunk_at(layer, chunk, head) + k, bitcast<u32>(x));
    } else {
        put(4u * RESULTS + chunk * CHUNK_WORDS + k, bitcast<u32>(x));
    }
}

// Chunks `split` * SPLIT and after, up to `end`, of one head of one node. False: what they need did not come.
fn attend_chunks(lid: u32, base: u32, layer: u32, nodes: u32, node: u32, head: u32, split: u32, end: u32, at: u32) -> bool {
    let p = lid % CHUNK;
    let pos = node_slot(0u);
    let n = node_position(node) + 1u;
    let kv_head = head / (HEADS / KV_HEADS);
    let cache = params[layer].kv + kv_head * CTX * HD8;
    let values = cache + KV_STRIDE;
    let last = max(pos, 1u) - 1u; // position in the cache; for those behind it something is loaded
    let b = p / 8u * 8u; // of the values, eight lanes take a quarter of the positions, eight dimensions each
    var chunk = SPLIT * split + lid / CHUNK;
    var k0 = load_key(cache, min(chunk * CHUNK + p, last), 0u);
    var v0 = load_values(values, chunk * CHUNK + b, last, min(p % 8u, HD8 - 1u));

    take(lid, at + QUERY_AT + node * Q_ROWS + head * HEAD_DIM, HEAD_DIM, 0u, HEAD_DIM, HEAD_DIM);
    if (!SPREAD || SPLIT * CHUNK * (split + 1u) > pos) {
        let pairs = HEAD_DIM / 2u;
        take((lid + WG / 2u) % WG, at + KEY_AT + kv_head * pairs, nodes * pairs, 4u * OWN_K, pairs, KV_ROWS / 2u);
        take((lid + WG / 4u) % WG, at + VALUE_AT + kv_head * pairs, nodes * pairs, 4u * OWN_V, pairs, KV_ROWS / 2u);
    }
    if (!arrived()) {
        return false;
    }
    for (var c0 = SPLIT * split; c0 < end; c0 += SPLIT) {
        chunk = c0 + lid / CHUNK;
        let first = chunk * CHUNK;
        if (c0 > SPLIT * split) {
            k0 = load_key(cache, min(first + p, last), 0u);
            v0 = load_values(values, first + b, last, min(p % 8u, HD8 - 1u));
        }
        let own = first + p >= pos;
        let slot = slot_of(node, min(first + p, n - 1u));
        var a = vec4f();
        for (var j = 0u; j < HD8; j += 8u) {
            var k = k0;
            if (own) {
                k = own_key(max(slot, pos) - pos, j);
            } else if (j > 0u) {
                k = load_key(cache, slot, j);
            }
            a = score(a, 0u, j, k);
        }
        let s = select(LOWEST, (a.x + a.y) + (a.z + a.w), first + p < n);
        var largest = s;
        for (var m = 1u; m < 32u; m <<= 1u) {
            largest = max(largest, lend(lid, base, largest, p ^ m));
        }
        let e = exp(s - largest);
        var l = lend(lid, base, e, p & 3u); // four sums over positions equal modulo 4
        for (var j = 1u; j < 8u; j++) {
            l += lend(lid, base, e, (p & 3u) + 4u * j);
        }
        l += lend(lid, base, l, p ^ 1u);
        l += lend(lid, base, l, p ^ 2u);
        let exists = first < n;
        if (p < 4u && exists) {
            put_result(layer, chunk, head, HEAD_DIM + p, select(select(0.0, l, p == 1u), largest, p == 0u));
        }
        for (var d0 = 0u; d0 < HD8; d0 += 8u) {
            let d8 = min(d0 + p % 8u, HD8 - 1u);
            var v = v0;
            if (d0 > 0u) {
                v = load_values(values, first + b, last, d8);
            }
            v = values_of(v, node, first + b, n, pos, d8);
            var o = Pair(vec4f(), vec4f());
            o = weigh(o, lend(lid, base, e, b), v.a);
            o = weigh(o, lend(lid, base, e, b + 1u), v.b);
            o = weigh(o, lend(lid, base, e, b + 2u), v.c);
            o = weigh(o, lend(lid, base, e, b + 3u), v.d);
            o = weigh(o, lend(lid, base, e, b + 4u), v.e);
            o = weigh(o, lend(lid, base, e, b + 5u), v.f);
            o = weigh(o, lend(lid, base, e, b + 6u), v.g);
            o = weigh(o, lend(lid, base, e, b + 7u), v.h);
            for (var m = 8u; m < 32u; m <<= 1u) {
                o = Pair(o.lo + lend4(lid, base, o.lo, p ^ m), o.hi + lend4(lid, base, o.hi, p ^ m));
            }
            if (d0 + p % 8u < HD8 && exists) { // each quarter of the lanes puts two of the eight
                let two = select(select(o.lo.xy, o.lo.zw, b == 8u), select(o.hi.xy, o.hi.zw, b == 24u), b >= 16u);
                put_result(layer, chunk, head, 8u * d8 + b / 4u, two.x);
                put_result(layer, chunk, head, 8u * d8 + b / 4u + 1u, two.y);
            }
        }
    }
    workgroupBarrier(); // what comes next goes into the inbox that others still read
    return true;
}

struct Folded {
    sum: f32,
    values: vec4f,
}
fn fold(o: Folded, c: u32, d4: u32) -> Folded {
    let ab = chunk_ab[c];
    let at = RESULTS + c * (CHUNK_WORDS / 4u);
    let l = bitcast<f32>(inbox[at + HEAD_DIM / 4u].y);
    return Folded(fma(o.sum, ab.x, l * ab.y), fma(o.values, vec4f(ab.x), bitcast<vec4f>(inbox[at + d4]) * ab.y));
}
// Largest score up to each chunk, for the first 32 threads.
fn fold_maxima(lid: u32, base: u32, chunks: u32) {
    let p = lid & 31u;
    var so_far = LOWEST;
    for (var c0 = 0u; c0 < chunks; c0 += CHUNK) {
        let mc = bitcast<f32>(inbox[RESULTS + min(c0 + p, chunks - 1u) * (CHUNK_WORDS / 4u) + HEAD_DIM / 4u].x);
        var after = max(so_far, mc);
        for (var k = 1u; k < CHUNK; k <<= 1u) {
            after = max(after, lend(lid, base, after, max(p, k) - k)); // the first one's is among those before anyway
        }
        let before = select(so_far, lend(lid, base, after, max(p, 1u) - 1u), p > 0u);
        if (lid < CHUNK) {
            chunk_ab[c0 + p] = vec2f(exp(before - after), exp(mc - after));
        }
        so_far = lend(lid, base, after, CHUNK - 1u);
    }
}
// What the chunks of a head gave, quantised. They are in the inbox, or on their way to it.
fn fold_chunks(lid: u32, base: u32, layer: u32, node: u32, head: u32, at: u32) -> bool {
    let chunks = node_position(node) / CHUNK + 1u;
    if (SPREAD) {
        take(lid, chunk_at(layer, 0u, head), chunks * CHUNK_WORDS, 4u * RESULTS, CHUNK_WORDS, LAYERS * HEADS * CHUNK_WORDS);
    }
    if (!arrived()) {
        return false;
    }
    fold_maxima(lid, base, chunks);
    workgroupBarrier();
    var o = Folded(0.0, vec4f());
    let d4 = min(lid, HEAD_DIM / 4u - 1u);
    if (lid < HEAD_DIM / 4u) {
        var c = 0u;
        for (; c + 4u <= chunks; c += 4u) { // written out, so that loads don't wait for sums
            o = fold(fold(fold(fold(o, c, d4), c + 1u, d4), c + 2u, d4), c + 3u, d4);
        }
        for (; c < chunks; c++) {
            o = fold(o, c, d4);
        }
    }
    let value = o.values / o.sum;
    let block = (node * HEADS + head) * (HEAD_DIM / 32u) + lid / 8u;
    publish(lid, base, value, value, select(SKIP, (at + ATTENDED_AT + block * BLOCK_WORDS) / 4u, lid < HEAD_DIM / 4u));
    workgroupBarrier(); // as above
    return true;
}
