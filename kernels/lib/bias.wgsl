// Biases of four rows, at their place among the vectors.
fn bias(at: u32) -> vec4f { return vec4f(vectors[at], vectors[at + 1u], vectors[at + 2u], vectors[at + 3u]); }
