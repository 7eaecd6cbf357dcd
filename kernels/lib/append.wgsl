// The end of a step (advance, accept).
// Nodes that it has made: none if it is lost (layers.wgsl). For one thread.
fn nodes_to_end() -> u32 {
    let nodes = node_count();
    let lost = work[LOST_FLAG_AT].x == 1.0;
    if (nodes > 0u && lost) {
        state.control.finished = LOST;
        return 0u;
    }
    return nodes;
}

// What ends the request, read at once before it is needed.
struct Ends {
    limit: u32,
    near: vec4u, // tokens; NO_TOKEN: none
    far: vec4u,
}
const NO_TOKEN = 0xffffffffu;
fn ends() -> Ends {
    let n = vec4u(state.control.n_ends);
    return Ends(state.control.limit,
                select(vec4u(NO_TOKEN), vec4u(state.control.ends[0], state.control.ends[1], state.control.ends[2], state.control.ends[3]),
                       vec4u(0u, 1u, 2u, 3u) < n),
                select(vec4u(NO_TOKEN), vec4u(state.control.ends[4], state.control.ends[5], state.control.ends[6], state.control.ends[7]),
                       vec4u(4u, 5u, 6u, 7u) < n));
}

// What a node's best token means for the request: it is appended to the sequence, whose tokens are known before `end`, and to the ring, or
// it ends the request. Returns Control.finished: 0 and LIMIT if the token was appended.
fn append(best: Best, end: u32, emitted: u32, e: Ends) -> u32 {
    if (!(abs(best.value) < 3e38)) {
        return NOT_FINITE;
    }
    let token = u32(best.id);
    if (any(e.near == vec4u(token)) || any(e.far == vec4u(token))) {
        return END_TOKEN;
    }
    state.tokens[end] = token;
    state.ring[emitted % RING] = token;
    return select(0u, LIMIT, end + 1u >= e.limit);
}
fn appended(finished: u32) -> bool { return finished == 0u || finished == LIMIT; }
