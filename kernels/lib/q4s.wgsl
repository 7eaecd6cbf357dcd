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
struct Raw { // a block as it is stored, its scale with a neighbour's
    codes: vec4u,
    scale: u32,
}
fn row_of(code_base: u32, scale_base: u32, row: u32, row_blocks: u32) -> Row {
    return Row(code_base + row * row_blocks, 2u * scale_base + row * row_blocks);
}
fn row_at(code_base: u32, scale_base: u32, row: u32) -> Row { return row_of(code_base, scale_base, row, ROW_BLOCKS); }
fn row_after(row: Row, k: u32) -> Row { return Row(row.codes + k * ROW_BLOCKS, row.scales + k * ROW_BLOCKS); }
fn load_raw(row: Row, i: u32) -> Raw { return Raw(codes[row.codes + i], scales[(row.scales + i) >> 1u]); }
fn unpack(raw: Raw, row: Row, i: u32) -> Block { // loaded by load_raw(row, i)
    let d = unpack2x16float(raw.scale);
    return Block(raw.codes & vec4u(0x0f0f0f0fu), (raw.codes >> vec4u(4u)) & vec4u(0x0f0f0f0fu), select(d.x, d.y, ((row.scales + i) & 1u) == 1u));
}
fn load_block(row: Row, i: u32) -> Block { return unpack(load_raw(row, i), row, i); }
fn block_add(w: Block, s: f32, z: f32, dot: f32, sum: f32) -> f32 {
    return fma(w.d * s, fma(-8.0, z, dot), sum); // the inner one is exact: integers below 2^24
}
fn block_fma(w: Block, x: Act, sum: f32) -> f32 { return block_add(w, x.s, x.z, dot_block(w.lo, w.hi, x), sum); }
fn block_add4(w: Block, s: vec4f, z: vec4f, dot: vec4f, sum: vec4f) -> vec4f { // block_fma for four tokens, their integer products known
    return fma(w.d * s, fma(vec4f(-8.0), z, dot), sum);
}
fn element(row: Row, i: u32, e: u32) -> f32 {
    let c = (codes[row.codes + i][(e >> 2u) & 3u] >> (8u * (e & 3u) + 4u * (e >> 4u))) & 15u;
    return load_block(row, i).d * (f32(c) - 8.0);
}
