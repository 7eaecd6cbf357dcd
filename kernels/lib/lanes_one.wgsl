// LANES = 1: nothing to add up.
fn store_lanes(lid: u32, lane: u32, row: u32, token: u32, s: Sum) { store(row, token, s); }
