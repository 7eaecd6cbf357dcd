// Products of layers.wgsl: 32 or 64 rows of a matrix and all nodes, in the canonical order (doc/reduction.md). The weights
// are on their way, and in registers, while the workgroup waits for the activations.
struct Shape { // of a matrix row
    blocks: u32,
    leaf: u32, // blocks
    leaves: u32,
    lanes: u32, // threads that share it, a power of two
    row_blocks: u32,
}
const FROM_X = Shape(DIM / 32u, X_LEAF, X_LEAVES, X_LANES, X_ROW_BLOCKS);    // q k v, gate and up
const FROM_A = Shape(HEADS * HEAD_DIM / 32u, A_LEAF, A_LEAVES, A_LANES, A_ROW_BLOCKS); // output projection
const FROM_H = Shape(FFN / 32u, H_LEAF, H_LEAVES, H_LANES, H_ROW_BLOCKS);    // down
const BLOCK_WORDS = 20u; // lib/act.wgsl with fine codes
const USED_WORDS = 12u;  // without
var<workgroup> val: array<vec4f, 16u * N>; // [row / 4][node]
var<workgroup> rms_factors: array<f32, N>;

// Over several nodes a thread takes up to four rows, so that they share what is read of the activations, and every EACH-th node. Two where workgroups
// share the nodes of a tree of four.
const EACH = select(min(N, 4u), 2u, N == 4u && HIDDEN_SHARE == 2u);
struct Rows {
    a: Row,
    b: Row,
    c: Row,
    d: Row,
}
struct Raws { // a block of each row
    a: Raw,
    b: Raw,
    c: Raw,
    d: Raw,
}
fn rows_at(s: Shape, kind: u32, tile: u32, r: u32) -> Rows {
    let a = tile_row(s, kind, tile, r);
    if (EACH == 1u) {
        return Rows(a, a, a, a);
    }
    if (EACH == 2u) {
        let b = tile_row(s, kind, tile, r + 1u);
        return Rows(a, b, a, b);
    }
    return Rows(a, tile_row(s, kind, tile, r + 1u), tile_row(s, kind, tile, r + 2u), tile_row(s, kind, tile, r + 3u));
}
fn load_raws(rows: Rows, i: u32) -> Raws {
    var w = Raws();
    w.a = load_raw(rows.a, i);
    if (EACH > 1u) {
        w.b = load_raw(rows.b, i);
    }
    if (EACH > 2u) {
        w.c = load_raw(rows.c, i);
        w.d = load_raw(rows.d, i);
    }
    return w;
}

struct Leaf { // its first eight blocks
    a: Raws,
    b: Raws,
    c: Raws,
    d: Raws,
    e: Raws,
    f: Raws,
    g: Raws,
    h: Raws,
}
fn load_leaf(s: Shape, rows: Rows, leaf: u32) -> Leaf {
    var l = Leaf();
    let n = s.leaves;
    l.a = load_raws(rows, leaf);
    if (s.leaf > 1u) { l.b = load_raws(rows, n + leaf); }
    if (s.leaf > 2u) { l.c = load_raws(rows, 2u * n + leaf); }
    if (s.leaf > 3u) { l.d = load_raws(rows, 3u * n + leaf); }
    if (s.leaf > 4u) { l.e = load_raws(rows, 4u * n + leaf); }
    if (s.leaf > 5u) { l.f = load_raws(rows, 5u * n + leaf); }
    if (s.leaf > 6u) { l.g = load_raws(rows, 6u * n + leaf); }
    if (s.leaf > 7u) { l.h = load_raws(rows, 7u * n + leaf); }
    return l;
}
struct Block32 { // of activations
    lo: vec4u,
    hi: vec4u,
    fine_lo: vec4u,
    fine_hi: vec4u,
    s: f32,
    z: f32,
}
fn add_row(wide: bool, row: Row, i: u32, raw: Raw, x: Block32, sum: f32) -> f32 {
    let w = unpack(raw, row, i);
    let coarse = dot32(w.lo, w.hi, x.lo, x.hi);
    if (wide) {
        return block_add(w, x.s, x.z, f32(254 * coarse + dot32(w.lo, w.hi, x.fine_lo, x.fine_hi)), sum);
    }
    return block_add(w, x.s, x.z, f32(coarse), sum);
}
fn add_block(s: Shape, wide: bool, rows: Rows, leaf: u32, node: u32, j: u32, w: Raws, sum: vec4f) -> vec4f {
    let b = min(leaf * s.leaf + j, s.blocks - 1u); // absent blocks have zero weights
    let at = (node * s.blocks + b) * select(3u, 5u, wide);
    let m = bitcast<vec4f>(inbox[at + 2u]);
    var x = Block32(inbox[at], inbox[at + 1u], vec4u(), vec4u(), m.x, m.y);
    if (wide) {
        x.fine_lo = inbox[at + 3u];
        x.fine_hi = inbox[at + 4u];
        x.s = m.x * (1.0 / 254.0);
        x.z = fma(254.0, m.y, m.w);
    }
    let i = j * s.leaves + leaf;
    var t = sum;
    t.x = add_row(wide, rows.a, i, w.a, x, sum.x);
    if (EACH > 1u) {
        t.y = add_row(wide, rows.b, i, w.b, x, sum.y);
    }
    if (EACH > 2u) {
        t.z = add_row(wide, rows.c, i, w.c, x, sum.z);
        t.w = add_row(wide, rows.d, i, w.d, x, sum.w);
    }
    return t;
}
fn leaf_sum(s: Shape, wide: bool, rows: Rows, leaf: u32, node: u32, l: Leaf) -> vec4f {
    var sum = add_block(s, wide, rows, leaf, node, 0u, l.a, vec4f());
    if (s.leaf > 1u) { sum = add_block(s, wide, rows, leaf, node, 1u, l.b, sum); }
    if (s.leaf > 2u) { sum = add_block(s, wide, rows, leaf, node, 2u, l.c, sum); }
    if (s.leaf > 3u) { sum = add_block(s, wide, rows, leaf, node, 3u, l.d, sum); }
    if (s.leaf > 4u) { sum = add_block(s, wide, rows, leaf, node, 4u, l.e, sum); }
    if (s.leaf > 5u) { sum = add_block(s, wide, rows, leaf, node, 5u, l.f, sum); }
    if (s.leaf > 6u) { sum = add_block(s, wide, rows, leaf, node, 6u, l.g, sum); }
    if (s.leaf > 7u) { sum = add_block(s, wide, rows, leaf, node, 7u, l.h, sum); }
    for (var j = 8u; j < s.leaf; j++) {
        sum = add_block(s, wide, rows, leaf, node, j, load_raws(rows, j * s.leaves + leaf), sum);
    }
    return sum;
}
// Top of the tree, over the lanes. Two that add up their sums part the rows: each goes on with half of them, so that the first EACH lanes have one
// row each in the end, of four in the order 0, 2, 1, 3. With fewer lanes than rows, all have all.
fn lanes_sum(lid: u32, base: u32, lanes: u32, of_lane: vec4f) -> vec4f {
    var sum = of_lane;
    if (lanes < EACH) {
        for (var m = 1u; m < lanes; m <<= 1u) {
            sum += swap4(lid, base, sum, m);
        }
        return sum;
    }
    let odd = (lid & 1u) != 0u;
    if (EACH == 2u) {
        sum.x = select(sum.x, sum.y, odd) + swap(lid, base, select(sum.y, sum.x, odd), 1u);
    }
    if (EACH == 4u) {
        let high = (lid & 2u) != 0u;
        let two = select(sum.xy, sum.zw, odd) + swap2(lid, base, select(sum.zw, sum.xy, odd), 1u);
        sum.x = select(two.x, two.y, high) + swap(lid, base, select(two.y, two.x, high), 2u);
    }
    for (var m = EACH; m < lanes; m <<= 1u) {
        sum.x += swap(lid, base, sum.x, m);
    }
    return sum;
}
// What lane `lane` has of it, for `row` and those behind it.
fn put_sum(lanes: u32, lane: u32, row: u32, node: u32, sum: vec4f) {
    let v = row / 4u * N + node;
    let r = row & 3u;
    if (lanes >= EACH) {
        if (lane < EACH) {
            val[v][r + select(lane, 2u * (lane & 1u) + (lane >> 1u), EACH == 4u)] = sum.x;
        }
    } else if (lane == 0u && EACH == 4u) {
        val[v] = sum;
    } else if (lane == 0u) {
        val[v][r] = sum.x;
        val[v][r + 1u] = sum.y;
    }
}

// Factors of RMSNorm from the inbox, as in lib/rms: 16 neighbours a node.
fn find_factors(lid: u32, base: u32, node0: u32, nodes: u32) {
    let node = min(lid / 16u, nodes - 1u);
    var s = 0.0;
    for (var i = 0u; i < (FROM_X.blocks + 15u) / 16u; i++) {
        let b = lid % 16u + 16u * i;
        s += select(0.0, bitcast<f32>(inbox[(node * FROM_X.blocks + min(b, FROM_X.blocks - 1u)) * 5u + 2u].z), b < FROM_X.blocks);
    }
    for (var m = 1u; m < 16u; m <<= 1u) {
        s += swap(lid, base, s, m);
    }
    if (lid < 16u * nodes && lid % 16u == 0u) {
        rms_factors[node0 + node] = inverseSqrt(fma(s, INV_DIM, EPS));
    }
}

// Products of `rows` rows of tile `tile` of a matrix (tile_row) and the nodes from `from_node` to `nodes` into val, from activations in the exchange at
// `start`, or in act if that is FROM_ACT.
const FROM_ACT = 0xffffffffu;
fn products(lid: u32, base: u32, from_node: u32, nodes: u32, s: Shape, wide: bool, kind: u32, tile: u32, rows: u32, start: u32) {
    let lane = lid % s.lanes;
    let leaf = min(lane, s.leaves - 1u);
    let step = WG / s.lanes; // rows made at a time
    let r = lid / s.lanes % (step / EACH) * EACH;
    let first_node = lid / s.lanes / (step / EACH);
    let rows_a = rows_at(s, kind, tile, min(r, rows - EACH));
    let a = load_leaf(s, rows_a, leaf);
    var rows_b = rows_a;
    var b = Leaf();
    if (EACH == 1u && rows > step) {
        rows_b = rows_at(s, kind, tile, min(r + step, rows - EACH));
        b = load_leaf(s, rows_b, leaf);
    }
    let most = INBOX / (s.blocks * select(USED_WORDS, BLOCK_WORDS, wide) / 4u); // nodes that the inbox has room for
    for (var node0 = from_node; node0 < select(nodes, from_node + 1u, most >= N); node0 += most) {
        let count = min(nodes - node0, most);
        if (start == FROM_ACT) {
            for (var i = lid; i < count * s.blocks * 5u; i += WG) {
                inbox[i] = act[ACT_X + node0 * s.blocks * 5u + i];
            }
        } else if (wide) {
            take(lid, start + node0 * s.blocks * BLOCK_WORDS, count * s.blocks * BLOCK_WORDS, 0u, BLOCK_WORDS, BLOCK_WORDS);
        } else {
            take(lid, start + node0 * s.blocks * BLOCK_WORDS, count * s.blocks * USED_WORDS, 0u, USED_WORDS, BLOCK_WORDS);
        }
        workgroupBarrier();
        if (wide) {
            find_factors(lid, base, node0, count);
        }
        for (var first = 0u; first < rows; first += step) {
            var at = rows_a;
            var l = a;
            if (EACH == 1u && first == step) {
                at = rows_b;
                l = b;
            } else if (first > 0u) {
                at = rows_at(s, kind, tile, min(first + r, rows - EACH));
                l = load_leaf(s, at, leaf);
            }
            for (var n0 = 0u; n0 < count; n0 += EACH) {
                let n = n0 + first_node;
                let of_lane = select(vec4f(), leaf_sum(s, wide, at, leaf, min(n, count - 1u), l), lane < s.leaves);
                let sum = lanes_sum(lid, base, s.lanes, of_lane);
                if (first + r < rows && n < count) {
                    put_sum(s.lanes, lane, first + r, node0 + n, sum);
                }
            }
        }
        workgroupBarrier();
    }
}
