// x = row of the embedding for each node; its quantised form for the first layer's norm.
// Grid (blocks / 8, nodes): a workgroup makes eight blocks of one node. A part that does not hold the token's row does nothing.
const TOKS = 1u;
const QBLOCKS = 8u;
var<private> block0: u32;
var<private> node: u32;
var<private> source: Row;

fn gain(block: u32, e: u32) -> vec4f {
    let at = params.norm_next + min((block0 + block) * 32u + 4u * e, DIM - 4u);
    return vec4f(vectors[at], vectors[at + 1u], vectors[at + 2u], vectors[at + 3u]);
}
fn act_out(block: u32, token: u32) -> u32 { return select(SKIP, ACT_X + (node * BLOCKS + block0 + block) * OUT_SIZE, block0 + block < BLOCKS); }
fn quad(block: u32, e: u32, token: u32) -> vec4f {
    let b = block0 + block;
    if (b >= BLOCKS) {
        return vec4f();
    }
    let i = (b % LEAF) * LEAVES + b / LEAF;
    let x = vec4f(element(source, i, 4u * e), element(source, i, 4u * e + 1u), element(source, i, 4u * e + 2u), element(source, i, 4u * e + 3u));
    work[X_AT + node * (DIM / 4u) + b * 8u + e] = x;
    return x;
}

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
    source = row_at(params.part[PART].x, params.part[PART].y, row);
    quantise(lid);
}
