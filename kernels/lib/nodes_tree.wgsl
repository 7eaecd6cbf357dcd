// Nodes of a step as a tree of drafts (draft_tree.wgsl makes it). Node 0 is the root, the one token that is known but not yet in the cache;
// node i has its key and value at the i-th place behind the cache. Parents come before their children.
fn node_count() -> u32 { // valid nodes of this step; 0 once the request is finished
    return select(0u, min(N, state.tree.count), state.control.finished == 0u);
}
fn node_token(node: u32) -> u32 { return state.tree.token[node]; }
fn node_position(node: u32) -> u32 { return state.control.pos + (state.tree.info[node] >> 8u); } // logical position in the text
fn node_slot(node: u32) -> u32 { return state.control.pos + node; } // place in the cache where its key and value go
fn slot_of(node: u32, position: u32) -> u32 { // place of an ancestor, or of the node itself, at a logical position
    let pos = state.control.pos;
    if (position <= pos) {
        return position;
    }
    let d = position - pos - 1u; // byte d of the path: the ancestor at depth d + 1
    let word = select(state.tree.path_lo[node], state.tree.path_hi[node], d >= 4u);
    return pos + ((word >> (8u * (d & 3u))) & 255u);
}
