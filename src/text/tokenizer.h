/* tokenizer.h: byte-level BPE, as GGUF files carry it (tokenizer.ggml.model = "gpt2").
 *
 * Depends on nothing but base/: the vocabulary comes in through fr_vocab_source, so that tests can build small ones. */
#ifndef FR_TEXT_TOKENIZER_H
#define FR_TEXT_TOKENIZER_H

#include "base/error.h"

/* By the stamps in tokenizer.ggml.pre. */
typedef enum fr_pretokenizer {
    FR_PRE_GPT2,   /* "gpt-2" */
    FR_PRE_QWEN2,  /* "qwen2", "deepseek-r1-qwen" */
    FR_PRE_LLAMA3, /* "llama3", "llama-bpe", "llama-v3" and the files stamped "smaug-bpe" */
    FR_PRE_SMOLLM  /* "smollm", and others that split digits one by one before GPT-2's rule */
} fr_pretokenizer;

/* Token types of GGUF (tokenizer.ggml.token_type). */
enum { FR_TOKEN_NORMAL = 1, FR_TOKEN_UNKNOWN = 2, FR_TOKEN_CONTROL = 3, FR_TOKEN_USER = 4, FR_TOKEN_UNUSED = 5, FR_TOKEN_BYTE = 6 };

/* Does a prompt begin with the BOS token? Where the file does not say it, its pre-tokenizer's stamp does, as in llama.cpp. */
typedef enum fr_add_bos { FR_BOS_BY_STAMP, FR_BOS_NO, FR_BOS_YES } fr_add_bos;

typedef struct fr_vocab_source {
    void *user;
    size_t n_tokens, n_merges;
    /* Text of token i in GPT-2's byte alphabet, and of merge i ("left right"). Pointers need only live until the next call. */
    const char *(*token)(void *user, size_t i, size_t *size);
    int (*type)(void *user, size_t i); /* FR_TOKEN_*; NULL function: all normal */
    const char *(*merge)(void *user, size_t i, size_t *size);
    const char *pre;                   /* tokenizer.ggml.pre; NULL, "" or "default": as the vocabulary's own tokens tell */
    uint32_t bos, eos, eot;            /* UINT32_MAX: none */
    fr_add_bos add_bos;
} fr_vocab_source;

typedef struct fr_tokenizer fr_tokenizer;

/* Copies what it needs. NULL with FR_BAD_MODEL (unknown pre-tokenizer, or none said and a vocabulary that is not known, duplicate or
 * malformed tokens, ids out of range) or FR_FAILED (memory) in the error. */
fr_tokenizer *fr_tokenizer_new(const fr_vocab_source *, fr_error_text *);
void fr_tokenizer_free(fr_tokenizer *);

/* Text to ids, appended behind ids[0 .. *n) of the growing array *ids (realloc'd; the caller frees it). Any bytes are accepted:
 * what is not UTF-8 counts as single bytes that are neither letters nor white space. Only bytes that the vocabulary has no token for are
 * lost (SmolLM2 lacks six control characters, and the bytes of UTF-8 from U+40000 on). `special`: text of control tokens is recognised, the
 * leftmost first and of those the longest; without it such text never becomes a control token. Text of user tokens (type 4: <tool_call>,
 * runs of spaces) is always recognised. `bos`: prepend the BOS token if the vocabulary says so and the text does not begin with it already.
 * False: out of memory. Time is O(size log size). */
bool fr_tokenizer_encode(const fr_tokenizer *, const char *text, size_t size, bool special, bool bos, uint32_t **ids, size_t *n);

/* Raw bytes of a token (not the byte alphabet); for control tokens the written form if `special`, else size 0. Lives as long as the
 * tokenizer. */
const char *fr_tokenizer_bytes(const fr_tokenizer *, uint32_t id, bool special, size_t *size);
/* The token of exactly this text (special form or byte alphabet); UINT32_MAX: none. */
uint32_t fr_tokenizer_id(const fr_tokenizer *, const char *text, size_t size);
uint32_t fr_tokenizer_size(const fr_tokenizer *);
uint32_t fr_tokenizer_bos(const fr_tokenizer *);
const char *fr_tokenizer_pre(const fr_tokenizer *); /* name, "smollm" */

/* Tokens that end a turn: eos, eot and well-known ones by text (<|im_end|>, <|eot_id|>, <|eom_id|>, <|end_of_text|>,
 * <|endoftext|> where it is a control token). Ascending; at most 8. */
size_t fr_tokenizer_ends(const fr_tokenizer *, uint32_t ids[8]);

#endif
