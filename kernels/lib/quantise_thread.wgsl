// One thread a block, for CPU adapters (no barrier, no workgroup memory) and where there are no subgroups of eight.
const ONE_QUAD = false;
fn quantise(lid: u32) {
    for (var i = lid; i < QBLOCKS * TOKS; i += WG) {
        let token = i % TOKS;
        let block = i / TOKS;
        var y: array<vec4f, 8>;
        var squares: array<f32, 8>;
        var largest = 0.0;
        for (var e = 0u; e < 8u; e++) {
            let x = quad(block, e, token);
            squares[e] = quad_square(x);
            y[e] = x * gain(block, e);
            largest = max(largest, quad_max(y[e]));
        }
        let at = act_out(block, token);
        var sum = vec2i();
        for (var e = 0u; e < 8u; e++) {
            sum += put_codes(at, e, y[e], largest);
        }
        put_scale(at, largest, sum, ((squares[0] + squares[1]) + (squares[2] + squares[3])) + ((squares[4] + squares[5]) + (squares[6] + squares[7])));
    }
}
