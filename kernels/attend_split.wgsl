// Decode attention: one chunk of one node for the query heads of one key head; merge.wgsl folds the chunks.
// Grid (chunks, kv heads, nodes). Result per (chunk, node, head): values in PART, maximum and sum in ML.
const QNODES = 1u;
var<workgroup> part: array<vec4f, WG>;

@compute @workgroup_size(WG)
fn attend_split(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) group: vec3u) {
    if (group.z >= node_count()) {
        return;
    }
    node0 = group.z;
    kv_head = group.y;
    let first = group.x * CHUNK;
    if (first > node_position(group.z)) {
        return;
    }
    load_queries(lid);
    workgroupBarrier();
    chunk_scores(lid, first);
    workgroupBarrier();
    let out = (group.x * N + node0) * HEADS + kv_head * GROUP;
    if (lid < GROUP) {
        let r = row_softmax(lid);
        work[ML_AT + out + lid] = vec4f(r, 0.0, 0.0);
    }
    workgroupBarrier();
    // four neighbouring threads take the quarters of one (row, d4)
    for (var base = 0u; base < GROUP * HD4 * 4u; base += WG) {
        let i = base + lid;
        if (i < GROUP * HD4 * 4u) {
            part[lid] = quarter_values(i / 4u / HD4, first, i % 4u, (i / 4u) % HD4);
        }
        workgroupBarrier();
        if (i % 4u == 0u && i < GROUP * HD4 * 4u) {
            work[PART_AT + out * HD4 + i / 4u] = (part[lid] + part[lid + 1u]) + (part[lid + 2u] + part[lid + 3u]);
        }
        workgroupBarrier();
    }
}
