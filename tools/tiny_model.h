/* tiny_model.h: valid GGUF models with random weights, from a few KB to many GB, for tests and benchmarks.
 *
 * The same options and seed give the same bytes. Weights are scaled so that activations stay near 1 and logits spread over several units;
 * the tokenizer is a small but real byte-level BPE. */
#ifndef FR_TOOLS_TINY_MODEL_H
#define FR_TOOLS_TINY_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero means default. Types are GGUF's names: "f32", "f16", "bf16", "q4_0", "q4_1", "q8_0", "q6_k". */
typedef struct tiny_model {
    const char *arch;      /* "llama" (default) or "qwen2" (with q, k and v biases) */
    uint32_t layers;       /* 2 */
    uint32_t dim;          /* 64 */
    uint32_t heads;        /* 2 */
    uint32_t kv_heads;     /* heads */
    uint32_t head_dim;     /* dim / heads */
    uint32_t ffn;          /* 2 * dim */
    uint32_t vocab;        /* 320; at least 260: the bytes, four more tokens; what real tokens don't fill is padding */
    uint32_t context;      /* 2048 */
    const char *type;      /* of the matrices, "q8_0" */
    const char *head_type; /* of token_embd and output; `type` */
    const char *v_type;    /* of attn_v; `type` */
    const char *up_type;   /* of ffn_up; `type` */
    bool untied;           /* a separate output.weight */
    bool rope_factors;     /* with rope_freqs.weight */
    bool ascii; /* bytes from 0x80 on are unused tokens, printed as nothing: random text is UTF-8 then, which some engines insist on */
    bool repeat; /* the bytes of a large tensor repeat: gigabytes in seconds, where only sizes matter */
    uint64_t seed;
    const char *pre; /* tokenizer.ggml.pre, "smollm" */
    float rope_base; /* 10000 */
    const char *name; /* general.name, "tiny" */
} tiny_model;

/* The shapes of real models by their names: "SmolLM2-135M", "Qwen2.5-0.5B", -1.5B, -3B and -7B, "Llama-3.2-1B" and -3B, "Llama-3.1-8B".
 * Sets what a shape decides, with `ascii`, and leaves types and seed. False: no such name. */
bool tiny_model_shape(tiny_model *, const char *name);

/* Gets the file in pieces, in order. False ends the writing. */
typedef bool tiny_sink(void *user, const void *bytes, size_t size);

/* NULL, or why not: the options contradict each other (the text is static), or "stopped" if the sink returned false. */
const char *tiny_model_write(const tiny_model *, tiny_sink *, void *user);
/* The whole file; the caller frees it. NULL if the options contradict each other. */
uint8_t *tiny_model_bytes(const tiny_model *, size_t *size);

#endif
