// Chunks of a span are folded in order of position into a running maximum m, sum l and value vector o, and so are spans:
//   m' = max(m, mc)   a = exp(m - m')   b = exp(mc - m')   l' = l a + lc b   o' = o a + oc b
struct Online {
    m: f32,
    l: f32,
    a: f32,
    b: f32,
}
fn online_start() -> Online { return Online(LOWEST, 0.0, 1.0, 0.0); }
fn online_fold(s: Online, mc: f32, lc: f32) -> Online {
    let m = max(s.m, mc);
    let a = exp(s.m - m);
    let b = exp(mc - m);
    return Online(m, fma(s.l, a, lc * b), a, b);
}
