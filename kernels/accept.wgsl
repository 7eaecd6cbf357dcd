// Ends a step over a tree, one workgroup: from the root on, the best token of a node is appended to the sequence and to the ring, and the walk
// goes on at the child that has it, if there is one. A tree of the root alone ends as in advance.wgsl.
const PER_NODE = WG / N; // threads
var<workgroup> found: array<Best, WG>;
var<workgroup> nodes: u32;

@compute @workgroup_size(WG)
fn accept(@builtin(local_invocation_index) lid: u32) {
    if (lid == 0u) {
        nodes = nodes_to_end();
    }
    let count = workgroupUniformLoad(&nodes);
    if (count == 0u) {
        if (lid == 0u) {
            state.tree.moved = 0u; // what was accepted in the last step that worked has been moved
        }
        return;
    }
    let node = lid / PER_NODE;
    var b = best_none();
    if (node < count) {
        for (var i = lid % PER_NODE; i < HEAD_TILES; i += PER_NODE) {
            let t = work[HEAD_AT + node * HEAD_TILES + i];
            b = best_of(b, Best(t.x, t.y, t.z));
        }
    }
    found[lid] = b;
    for (var m = PER_NODE / 2u; m > 0u; m >>= 1u) {
        workgroupBarrier();
        if (lid % PER_NODE < m) {
            found[lid] = best_of(found[lid], found[lid + m]);
        }
    }
    workgroupBarrier();
    if (lid == 0u) {
        walk(count);
    }
}

fn walk(count: u32) {
    let pos = state.control.pos;
    let step = state.control.steps;
    var emitted = state.control.emitted;
    var accepted = 0u; // drafts
    var narrower = 0u; // of these, 4 bits each: those among the first 2, 4, 8 and 16 nodes, which are the narrower trees
    var node = 0u;
    var end = pos + 1u;
    var finished = 0u;
    loop {
        let best = found[node * PER_NODE];
        finished = append(best, end, emitted);
        if (!appended(finished)) {
            break;
        }
        emitted++;
        end++;
        if (finished != 0u) {
            break;
        }
        let child = child_with(node, u32(best.id), count);
        if (child == 0u) {
            break;
        }
        state.tree.came_from[accepted] = child;
        accepted++;
        narrower += (0x1111u << (4u * firstLeadingBit(child))) & 0xffffu;
        node = child;
    }
    state.stats[3u * (step % STATS)] = count;
    state.stats[3u * (step % STATS) + 1u] = (end - pos - 1u) | (narrower << 16u);
    state.stats[3u * (step % STATS) + 2u] = state.tree.matched;
    state.tree.base = pos;
    state.tree.moved = accepted;
    state.control.pos = pos + 1u + accepted;
    state.control.end = end;
    state.control.emitted = emitted;
    state.control.steps = step + 1u;
    state.control.trees += 1u;
    state.control.drafted += count - 1u;
    state.control.accepted += accepted;
    state.control.finished = finished;
}

fn child_with(node: u32, token: u32, count: u32) -> u32 { // 0: none, the root is nobody's child
    for (var i = node + 1u; i < count; i++) {
        if ((state.tree.info[i] & 255u) == node && state.tree.token[i] == token) {
            return i;
        }
    }
    return 0u;
}
