// x += a W^T, and the quantised form of x * gain for the norm that follows (its factor comes later, rms.wgsl).
// Used for the output projection (a: attention) and for down (a: the hidden layer). Grid (rows / ROWS, nodes / TOKS).
const QBLOCKS = ROWS / 32u;
var<private> row0: u32;
var<private> token0: u32;

fn weight_row(row: u32) -> Row { return row_at(params.part[PART].x, params.part[PART].y, min(row0 + row, params.part[PART].w - 1u)); }
fn act_at(node: u32) -> u32 { return ACT_IN + node * BLOCKS * IN_SIZE; }
fn gain(block: u32, e: u32) -> f32 { return vectors[select(params.norm_ffn, params.norm_next, NORM_NEXT) + min(params.part[PART].z + row0 + 32u * block + e, DIM - 1u)]; }
fn act_out(block: u32, token: u32) -> u32 {
    let node = token0 + token;
    let row = row0 + 32u * block;
    return select(SKIP, ACT_X + (node * (DIM / 32u) + (params.part[PART].z + row) / 32u) * OUT_SIZE, row < params.part[PART].w && node < node_count());
}

@compute @workgroup_size(WG)
fn residual(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) group: vec3u) {
    let nodes = node_count();
    let first = group.y * TOKS;
    if (first >= nodes) {
        return;
    }
    token0 = first;
    row0 = group.x * ROWS;
    products(lid, first);
    for (var i = lid; i < ROWS * TOKS; i += WG) {
        let row = row0 + i / TOKS;
        let node = token0 + i % TOKS;
        if (row < params.part[PART].w && node < nodes) {
            let p = node * DIM + params.part[PART].z + row;
            let x = work[X_AT + (p >> 2u)][p & 3u] + val[i];
            work[X_AT + (p >> 2u)][p & 3u] = x;
            val[i] = x;
        }
    }
    workgroupBarrier();
    quantise(lid);
}
