// The buffers of lib/bindings for kernels that go through all layers: their parameters together.
@group(0) @binding(0) var<storage, read> codes: array<vec4u>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
@group(0) @binding(2) var<storage, read> vectors: array<f32>;
@group(0) @binding(3) var<storage, read_write> act: array<vec4u>;
@group(0) @binding(4) var<storage, read_write> work: array<vec4f>;
@group(0) @binding(5) var<storage, read_write> kv: array<vec4u>;
@group(0) @binding(6) var<uniform> params: array<Params, LAYERS>;

struct State {
    control: Control,
    ring: array<u32, RING>,
    stats: array<u32, 3u * STATS>,
    tree: Tree,
    tokens: array<u32>,
}
