// Top of the tree over lanes, through workgroup memory, for adapters without subgroups.
var<workgroup> lane_part: array<Sum, WG>;
const_assert TILE_BYTES + WG * R * T * 4u <= WORKGROUP_BYTES;
fn store_lanes(lid: u32, lane: u32, row: u32, token: u32, s: Sum) {
    lane_part[lid] = s;
    for (var m = 1u; m < LANES; m <<= 1u) {
        workgroupBarrier();
        if (lane % (2u * m) == 0u) {
            lane_part[lid] = lane_part[lid] + lane_part[lid + m];
        }
    }
    if (lane == 0u) {
        store(row, token, lane_part[lid]);
    }
}
