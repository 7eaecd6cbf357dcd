// One query row a thread: for decode, where there are few rows.
const PADDED = QROWS;

fn chunk_scores(lid: u32, first: u32) {
    for (var i = lid; i < QROWS * CHUNK; i += WG) {
        let r = i / CHUNK;
        let p = i % CHUNK;
        var s = LOWEST;
        if (p < visible(r, first)) {
            let k = key_at(slot_of(node0 + r / GROUP, first + p));
            var a = vec4f();
            for (var j = 0u; j < HEAD_DIM / 8u; j++) {
                let w = kv[k + 32u * j];
                a = fma(vec4f(unpack2x16float(w.x), unpack2x16float(w.y)), query[r * HD4 + 2u * j], a);
                a = fma(vec4f(unpack2x16float(w.z), unpack2x16float(w.w)), query[r * HD4 + 2u * j + 1u], a);
            }
            s = (a.x + a.y) + (a.z + a.w);
        }
        score[i >> 2u][i & 3u] = s;
    }
}

// Quarter of a chunk: the weighted values of its eight positions.
fn quarter_values(row: u32, first: u32, quarter: u32, d4: u32) -> vec4f {
    let end = min(visible(row, first), quarter * 8u + 8u);
    var a = vec4f();
    for (var p = quarter * 8u; p < end; p++) {
        let v = value_of(slot_of(node0 + row / GROUP, first + p), d4);
        a = fma(vec4f(score[row * 8u + (p >> 2u)][p & 3u]), v, a);
    }
    return a;
}
