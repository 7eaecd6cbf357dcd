// Four rows and one token a thread: four loads of weights under way at once, one load of activations for four rows.
const R = 4u;
const T = 1u;
alias Sum = vec4f;
struct Rows {
    a: Row,
    b: Row,
    c: Row,
    d: Row,
}
fn rows_at(row: u32) -> Rows { return Rows(weight_row(row), weight_row(row + 1u), weight_row(row + 2u), weight_row(row + 3u)); }
fn leaf_sum(rows: Rows, token: u32, leaf: u32) -> Sum {
    let t = act_at(token);
    var sum = Sum();
    for (var j = 0u; j < LEAF; j++) {
        let i = j * LEAVES + leaf;
        let a = load_block(rows.a, i);
        let b = load_block(rows.b, i);
        let c = load_block(rows.c, i);
        let d = load_block(rows.d, i);
        let x = load_act(t + act_block(leaf, j));
        sum = vec4f(block_fma(a, x, sum.x), block_fma(b, x, sum.y), block_fma(c, x, sum.z), block_fma(d, x, sum.w));
    }
    return sum;
}
fn store(row: u32, token: u32, s: Sum) {
    for (var k = 0u; k < 4u; k++) {
        val[(row + k) * TOKS + token] = s[k];
    }
}
