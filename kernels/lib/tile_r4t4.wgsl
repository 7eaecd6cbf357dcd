// Four rows and four tokens a thread: every load serves four products.
const R = 4u;
const T = 4u;
alias Sum = mat4x4f; // [row][token]
struct Rows {
    a: Row,
    b: Row,
    c: Row,
    d: Row,
}
fn rows_at(row: u32) -> Rows { return Rows(weight_row(row), weight_row(row + 1u), weight_row(row + 2u), weight_row(row + 3u)); }
fn row_fma(w: Block, x: Act, y: Act, z: Act, u: Act, sum: vec4f) -> vec4f {
    return vec4f(block_fma(w, x, sum.x), block_fma(w, y, sum.y), block_fma(w, z, sum.z), block_fma(w, u, sum.w));
}
fn leaf_sum(rows: Rows, token: u32, leaf: u32) -> Sum {
    let t = act_at(token);
    let stride = act_at(token + 1u) - t;
    var sum = Sum();
    for (var j = 0u; j < LEAF; j++) {
        let i = j * LEAVES + leaf;
        let p = t + act_block(leaf, j);
        let x = load_act(p);
        let y = load_act(p + stride);
        let z = load_act(p + 2u * stride);
        let u = load_act(p + 3u * stride);
        sum = Sum(row_fma(load_block(rows.a, i), x, y, z, u, sum[0]), row_fma(load_block(rows.b, i), x, y, z, u, sum[1]),
                  row_fma(load_block(rows.c, i), x, y, z, u, sum[2]), row_fma(load_block(rows.d, i), x, y, z, u, sum[3]));
    }
    return sum;
}
fn store(row: u32, token: u32, s: Sum) {
    for (var k = 0u; k < 4u; k++) {
        for (var n = 0u; n < 4u; n++) {
            val[(row + k) * TOKS + token + n] = s[k][n];
        }
    }
}
