// Best logit of a node over the tiles of head.wgsl; every thread gets it.
var<workgroup> candidates: array<Best, WG>;
fn best_of_tiles(lid: u32, node: u32) -> Best {
    var b = best_none();
    for (var i = lid; i < HEAD_TILES; i += WG) {
        let t = work[HEAD_AT + node * HEAD_TILES + i];
        b = best_of(b, Best(t.x, t.y, t.z));
    }
    candidates[lid] = b;
    for (var m = WG / 2u; m > 0u; m >>= 1u) {
        workgroupBarrier();
        if (lid < m) {
            candidates[lid] = best_of(candidates[lid], candidates[lid + m]);
        }
    }
    workgroupBarrier();
    return candidates[0];
}
