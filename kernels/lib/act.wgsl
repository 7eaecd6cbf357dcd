// Quantised activations, blocks of 32 values x = s * code. Block b of token t at base + (t * blocks + b) * 3, in vec4u:
//   [0], [1]  32 int8 codes    [2]  s as bits, sum of the codes as f32 bits, sum of squares before the gain as bits, 0
struct Act {
    lo: vec4u,
    hi: vec4u,
    s: f32,
    z: f32,
}
fn load_act(i: u32) -> Act {
    let m = act[i + 2u];
    return Act(act[i], act[i + 1u], bitcast<f32>(m.x), bitcast<f32>(m.y));
}
