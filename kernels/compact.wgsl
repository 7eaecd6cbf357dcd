// Moves the keys and values of accepted drafts to their positions, behind accept.wgsl. A draft's place is never before its position, and one
// thread moves all of them for its part of a vector, in order, so nothing is overwritten before it is read. Grid (2 * parts / WG, layers of a cache buffer).
@compute @workgroup_size(WG)
fn compact(@builtin(global_invocation_id) id: vec3u) {
    let parts = KV_HEADS * HEAD_DIM / 8u;
    if (id.x >= 2u * parts) {
        return;
    }
    let layer = id.y * KV_STRIDE * 2u;
    let head = (id.x % parts) / (HEAD_DIM / 8u);
    let d = id.x % (HEAD_DIM / 8u);
    for (var i = 0u; i < state.tree.moved; i++) {
        let source = state.tree.base + state.tree.came_from[i];
        let place = state.tree.base + i + 1u;
        if (source != place) {
            if (id.x < parts) {
                kv[layer + key_place(head, place, d)] = kv[layer + key_place(head, source, d)];
            } else {
                kv[layer + KV_STRIDE + (head * CTX + place) * (HEAD_DIM / 8u) + d] = kv[layer + KV_STRIDE + (head * CTX + source) * (HEAD_DIM / 8u) + d];
            }
        }
    }
}
fn key_place(head: u32, slot: u32, d: u32) -> u32 { // as in lib/attend.wgsl
    return head * CTX * (HEAD_DIM / 8u) + (slot / 32u) * (HEAD_DIM / 8u * 32u) + d * 32u + slot % 32u;
}
