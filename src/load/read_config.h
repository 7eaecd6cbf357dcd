/* read_config.h: the model's configuration from GGUF metadata. */
#ifndef FR_LOAD_READ_CONFIG_H
#define FR_LOAD_READ_CONFIG_H

#include "load/gguf.h"
#include "model/config.h"

/* Reads and checks every key that the family needs. `tied_head` stays false: it follows from the tensors. FR_BAD_MODEL names the key, the
 * value found and what is supported. */
fr_status fr_config_read(fr_config *, const gguf_meta *, fr_error_text *);

#endif
