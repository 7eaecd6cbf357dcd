// Nodes of a step as a chain: node i is the i-th token behind the cache. The piece for trees has the same functions.
fn node_count() -> u32 { // valid nodes of this step; 0 once the request is finished
    return select(0u, min(N, state.control.end - state.control.pos), state.control.finished == 0u);
}
fn node_token(node: u32) -> u32 { return state.tokens[state.control.pos + node]; }
fn node_position(node: u32) -> u32 { return state.control.pos + node; } // logical position in the text
fn node_slot(node: u32) -> u32 { return state.control.pos + node; }     // place in the cache where its key and value go
fn slot_of(node: u32, position: u32) -> u32 { return position; }        // place of an ancestor at a logical position
