// x += a W^T, and the quantised form of x * gain for the norm that follows (its factor comes later, rms.wgsl).
// Used for the output projection (a: attention) and for down (a: the hidden layer). Grid (rows / ROWS, nodes / TOKS).
const QBLOCKS = ROWS / 32u;
var<private> row0: u32;
var<private> token0: u32;
var<private> early_x: vec4f; // ONE_QUAD: what the thread's quad needs, loaded before the products
var<private> early_gain: vec4f;

fn weight_row(row: u32) -> Row { return row_at(params.part[PART].x, params.part[PART].y, min(row0 + row, (params.part[PART].w - 1u) & ~3u)); }
fn act_at(node: u32) -> u32 { return ACT_IN + node * BLOCKS * IN_SIZE; }
fn gain(block: u32, e: u32) -> vec4f {
    if (ONE_QUAD) {
        return early_gain;
    }
    return load_gain(block, e);
}
fn load_gain(block: u32, e: u32) -> vec4f {
    let at = select(params.norm_ffn, params.norm_next, NORM_NEXT) + min(params.part[PART].z + row0 + 32u * block + 4u * e, DIM - 4u);
    return vec4f(vectors[at], vectors[at + 1u], vectors[at + 2u], vectors[at + 3u]);
}
fn exists(block: u32, token: u32) -> bool { return row0 + 32u * block < params.part[PART].w && token0 + token < node_count(); }
fn act_out(block: u32, token: u32) -> u32 {
    let row = params.part[PART].z + row0 + 32u * block;
    return select(SKIP, ACT_X + ((token0 + token) * (DIM / 32u) + row / 32u) * OUT_SIZE, exists(block, token));
}
fn quad(block: u32, e: u32, token: u32) -> vec4f {
    let sum = val[(block * 8u + e) * TOKS + token];
    if (!exists(block, token)) {
        return sum;
    }
    let at = x_at(block, e, token);
    var x = early_x;
    if (!ONE_QUAD) {
        x = work[at];
    }
    x += sum;
    work[at] = x;
    return x;
}
fn x_at(block: u32, e: u32, token: u32) -> u32 { return X_AT + ((token0 + token) * DIM + params.part[PART].z + row0) / 4u + 8u * block + e; }

@compute @workgroup_size(WG)
fn residual(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) group: vec3u) {
    let first = group.y * TOKS;
    if (first >= node_count()) {
        return;
    }
    token0 = first;
    row0 = group.x * ROWS;
    if (ONE_QUAD) { // every thread, also one without a quad: a branch would cost more
        early_x = work[x_at(lid / 8u / TOKS, lid % 8u, lid / 8u % TOKS)];
        early_gain = load_gain(lid / 8u / TOKS, lid % 8u);
    }
    products(lid, first);
    quantise(lid);
}
