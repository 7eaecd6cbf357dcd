// State for kernels that only read it: loads are uniform, so that a workgroup may leave before a barrier.
@group(0) @binding(7) var<storage, read> state: State;
