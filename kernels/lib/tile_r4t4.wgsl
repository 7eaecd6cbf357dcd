// Four rows and four tokens a thread: every load serves four products.
fn row_fma(w: Block, x: Act, y: Act, z: Act, u: Act, sum: vec4f) -> vec4f {
    return vec4f(block_fma(w, x, sum.x), block_fma(w, y, sum.y), block_fma(w, z, sum.z), block_fma(w, u, sum.w));
}
fn add_block(rows: Rows, token: u32, i: u32, a: u32, sum: Sum) -> Sum { // as in tile_r4t1.wgsl; four tokens from `token` on
    let stride = act_at(token + 1u) - act_at(token);
    let x = load_act(a);
    let y = load_act(a + stride);
    let z = load_act(a + 2u * stride);
    let u = load_act(a + 3u * stride);
    return Sum(row_fma(load_block(rows.a, i), x, y, z, u, sum[0]), row_fma(load_block(rows.b, i), x, y, z, u, sum[1]),
               row_fma(load_block(rows.c, i), x, y, z, u, sum[2]), row_fma(load_block(rows.d, i), x, y, z, u, sum[3]));
}
