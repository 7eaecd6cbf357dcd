// Four query rows a thread: every key and value is loaded and unpacked once for four rows. For nodes that share their ancestors' slots
// (chains; of a tree, the heads of one node). The sums of a row are those of attend_row.wgsl.
const PADDED = (QROWS + 3u) / 4u * 4u;

fn chunk_scores(lid: u32, first: u32) {
    for (var i = lid; i < PADDED / 4u * CHUNK; i += WG) {
        let r = i / CHUNK * 4u;
        let p = i % CHUNK;
        let k = key_at(slot_of(node0, first + p));
        var a = mat4x4f(); // [row]
        for (var j = 0u; j < HEAD_DIM / 8u; j++) {
            let w = kv[k + 32u * j];
            let q = r * HD4 + 2u * j;
            let x = vec4f(unpack2x16float(w.x), unpack2x16float(w.y));
            a = mat4x4f(fma(x, query[q], a[0]), fma(x, query[q + HD4], a[1]), fma(x, query[q + 2u * HD4], a[2]), fma(x, query[q + 3u * HD4], a[3]));
            let y = vec4f(unpack2x16float(w.z), unpack2x16float(w.w));
            a = mat4x4f(fma(y, query[q + 1u], a[0]), fma(y, query[q + HD4 + 1u], a[1]), fma(y, query[q + 2u * HD4 + 1u], a[2]),
                        fma(y, query[q + 3u * HD4 + 1u], a[3]));
        }
        put_score(r, p, first, a[0]);
        put_score(r + 1u, p, first, a[1]);
        put_score(r + 2u, p, first, a[2]);
        put_score(r + 3u, p, first, a[3]);
    }
}
fn put_score(row: u32, p: u32, first: u32, a: vec4f) {
    score[row * 8u + (p >> 2u)][p & 3u] = select(LOWEST, (a.x + a.y) + (a.z + a.w), p < visible(row, first));
}

// Quarter of a chunk for four rows, [row]: the weighted values of its eight positions, of which the first `limit` of the chunk exist.
// What a row does not see has the weight zero, which leaves its sum as it is.
fn quarter_rows(row: u32, first: u32, quarter: u32, d4: u32, limit: u32) -> mat4x4f {
    var o = mat4x4f();
    for (var g = quarter * 2u; g < quarter * 2u + 2u; g++) {
        let a = score[row * 8u + g];
        let b = score[row * 8u + 8u + g];
        let c = score[row * 8u + 16u + g];
        let d = score[row * 8u + 24u + g];
        o = add_position(o, vec4f(a.x, b.x, c.x, d.x), first, 4u * g, d4, limit);
        o = add_position(o, vec4f(a.y, b.y, c.y, d.y), first, 4u * g + 1u, d4, limit);
        o = add_position(o, vec4f(a.z, b.z, c.z, d.z), first, 4u * g + 2u, d4, limit);
        o = add_position(o, vec4f(a.w, b.w, c.w, d.w), first, 4u * g + 3u, d4, limit);
    }
    return o;
}
fn add_position(o: mat4x4f, e: vec4f, first: u32, p: u32, d4: u32, limit: u32) -> mat4x4f {
    let v = select(vec4f(), value_of(slot_of(node0, first + p), d4), p < limit); // what lies behind the limit may be anything, even NaN
    return mat4x4f(fma(vec4f(e.x), v, o[0]), fma(vec4f(e.y), v, o[1]), fma(vec4f(e.z), v, o[2]), fma(vec4f(e.w), v, o[3]));
}
