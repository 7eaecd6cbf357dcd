// State for the kernel that ends a step.
@group(1) @binding(0) var<storage, read_write> state: State;
