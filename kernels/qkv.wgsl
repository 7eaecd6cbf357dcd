// q, k, v = norm(x) W^T + bias; rotary embedding of q and k; k and v into the cache as f16, q scaled into work.
// Grid (rows / ROWS, nodes / TOKS). Pairs that rotate together are neighbouring rows (the loader permutes where a file has them otherwise).
const Q_ROWS = HEADS * HEAD_DIM;
const K_ROWS = KV_HEADS * HEAD_DIM;
const QUADS = ROWS / 4u * TOKS;
const ONE_QUAD = QUADS <= WG; // a thread finishes one quad at most: what that needs is loaded before the products
var<private> row0: u32;
var<private> early_turn: vec4f;
var<private> early_bias: vec4f;

fn weight_row(row: u32) -> Row { return row_at(params.part[PART].x, params.part[PART].y, min(row0 + row, (params.part[PART].w - 1u) & ~3u)); }
fn act_at(node: u32) -> u32 { return ACT_X + node * BLOCKS * IN_SIZE; }

fn turn(row: u32, node: u32) -> vec4f { // cosine and sine of the two pairs from `row` on
    let at = ROPE_AT + node_position(node) * HEAD_DIM + row % HEAD_DIM;
    return vec4f(vectors[at], vectors[at + 1u], vectors[at + 2u], vectors[at + 3u]);
}

fn finish(row: u32, node: u32, y: vec4f) {
    let d = row % HEAD_DIM;
    var z = y;
    if (row < Q_ROWS + K_ROWS) {
        var t = early_turn;
        if (!ONE_QUAD) {
            t = turn(row, node);
        }
        z = vec4f(fma(y.x, t.x, -(y.y * t.y)), fma(y.x, t.y, y.y * t.x), fma(y.z, t.z, -(y.w * t.w)), fma(y.z, t.w, y.w * t.z));
    }
    if (row < Q_ROWS) {
        work[Q_AT + (node * Q_ROWS + row) / 4u] = z * Q_SCALE;
        return;
    }
    let h = clamp(z, vec4f(-65504.0), vec4f(65504.0));
    let slot = node_slot(node);
    let word = (d / 2u) & 3u; // 0 or 2
    var p: u32;
    if (row < Q_ROWS + K_ROWS) { // keys: [head][slot / 32][d / 8][slot % 32][d % 8]
        let head = (row - Q_ROWS) / HEAD_DIM;
        p = params.kv + head * CTX * (HEAD_DIM / 8u) + (slot / 32u) * (HEAD_DIM / 8u * 32u) + (d / 8u) * 32u + slot % 32u;
    } else { // values: [head][slot][d]
        let head = (row - Q_ROWS - K_ROWS) / HEAD_DIM;
        p = params.kv + KV_STRIDE + (head * CTX + slot) * (HEAD_DIM / 8u) + d / 8u;
    }
    kv[p][word] = pack2x16float(h.xy);
    kv[p][word + 1u] = pack2x16float(h.zw);
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
        early_bias = bias(row);
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
                b = bias(row);
            }
            finish(row, token0 + token, fma(val[i], vec4f(rms_factor(token)), b));
        }
    }
}
