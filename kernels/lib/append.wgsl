// The end of a step (advance, accept).
// Nodes that it has made: none if it is lost (layers.wgsl). For one thread.
fn nodes_to_end() -> u32 {
    let nodes = node_count();
    if (nodes > 0u && work[LOST_FLAG_AT].x == 1.0) {
        state.control.finished = LOST;
        return 0u;
    }
    return nodes;
}

// What a node's best token means for the request: it is appended to the sequence, whose tokens are known before `end`, and to the ring, or
// it ends the request. Returns Control.finished: 0 and LIMIT if the token was appended.
fn append(best: Best, end: u32, emitted: u32) -> u32 {
    if (!(abs(best.value) < 3e38)) {
        return NOT_FINITE;
    }
    let token = u32(best.id);
    for (var i = 0u; i < state.control.n_ends; i++) {
        if (state.control.ends[i] == token) {
            return END_TOKEN;
        }
    }
    state.tokens[end] = token;
    state.ring[emitted % RING] = token;
    return select(0u, LIMIT, end + 1u >= state.control.limit);
}
fn appended(finished: u32) -> bool { return finished == 0u || finished == LIMIT; }
