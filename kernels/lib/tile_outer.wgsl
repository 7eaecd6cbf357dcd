// Four rows and four tokens a thread, with lib/outer.
fn outer_word(w: vec4u, x: vec4u, t: mat4x4f) -> mat4x4f { // four codes of each row, four of each token
    return outer(part_byte(w, 0u), part_byte(x, 0u), outer(part_byte(w, 8u), part_byte(x, 8u),
           outer(part_byte(w, 16u), part_byte(x, 16u), outer(part_byte(w, 24u), part_byte(x, 24u), t))));
}
fn outer_half(a: vec4u, b: vec4u, c: vec4u, d: vec4u, x: vec4u, y: vec4u, z: vec4u, u: vec4u, t: mat4x4f) -> mat4x4f {
    return outer_word(vec4u(a.x, b.x, c.x, d.x), vec4u(x.x, y.x, z.x, u.x), outer_word(vec4u(a.y, b.y, c.y, d.y), vec4u(x.y, y.y, z.y, u.y),
           outer_word(vec4u(a.z, b.z, c.z, d.z), vec4u(x.z, y.z, z.z, u.z), outer_word(vec4u(a.w, b.w, c.w, d.w), vec4u(x.w, y.w, z.w, u.w), t))));
}
fn add_block(rows: Rows, token: u32, i: u32, a: u32, sum: Sum) -> Sum { // as in tile_r4t1.wgsl; four tokens from `token` on
    let stride = act_at(token + 1u) - act_at(token);
    let x = load_act(a);
    let y = load_act(a + stride);
    let z = load_act(a + 2u * stride);
    let u = load_act(a + 3u * stride);
    let p = load_block(rows.a, i);
    let q = load_block(rows.b, i);
    let r = load_block(rows.c, i);
    let s = load_block(rows.d, i);
    var t = outer_half(p.hi, q.hi, r.hi, s.hi, x.hi, y.hi, z.hi, u.hi, outer_half(p.lo, q.lo, r.lo, s.lo, x.lo, y.lo, z.lo, u.lo, mat4x4f()));
    if (WIDE) {
        let f = outer_half(p.hi, q.hi, r.hi, s.hi, x.fine_hi, y.fine_hi, z.fine_hi, u.fine_hi,
                           outer_half(p.lo, q.lo, r.lo, s.lo, x.fine_lo, y.fine_lo, z.fine_lo, u.fine_lo, mat4x4f()));
        t = mat4x4f(join(t[0], f[0]), join(t[1], f[1]), join(t[2], f[2]), join(t[3], f[3]));
    }
    let scale = vec4f(x.s, y.s, z.s, u.s);
    let total = vec4f(x.z, y.z, z.z, u.z);
    return Sum(block_add4(p, scale, total, t[0], sum[0]), block_add4(q, scale, total, t[1], sum[1]), block_add4(r, scale, total, t[2], sum[2]),
               block_add4(s, scale, total, t[3], sum[3]));
}
