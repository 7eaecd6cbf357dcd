// Quantised activations, blocks of 32 values x = s * (code + fine / 254). Block b of token t at base + (t * blocks + b) * IN_SIZE, in vec4u:
//   [0], [1]  32 int8 codes    [2]  s as bits, sum of the codes as f32 bits, sum of squares before the gain as bits, sum of the fine codes
//   [3], [4]  32 int8 fine codes, where blocks have five (the residual's): what the codes lost, for consumers that are WIDE
struct Act {
    lo: vec4u,
    hi: vec4u,
    fine_lo: vec4u,
    fine_hi: vec4u,
    s: f32, // WIDE: of the codes times 254
    z: f32,
}
fn load_act(i: u32) -> Act {
    let m = bitcast<vec4f>(act[i + 2u]);
    if (WIDE) {
        return Act(act[i], act[i + 1u], act[i + 3u], act[i + 4u], m.x * (1.0 / 254.0), fma(254.0, m.y, m.w));
    }
    return Act(act[i], act[i + 1u], vec4u(), vec4u(), m.x, m.y);
}
