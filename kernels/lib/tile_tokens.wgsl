// The sums of a thread with four tokens.
const T = 4u;
alias Sum = mat4x4f; // [row][token]
fn store(row: u32, token: u32, s: Sum) {
    let t = transpose(s);
    for (var n = 0u; n < 4u; n++) {
        val[row / 4u * TOKS + token + n] = t[n];
    }
}
