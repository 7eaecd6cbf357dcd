// Buffers that every kernel sees (parameters, 6: params.wgsl or params_layers.wgsl; state, 7: state_read.wgsl or state_write.wgsl), in one bind group for all layers whose weights share a pool.
@group(0) @binding(0) var<storage, read> codes: array<vec4u>;        // weight codes of a pool (weights.h)
@group(0) @binding(1) var<storage, read> scales: array<u32>;         // weight scales of the pool
@group(0) @binding(2) var<storage, read> vectors: array<f32>;        // norms, biases, rope table
@group(0) @binding(3) var<storage, read_write> act: array<vec4u>;    // quantised activations (act.wgsl)
@group(0) @binding(4) var<storage, read_write> work: array<vec4f>;   // residual, queries, partial results
@group(0) @binding(5) var<storage, read_write> kv: array<vec4u>;     // keys and values as f16, [layer][K, V][kv head] (attend.wgsl)

struct State {
    control: Control,
    ring: array<u32, RING>,
    stats: array<u32, 3u * STATS>, // of each step over a tree: src/gpu/shared.h
    tree: Tree,
    tokens: array<u32>, // ids of the sequence, [CTX + nodes of the widest bucket], then session memory
}
