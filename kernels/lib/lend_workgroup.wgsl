// lend_subgroup.wgsl through workgroup memory, for subgroups of fewer than 32. Every thread of the workgroup calls it.
var<workgroup> lent: array<vec4f, WG>;
fn lend_any(lid: u32, base: u32, value: vec4f, source: u32) -> vec4f {
    lent[lid] = value;
    workgroupBarrier();
    let v = lent[(lid & ~31u) + source];
    workgroupBarrier();
    return v;
}
fn lend(lid: u32, base: u32, value: f32, source: u32) -> f32 { return lend_any(lid, base, vec4f(value, 0.0, 0.0, 0.0), source).x; }
fn swap(lid: u32, base: u32, value: f32, m: u32) -> f32 { return lend(lid, base, value, (lid & 31u) ^ m); }
fn swap2(lid: u32, base: u32, value: vec2f, m: u32) -> vec2f { return lend_any(lid, base, vec4f(value, 0.0, 0.0), (lid & 31u) ^ m).xy; }
fn swap4(lid: u32, base: u32, value: vec4f, m: u32) -> vec4f { return lend_any(lid, base, value, (lid & 31u) ^ m); }
fn first_lane() -> u32 { return 0u; }
