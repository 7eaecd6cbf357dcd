// Ends a step, one workgroup: the processed tokens count as cached; when none is left to process and the step had a head (EMIT), the best
// token is appended to the sequence and to the ring, or ends the request.
var<workgroup> nodes: u32;

@compute @workgroup_size(WG)
fn advance(@builtin(local_invocation_index) lid: u32) {
    if (lid == 0u) {
        nodes = node_count();
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
    if (!(abs(best.value) < 3e38)) {
        state.control.finished = NOT_FINITE;
        return;
    }
    let token = u32(best.id);
    for (var i = 0u; i < state.control.n_ends; i++) {
        if (state.control.ends[i] == token) {
            state.control.finished = END_TOKEN;
            return;
        }
    }
    state.tokens[end] = token;
    state.ring[state.control.emitted % RING] = token;
    state.control.emitted += 1u;
    state.control.end = end + 1u;
    if (end + 1u >= state.control.limit) {
        state.control.finished = LIMIT;
    }
}
