// x = row of the embedding for each node; its quantised form for the first layer's norm.
// Grid (blocks / 8, nodes): a workgroup makes eight blocks of one node. A part that does not hold the token's row does nothing.
const TOKS = 1u;
const QBLOCKS = 8u;
var<workgroup> val: array<f32, 256>;
var<private> block0: u32;
var<private> node: u32;

fn gain(block: u32, e: u32) -> f32 { return vectors[params.norm_next + min((block0 + block) * 32u + e, DIM - 1u)]; }
fn act_out(block: u32, token: u32) -> u32 { return select(SKIP, ACT_X + (node * BLOCKS + block0 + block) * OUT_SIZE, block0 + block < BLOCKS); }

@compute @workgroup_size(WG)
fn embed(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) group: vec3u) {
    if (group.y >= node_count()) {
        return;
    }
    node = group.y;
    block0 = group.x * 8u;
    let row = node_token(group.y) - params.part[PART].z;
    if (row >= params.part[PART].w) {
        return;
    }
    let source = row_at(params.part[PART].x, params.part[PART].y, row);
    for (var i = lid; i < 256u; i += WG) {
        let b = block0 + i / 32u;
        var x = 0.0;
        if (b < BLOCKS) {
            x = element(source, (b % LEAF) * LEAVES + b / LEAF, i % 32u);
            let p = node * DIM + b * 32u + i % 32u;
            work[X_AT + (p >> 2u)][p & 3u] = x;
        }
        val[i] = x;
    }
    workgroupBarrier();
    quantise(lid);
}
