// Parameters of the dispatch.
@group(0) @binding(6) var<uniform> params: Params;
