/* memory.h: session memory, what the drafter knows of earlier requests. A ring of token ids: one run for each answer, a break behind it;
 * new runs push the oldest tokens out. Every run belongs to a conversation. Memory only ever proposes tokens, the model decides, so no
 * answer depends on it. It holds what users asked and were told: nothing leaves it but through fr_memory_view() and fr_memory_save(). */
#ifndef FR_SPEC_MEMORY_H
#define FR_SPEC_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "spec/draft.h"

enum {
    FR_MEMORY_LEAD = 8,       /* tokens of a prompt's end worth keeping before its answer: matches are no longer than that */
};
#define FR_MEMORY_EVERY 0 /* in place of a conversation: all of them */

typedef struct fr_memory_run {
    uint64_t conversation; /* not 0 */
    uint32_t length;       /* tokens and the break, what is left of them */
} fr_memory_run;

typedef struct fr_memory {
    uint32_t *ring;      /* [capacity] token i, oldest first, at (head + capacity - count + i) % capacity */
    uint32_t capacity, head, count;
    fr_memory_run *runs; /* [n_runs] oldest first; their lengths add up to `count` */
    uint32_t n_runs, room;
    bool off;            /* keeps what it has, takes nothing and shows nothing */
    uint64_t only;       /* conversation that is shown, or FR_MEMORY_EVERY */
} fr_memory;

/* capacity: 2 to FR_MEMORY_TOKENS. FR_FAILED: out of memory; then nothing is to be closed. */
fr_status fr_memory_open(fr_memory *, uint32_t capacity, fr_error_text *);
void fr_memory_close(fr_memory *);

/* Appends a run: the prompt's last FR_MEMORY_LEAD tokens or less, then the answer, then a break. Of a longer run than fits, the end stays.
 * No tokens: no run. FR_BAD_ARGUMENT: conversation 0; FR_FAILED: out of memory; then nothing has changed. */
fr_status fr_memory_add(fr_memory *, uint64_t conversation, const uint32_t *lead, size_t n_lead, const uint32_t *answer, size_t n_answer,
                        fr_error_text *);

/* Forgets the runs of a conversation, or of every one. The words are overwritten. */
void fr_memory_clear(fr_memory *, uint64_t conversation);

/* What the drafter may see, for the device: ids and breaks, oldest first, into out[capacity]; returns how many. */
uint32_t fr_memory_view(const fr_memory *, uint32_t *out);

/* ---- as bytes, to be kept between visits ----
 *
 * All numbers little-endian: "FRMEMORY"; u32 version; u64 fingerprint; u32 runs; u32 ids; for each run, oldest first, u64 conversation and
 * u32 ids in it; the ids of all runs, u32 each, without breaks; u64 hash of all that precedes. */
enum { FR_MEMORY_VERSION = 1 };

/* FNV-1a of 64 bits, continued from `hash` (begin with FR_MEMORY_HASH). Also for fingerprints, of whatever gives ids their meaning, and for
 * conversations that have names. */
#define FR_MEMORY_HASH 0xcbf29ce484222325u
uint64_t fr_memory_hash(uint64_t hash, const void *bytes, size_t size);

/* Bytes that it takes; writes them if `room` suffices. */
size_t fr_memory_save(const fr_memory *, uint64_t fingerprint, uint8_t *bytes, size_t room);

/* Puts the runs of saved bytes in place of those here; the oldest are left out if they don't fit. `name` stands for the file in errors.
 * FR_BAD_ARGUMENT: they are no memory, damaged, of another fingerprint, or hold ids that are not below `vocab`; then nothing has changed.
 */
fr_status fr_memory_load(fr_memory *, uint64_t fingerprint, uint32_t vocab, const uint8_t *bytes, size_t size, const char *name,
                         fr_error_text *);

#endif
