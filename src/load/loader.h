/* loader.h: bytes of a GGUF file in; configuration, tokenizer data and repacked weights out.
 *
 *     fr_loader *l = fr_loader_new(&sink, limit);
 *     for each piece of the file: fr_loader_feed(l, ...) until all of it is used, letting the device work in between
 *                                 (sink.plan() is called within, when the header is complete; then sink.write())
 *     until done: fr_loader_end(l, &done, ...)
 *     the weights are usable; configuration, plan and metadata live as long as l
 *     fr_loader_free(l);
 *
 * The loader holds no tensor: rows are repacked as they arrive and written to a sink, which may say "not now". Peak
 * memory is the header's metadata (at most 48 MiB, else refused) plus a few MiB of staging. */
#ifndef FR_LOAD_LOADER_H
#define FR_LOAD_LOADER_H

#include "load/gguf.h"
#include "model/weights.h"

/* Where repacked weights go. `buffer`: 2 * pool for codes, 2 * pool + 1 for scales, FR_SINK_VECTORS for the vectors.
 * Offsets and sizes are multiples of 4. */
enum { FR_SINK_VECTORS = 2 * FR_MAX_POOLS };
typedef struct fr_sink {
    void *user;
    /* The header is complete and sound: allocate. Called once, before any write, inside of fr_loader_feed(). The pointers stay valid until
     * fr_loader_free(). A status other than FR_OK ends the load. */
    fr_status (*plan)(void *user, const fr_config *, const fr_weights *, const gguf_meta *, fr_error_text *);
    /* False: try again later (the device must catch up); the loader keeps the bytes. Else they were taken: the memory is reused at once.
     * Every stored byte is written once, in pieces of up to about 1 MiB, in no particular order. */
    bool (*write)(void *user, uint32_t buffer, uint64_t offset, const void *bytes, size_t size);
} fr_sink;

typedef struct fr_loader fr_loader;

/* `max_pool_bytes`: the largest storage binding (and buffer) of the device. NULL: out of memory. */
fr_loader *fr_loader_new(const fr_sink *, uint64_t max_pool_bytes);
void fr_loader_free(fr_loader *);

/* As fr_feed(): takes bytes in order; *used < size with FR_OK means that the sink refused. A size of 0 only tries what it refused before.
 * Bytes behind the last tensor are ignored. After an error every call returns the same status. */
fr_status fr_loader_feed(fr_loader *, const void *bytes, size_t size, size_t *used, fr_error_text *);
/* The file ended, and all of it was used. FR_BAD_MODEL if it is truncated. May have to be called again: *done is false while the sink
 * refuses. */
fr_status fr_loader_end(fr_loader *, bool *done, fr_error_text *);

/* Valid once the header is complete, until fr_loader_free(). */
const gguf_meta *fr_loader_meta(const fr_loader *);
const fr_config *fr_loader_config(const fr_loader *);
const fr_weights *fr_loader_weights(const fr_loader *);
uint64_t fr_loader_expected_bytes(const fr_loader *); /* of the whole file; 0 before the header is complete */
/* Distinct file types of the matrices by bytes, largest first, "Q4_1, Q8_0". */
const char *fr_loader_types(const fr_loader *);
/* Largest number of bytes of heap memory that the loader held at a time. */
size_t fr_loader_peak_bytes(const fr_loader *);

#endif
