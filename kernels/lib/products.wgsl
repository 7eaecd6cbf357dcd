// Matrix products of a tile of ROWS rows and TOKS tokens, in the canonical order (doc/reduction.md), into val. LANES neighbouring threads
// share the leaves of a row; each takes an aligned subtree of LANE_LEAVES leaves. The kernel says where a row of the tile lies (weight_row)
// and which activations a token has (act_at).
var<workgroup> val: array<vec4f, ROWS / 4u * TOKS>; // [row / 4][token]: four neighbouring rows, a quad
var<private> neighbour: u32; // which of four neighbouring threads this is

fn act_block(leaf: u32, j: u32) -> u32 { // offset of the activations of block j of a leaf; absent blocks have zero weights
    let b = leaf * LEAF + j;
    return IN_SIZE * select(b, min(b, BLOCKS - 1u), LEAF * LEAVES != BLOCKS);
}

// Every thread of the workgroup calls it; val, and the norm's factor, are complete when it returns.
fn products(lid: u32, token0: u32) {
    neighbour = lid % 4u;
    let lane = lid % LANES;
    let group = lid / LANES;
    let row = (group % (ROWS / R)) * R;
    let token = (group / (ROWS / R)) * T;
    let s = lane_sum(rows_at(row), token0 + token, lane);
    rms_end(lid);
    store_lanes(lid, lane, row, token, s);
    workgroupBarrier();
}
