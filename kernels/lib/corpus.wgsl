// What the drafter searches (src/spec/draft.h): session memory, oldest first, then the sequence up to the root of the tree.
const BREAK = 0xffffffffu;
fn memory_count() -> u32 { return state.control.memory; }
fn sequence_count() -> u32 { return state.control.pos + 1u; }
fn memory_token(i: u32) -> u32 { return state.tokens[MEMORY_AT + i]; }
fn slice_count() -> u32 { return (memory_count() + sequence_count() + SLICE - 1u) / SLICE; }
