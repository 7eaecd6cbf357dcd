// Attention over one chunk of CHUNK = 32 logical positions for QROWS = QNODES * GROUP query rows that share a key head. Chunks are cut by
// logical position, so the order of every sum is that of a linear decode whatever the node or the kernel (doc/reduction.md).
const GROUP = HEADS / KV_HEADS;
const QROWS = QNODES * GROUP;
const CHUNK = 32u;
const HD4 = HEAD_DIM / 4u;
const LOWEST = -1e30;
var<workgroup> query: array<vec4f, QROWS * HD4>; // row r: node r / GROUP of the tile, head r % GROUP of the group
var<workgroup> score: array<vec4f, QROWS * 8u>;  // scores, then exponentials, of 32 positions
var<private> kv_head: u32;
var<private> node0: u32;

fn key_at(slot: u32) -> u32 { return params.kv + (kv_head * CTX + slot) * (HEAD_DIM / 8u); }

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

fn chunk_scores(lid: u32, first: u32) {
    for (var i = lid; i < QROWS * CHUNK; i += WG) {
        let r = i / CHUNK;
        let p = i % CHUNK;
        var s = LOWEST;
        if (p < visible(r, first)) {
            let k = key_at(slot_of(node0 + r / GROUP, first + p));
            var a = vec4f();
            for (var j = 0u; j < HEAD_DIM / 8u; j++) {
                let w = kv[k + j];
                a = fma(vec4f(unpack2x16float(w.x), unpack2x16float(w.y)), query[r * HD4 + 2u * j], a);
                a = fma(vec4f(unpack2x16float(w.z), unpack2x16float(w.w)), query[r * HD4 + 2u * j + 1u], a);
            }
            s = (a.x + a.y) + (a.z + a.w);
        }
        score[i >> 2u][i & 3u] = s;
    }
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

// Quarter of a chunk: the weighted values of its eight positions, dimensions 4 * d4 to 4 * d4 + 3.
fn quarter_values(row: u32, first: u32, quarter: u32, d4: u32) -> vec4f {
    let end = min(visible(row, first), quarter * 8u + 8u);
    var a = vec4f();
    for (var p = quarter * 8u; p < end; p++) {
        let w = kv[key_at(slot_of(node0 + row / GROUP, first + p)) + KV_STRIDE + (d4 >> 1u)];
        let h = select(w.xy, w.zw, (d4 & 1u) == 1u);
        a = fma(vec4f(score[row * 8u + (p >> 2u)][p & 3u]), vec4f(unpack2x16float(h.x), unpack2x16float(h.y)), a);
    }
    return a;
}
