// Scores and softmax of attend_tile: PADDED query rows, a multiple of four, that share a key head, and a block of BLOCK_CHUNKS chunks of a chain
// of nodes. A score is the sum that attend_row.wgsl takes, a chunk's softmax that of attend.wgsl.
const GROUP = HEADS / KV_HEADS;
const QROWS = QNODES * GROUP; // row r: node r / GROUP of the tile, head r % GROUP of the group
const PADDED = (QROWS + 3u) / 4u * 4u;
const HD4 = HEAD_DIM / 4u;
const BLOCK = BLOCK_CHUNKS * CHUNK;
const APART = BLOCK / 4u;           // between the four positions of a thread
const SCORES = PADDED / 4u * APART; // threads' worth of four rows and positions
const STRIDE = CHUNK / 4u + 1u;     // of a chunk's scores: one more than they are, so that threads don't meet in the banks of memory
const ROW_STRIDE = BLOCK_CHUNKS * STRIDE;
var<workgroup> query: array<vec4f, PADDED * HD4>;         // [row][dimension / 4]
var<workgroup> score: array<vec4f, PADDED * ROW_STRIDE>;  // [row][chunk][position / 4]: scores, then exponentials
var<workgroup> peak: array<f32, PADDED * BLOCK_CHUNKS>;   // largest score of a row and chunk
var<workgroup> sums: array<vec4f, PADDED * BLOCK_CHUNKS>; // of its exponentials, over positions equal modulo 4
var<workgroup> ab: array<vec2f, PADDED * BLOCK_CHUNKS>;   // what the chunk does to its span so far, and to its own (online.wgsl)
var<workgroup> top: array<f32, PADDED>;                   // largest score of the span before the block
var<private> kv_head: u32;
var<private> node0: u32;
var<private> last: u32; // position of the tile: it is loaded in place of what lies behind it, which may be anything, and weighs nothing then
var<private> keys: u32; // of the key head, in the cache

fn load_queries(lid: u32, nodes: u32) { // rows that are none repeat others
    for (var i = lid; i < PADDED * HD4; i += WG) {
        let r = min(i / HD4, QROWS - 1u);
        let node = min(node0 + r / GROUP, nodes - 1u);
        query[i] = work[Q_AT + (node * HEADS + kv_head * GROUP + r % GROUP) * HD4 + i % HD4];
    }
}

fn sees(row: u32, position: u32) -> bool { return position <= node_position(node0 + row / GROUP); }

struct Four { // eight dimensions of four keys, or four of eight values
    a: vec4u,
    b: vec4u,
    c: vec4u,
    d: vec4u,
}
struct Scores { // partial sums of four positions, [row]
    a: mat4x4f,
    b: mat4x4f,
    c: mat4x4f,
    d: mat4x4f,
}

fn key_at(position: u32) -> u32 { // of dimensions 0 to 7; the next eight follow at + 32
    let slot = slot_of(node0, min(position, last));
    return keys + (slot / 32u) * (HD8 * 32u) + slot % 32u;
}
fn keys_at(p: u32) -> vec4u { return vec4u(key_at(p), key_at(p + APART), key_at(p + 2u * APART), key_at(p + 3u * APART)); }
fn load_keys(at: vec4u, j: u32) -> Four { return Four(kv[at.x + 32u * j], kv[at.y + 32u * j], kv[at.z + 32u * j], kv[at.w + 32u * j]); }

fn query_rows(q: u32) -> mat4x4f { return mat4x4f(query[q], query[q + HD4], query[q + 2u * HD4], query[q + 3u * HD4]); }
fn add_rows(a: mat4x4f, x: vec4f, q: mat4x4f) -> mat4x4f { return mat4x4f(fma(x, q[0], a[0]), fma(x, q[1], a[1]), fma(x, q[2], a[2]), fma(x, q[3], a[3])); }
fn add_keys(s: Scores, q: u32, k: Four) -> Scores {
    let lo = query_rows(q);
    let t = Scores(add_rows(s.a, unpack_lo(k.a), lo), add_rows(s.b, unpack_lo(k.b), lo), add_rows(s.c, unpack_lo(k.c), lo), add_rows(s.d, unpack_lo(k.d), lo));
    let hi = query_rows(q + 1u);
    return Scores(add_rows(t.a, unpack_hi(k.a), hi), add_rows(t.b, unpack_hi(k.b), hi), add_rows(t.c, unpack_hi(k.c), hi), add_rows(t.d, unpack_hi(k.d), hi));
}

fn put_score(row: u32, p: u32, first: u32, a: vec4f) {
    let s = select(LOWEST, (a.x + a.y) + (a.z + a.w), sees(row, first + p));
    score[row * ROW_STRIDE + p / CHUNK * STRIDE + p % CHUNK / 4u][p & 3u] = s;
}
fn put_scores(row: u32, p: u32, first: u32, a: mat4x4f) {
    put_score(row, p, first, a[0]);
    put_score(row + 1u, p, first, a[1]);
    put_score(row + 2u, p, first, a[2]);
    put_score(row + 3u, p, first, a[3]);
}

// Of the block at `first`; `begun`: keys that are loaded already.
fn block_scores(lid: u32, first: u32, begun: Four) {
    for (var i = lid; i < SCORES; i += WG) {
        let p = i % APART;
        let r = i / APART * 4u;
        let at = keys_at(first + p);
        var k = begun;
        if (i >= WG) {
            k = load_keys(at, 0u);
        }
        var s = Scores();
        for (var j = 0u; j < HD8; j++) {
            let next = load_keys(at, min(j + 1u, HD8 - 1u));
            s = add_keys(s, r * HD4 + 2u * j, k);
            k = next;
        }
        put_scores(r, p, first, s.a);
        put_scores(r, p + APART, first, s.b);
        put_scores(r, p + 2u * APART, first, s.c);
        put_scores(r, p + 3u * APART, first, s.d);
    }
}

fn find_peaks(lid: u32) {
    for (var x = lid; x < QROWS * BLOCK_CHUNKS; x += WG) {
        let s = x * STRIDE;
        let m = max(max(max(score[s], score[s + 1u]), max(score[s + 2u], score[s + 3u])),
                    max(max(score[s + 4u], score[s + 5u]), max(score[s + 6u], score[s + 7u])));
        peak[x] = max(max(m.x, m.y), max(m.z, m.w));
    }
}

// Four threads a row and chunk, one for the positions equal to k modulo 4; two of them also find what the chunk does.
fn exponentials(lid: u32, first: u32) {
    for (var i = lid; i < QROWS * BLOCK_CHUNKS * 4u; i += WG) {
        let x = i / 4u;
        let k = i % 4u;
        let s = x * STRIDE;
        let largest = peak[x];
        let e = exp(vec4f(score[s][k], score[s + 1u][k], score[s + 2u][k], score[s + 3u][k]) - largest);
        let f = exp(vec4f(score[s + 4u][k], score[s + 5u][k], score[s + 6u][k], score[s + 7u][k]) - largest);
        score[s][k] = e.x;
        score[s + 1u][k] = e.y;
        score[s + 2u][k] = e.z;
        score[s + 3u][k] = e.w;
        score[s + 4u][k] = f.x;
        score[s + 5u][k] = f.y;
        score[s + 6u][k] = f.z;
        score[s + 7u][k] = f.w;
        sums[x][k] = e.x + e.y + e.z + e.w + f.x + f.y + f.z + f.w;
        let c = x % BLOCK_CHUNKS;
        var before = top[x / BLOCK_CHUNKS];
        for (var b = x - c; b < x; b++) {
            before = max(before, peak[b]);
        }
        let factor = exp(select(before, largest, k == 1u) - max(before, largest));
        if (k < 2u) { // a chunk that the row does not see leaves all as it is
            ab[x][k] = select(f32(1u - k), factor, sees(x / BLOCK_CHUNKS, first + c * CHUNK));
        }
    }
}
