// Weights w = d * (code - 8): one block's product with a block of activations, and its load (weights.h, FR_W_Q4S).
const CODE_BITS = 4u;
struct Row {
    codes: u32,
    scales: u32, // index of 16-bit scales
}
struct Block {
    lo: vec4u,
    hi: vec4u,
    d: f32,
}
fn row_at(code_base: u32, scale_base: u32, row: u32) -> Row {
    return Row(code_base + row * ROW_BLOCKS, 2u * scale_base + row * ROW_BLOCKS);
}
fn row_after(row: Row, k: u32) -> Row { return Row(row.codes + k * ROW_BLOCKS, row.scales + k * ROW_BLOCKS); }
fn load_block(row: Row, i: u32) -> Block {
    let c = codes[row.codes + i];
    let h = row.scales + i;
    let d = unpack2x16float(scales[h >> 1u]);
    return Block(c & vec4u(0x0f0f0f0fu), (c >> vec4u(4u)) & vec4u(0x0f0f0f0fu), select(d.x, d.y, (h & 1u) == 1u));
}
fn block_fma(w: Block, x: Act, sum: f32) -> f32 {
    let t = fma(-8.0, x.z, dot_block(w.lo, w.hi, x)); // exact: integers below 2^24
    return fma(w.d * x.s, t, sum);
}
fn block_add4(w: Block, s: vec4f, z: vec4f, dot: vec4f, sum: vec4f) -> vec4f { // block_fma for four tokens, their integer products known
    return fma(w.d * s, fma(vec4f(-8.0), z, dot), sum);
}
fn element(row: Row, i: u32, e: u32) -> f32 {
    let c = (codes[row.codes + i][(e >> 2u) & 3u] >> (8u * (e & 3u) + 4u * (e >> 4u))) & 15u;
    return load_block(row, i).d * (f32(c) - 8.0);
}
