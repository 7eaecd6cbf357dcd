// logits = norm(x) W^T, reduced to the best of each tile of rows. LAST: only the last node of the step, else every node.
// Grid (rows / ROWS, nodes / TOKS). Result per (node, tile): value, id, second value.
var<workgroup> found: array<Best, TOKS * 8u>;
var<private> row0: u32;

fn weight_row(row: u32) -> Row { return row_at(params.part[PART].x, params.part[PART].y, min(row0 + row, (params.part[PART].w - 1u) & ~3u)); }
fn act_at(token: u32) -> u32 { return ACT_X + select(token, node_count() - 1u, LAST) * BLOCKS * IN_SIZE; }

@compute @workgroup_size(WG)
fn head(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) group: vec3u) {
    let nodes = node_count();
    let token0 = group.y * TOKS;
    if (token0 >= nodes) {
        return;
    }
    row0 = group.x * ROWS;
    rms_begin(lid, token0);
    products(lid, token0);
    for (var i = lid; i < TOKS * 8u; i += WG) {
        let token = i / 8u;
        let f = rms_factor(token);
        var b = best_none();
        for (var q = i % 8u; q < ROWS / 4u; q += 8u) {
            let y = val[q * TOKS + token] * f;
            for (var k = 0u; k < 4u; k++) {
                if (row0 + 4u * q + k < params.part[PART].w) {
                    b = best_of(b, Best(y[k], f32(params.part[PART].z + row0 + 4u * q + k), NO_LOGIT));
                }
            }
        }
        found[i] = b;
    }
    workgroupBarrier();
    for (var token = lid; token < TOKS; token += WG) {
        var b = found[token * 8u];
        for (var k = 1u; k < 8u; k++) {
            b = best_of(b, found[token * 8u + k]);
        }
        if (token0 + token < nodes) {
            work[HEAD_AT + (token0 + token) * HEAD_TILES + params.tile0 + group.x] = vec4f(b.value, b.id, b.second, 0.0);
        }
    }
}
