// Products as outer products of floats, for CPU adapters: there dot4I8Packed is a dozen instructions, most of them to part the bytes, and here
// each byte is parted once for four products. A block's sum is below 2^24, so as a float it is the same integer.
fn part_byte(w: vec4u, shift: u32) -> vec4f { return vec4f(bitcast<vec4i>(w << vec4u(shift)) >> vec4u(24u)); }
fn outer(w: vec4f, x: vec4f, t: mat4x4f) -> mat4x4f {
    return mat4x4f(fma(w.xxxx, x, t[0]), fma(w.yyyy, x, t[1]), fma(w.zzzz, x, t[2]), fma(w.wwww, x, t[3]));
}
fn join(coarse: vec4f, fine: vec4f) -> vec4f { return vec4f(254 * vec4i(coarse) + vec4i(fine)); } // as dot_block
