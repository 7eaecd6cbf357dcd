// Values of the threads of an aligned 32, by shuffles: what thread `source` of them has. `base`: lane of the first.
fn lend(lid: u32, base: u32, value: f32, source: u32) -> f32 { return subgroupShuffle(value, base + source); }
// And what the thread has whose place among them differs in the bits of `m`.
fn swap(lid: u32, base: u32, value: f32, m: u32) -> f32 { return subgroupShuffleXor(value, m); }
fn swap2(lid: u32, base: u32, value: vec2f, m: u32) -> vec2f { return subgroupShuffleXor(value, m); }
fn swap4(lid: u32, base: u32, value: vec4f, m: u32) -> vec4f { return subgroupShuffleXor(value, m); }
// Lane of the first of the 32 threads; called where all lanes are.
fn first_lane() -> u32 { return subgroupExclusiveAdd(1u) & ~31u; }
