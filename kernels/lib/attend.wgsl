// Attention over one chunk of CHUNK = 32 logical positions for QROWS = QNODES * GROUP query rows that share a key head. Chunks are cut by
// logical position, so the order of every sum is that of a linear decode whatever the node or the kernel (doc/reduction.md).
const GROUP = HEADS / KV_HEADS;
const QROWS = QNODES * GROUP;
const HD4 = HEAD_DIM / 4u;
var<workgroup> query: array<vec4f, PADDED * HD4>; // row r: node r / GROUP of the tile, head r % GROUP of the group
var<workgroup> score: array<vec4f, PADDED * 8u>;  // scores, then exponentials, of 32 positions
var<private> kv_head: u32;
var<private> node0: u32;

// Keys lie transposed within blocks of 32 slots, [slot / 32][HEAD_DIM / 8][slot % 32], so that threads with neighbouring positions read
// neighbouring memory; values lie row by row.
fn key_at(slot: u32) -> u32 { // of dimensions 0 to 7; the next eight follow at + 32
    return params.kv + kv_head * CTX * (HEAD_DIM / 8u) + (slot / 32u) * (HEAD_DIM / 8u * 32u) + slot % 32u;
}
fn value_of(slot: u32, d4: u32) -> vec4f { // dimensions 4 * d4 to 4 * d4 + 3
    let w = kv[params.kv + KV_STRIDE + (kv_head * CTX + slot) * (HEAD_DIM / 8u) + (d4 >> 1u)];
    let h = select(w.xy, w.zw, (d4 & 1u) == 1u);
    return vec4f(unpack2x16float(h.x), unpack2x16float(h.y));
}

fn load_queries(lid: u32) {
    for (var i = lid; i < QROWS * HD4; i += WG) {
        let r = i / HD4;
        query[i] = work[Q_AT + ((node0 + r / GROUP) * HEADS + kv_head * GROUP + r % GROUP) * HD4 + i % HD4];
    }
}

fn visible(row: u32, first: u32) -> u32 { // positions of the chunk at `first` that the row sees
    let n = node_position(node0 + row / GROUP) + 1u;
    return min(CHUNK, max(n, first) - first);
}

fn row_softmax(row: u32) -> vec2f { // scores to exponentials; their maximum and sum
    var m = score[row * 8u];
    for (var j = 1u; j < 8u; j++) {
        m = max(m, score[row * 8u + j]);
    }
    let largest = max(max(m.x, m.y), max(m.z, m.w));
    var l = vec4f();
    for (var j = 0u; j < 8u; j++) {
        let e = exp(score[row * 8u + j] - largest);
        score[row * 8u + j] = e;
        l += e;
    }
    return vec2f(largest, (l.x + l.y) + (l.z + l.w));
}
