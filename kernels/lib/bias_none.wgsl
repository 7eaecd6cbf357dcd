fn bias(row: u32) -> vec2f { return vec2f(0.0); }
