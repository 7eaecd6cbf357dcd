// q, k, v = norm(x) W^T + bias; rotary embedding of q and k; k and v into the cache as f16, q scaled into work.
// Grid (rows / ROWS, nodes / TOKS). Pairs that rotate together are neighbouring rows (the loader permutes where a file has them otherwise).
const QUADS = ROWS / 4u * TOKS;
const ONE_QUAD = QUADS <= WG; // a thread finishes one quad at most: what that needs is loaded before the products
var<private> row0: u32;
var<private> early_turn: vec4f;
var<private> early_bias: vec4f;

fn weight_row(row: u32) -> Row { return row_at(params.part[PART].x, params.part[PART].y, min(row0 + row, (params.part[PART].w - 1u) & ~3u)); }
fn act_at(node: u32) -> u32 { return ACT_X + node * BLOCKS * IN_SIZE; }

fn finish(row: u32, node: u32, y: vec4f) {
    var z = y;
    if (row < Q_ROWS + KV_ROWS) {
        var t = early_turn;
        if (!ONE_QUAD) {
            t = turn(row, node);
        }
        z = rotate(y, t);
    }
    if (row < Q_ROWS) {
        work[Q_AT + (node * Q_ROWS + row) / 4u] = z * Q_SCALE;
        return;
    }
    let slot = node_slot(node);
    var p: u32;
    if (row < Q_ROWS + KV_ROWS) {
        p = key_place(params.kv, row - Q_ROWS, slot);
    } else {
        p = value_place(params.kv, row - Q_ROWS - KV_ROWS, slot);
    }
    let h = as_halves(z);
    kv[p][part_of(row)] = h.x;
    kv[p][part_of(row) + 1u] = h.y;
}

@compute @workgroup_size(WG)
fn qkv(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) group: vec3u) {
    let nodes = node_count();
    let token0 = group.y * TOKS;
    if (token0 >= nodes) {
        return;
    }
    row0 = group.x * ROWS;
    if (ONE_QUAD) {
        let row = params.part[PART].z + row0 + lid / TOKS * 4u;
        early_turn = turn(row, min(token0 + lid % TOKS, nodes - 1u));
        early_bias = bias(params.bias + row);
    }
    rms_begin(lid, token0);
    products(lid, token0);
    for (var i = lid; i < QUADS; i += WG) {
        let token = i % TOKS;
        let r = i / TOKS * 4u;
        if (row0 + r < params.part[PART].w && token0 + token < nodes) {
            let row = params.part[PART].z + row0 + r;
            var b = early_bias;
            if (!ONE_QUAD) {
                b = bias(params.bias + row);
            }
            finish(row, token0 + token, fma(val[i], vec4f(rms_factor(token)), b));
        }
    }
}
