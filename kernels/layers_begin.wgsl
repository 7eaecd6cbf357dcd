// Empties the exchange for layers.wgsl. Grid (quads of words / WG).
@group(0) @binding(8) var<storage, read_write> exchange: array<vec4u>;

@compute @workgroup_size(WG)
fn layers_begin(@builtin(global_invocation_id) id: vec3u) {
    if (node_count() == 0u) {
        return;
    }
    exchange[min(id.x, arrayLength(&exchange) - 1u)] = vec4u(EMPTY);
    if (id.x == 0u) {
        work[LOST_FLAG_AT] = vec4f();
    }
}
