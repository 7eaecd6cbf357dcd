// Attention of layers.wgsl in the order of attend_head.wgsl. A workgroup takes a span of a head, 32 threads a chunk, for as many nodes as fall to it; keys
// and values are loaded before the query is there. It folds the chunks. In a text of one span that is the result; else it goes through the exchange,
// and others fold the spans.
const QUERY = HEAD_DIM / 4u; // vec4u
const OWN_K = N * QUERY;     // in the inbox: keys and values of this step behind the queries
const OWN_V = OWN_K + N * HD8;
const RESULTS = OWN_V + N * HD8; // [chunk, or span][RESULT_WORDS / 4]
const RESULT_WORDS = HEAD_DIM + 4u; // values, maximum, sum, nothing

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

fn span_at(layer: u32, span: u32, node: u32, head: u32) -> u32 { return SPANS_AT + (((span * LAYERS + layer) * N + node) * HEADS + head) * RESULT_WORDS; }
fn put_result(chunk: u32, k: u32, x: f32) { put(4u * RESULTS + chunk * RESULT_WORDS + k, bitcast<u32>(x)); }

// A span of one head, of the nodes from node0 to `after`. `at`: of the layer in the exchange; `whole`: there is no other span.
fn attend_span(lid: u32, base: u32, layer: u32, nodes: u32, node0: u32, after: u32, head: u32, span: u32, at: u32, whole: bool) {
    let p = lid % CHUNK;
    let pos = node_slot(0u);
    let kv_head = head / (HEADS / KV_HEADS);
    let cache = params[layer].kv + kv_head * CTX * HD8;
    let values = cache + KV_STRIDE;
    let last = max(pos, 1u) - 1u; // position in the cache; for those behind it something is loaded
    let b = p / 8u * 8u; // of the values, eight lanes take a quarter of the positions, eight dimensions each
    var first = (SPAN * span + lid / CHUNK) * CHUNK;
    var k0 = load_key(cache, min(first + p, last), 0u);
    var v0 = load_values(values, first + b, last, min(p % 8u, HD8 - 1u));

    take(lid, at + QUERY_AT + node0 * Q_ROWS + head * HEAD_DIM, (after - node0) * HEAD_DIM, 0u, HEAD_DIM, Q_ROWS);
    if ((span + 1u) * SPAN * CHUNK > pos) {
        let pairs = HEAD_DIM / 2u;
        take((lid + WG / 2u) % WG, at + KEY_AT + kv_head * pairs, nodes * pairs, 4u * OWN_K, pairs, KV_ROWS / 2u);
        take((lid + WG / 4u) % WG, at + VALUE_AT + kv_head * pairs, nodes * pairs, 4u * OWN_V, pairs, KV_ROWS / 2u);
    }
    workgroupBarrier();
    for (var node = node0; node < after; node++) {
        let n = node_position(node) + 1u;
        let chunks = min(max((n + CHUNK - 1u) / CHUNK, SPAN * span) - SPAN * span, SPAN); // that the node has of the span
        for (var c0 = 0u; c0 < chunks; c0 += WG / CHUNK) {
            let c = c0 + lid / CHUNK;
            first = (SPAN * span + c) * CHUNK;
            if (WG / CHUNK < SPAN && (c0 > 0u || node > node0)) {
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
                a = score(a, (node - node0) * QUERY, j, k);
            }
            let s = select(LOWEST, (a.x + a.y) + (a.z + a.w), first + p < n);
            var largest = s;
            for (var m = 1u; m < 32u; m <<= 1u) {
                largest = max(largest, swap(lid, base, largest, m));
            }
            let e = exp(s - largest);
            var l = lend(lid, base, e, p & 3u); // four sums over positions equal modulo 4
            for (var j = 1u; j < 8u; j++) {
                l += lend(lid, base, e, (p & 3u) + 4u * j);
            }
            l += swap(lid, base, l, 1u);
            l += swap(lid, base, l, 2u);
            let exists = first < n;
            if (p < 2u && exists) {
                put_result(c, HEAD_DIM + p, select(l, largest, p == 0u));
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
                let odd = (b & 8u) != 0u; // quarters of the positions are added, and each lane goes on with half of what it had, two of the eight in the end
                let half = select(vec4f(o.lo.xy, o.hi.xy), vec4f(o.lo.zw, o.hi.zw), odd) +
                           swap4(lid, base, select(vec4f(o.lo.zw, o.hi.zw), vec4f(o.lo.xy, o.hi.xy), odd), 8u);
                let late = (b & 16u) != 0u;
                let two = select(half.xy, half.zw, late) + swap2(lid, base, select(half.zw, half.xy, late), 16u);
                if (d0 + p % 8u < HD8 && exists) {
                    put_result(c, 8u * d8 + b / 4u, two.x);
                    put_result(c, 8u * d8 + b / 4u + 1u, two.y);
                }
            }
        }
        workgroupBarrier();
        if (whole) {
            finish_head(lid, base, node, head, chunks, at);
        } else if (chunks > 0u) {
            let o = fold_results(lid, chunks);
            let to = span_at(layer, span, node, head);
            if (lid < QUERY) {
                hand_out_words(to + 4u * lid, bitcast<vec4u>(o.values));
            }
            if (lid == QUERY) {
                hand_out_words(to + HEAD_DIM, vec4u(bitcast<u32>(o.largest), bitcast<u32>(o.sum), 0u, 0u));
            }
        }
        workgroupBarrier(); // what comes next goes into the inbox that others still read
    }
}

struct Folded {
    largest: f32,
    sum: f32,
    values: vec4f,
}
// Folds what is in the inbox. A thread below QUERY has four of the values, one more the sum.
fn fold_results(lid: u32, count: u32) -> Folded {
    var o = Folded(LOWEST, 0.0, vec4f());
    if (lid <= QUERY) {
        for (var c = 0u; c < count; c++) {
            let at = RESULTS + c * (RESULT_WORDS / 4u);
            let next = bitcast<vec4f>(inbox[at + QUERY]);
            let values = bitcast<vec4f>(inbox[at + min(lid, QUERY - 1u)]);
            let after = max(o.largest, next.x);
            let a = exp(o.largest - after);
            let b = exp(next.x - after);
            o = Folded(after, fma(o.sum, a, next.y * b), fma(o.values, vec4f(a), values * b));
        }
    }
    return o;
}
// What the results in the inbox make of a head, quantised.
fn finish_head(lid: u32, base: u32, node: u32, head: u32, count: u32, at: u32) {
    let o = fold_results(lid, count);
    let value = o.values / o.sum;
    let block = (node * HEADS + head) * (HEAD_DIM / 32u) + lid / 8u;
    publish(lid, base, value, value, select(SKIP, (at + ATTENDED_AT + block * BLOCK_WORDS) / 4u, lid < QUERY));
}
// The same from the spans in the exchange.
fn fold_spans(lid: u32, base: u32, layer: u32, node: u32, head: u32, at: u32) {
    let spans = node_position(node) / (SPAN * CHUNK) + 1u;
    take(lid, span_at(layer, 0u, node, head), spans * RESULT_WORDS, 4u * RESULTS, RESULT_WORDS, LAYERS * N * HEADS * RESULT_WORDS);
    workgroupBarrier();
    finish_head(lid, base, node, head, spans, at);
    workgroupBarrier(); // as above
}
