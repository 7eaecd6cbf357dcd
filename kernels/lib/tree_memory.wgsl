// Sum over all leaves of a row (LANES = 1), for CPU adapters: one flat loop over blocks, because every value that lives across a loop or a
// branch is blended by lane masks there, and pending sums in an array, which are touched once a leaf. The order is tree_registers.wgsl's.
fn lane_sum(rows: Rows, token: u32, lane: u32) -> Sum {
    var pending: array<Sum, LEVELS>; // [i]: a complete subtree of 2^i leaves that waits for its right neighbour
    var s = Sum();
    var j = 0u;
    var leaf = 0u;
    let t = act_at(token);
    for (var b = 0u; b < BLOCKS; b++) {
        s = add_block(rows, token, j * LEAVES + leaf, t + IN_SIZE * b, s);
        j++;
        if (j == LEAF || b + 1u == BLOCKS) {
            var level = 0u;
            for (var m = leaf; (m & 1u) == 1u; m >>= 1u) {
                s = pending[level] + s;
                level++;
            }
            pending[level] = s;
            s = Sum();
            j = 0u;
            leaf++;
        }
    }
    if (LEAVES == 1u << (LEVELS - 1u)) {
        return pending[LEVELS - 1u];
    }
    for (var level = 0u; level < LEVELS; level++) { // absent leaves count as zero: what waits is added from the smallest subtree up
        if (((LEAVES >> level) & 1u) == 1u) {
            s = pending[level] + s;
        }
    }
    return s;
}
