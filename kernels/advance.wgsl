// Ends a step, one workgroup: the processed tokens count as cached; when none is left to process and the step had a head (EMIT), the best
// token is appended to the sequence and to the ring, or ends the request.
var<workgroup> nodes: u32;

@compute @workgroup_size(WG)
fn advance(@builtin(local_invocation_index) lid: u32) {
    if (lid == 0u) {
        nodes = nodes_to_end();
    }
    let count = workgroupUniformLoad(&nodes);
    if (count == 0u) {
        return;
    }
    var best = best_none();
    if (EMIT) {
        best = best_of_tiles(lid, 0u);
    }
    if (lid != 0u) {
        return;
    }
    let end = state.control.end;
    state.control.pos += count;
    if (!EMIT || state.control.pos != end) {
        return;
    }
    state.control.steps += 1u;
    let finished = append(best, end, state.control.emitted);
    if (appended(finished)) {
        state.control.emitted += 1u;
        state.control.end = end + 1u;
    }
    state.control.finished = finished;
}
