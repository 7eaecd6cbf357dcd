// Top of the tree over lanes, through workgroup memory, for adapters without subgroups. The sum ends in lane 0.
var<workgroup> lane_part: array<Sum, WG>;
const_assert TILE_BYTES + WG * R * T * 4u <= WORKGROUP_BYTES;
fn sum_lanes(lid: u32, lane: u32, s: Sum) -> Sum {
    lane_part[lid] = s;
    for (var m = 1u; m < LANES; m <<= 1u) {
        workgroupBarrier();
        if (lane % (2u * m) == 0u) {
            lane_part[lid] = lane_part[lid] + lane_part[lid + m];
        }
    }
    return lane_part[lid];
}
