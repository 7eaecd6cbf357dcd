// Four rows and one token a thread: four loads of weights under way at once, one load of activations for four rows.
const T = 1u;
alias Sum = vec4f;
// sum + block i of the rows (as stored) times the activations at a, those of `token`
fn add_block(rows: Rows, token: u32, i: u32, a: u32, sum: Sum) -> Sum {
    let p = load_block(rows.a, i);
    let q = load_block(rows.b, i);
    let r = load_block(rows.c, i);
    let s = load_block(rows.d, i);
    let x = load_act(a);
    return vec4f(block_fma(p, x, sum.x), block_fma(q, x, sum.y), block_fma(r, x, sum.z), block_fma(s, x, sum.w));
}
fn store(row: u32, token: u32, s: Sum) { val[row / 4u * TOKS + token] = s; }
