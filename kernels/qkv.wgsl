// q, k, v = norm(x) W^T + bias; rotary embedding of q and k; k and v into the cache as f16, q scaled into work.
// Grid (rows / ROWS, nodes / TOKS). Pairs that rotate together are neighbouring rows (the loader permutes where a file has them otherwise).
const Q_ROWS = HEADS * HEAD_DIM;
const K_ROWS = KV_HEADS * HEAD_DIM;
var<private> row0: u32;

fn weight_row(row: u32) -> Row { return row_at(params.part[PART].x, params.part[PART].y, min(row0 + row, params.part[PART].w - 1u)); }
fn act_at(node: u32) -> u32 { return ACT_X + node * BLOCKS * IN_SIZE; }

fn finish(row: u32, node: u32, y: vec2f) {
    let d = row % HEAD_DIM;
    var z = y;
    if (row < Q_ROWS + K_ROWS) {
        let at = ROPE_AT + node_position(node) * HEAD_DIM + d; // cosine and sine of the pair
        let c = vectors[at];
        let s = vectors[at + 1u];
        z = vec2f(fma(y.x, c, -(y.y * s)), fma(y.x, s, y.y * c));
    }
    if (row < Q_ROWS) {
        let p = node * Q_ROWS + row;
        z = z * Q_SCALE;
        work[Q_AT + (p >> 2u)][p & 3u] = z.x;
        work[Q_AT + (p >> 2u)][(p & 3u) + 1u] = z.y;
        return;
    }
    let word = pack2x16float(clamp(z, vec2f(-65504.0), vec2f(65504.0)));
    let slot = node_slot(node);
    if (row < Q_ROWS + K_ROWS) { // keys: [head][slot / 32][d / 8][slot % 32][d % 8]
        let head = (row - Q_ROWS) / HEAD_DIM;
        let p = head * CTX * (HEAD_DIM / 8u) + (slot / 32u) * (HEAD_DIM / 8u * 32u) + (d / 8u) * 32u + slot % 32u;
        kv[params.kv + p][(d / 2u) & 3u] = word;
    } else { // values: [head][slot][d]
        let head = (row - Q_ROWS - K_ROWS) / HEAD_DIM;
        let p = (head * CTX + slot) * (HEAD_DIM / 8u) + d / 8u;
        kv[params.kv + KV_STRIDE + p][(d / 2u) & 3u] = word;
    }
}

@compute @workgroup_size(WG)
fn qkv(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) group: vec3u) {
    let nodes = node_count();
    let token0 = group.y * TOKS;
    if (token0 >= nodes) {
        return;
    }
    row0 = group.x * ROWS;
    rms_begin(lid, token0);
    products(lid, token0);
    for (var i = lid; i < ROWS / 2u * TOKS; i += WG) {
        let token = i % TOKS;
        let r = i / TOKS * 2u;
        if (row0 + r < params.part[PART].w && token0 + token < nodes) {
            let row = params.part[PART].z + row0 + r;
            let f = rms_factor(token);
            let y = vec2f(val[r * TOKS + token], val[(r + 1u) * TOKS + token]);
            finish(row, token0 + token, fma(y, vec2f(f), bias(row)));
        }
    }
}
