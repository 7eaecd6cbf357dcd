/* text_help.h: small vocabularies and golden files for the tests of text. */
#ifndef FR_TEST_TEXT_HELP_H
#define FR_TEST_TEXT_HELP_H

#include "text/tokenizer.h"

/* Bytes with their size; the text may hold NUL. */
typedef struct text_bytes {
    char *data;
    size_t size;
} text_bytes;

/* A vocabulary that grows token by token. */
typedef struct text_vocab {
    text_bytes *tokens, *merges;
    int *types;
    size_t n_tokens, n_merges;
    const char *pre;
    uint32_t bos, eos, eot;
    fr_add_bos add_bos;
} text_vocab;

text_vocab text_vocab_new(const char *pre); /* without tokens, no special ids */
void text_vocab_token(text_vocab *, const char *text, size_t size, int type);
void text_vocab_word(text_vocab *, const char *text, int type); /* the same for C strings */
void text_vocab_bytes(text_vocab *);                            /* one normal token for each byte, in order */
void text_vocab_merge(text_vocab *, const char *left_right);
void text_vocab_merge_bytes(text_vocab *, const char *left_right, size_t size);
/* Copies of both, and a token for what they make, if new. */
void text_vocab_join(text_vocab *, const char *left_right);
fr_tokenizer *text_vocab_make(text_vocab *, fr_error_text *); /* also frees the vocabulary */
void text_vocab_free(text_vocab *);

/* A line, cut at its tabs, with its escapes undone; the array ends with {NULL}. */
text_bytes *text_fields(const char *line, size_t size, size_t *n);
void text_fields_free(text_bytes *);

/* FNV-1a over ids as little-endian words. */
uint32_t text_hash(const uint32_t *ids, size_t n);

/* The bytes of the tokens behind each other; NUL behind. The caller frees. */
text_bytes text_decode(const fr_tokenizer *, const uint32_t *ids, size_t n, bool special);

/* Deterministic numbers below n (xorshift). */
uint32_t text_random(uint32_t n);

/* A file in golden/, NUL behind; the caller frees. And its next line as fields, comments left out; NULL at the end. */
char *text_golden(const char *name, size_t *size);
text_bytes *text_next_line(const char **at, size_t *n);

/* Bytes, the joins given, the special tokens of the chat families, and the user token <tool>. */
fr_tokenizer *text_chat_tokenizer(const char *pre, const char *const *joins, size_t n_joins);

typedef struct text_ids {
    uint32_t *ids; /* the caller frees */
    size_t n;
} text_ids;
text_ids text_encode(const fr_tokenizer *, const char *text, size_t size, bool special); /* checks that they are in the vocabulary */
bool text_same(text_ids, text_ids);

#endif
