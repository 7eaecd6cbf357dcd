// h = silu(norm(x) G^T) * (norm(x) U^T), quantised. Rows of a tile: ROWS / 2 of gate, then the same rows of up.
// Grid (hidden rows / (ROWS / 2), nodes / TOKS).
const QBLOCKS = ROWS / 64u;
var<private> row0: u32;
var<private> token0: u32;

fn weight_row(row: u32) -> Row {
    let up = row >= ROWS / 2u;
    let part = params.part[select(PART, PART + 1u, up)];
    return row_at(part.x, part.y, min(row0 + select(row, row - ROWS / 2u, up), (part.w - 1u) & ~3u));
}
fn act_at(node: u32) -> u32 { return ACT_X + node * BLOCKS * IN_SIZE; }
fn gain(block: u32, e: u32) -> f32 { return 1.0; }
fn act_out(block: u32, token: u32) -> u32 {
    let node = token0 + token;
    let row = row0 + 32u * block;
    return select(SKIP, ACT_H + (node * (FFN / 32u) + (params.part[PART].z + row) / 32u) * OUT_SIZE, row < params.part[PART].w && node < node_count());
}
fn quad(block: u32, e: u32, token: u32) -> vec4f {
    let i = (block * 8u + e) * TOKS + token;
    let f = rms_factor(token);
    let g = val[i] * f;
    let u = val[i + ROWS / 8u * TOKS] * f;
    return g / (1.0 + exp(-g)) * u;
}

@compute @workgroup_size(WG)
fn gateup(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) group: vec3u) {
    let first = group.y * TOKS;
    if (first >= node_count()) {
        return;
    }
    token0 = first;
    row0 = group.x * (ROWS / 2u);
    rms_begin(lid, first);
    products(lid, first);
    quantise(lid);
}
