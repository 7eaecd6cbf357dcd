// State for the kernels that end a step, and for draft_tree.
@group(0) @binding(7) var<storage, read_write> state: State;
