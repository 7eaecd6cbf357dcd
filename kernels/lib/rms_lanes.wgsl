// rms.wgsl where 16 neighbours in a subgroup can share a token: the loads are under way while the products are made, and every factor is
// computed once.
var<workgroup> rms_factors: array<f32, TOKS>;
const_assert TOKS * 16u <= WG;
var<private> rms_sum: f32;
fn rms_begin(lid: u32, token0: u32) {
    if (lid < TOKS * 16u) {
        let a = act_at(token0 + lid / 16u);
        for (var i = 0u; i < (BLOCKS + 15u) / 16u; i++) { // all loads at once: an absent block adds zero
            let b = lid % 16u + 16u * i;
            rms_sum += select(0.0, bitcast<f32>(act[a + IN_SIZE * min(b, BLOCKS - 1u) + 2u].z), b < BLOCKS);
        }
    }
}
fn rms_end(lid: u32) {
    var s = rms_sum;
    for (var m = 1u; m < 16u; m <<= 1u) {
        s += subgroupShuffleXor(s, m);
    }
    if (lid < TOKS * 16u && lid % 16u == 0u) {
        rms_factors[lid / 16u] = inverseSqrt(fma(s, INV_DIM, EPS));
    }
}
fn rms_factor(token: u32) -> f32 { return rms_factors[token]; }
