fn bias(row: u32) -> vec4f {
    let at = params.bias + row;
    return vec4f(vectors[at], vectors[at + 1u], vectors[at + 2u], vectors[at + 3u]);
}
