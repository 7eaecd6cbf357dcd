// For the two kernels that go through all layers: the parameters of all, and what a word of the exchange holds before it is written (exchange.wgsl).
@group(0) @binding(6) var<uniform> params: array<Params, LAYERS>;
const EMPTY = 0xff808080u;
