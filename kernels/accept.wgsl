// Ends a step over a tree, one workgroup: from the root on, the best token of a node is appended to the sequence and to the ring, and the walk
// goes on at the child that has it, if there is one. A tree of the root alone ends as in advance.wgsl.
var<workgroup> children: array<atomic<u32>, N>; // N - child: the first of those that have the node's best token; 0: none
var<workgroup> nodes: u32;

@compute @workgroup_size(WG)
fn accept(@builtin(local_invocation_index) lid: u32) {
    let token = state.tree.token[lid % N]; // whatever is read here is under way together
    let parent = state.tree.info[lid % N] & 255u;
    var before: Control;
    var until: Ends;
    var matched = 0u;
    if (lid == 0u) {
        before = state.control;
        until = ends();
        matched = state.tree.matched;
        nodes = nodes_to_end();
    }
    let count = workgroupUniformLoad(&nodes);
    if (count == 0u) {
        if (lid == 0u) {
            state.tree.moved = 0u; // what was accepted in the last step that worked has been moved
        }
        return;
    }
    var lanes = WG; // of a node
    while (lanes * count > WG) {
        lanes >>= 1u;
    }
    best_of_lanes(lid, lid / lanes, lanes, lid / lanes < count);
    if (lid > 0u && lid < count && token == u32(candidates[parent * lanes].id)) {
        atomicMax(&children[parent], N - lid);
    }
    workgroupBarrier();
    if (lid == 0u) {
        walk(before, until, count, lanes, matched);
    }
}

fn walk(before: Control, until: Ends, count: u32, lanes: u32, matched: u32) {
    let pos = before.pos;
    let step = before.steps;
    var emitted = before.emitted;
    var accepted = 0u; // drafts
    var narrower = 0u; // of these, 4 bits each: those among the first 2, 4, 8 and 16 nodes, which are the narrower trees
    var node = 0u;
    var end = pos + 1u;
    var finished = 0u;
    loop {
        finished = append(candidates[node * lanes], end, emitted, until);
        if (!appended(finished)) {
            break;
        }
        emitted++;
        end++;
        let child = N - atomicLoad(&children[node]);
        if (finished != 0u || child == N) {
            break;
        }
        state.tree.came_from[accepted] = child;
        accepted++;
        narrower += (0x1111u << (4u * firstLeadingBit(child))) & 0xffffu;
        node = child;
    }
    state.stats[3u * (step % STATS)] = count;
    state.stats[3u * (step % STATS) + 1u] = (end - pos - 1u) | (narrower << 16u);
    state.stats[3u * (step % STATS) + 2u] = matched;
    state.tree.base = pos;
    state.tree.moved = accepted;
    state.control.pos = pos + 1u + accepted;
    state.control.end = end;
    state.control.emitted = emitted;
    state.control.steps = step + 1u;
    state.control.trees = before.trees + 1u;
    state.control.drafted = before.drafted + count - 1u;
    state.control.accepted = before.accepted + accepted;
    state.control.finished = finished;
}
