// Sum over a lane's leaves, for GPUs: pending sums in registers.
fn leaf_block(rows: Rows, token: u32, t: u32, leaf: u32, j: u32, sum: Sum) -> Sum {
    return add_block(rows, token, j * LEAVES + leaf, t + act_block(leaf, j), sum);
}
fn leaf_sum(rows: Rows, token: u32, leaf: u32) -> Sum {
    let t = act_at(token);
    var sum = Sum();
    if (T > 1u) {
        for (var j = 0u; j < LEAF; j++) {
            sum = leaf_block(rows, token, t, leaf, j, sum);
        }
        return sum;
    }
    // One token: written out, so that the loads of four blocks are under way at once.
    for (var j = 0u; j + 4u <= LEAF; j += 4u) {
        sum = leaf_block(rows, token, t, leaf, j, sum);
        sum = leaf_block(rows, token, t, leaf, j + 1u, sum);
        sum = leaf_block(rows, token, t, leaf, j + 2u, sum);
        sum = leaf_block(rows, token, t, leaf, j + 3u, sum);
    }
    if (LEAF % 4u >= 1u) {
        sum = leaf_block(rows, token, t, leaf, LEAF / 4u * 4u, sum);
    }
    if (LEAF % 4u >= 2u) {
        sum = leaf_block(rows, token, t, leaf, LEAF / 4u * 4u + 1u, sum);
    }
    if (LEAF % 4u == 3u) {
        sum = leaf_block(rows, token, t, leaf, LEAF / 4u * 4u + 2u, sum);
    }
    return sum;
}

// Binary counter: pN holds the sum of a complete subtree of 2^N leaves that waits for its right neighbour.
fn lane_sum(rows: Rows, token: u32, lane: u32) -> Sum {
    if (LANE_LEAVES == 1u) {
        if (lane < LEAVES) {
            return leaf_sum(rows, token, lane);
        }
        return Sum();
    }
    var p0 = Sum();
    var p1 = Sum();
    var p2 = Sum();
    var p3 = Sum();
    var p4 = Sum();
    var p5 = Sum();
    let first = lane * LANE_LEAVES;
    let count = min(LANE_LEAVES, max(LEAVES, first) - first);
    for (var k = 0u; k < count; k++) {
        var s = leaf_sum(rows, token, first + k);
        if ((k & 1u) == 0u) {
            p0 = s;
            continue;
        }
        s = p0 + s;
        if (LANE_LEAVES == 2u || (k & 2u) == 0u) {
            p1 = s;
            continue;
        }
        s = p1 + s;
        if (LANE_LEAVES == 4u || (k & 4u) == 0u) {
            p2 = s;
            continue;
        }
        s = p2 + s;
        if (LANE_LEAVES == 8u || (k & 8u) == 0u) {
            p3 = s;
            continue;
        }
        s = p3 + s;
        if (LANE_LEAVES == 16u || (k & 16u) == 0u) {
            p4 = s;
            continue;
        }
        p5 = p4 + s;
    }
    var s = Sum(); // absent leaves count as zero: what waits is added from the smallest subtree up
    if ((count & 1u) != 0u) {
        s = p0;
    }
    if ((count & 2u) != 0u) {
        s = p1 + s;
    }
    if ((count & 4u) != 0u) {
        s = p2 + s;
    }
    if ((count & 8u) != 0u) {
        s = p3 + s;
    }
    if ((count & 16u) != 0u) {
        s = p4 + s;
    }
    if ((count & 32u) != 0u) {
        s = p5;
    }
    return s;
}
