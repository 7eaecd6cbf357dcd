// Teacher forcing: best logit of every node into SCORE: id, margin to the second, value. Grid (nodes).
@compute @workgroup_size(WG)
fn score(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) group: vec3u) {
    if (group.x >= node_count()) {
        return;
    }
    let b = best_of_tiles(lid, group.x);
    if (lid == 0u) {
        work[SCORE_AT + group.x] = vec4f(b.id, b.value - b.second, b.value, 0.0);
    }
}
