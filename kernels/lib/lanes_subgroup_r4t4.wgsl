// lanes_subgroup.wgsl for four tokens a thread: the rows are parted first, then the tokens of the row that a lane has left.
fn store_lanes(lid: u32, lane: u32, row: u32, token: u32, s: Sum) {
    let odd = (lane & 1u) != 0u;
    let a = select(s[0], s[2], odd) + subgroupShuffleXor(select(s[2], s[0], odd), 1u);
    let b = select(s[1], s[3], odd) + subgroupShuffleXor(select(s[3], s[1], odd), 1u);
    let at = row / 4u * TOKS + token;
    let r = 2u * (lane & 1u);
    if (LANES == 2u) {
        put(at, r, a);
        put(at, r + 1u, b);
        return;
    }
    let second = (lane & 2u) != 0u;
    let four = select(a, b, second) + subgroupShuffleXor(select(b, a, second), 2u);
    let k = r + ((lane >> 1u) & 1u);
    if (LANES == 4u) {
        put(at, k, four);
        return;
    }
    let high = (lane & 4u) != 0u;
    let two = select(four.xy, four.zw, high) + subgroupShuffleXor(select(four.zw, four.xy, high), 4u);
    let n = 2u * ((lane >> 2u) & 1u);
    if (LANES == 8u) {
        val[at + n][k] = two.x;
        val[at + n + 1u][k] = two.y;
        return;
    }
    let last = (lane & 8u) != 0u;
    var one = select(two.x, two.y, last) + subgroupShuffleXor(select(two.y, two.x, last), 8u);
    for (var m = 16u; m < LANES; m <<= 1u) {
        one = one + subgroupShuffleXor(one, m);
    }
    if (lane < 16u) {
        val[at + n + (lane >> 3u)][k] = one;
    }
}
fn put(at: u32, r: u32, tokens: vec4f) { // one row, four tokens
    val[at][r] = tokens.x;
    val[at + 1u][r] = tokens.y;
    val[at + 2u][r] = tokens.z;
    val[at + 3u][r] = tokens.w;
}
