// Quantising (act.wgsl) in quads, four neighbouring values, eight to a block. The kernel gives quad(block, e, token), called once for each of
// QBLOCKS blocks, its quads and TOKS tokens of the workgroup: the finished values; gain(block, e) that they are multiplied by; and
// act_out(block, token): where the result goes, or SKIP. quantise(lid), of one of the pieces, is called by every thread of the workgroup.
const SKIP = 0xffffffffu;
const FINE = OUT_SIZE == 5u;
fn quad_square(x: vec4f) -> f32 { return fma(x.w, x.w, fma(x.z, x.z, fma(x.y, x.y, x.x * x.x))); }
fn quad_max(y: vec4f) -> f32 { return max(max(abs(y.x), abs(y.y)), max(abs(y.z), abs(y.w))); }
// Writes the codes of a quad of y = x * gain; `largest` of its block. Gives the sums of codes and of fine codes.
fn put_codes(at: u32, e: u32, y: vec4f, largest: f32) -> vec2i {
    let inverse = select(0.0, 127.0 / largest, largest > 1e-30);
    let code = round(y * inverse);
    let q = vec4i(code);
    var sum = vec2i((q.x + q.y) + (q.z + q.w), 0);
    if (at != SKIP) {
        put_word(at + (e >> 2u), e & 3u, pack4xI8(q));
    }
    if (FINE) {
        let f = vec4i(clamp(round(fma(y, vec4f(inverse), -code) * 254.0), vec4f(-127.0), vec4f(127.0)));
        sum.y = (f.x + f.y) + (f.z + f.w);
        if (at != SKIP) {
            put_word(at + 3u + (e >> 2u), e & 3u, pack4xI8(f));
        }
    }
    return sum;
}
// Scale, sums and sum of squares of a block. max() may drop what is no number, integers can't hold it, and devices may not divide by more than
// 2^126: the scale passes all of that on, as no number, to the logits.
fn put_scale(at: u32, largest: f32, sum: vec2i, square: f32) {
    if (at != SKIP) {
        let good = (bitcast<u32>(square) & 0x7f800000u) != 0x7f800000u && largest < 8e37;
        put_words(at + 2u, vec4u(select(0x7fc00000u, bitcast<u32>(largest * (1.0 / 127.0)), good), bitcast<u32>(f32(sum.x)), bitcast<u32>(square), bitcast<u32>(f32(sum.y))));
    }
}
