// State for the kernels that end a step, and for draft_tree.
@group(1) @binding(0) var<storage, read_write> state: State;
