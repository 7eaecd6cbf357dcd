// One row and one token a thread.
const R = 1u;
const T = 1u;
alias Sum = f32;
alias Rows = Row;
fn rows_at(row: u32) -> Rows { return weight_row(row); }
fn leaf_sum(rows: Rows, token: u32, leaf: u32) -> Sum {
    let t = act_at(token);
    var sum = 0.0;
    for (var j = 0u; j < LEAF; j++) {
        sum = block_fma(load_block(rows, j * LEAVES + leaf), load_act(t + act_block(leaf, j)), sum);
    }
    return sum;
}
fn store(row: u32, token: u32, s: Sum) { val[row * TOKS + token] = s; }
