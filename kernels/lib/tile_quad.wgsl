// Four rows and four tokens a thread, with lib/outer, where four neighbouring threads share the tokens: each loads and parts one of them and
// hands its codes round. Loads are dear on a CPU adapter, which makes them lane by lane.
// 4-bit weights take code and fine code of WIDE activations as one number: 32 * 15 * (254 * 127 + 127) is still below 2^24.
const AS_ONE = WIDE && CODE_BITS == 4u;
fn part_word(w: u32) -> vec4f { return part_byte(vec4u(w, w << 8u, w << 16u, w << 24u), 0u); } // last code first
fn part_act(x: u32, fine: u32) -> vec4f {
    if (AS_ONE) {
        return fma(vec4f(254.0), part_word(x), part_word(fine));
    }
    return part_word(x);
}
fn outer_word(w: vec4u, x: vec4f, t: mat4x4f) -> mat4x4f { // four codes of each row, four of this thread's token
    let a = quadBroadcast(x, 0u);
    let b = quadBroadcast(x, 1u);
    let c = quadBroadcast(x, 2u);
    let d = quadBroadcast(x, 3u);
    return outer(part_byte(w, 0u), vec4f(a.x, b.x, c.x, d.x), outer(part_byte(w, 8u), vec4f(a.y, b.y, c.y, d.y),
           outer(part_byte(w, 16u), vec4f(a.z, b.z, c.z, d.z), outer(part_byte(w, 24u), vec4f(a.w, b.w, c.w, d.w), t))));
}
fn outer_half(a: vec4u, b: vec4u, c: vec4u, d: vec4u, x: vec4u, fine: vec4u, t: mat4x4f) -> mat4x4f {
    return outer_word(vec4u(a.x, b.x, c.x, d.x), part_act(x.x, fine.x), outer_word(vec4u(a.y, b.y, c.y, d.y), part_act(x.y, fine.y),
           outer_word(vec4u(a.z, b.z, c.z, d.z), part_act(x.z, fine.z), outer_word(vec4u(a.w, b.w, c.w, d.w), part_act(x.w, fine.w), t))));
}
fn of_tokens(x: f32) -> vec4f { return vec4f(quadBroadcast(x, 0u), quadBroadcast(x, 1u), quadBroadcast(x, 2u), quadBroadcast(x, 3u)); }
fn add_block(rows: Rows, token: u32, i: u32, a: u32, sum: Sum) -> Sum { // as in tile_r4t1.wgsl; four tokens from `token` on
    let x = load_act(a + neighbour * (act_at(token + 1u) - act_at(token)));
    let p = load_block(rows.a, i);
    let q = load_block(rows.b, i);
    let r = load_block(rows.c, i);
    let s = load_block(rows.d, i);
    var t = outer_half(p.hi, q.hi, r.hi, s.hi, x.hi, x.fine_hi, outer_half(p.lo, q.lo, r.lo, s.lo, x.lo, x.fine_lo, mat4x4f()));
    if (WIDE && !AS_ONE) {
        let no = vec4u();
        let f = outer_half(p.hi, q.hi, r.hi, s.hi, x.fine_hi, no, outer_half(p.lo, q.lo, r.lo, s.lo, x.fine_lo, no, mat4x4f()));
        t = mat4x4f(join(t[0], f[0]), join(t[1], f[1]), join(t[2], f[2]), join(t[3], f[3]));
    }
    let scale = of_tokens(x.s);
    let total = of_tokens(x.z);
    return Sum(block_add4(p, scale, total, t[0], sum[0]), block_add4(q, scale, total, t[1], sum[1]), block_add4(r, scale, total, t[2], sum[2]),
               block_add4(s, scale, total, t[3], sum[3]));
}
