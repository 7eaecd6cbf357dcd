// Turns val[(32 * block + e) * TOKS + token], QBLOCKS blocks for TOKS tokens, into quantised activations (act.wgsl) of val * gain. The kernel
// gives gain(block, e), and act_out(block, token): where the result goes, or SKIP. Eight threads a block, four values each.
const SKIP = 0xffffffffu;
const QITEMS = QBLOCKS * TOKS * 8u;
var<workgroup> q_max: array<f32, QITEMS>;
var<workgroup> q_square: array<f32, QITEMS>;
var<workgroup> q_sum: array<i32, QITEMS>;
const FINE = OUT_SIZE == 5u;
var<workgroup> q_fine: array<i32, select(1u, QITEMS, FINE)>; // sums of fine codes

fn quantise(lid: u32) { // every thread calls it, after a barrier behind the writes of val
    for (var i = lid; i < QITEMS; i += WG) {
        let token = (i / 8u) % TOKS;
        let block = i / 8u / TOKS;
        let e = 4u * (i % 8u);
        let p = (32u * block + e) * TOKS + token;
        let x = vec4f(val[p], val[p + TOKS], val[p + 2u * TOKS], val[p + 3u * TOKS]);
        q_square[i] = fma(x.w, x.w, fma(x.z, x.z, fma(x.y, x.y, x.x * x.x)));
        let y = x * vec4f(gain(block, e), gain(block, e + 1u), gain(block, e + 2u), gain(block, e + 3u));
        q_max[i] = max(max(abs(y.x), abs(y.y)), max(abs(y.z), abs(y.w)));
        val[p] = y.x;
        val[p + TOKS] = y.y;
        val[p + 2u * TOKS] = y.z;
        val[p + 3u * TOKS] = y.w;
    }
    workgroupBarrier();
    for (var i = lid; i < QITEMS; i += WG) {
        let token = (i / 8u) % TOKS;
        let block = i / 8u / TOKS;
        let p = (32u * block + 4u * (i % 8u)) * TOKS + token;
        let largest = block_max(i & ~7u);
        let y = vec4f(val[p], val[p + TOKS], val[p + 2u * TOKS], val[p + 3u * TOKS]);
        let inverse = select(0.0, 127.0 / largest, largest > 1e-30);
        let code = round(y * inverse);
        let q = vec4i(code);
        q_sum[i] = (q.x + q.y) + (q.z + q.w);
        let at = act_out(block, token);
        if (at != SKIP) {
            act[at + ((i >> 2u) & 1u)][i & 3u] = pack4xI8(q);
        }
        if (FINE) {
            let f = vec4i(clamp(round(fma(y, vec4f(inverse), -code) * 254.0), vec4f(-127.0), vec4f(127.0)));
            q_fine[i] = (f.x + f.y) + (f.z + f.w);
            if (at != SKIP) {
                act[at + 3u + ((i >> 2u) & 1u)][i & 3u] = pack4xI8(f);
            }
        }
    }
    workgroupBarrier();
    for (var g = lid; g < QBLOCKS * TOKS; g += WG) {
        let at = act_out(g / TOKS, g % TOKS);
        if (at != SKIP) {
            let i = g * 8u;
            var sum = vec2i();
            for (var k = 0u; k < 8u; k++) {
                sum += vec2i(q_sum[i + k], select(0, q_fine[select(0u, i + k, FINE)], FINE));
            }
            let square = ((q_square[i] + q_square[i + 1u]) + (q_square[i + 2u] + q_square[i + 3u]))
                       + ((q_square[i + 4u] + q_square[i + 5u]) + (q_square[i + 6u] + q_square[i + 7u]));
            // max() may drop what is no number, integers can't hold it, and devices may not divide by more than 2^126: the scale passes
            // all of that on, as no number, to the logits
            let largest = block_max(i);
            let good = (bitcast<u32>(square) & 0x7f800000u) != 0x7f800000u && largest < 8e37;
            act[at + 2u] = vec4u(select(0x7fc00000u, bitcast<u32>(largest * (1.0 / 127.0)), good), bitcast<u32>(f32(sum.x)), bitcast<u32>(square), bitcast<u32>(f32(sum.y)));
        }
    }
}
fn block_max(i: u32) -> f32 {
    return max(max(max(q_max[i], q_max[i + 1u]), max(q_max[i + 2u], q_max[i + 3u])),
               max(max(q_max[i + 4u], q_max[i + 5u]), max(q_max[i + 6u], q_max[i + 7u])));
}
