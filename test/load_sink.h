/* load_sink.h: a sink that keeps what the loader writes and checks each write, and a plain second implementation of the file formats. */
#ifndef FR_TEST_LOAD_SINK_H
#define FR_TEST_LOAD_SINK_H

#include "load/loader.h"

enum { LOAD_BUFFERS = FR_SINK_VECTORS + 1 };

typedef struct load_sink {
    /* set by the test */
    bool discard;      /* keep nothing */
    uint32_t refuse;   /* nonzero: seed of random refusals, about half of the writes */
    bool closed;       /* refuse everything */
    fr_status refusal; /* what plan() returns */
    bool vocabulary;   /* plan() makes the file's tokenizer, as the engine does, and fails with it */
    /* filled by the load */
    uint32_t n_plans, n_refused;
    uint64_t written;
    uint8_t *buffers[LOAD_BUFFERS]; /* zero where nothing was written */
    uint8_t *touched[LOAD_BUFFERS]; /* per word of 4 bytes: how often it was written */
    size_t sizes[LOAD_BUFFERS];
    const char *fault; /* a write that breaks the rules of loader.h; NULL: none */
} load_sink;

fr_sink load_sink_interface(load_sink *);
void load_sink_free(load_sink *);

/* Feeds a file in pieces of `chunk` bytes (0: all at once), polling while the sink refuses, and ends it. */
fr_status load_all(fr_loader *, const uint8_t *file, size_t size, size_t chunk, fr_error_text *);
/* The same with a loader of its own, pools of 2^27 bytes. */
fr_status load_file(load_sink *, const uint8_t *file, size_t size, size_t chunk, fr_error_text *);

/* n elements of a row in a file's format, from the formats' descriptions, in double. */
void load_reference(uint32_t type, const uint8_t *row, size_t n, double *out);
/* Element (row, col) of a matrix as the GPU will read it, by the formulas of weights.h. */
double load_stored(const load_sink *, const fr_matrix *, uint32_t row, uint32_t col);
double load_half(uint16_t);

#endif
