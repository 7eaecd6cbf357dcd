/* chat.h: messages to prompt ids, by template family. The family is recognised from tokenizer.chat_template; contents are
 * tokenised as plain text, so they can never become control tokens. */
#ifndef FR_TEXT_CHAT_H
#define FR_TEXT_CHAT_H

#include "text/tokenizer.h"

typedef enum fr_chat_family { FR_CHAT_NONE, FR_CHAT_CHATML, FR_CHAT_LLAMA3 } fr_chat_family;

typedef struct fr_chat_template {
    fr_chat_family family;     /* FR_CHAT_NONE: none that is known, or one whose `generation` has no room */
    bool trims;                /* llama3: contents are trimmed, as its template does */
    bool system_header;        /* llama3: the "Cutting Knowledge Date" lines of Llama-3.1/3.2 precede the system text */
    bool begins;               /* the template writes the BOS token first (where the vocabulary has one) */
    char default_system[512];  /* system text where the conversation has none ("" : no system message is added) */
    char generation[128];      /* what the template writes behind the header of the answer, such as "<think>\n" */
} fr_chat_template;

/* `source` is the Jinja text (may be NULL or empty: then the family is guessed from special tokens in the vocabulary). */
void fr_chat_detect(fr_chat_template *, const char *source, size_t size, const fr_tokenizer *);
const char *fr_chat_name(fr_chat_family); /* "chatml", "llama3", "" */

/* Appends the ids of the whole prompt, with the header of the assistant's answer, and what the template puts behind it, at the end.
 * FR_BAD_ARGUMENT for unknown roles or no messages, FR_BAD_MODEL without a known family. */
fr_status fr_chat_encode(const fr_chat_template *, const fr_tokenizer *, const fr_message *, size_t n, uint32_t **ids, size_t *n_ids,
                         fr_error_text *);

#endif
