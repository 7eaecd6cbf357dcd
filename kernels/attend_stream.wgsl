// Attention of a tile of QNODES nodes, chunk after chunk, quantised for the output projection: prefill. The same sums in the same order as
// attend_split and merge. Grid (kv heads, nodes / QNODES).
const TOKS = QNODES;
const QBLOCKS = GROUP * HEAD_DIM / 32u;
const SPANS = select(1u, 2u, CTX > SPAN * CHUNK); // kept: the one that grows, and what those before it gave
var<workgroup> val: array<vec4f, SPANS * QROWS * HD4>; // values so far: [head of group][dimension / 4][node]
var<workgroup> running: array<Online, SPANS * QROWS>;
var<private> several_spans: bool;

fn gain(block: u32, e: u32) -> f32 { return 1.0; }
fn act_out(block: u32, token: u32) -> u32 {
    return select(SKIP, ACT_A + ((node0 + token) * BLOCKS + kv_head * QBLOCKS + block) * OUT_SIZE, node0 + token < node_count());
}
fn quad(block: u32, e: u32, token: u32) -> vec4f {
    let q = block * 8u + e; // of the group's heads
    let kept = select(0u, QROWS, several_spans);
    return val[kept * HD4 + q * QNODES + token] / running[kept + token * GROUP + q / HD4].l;
}

fn fold(row: u32, d4: u32, o: vec4f) {
    if (row < QROWS) {
        let a = running[row].a;
        let b = running[row].b;
        let p = ((row % GROUP) * HD4 + d4) * QNODES + row / GROUP;
        val[p] = fma(val[p], vec4f(a), o * b);
    }
}

// The span ends: to those before it, behind its own place in both arrays.
fn fold_span(lid: u32) {
    for (var r = lid; r < QROWS; r += WG) {
        running[QROWS + r] = online_fold(running[QROWS + r], running[r].m, running[r].l);
        running[r] = online_start();
    }
    workgroupBarrier();
    for (var i = lid; i < QROWS * HD4; i += WG) {
        let all = running[QROWS + i % QNODES * GROUP + i / QNODES / HD4];
        val[QROWS * HD4 + i] = fma(val[QROWS * HD4 + i], vec4f(all.a), val[i] * all.b);
        val[i] = vec4f();
    }
    workgroupBarrier();
}

@compute @workgroup_size(WG)
fn attend_stream(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) group: vec3u) {
    let nodes = node_count();
    let tile0 = group.y * QNODES;
    if (tile0 >= nodes) {
        return;
    }
    node0 = tile0;
    kv_head = group.x;
    let end = node_position(min(tile0 + QNODES, nodes) - 1u) + 1u;
    load_queries(lid);
    let several = SPANS > 1u && end > SPAN * CHUNK;
    several_spans = several;
    for (var i = lid; i < SPANS * QROWS * HD4; i += WG) {
        val[i] = vec4f();
    }
    for (var r = lid; r < SPANS * QROWS; r += WG) {
        running[r] = online_start();
    }
    workgroupBarrier();
    for (var first = 0u; first < end; first += CHUNK) {
        chunk_scores(lid, first);
        workgroupBarrier();
        for (var r = lid; r < QROWS; r += WG) {
            if (visible(r, first) > 0u) {
                let s = row_softmax(r);
                running[r] = online_fold(running[r], s.x, s.y);
            } else {
                running[r].a = 1.0;
                running[r].b = 0.0;
            }
        }
        workgroupBarrier();
        let limit = min(CHUNK, end - first);
        for (var i = lid; i < PADDED / 4u * HD4; i += WG) {
            let r = i / HD4 * 4u;
            let d4 = i % HD4;
            let o = (quarter_rows(r, first, 0u, d4, limit) + quarter_rows(r, first, 1u, d4, limit))
                  + (quarter_rows(r, first, 2u, d4, limit) + quarter_rows(r, first, 3u, d4, limit));
            fold(r, d4, o[0]);
            fold(r + 1u, d4, o[1]);
            fold(r + 2u, d4, o[2]);
            fold(r + 3u, d4, o[3]);
        }
        workgroupBarrier();
        if (several && (first + CHUNK >= end || (first / CHUNK + 1u) % SPAN == 0u)) {
            fold_span(lid);
        }
    }
    quantise(lid);
}
