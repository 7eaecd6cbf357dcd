// All layers of a step in one dispatch. A workgroup makes the tiles of each matrix that fall to it, layer after layer, and waits for what they need
// from other workgroups word by word (lib/exchange). With as many workgroups as a layer has tiles, each has one or two, whose weights it has loaded long
// before it may use them: what a step takes is the way of its activations through the layers, not that of its weights. All sums are those of the kernels
// it stands for: qkv, attend_head, residual, gateup. Grid (any number of workgroups that run at the same time).
const ROWS = Q_ROWS + 2u * KV_ROWS;
const QKV_TILES = (ROWS + 63u) / 64u;
const DIM_TILES = DIM / 32u; // output projection, and down of the same rows: they share x
const HIDDEN_TILES = FFN / 32u;
// Nodes that a workgroup takes of a tile. Products of full trees take long, and the tiles of a small model leave half of a large GPU's processors idle.
const FEW = 64u;
const QKV_SHARE = select(N, N / 2u, N >= 4u && QKV_TILES <= FEW);
const DIM_SHARE = select(N, N / 2u, N >= 4u && DIM_TILES <= FEW);
const HIDDEN_SHARE = select(N, N / 2u, N >= 4u && HIDDEN_TILES <= FEW);
// The workgroup that has the first tile of each kind.
const DIM_FROM = 0u;
const QKV_FROM = DIM_TILES * (N / DIM_SHARE);
const FOLD_FROM = QKV_FROM; // those of q, k and v have nothing else to do then
const SPANS_FROM = QKV_FROM + QKV_TILES * (N / QKV_SHARE);
const HIDDEN_FROM = select(SPANS_FROM + HEADS * max(N, MOST_SPANS), QKV_FROM, HIDDEN_SHARE < N);
// Words of the exchange.
const X_WORDS = N * FROM_X.blocks * BLOCK_WORDS;
const MIDDLE_AT = X_WORDS;            // x between attention and the hidden layer
const HIDDEN_AT = MIDDLE_AT + X_WORDS;
const ATTENDED_AT = HIDDEN_AT + N * FROM_H.blocks * BLOCK_WORDS;
const QUERY_AT = ATTENDED_AT + N * FROM_A.blocks * BLOCK_WORDS;
const KEY_AT = QUERY_AT + N * Q_ROWS;
const VALUE_AT = KEY_AT + N * KV_ROWS / 2u;
const LAYER_WORDS = VALUE_AT + N * KV_ROWS / 2u;
const SPANS_AT = 4u + LAYERS * LAYER_WORDS; // lib/layers_attend: behind all layers, so that only as much is emptied as the context needs
const QKV = 0u;
const OUTPUT = 1u;
const HIDDEN = 2u;
const DOWN = 3u;
var<private> last_layer: bool; // its result goes to the head, in another dispatch
var<private> layer: u32;
const DEEPEST = 8u; // levels below the root (src/gpu/shared.def)

fn exchange_at(l: u32) -> u32 { return 4u + l * LAYER_WORDS; }
fn put_word(at: u32, k: u32, word: u32) {
    if (last_layer) {
        act[at][k] = word;
    } else {
        hand_out(4u * at + k, word);
    }
}
fn put_words(at: u32, words: vec4u) {
    if (last_layer) {
        act[at] = words;
    } else {
        hand_out_words(4u * at, words);
    }
}

fn tile_row(s: Shape, kind: u32, tile: u32, r: u32) -> Row {
    if (kind == HIDDEN) {
        let up = r >= 32u;
        let part = params[layer].part[select(2u, 3u, up)];
        return row_of(part.x, part.y, tile * 32u + (r & 31u), s.row_blocks);
    }
    if (kind == QKV) {
        let part = params[layer].part[0];
        return row_of(part.x, part.y, min(tile * 64u + r, ROWS - 1u), s.row_blocks);
    }
    let part = params[layer].part[select(1u, 4u, kind == DOWN)];
    return row_of(part.x, part.y, tile * 32u + r, s.row_blocks);
}

// Quantises what the eight threads of a block have, as lib/quantise_lanes: x, and y = x * gain. `at`: vec4u of the exchange, or of act; or SKIP.
fn publish(lid: u32, base: u32, x: vec4f, y: vec4f, at: u32) {
    let e = lid % 8u;
    var square = quad_square(x);
    var largest = quad_max(y);
    for (var m = 1u; m < 8u; m <<= 1u) {
        largest = max(largest, swap(lid, base, largest, m));
        square += swap(lid, base, square, m);
    }
    let codes = put_codes(at, e, y, largest);
    var sum = vec2f(codes);
    for (var m = 1u; m < 8u; m <<= 1u) {
        sum += swap2(lid, base, sum, m);
    }
    if (e == 0u) {
        put_scale(at, largest, vec2i(sum), square);
    }
}

// Half floats for other workgroups, and into the cache for later steps.
fn hand_out_halves(at: u32, p: u32, row: u32, z: vec4f) {
    let h = as_halves(z);
    hand_out(at, h.x);
    hand_out(at + 1u, h.y);
    kv[p][part_of(row)] = h.x;
    kv[p][part_of(row) + 1u] = h.y;
}
fn finish_qkv(row: u32, node: u32, y: vec4f, t: vec4f) { // as qkv.wgsl
    let slot = node_slot(node);
    let out = exchange_at(layer);
    let cache = params[layer].kv;
    if (row >= Q_ROWS + KV_ROWS) {
        let r = row - Q_ROWS - KV_ROWS;
        hand_out_halves(out + VALUE_AT + (node * KV_ROWS + r) / 2u, value_place(cache, r, slot), row, y);
        return;
    }
    let z = rotate(y, t);
    if (row < Q_ROWS) {
        hand_out_words(out + QUERY_AT + node * Q_ROWS + row, bitcast<vec4u>(z * Q_SCALE));
        return;
    }
    let r = row - Q_ROWS;
    hand_out_halves(out + KEY_AT + (node * KV_ROWS + r) / 2u, key_place(cache, r, slot), row, z);
}

fn qkv_tile(lid: u32, base: u32, node0: u32, nodes: u32, tile: u32) {
    let start = select(exchange_at(layer - 1u), FROM_ACT, layer == 0u);
    let quad = lid / N; // what its end needs is loaded before the products: a quad a thread
    let node = min(node0 + lid % N, nodes - 1u);
    let row = tile * 64u + min(quad, 15u) * 4u;
    let t = turn(row, node);
    let b = bias(params[layer].bias + min(row, ROWS - 4u));
    products(lid, base, node0, nodes, FROM_X, true, QKV, tile, 64u, start);
    if (quad < 16u && node0 + lid % N < nodes && row < ROWS) {
        finish_qkv(row, node, fma(val[quad * N + node], vec4f(rms_factors[node]), b), t);
    }
}

// Output projection, or down: x += product.
fn dim_tile(lid: u32, base: u32, node0: u32, nodes: u32, tile: u32, down: bool) {
    let at = exchange_at(layer);
    let e = lid % 8u; // what its end needs is loaded before the products: a quad a thread
    let node = min(node0 + lid / 8u, nodes - 1u);
    let exists = lid < 8u * (nodes - node0);
    let quad = tile * 8u + e;
    var x = work[X_AT + node * (DIM / 4u) + quad];
    let g = select(params[layer].norm_ffn, params[layer].norm_next, down) + 4u * quad;
    let gain = vec4f(vectors[g], vectors[g + 1u], vectors[g + 2u], vectors[g + 3u]);
    if (down) {
        products(lid, base, node0, nodes, FROM_H, false, DOWN, tile, 32u, at + HIDDEN_AT);
    } else {
        products(lid, base, node0, nodes, FROM_A, false, OUTPUT, tile, 32u, at + ATTENDED_AT);
    }
    x += val[e * N + node];
    if (exists) {
        work[X_AT + node * (DIM / 4u) + quad] = x;
    }
    last_layer = down && layer + 1u == LAYERS;
    let block = node * DIM_TILES + tile;
    let to = select((at + select(MIDDLE_AT, 0u, down)) / 4u + block * 5u, ACT_X + block * 5u, last_layer);
    publish(lid, base, x, x * gain, select(SKIP, to, exists));
}

fn hidden_tile(lid: u32, base: u32, node0: u32, nodes: u32, tile: u32) {
    let at = exchange_at(layer);
    products(lid, base, node0, nodes, FROM_X, true, HIDDEN, tile, 64u, at + MIDDLE_AT);
    let e = lid % 8u;
    let node = min(node0 + lid / 8u, nodes - 1u);
    let g = val[e * N + node] * rms_factors[node];
    let u = val[(8u + e) * N + node] * rms_factors[node];
    let h = g / (1.0 + exp(-g)) * u;
    publish(lid, base, h, h, select(SKIP, (at + HIDDEN_AT) / 4u + (node * HIDDEN_TILES + tile) * 5u, lid < 8u * (nodes - node0)));
}

// First tile of a kind that a workgroup has, of those that begin with workgroup `from`; the next ones follow after `groups`.
fn first_tile(group: u32, groups: u32, start: u32) -> u32 { return (group + groups - start % groups) % groups; }

fn over(a: u32, b: u32) -> u32 { return (a + b - 1u) / b; }

fn run(lid: u32, base: u32, group: u32, groups: u32) {
    let nodes = node_count();
    if (nodes == 0u) {
        return;
    }
    let spans = (node_slot(0u) + min(nodes - 1u, DEEPEST)) / (SPAN * CHUNK) + 1u;
    let each = over(HEADS * spans * nodes, groups); // nodes that a workgroup takes of a span of a head
    let parts = over(nodes, each);
    for (var l = 0u; l < LAYERS; l++) {
        layer = l;
        for (var t = first_tile(group, groups, QKV_FROM); t < QKV_TILES * over(nodes, QKV_SHARE); t += groups) {
            let node0 = t / QKV_TILES * QKV_SHARE;
            qkv_tile(lid, base, node0, min(nodes, node0 + QKV_SHARE), t % QKV_TILES);
        }
        let at = exchange_at(l);
        for (var t = first_tile(group, groups, SPANS_FROM); t < HEADS * spans * parts; t += groups) {
            let node0 = t / HEADS % parts * each;
            attend_span(lid, base, l, nodes, node0, min(node0 + each, nodes), t % HEADS, t / HEADS / parts, at, spans == 1u);
        }
        for (var t = first_tile(group, groups, FOLD_FROM); spans > 1u && t < HEADS * nodes; t += groups) {
            fold_spans(lid, base, l, t / HEADS, t % HEADS, at);
        }
        for (var t = first_tile(group, groups, DIM_FROM); t < DIM_TILES * over(nodes, DIM_SHARE); t += groups) {
            let node0 = t / DIM_TILES * DIM_SHARE;
            dim_tile(lid, base, node0, min(nodes, node0 + DIM_SHARE), t % DIM_TILES, false);
        }
        for (var t = first_tile(group, groups, HIDDEN_FROM); t < HIDDEN_TILES * over(nodes, HIDDEN_SHARE); t += groups) {
            let node0 = t / HIDDEN_TILES * HIDDEN_SHARE;
            hidden_tile(lid, base, node0, min(nodes, node0 + HIDDEN_SHARE), t % HIDDEN_TILES);
        }
        for (var t = first_tile(group, groups, DIM_FROM); t < DIM_TILES * over(nodes, DIM_SHARE); t += groups) {
            let node0 = t / DIM_TILES * DIM_SHARE;
            dim_tile(lid, base, node0, min(nodes, node0 + DIM_SHARE), t % DIM_TILES, true);
        }
    }
}

@compute @workgroup_size(WG)
fn layers(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u) {
    run(lid, first_lane(), group.x, groups.x);
    if (gave_up != 0u) {
        work[LOST_FLAG_AT] = vec4f(1.0);
    }
}
