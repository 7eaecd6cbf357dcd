// Matrix products of a tile of ROWS rows and TOKS tokens, in the canonical order (doc/reduction.md), into val[row * TOKS + token].
// LANES neighbouring threads share the leaves of a row; each takes an aligned subtree of LANE_LEAVES leaves. The kernel says where a
// row of the tile lies (weight_row) and which activations a token has (act_at).
var<workgroup> val: array<f32, ROWS * TOKS>;

fn act_block(leaf: u32, j: u32) -> u32 { // offset of the activations of block j of a leaf; absent blocks have zero weights
    let b = leaf * LEAF + j;
    return 3u * select(b, min(b, BLOCKS - 1u), LEAF * LEAVES != BLOCKS);
}

// Binary counter: pN holds the sum of a complete subtree of 2^N leaves that waits for its right neighbour.
fn lane_sum(rows: Rows, token: u32, lane: u32) -> Sum {
    var p0 = Sum();
    var p1 = Sum();
    var p2 = Sum();
    var p3 = Sum();
    var p4 = Sum();
    var p5 = Sum();
    let first = lane * LANE_LEAVES;
    let count = min(LANE_LEAVES, max(LEAVES, first) - first);
    for (var k = 0u; k < count; k++) {
        var s = leaf_sum(rows, token, first + k);
        if (LANE_LEAVES == 1u || (k & 1u) == 0u) {
            p0 = s;
            continue;
        }
        s = p0 + s;
        if (LANE_LEAVES == 2u || (k & 2u) == 0u) {
            p1 = s;
            continue;
        }
        s = p1 + s;
        if (LANE_LEAVES == 4u || (k & 4u) == 0u) {
            p2 = s;
            continue;
        }
        s = p2 + s;
        if (LANE_LEAVES == 8u || (k & 8u) == 0u) {
            p3 = s;
            continue;
        }
        s = p3 + s;
        if (LANE_LEAVES == 16u || (k & 16u) == 0u) {
            p4 = s;
            continue;
        }
        p5 = p4 + s;
    }
    var s = Sum(); // absent leaves count as zero: what waits is added from the smallest subtree up
    if ((count & 1u) != 0u) {
        s = p0;
    }
    if ((count & 2u) != 0u) {
        s = p1 + s;
    }
    if ((count & 4u) != 0u) {
        s = p2 + s;
    }
    if ((count & 8u) != 0u) {
        s = p3 + s;
    }
    if ((count & 16u) != 0u) {
        s = p4 + s;
    }
    if ((count & 32u) != 0u) {
        s = p5;
    }
    return s;
}

// Every thread of the workgroup calls it; val is complete when it returns.
fn products(lid: u32, token0: u32) {
    let lane = lid % LANES;
    let group = lid / LANES;
    let row = (group % (ROWS / R)) * R;
    let token = (group / (ROWS / R)) * T;
    let s = sum_lanes(lid, lane, lane_sum(rows_at(row), token0 + token, lane));
    if (lane == 0u) {
        store(row, token, s);
    }
    workgroupBarrier();
}
