// Words of eight f16; and sums of weighted values, for decode attention by 32 threads a chunk (attend_head, layers_attend).
const HD8 = HEAD_DIM / 8u;

fn unpack_lo(w: vec4u) -> vec4f { return vec4f(unpack2x16float(w.x), unpack2x16float(w.y)); }
fn unpack_hi(w: vec4u) -> vec4f { return vec4f(unpack2x16float(w.z), unpack2x16float(w.w)); }
struct Eight { // 64 dimensions of a key, or eight of the values of eight positions
    a: vec4u,
    b: vec4u,
    c: vec4u,
    d: vec4u,
    e: vec4u,
    f: vec4u,
    g: vec4u,
    h: vec4u,
}
struct Pair { // sums of eight dimensions
    lo: vec4f,
    hi: vec4f,
}
fn weigh(o: Pair, weight: f32, v: vec4u) -> Pair { return Pair(fma(vec4f(weight), unpack_lo(v), o.lo), fma(vec4f(weight), unpack_hi(v), o.hi)); }
