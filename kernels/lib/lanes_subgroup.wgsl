// Top of the tree over lanes, by shuffles. Lanes of a row are neighbours in one subgroup.
fn sum_lanes(lid: u32, lane: u32, s: Sum) -> Sum {
    var v = s;
    for (var m = 1u; m < LANES; m <<= 1u) {
        v = v + subgroupShuffleXor(v, m);
    }
    return v;
}
