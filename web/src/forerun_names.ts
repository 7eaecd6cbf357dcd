// The enums of include/forerun.h, in their order; test/layout.test.mjs holds them against the header.

export const status = { OK: 0, FAILED: 1, BAD_ARGUMENT: 2, BAD_MODEL: 3, NO_GPU: 4 } as const;
export const state = { LOADING: 0, PREPARING: 1, READY: 2, PREFILLING: 3, DECODING: 4, FAILED: 5 } as const;
export const mode = { GREEDY: 0, LOOP: 1, TREE: 2, ADAPTIVE: 3 } as const;
export const scope = { ALL: 0, CONVERSATION: 1, NONE: 2 } as const;
export const finish = { NONE: 0, STOP: 1, LENGTH: 2, ABORT: 3, ERROR: 4 } as const;
export const stat = {
  LOAD_MS: 0, COMPILE_MS: 1, PREFILL_MS: 2, FIRST_TOKEN_MS: 3, DECODE_MS: 4, MS_PER_TOKEN: 5, PROMPT_TOKENS: 6, CACHED_TOKENS: 7,
  COMPLETION_TOKENS: 8, STEPS: 9, WINDOW: 10, DISPATCHES_PER_STEP: 11, BYTES_PER_STEP: 12, SUBMITS: 13, CONTEXT: 14, VOCABULARY: 15,
  LAYERS: 16, PARAMETERS: 17, DEVICE_BYTES: 18, PIPELINES: 19, WIDTH: 20, DRAFTED: 21, ACCEPTED: 22, MEMORY_TOKENS: 23, MEMORY_SEARCHED: 24, TREE_STEPS: 25,
  STEPS_1: 26, STEPS_2: 27, STEPS_4: 28, STEPS_8: 29, STEPS_16: 30, STEPS_32: 31,
  COST_1: 32, COST_2: 33, COST_4: 34, COST_8: 35, COST_16: 36, COST_32: 37, PROBES: 38, PROBE_MS: 39, WHOLE_STEPS: 40, LOST_STEPS: 41,
} as const;
export const info = { ADAPTER: 0, NAME: 1, ARCHITECTURE: 2, QUANTISATION: 3, TEMPLATE: 4, TOKENIZER: 5, COSTS: 6 } as const;
