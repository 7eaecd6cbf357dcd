// Sum of 32 products of weight codes and activation codes: an exact integer, at most 32 * 127 * 127.
fn dot32(lo: vec4u, hi: vec4u, x: Act) -> i32 {
    return dot4I8Packed(lo.x, x.lo.x) + dot4I8Packed(lo.y, x.lo.y) + dot4I8Packed(lo.z, x.lo.z) + dot4I8Packed(lo.w, x.lo.w)
         + dot4I8Packed(hi.x, x.hi.x) + dot4I8Packed(hi.y, x.hi.y) + dot4I8Packed(hi.z, x.hi.z) + dot4I8Packed(hi.w, x.hi.w);
}
