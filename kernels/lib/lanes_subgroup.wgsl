// Top of the tree over lanes, by shuffles; lanes of a row are neighbours in one subgroup. Two lanes that add up their sums part the work:
// each passes on the half that the other goes on with, so that every round has half the shuffles of the one before.
fn store_lanes(lid: u32, lane: u32, row: u32, token: u32, s: Sum) {
    let odd = (lane & 1u) != 0u;
    let two = select(s.xy, s.zw, odd) + subgroupShuffleXor(select(s.zw, s.xy, odd), 1u);
    let at = row / 4u * TOKS + token;
    let r = 2u * (lane & 1u);
    if (LANES == 2u) {
        val[at][r] = two.x;
        val[at][r + 1u] = two.y;
        return;
    }
    let high = (lane & 2u) != 0u;
    var one = select(two.x, two.y, high) + subgroupShuffleXor(select(two.y, two.x, high), 2u);
    for (var m = 4u; m < LANES; m <<= 1u) {
        one = one + subgroupShuffleXor(one, m);
    }
    if (lane < 4u) {
        val[at][r + (lane >> 1u)] = one;
    }
}
