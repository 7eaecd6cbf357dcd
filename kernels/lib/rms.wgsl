// Factor of RMSNorm for each token of the tile. The codes were made of x * gain, so the factor multiplies the finished product; it needs
// only the sums of squares that the producer left beside each block. Order: 16 strided partial sums, then a tree.
var<workgroup> rms_part: array<f32, TOKS * 16u>;
fn rms_begin(lid: u32, token0: u32) { // before the products
    for (var i = lid; i < TOKS * 16u; i += WG) {
        let a = act_at(token0 + i / 16u);
        var s = 0.0;
        for (var b = i % 16u; b < BLOCKS; b += 16u) {
            s += bitcast<f32>(act[a + IN_SIZE * b + 2u].z);
        }
        rms_part[i] = s;
    }
}
fn rms_end(lid: u32) {} // after the products, before a barrier
fn rms_quad(i: u32) -> f32 { return (rms_part[i] + rms_part[i + 1u]) + (rms_part[i + 2u] + rms_part[i + 3u]); }
fn rms_factor(token: u32) -> f32 { // of a token of the tile, after that barrier
    let i = token * 16u;
    let s = (rms_quad(i) + rms_quad(i + 4u)) + (rms_quad(i + 8u) + rms_quad(i + 12u));
    return inverseSqrt(fma(s, INV_DIM, EPS));
}
