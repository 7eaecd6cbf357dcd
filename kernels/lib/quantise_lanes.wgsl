// Eight neighbours in a subgroup a block, a quad each.
const QITEMS = QBLOCKS * TOKS * 8u;
const ONE_QUAD = QITEMS <= WG; // a thread finishes no other quad than i % 8 of block i / 8 / TOKS and token i / 8 % TOKS, i being its index
fn quantise(lid: u32) {
    for (var i = lid; i < QITEMS; i += WG) {
        let e = i % 8u;
        let token = (i / 8u) % TOKS;
        let block = i / 8u / TOKS;
        let x = quad(block, e, token);
        let y = x * gain(block, e);
        var square = quad_square(x);
        var largest = quad_max(y);
        for (var m = 1u; m < 8u; m <<= 1u) {
            largest = max(largest, subgroupShuffleXor(largest, m));
            square += subgroupShuffleXor(square, m);
        }
        let at = act_out(block, token);
        var sum = put_codes(at, e, y, largest);
        for (var m = 1u; m < 8u; m <<= 1u) {
            sum += subgroupShuffleXor(sum, m);
        }
        if (e == 0u) {
            put_scale(at, largest, sum, square);
        }
    }
}
