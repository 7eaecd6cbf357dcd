// What rows of q, k and v become (qkv, layers).
const Q_ROWS = HEADS * HEAD_DIM;
const KV_ROWS = KV_HEADS * HEAD_DIM;

fn turn(row: u32, node: u32) -> vec4f { // cosine and sine of the two pairs from `row` on
    let at = ROPE_AT + node_position(node) * HEAD_DIM + row % HEAD_DIM;
    return vec4f(vectors[at], vectors[at + 1u], vectors[at + 2u], vectors[at + 3u]);
}
fn rotate(y: vec4f, t: vec4f) -> vec4f {
    return vec4f(fma(y.x, t.x, -(y.y * t.y)), fma(y.x, t.y, y.y * t.x), fma(y.z, t.z, -(y.w * t.w)), fma(y.z, t.w, y.w * t.z));
}
// Of row `r` of k, or v, at a slot: the word of a layer's cache, and which of its parts; keys: [head][slot / 32][d / 8][slot % 32][d % 8].
fn key_place(cache: u32, r: u32, slot: u32) -> u32 {
    return cache + r / HEAD_DIM * CTX * (HEAD_DIM / 8u) + (slot / 32u) * (HEAD_DIM / 8u * 32u) + r % HEAD_DIM / 8u * 32u + slot % 32u;
}
fn value_place(cache: u32, r: u32, slot: u32) -> u32 { // [head][slot][d]
    return cache + KV_STRIDE + (r / HEAD_DIM * CTX + slot) * (HEAD_DIM / 8u) + r % HEAD_DIM / 8u;
}
fn part_of(r: u32) -> u32 { return (r / 2u) & 3u; } // 0 or 2
fn as_halves(z: vec4f) -> vec2u {
    let h = clamp(z, vec4f(-65504.0), vec4f(65504.0));
    return vec2u(pack2x16float(h.xy), pack2x16float(h.zw));
}
