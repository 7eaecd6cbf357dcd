/* vocabulary.h: the tokenizer that a GGUF file carries. */
#ifndef FR_LOAD_VOCABULARY_H
#define FR_LOAD_VOCABULARY_H

#include "load/gguf.h"
#include "text/tokenizer.h"

/* NULL with the error if the file has no byte-level BPE vocabulary, or a malformed one. The caller frees. */
fr_tokenizer *fr_vocabulary_read(const gguf_meta *, fr_error_text *);

#endif
