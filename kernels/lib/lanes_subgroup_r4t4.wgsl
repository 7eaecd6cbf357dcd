// lanes_subgroup.wgsl for four tokens a thread: shuffles take vectors.
fn sum_lanes(lid: u32, lane: u32, s: Sum) -> Sum {
    var v = s;
    for (var m = 1u; m < LANES; m <<= 1u) {
        v = v + Sum(subgroupShuffleXor(v[0], m), subgroupShuffleXor(v[1], m), subgroupShuffleXor(v[2], m), subgroupShuffleXor(v[3], m));
    }
    return v;
}
