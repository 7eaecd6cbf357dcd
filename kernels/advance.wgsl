// Ends a step, one workgroup: the processed tokens count as cached; when none is left to process and the step had a head (EMIT), the best
// token is appended to the sequence and to the ring, or ends the request.
var<workgroup> nodes: u32;

@compute @workgroup_size(WG)
fn advance(@builtin(local_invocation_index) lid: u32) {
    var before: Control;
    var until: Ends;
    if (lid == 0u) { // whatever is read here is under way together
        before = state.control;
        until = ends();
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
    let end = before.end;
    state.control.pos = before.pos + count;
    if (!EMIT || before.pos + count != end) {
        return;
    }
    state.control.steps = before.steps + 1u;
    let finished = append(best, end, before.emitted, until);
    if (appended(finished)) {
        state.control.emitted = before.emitted + 1u;
        state.control.end = end + 1u;
    }
    state.control.finished = finished;
}
