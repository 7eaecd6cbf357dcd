// Best logit of a node over the tiles of head.wgsl, with as many neighbouring threads as a workgroup has for each node. Eight tiles are read
// together: one after the other each would wait for the last.
var<workgroup> candidates: array<Best, WG>; // then: of a node, at its first thread

fn tile_of(node: u32, i: u32) -> Best {
    let t = work[HEAD_AT + node * HEAD_TILES + min(i, HEAD_TILES - 1u)];
    if (i < HEAD_TILES) {
        return Best(t.x, t.y, t.z);
    }
    return best_none();
}

// `lanes`: threads, a power of two.
fn best_of_lanes(lid: u32, node: u32, lanes: u32, valid: bool) {
    let lane = lid & (lanes - 1u);
    var b = best_none();
    for (var i = select(HEAD_TILES, lane, valid); i < HEAD_TILES; i += 8u * lanes) {
        let t0 = tile_of(node, i);
        let t1 = tile_of(node, i + lanes);
        let t2 = tile_of(node, i + 2u * lanes);
        let t3 = tile_of(node, i + 3u * lanes);
        let t4 = tile_of(node, i + 4u * lanes);
        let t5 = tile_of(node, i + 5u * lanes);
        let t6 = tile_of(node, i + 6u * lanes);
        let t7 = tile_of(node, i + 7u * lanes);
        b = best_of(best_of(best_of(best_of(b, t0), t1), t2), t3); // from left to right: NaN on the left would stay
        b = best_of(best_of(best_of(best_of(b, t4), t5), t6), t7);
    }
    candidates[lid] = b;
    for (var m = lanes / 2u; m > 0u; m >>= 1u) {
        workgroupBarrier();
        if (lane < m) {
            candidates[lid] = best_of(candidates[lid], candidates[lid + m]);
        }
    }
    workgroupBarrier();
}

// Every thread gets it.
fn best_of_tiles(lid: u32, node: u32) -> Best {
    best_of_lanes(lid, node, WG, true);
    return candidates[0];
}
