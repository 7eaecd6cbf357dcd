// One row and four tokens a thread.
const R = 1u;
const T = 4u;
alias Sum = vec4f;
alias Rows = Row;
fn rows_at(row: u32) -> Rows { return weight_row(row); }
fn leaf_sum(rows: Rows, token: u32, leaf: u32) -> Sum {
    let t = act_at(token);
    let stride = act_at(token + 1u) - t;
    var sum = Sum();
    for (var j = 0u; j < LEAF; j++) {
        let w = load_block(rows, j * LEAVES + leaf);
        let x = t + act_block(leaf, j);
        sum = vec4f(block_fma(w, load_act(x), sum.x), block_fma(w, load_act(x + stride), sum.y),
                    block_fma(w, load_act(x + 2u * stride), sum.z), block_fma(w, load_act(x + 3u * stride), sum.w));
    }
    return sum;
}
fn store(row: u32, token: u32, s: Sum) {
    for (var k = 0u; k < 4u; k++) {
        val[row * TOKS + token + k] = s[k];
    }
}
