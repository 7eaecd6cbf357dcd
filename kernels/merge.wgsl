// Folds the chunks of attend_split and quantises the result for the output projection. Grid (blocks / QBLOCKS, nodes).
const TOKS = 1u;
const QBLOCKS = WG / 8u;
var<private> block0: u32;
var<private> node: u32;

fn gain(block: u32, e: u32) -> f32 { return 1.0; }
fn act_out(block: u32, token: u32) -> u32 { return select(SKIP, ACT_A + (node * BLOCKS + block0 + block) * OUT_SIZE, block0 + block < BLOCKS); }

fn quad(block: u32, e: u32, token: u32) -> vec4f {
    let p = min((block0 + block) * 8u + e, BLOCKS * 8u - 1u);
    let chunks = node_position(node) / CHUNK + 1u;
    var all = online_start();
    var values = vec4f();
    for (var first = 0u; first < chunks; first += SPAN) {
        var s = online_start();
        var o = vec4f();
        for (var c = first; c < min(first + SPAN, chunks); c++) {
            let at = (c * N + node) * HEADS;
            let ml = work[ML_AT + at + p / (HEAD_DIM / 4u)];
            s = online_fold(s, ml.x, ml.y);
            o = fma(o, vec4f(s.a), work[PART_AT + at * (HEAD_DIM / 4u) + p] * s.b);
        }
        all = online_fold(all, s.m, s.l);
        values = fma(values, vec4f(all.a), o * all.b);
    }
    return values / all.l;
}

@compute @workgroup_size(WG)
fn merge(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) group: vec3u) {
    if (group.y >= node_count()) {
        return;
    }
    node = group.y;
    block0 = group.x * QBLOCKS;
    quantise(lid);
}
