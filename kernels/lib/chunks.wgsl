// The order of attention's sums (doc/reduction.md): positions are cut into chunks, chunks into spans.
const CHUNK = 32u; // positions
const SPAN = 16u;  // chunks
const LOWEST = -1e30;
