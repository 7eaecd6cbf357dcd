// Sum of 32 products of weight codes and activation codes: an exact integer, at most 32 * 128 * 127, and 254 times that if WIDE. As a float it
// is exact but for 8-bit weights with WIDE activations, where the conversion rounds once.
fn dot32(lo: vec4u, hi: vec4u, x: vec4u, y: vec4u) -> i32 {
    return dot4I8Packed(lo.x, x.x) + dot4I8Packed(lo.y, x.y) + dot4I8Packed(lo.z, x.z) + dot4I8Packed(lo.w, x.w)
         + dot4I8Packed(hi.x, y.x) + dot4I8Packed(hi.y, y.y) + dot4I8Packed(hi.z, y.z) + dot4I8Packed(hi.w, y.w);
}
fn dot_block(lo: vec4u, hi: vec4u, x: Act) -> f32 {
    if (WIDE) {
        return f32(254 * dot32(lo, hi, x.lo, x.hi) + dot32(lo, hi, x.fine_lo, x.fine_hi));
    }
    return f32(dot32(lo, hi, x.lo, x.hi));
}
