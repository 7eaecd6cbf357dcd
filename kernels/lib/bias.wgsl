fn bias(row: u32) -> vec2f { return vec2f(vectors[params.bias + row], vectors[params.bias + row + 1u]); }
