#include "spec/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- the ring ---- */

fr_status fr_memory_open(fr_memory *m, uint32_t capacity, fr_error_text *err)
{
    *m = (fr_memory){.capacity = capacity};
    if (capacity < 2 || capacity > FR_MEMORY_TOKENS)
        return fr_fail(err, FR_BAD_ARGUMENT, "session memory of %u tokens: it has from 2 to %d", capacity, FR_MEMORY_TOKENS);
    m->ring = calloc(capacity, sizeof *m->ring);
    return m->ring ? FR_OK : fr_fail(err, FR_FAILED, "out of memory for a session memory of %u tokens", capacity);
}

void fr_memory_close(fr_memory *m)
{
    free(m->ring);
    free(m->runs);
    *m = (fr_memory){0};
}

static uint32_t *slot(const fr_memory *m, uint32_t i)
{
    return &m->ring[(m->head + m->capacity - m->count + i) % m->capacity];
}

/* The oldest run loses its first token. */
static void forget_one(fr_memory *m)
{
    m->count--;
    if (--m->runs[0].length == 0)
        memmove(m->runs, m->runs + 1, --m->n_runs * sizeof *m->runs);
}

static void push(fr_memory *m, uint32_t word)
{
    if (m->count == m->capacity)
        forget_one(m);
    m->ring[m->head] = word;
    m->head = (m->head + 1) % m->capacity;
    m->count++;
    m->runs[m->n_runs - 1].length++;
}

fr_status fr_memory_add(fr_memory *m, uint64_t conversation, const uint32_t *lead, size_t n_lead, const uint32_t *answer, size_t n_answer,
                        fr_error_text *err)
{
    const size_t most = m->capacity - 1; /* a break follows */
    if (m->off || n_answer == 0)
        return FR_OK;
    if (conversation == FR_MEMORY_EVERY)
        return fr_fail(err, FR_BAD_ARGUMENT, "session memory: 0 stands for all conversations; number them from 1");
    if (m->n_runs == m->room) {
        const uint32_t room = m->room ? 2 * m->room : 64;
        fr_memory_run *runs = realloc(m->runs, room * sizeof *runs);
        if (!runs)
            return fr_fail(err, FR_FAILED, "out of memory for %u runs of session memory", room);
        m->runs = runs;
        m->room = room;
    }
    const size_t keep = n_answer < most ? n_answer : most, spare = most - keep;
    size_t before = n_lead < FR_MEMORY_LEAD ? n_lead : FR_MEMORY_LEAD;
    before = before < spare ? before : spare;
    m->runs[m->n_runs++] = (fr_memory_run){conversation, 0};
    for (size_t i = n_lead - before; i < n_lead; i++)
        push(m, lead[i]);
    for (size_t i = n_answer - keep; i < n_answer; i++)
        push(m, answer[i]);
    push(m, FR_DRAFT_BREAK);
    return FR_OK;
}

void fr_memory_clear(fr_memory *m, uint64_t conversation)
{
    uint32_t from = 0, to = 0, runs = 0;
    for (uint32_t r = 0; r < m->n_runs; r++) {
        const fr_memory_run run = m->runs[r];
        const bool stays = conversation != FR_MEMORY_EVERY && run.conversation != conversation;
        for (uint32_t i = 0; i < run.length; i++, from++)
            if (stays)
                *slot(m, to++) = *slot(m, from);
        if (stays)
            m->runs[runs++] = run;
    }
    for (uint32_t i = to; i < m->capacity; i++) /* behind what stays, all around the ring */
        *slot(m, i) = 0;
    m->head = (m->head + m->capacity - (m->count - to)) % m->capacity;
    m->count = to;
    m->n_runs = runs;
}

uint32_t fr_memory_view(const fr_memory *m, uint32_t *out)
{
    uint32_t from = 0, n = 0;
    for (uint32_t r = 0; r < m->n_runs && !m->off; r++)
        for (uint32_t i = 0; i < m->runs[r].length; i++, from++)
            if (m->only == FR_MEMORY_EVERY || m->runs[r].conversation == m->only)
                out[n++] = *slot(m, from);
    return n;
}

/* ---- bytes ---- */

static const char magic[] = {'F', 'R', 'M', 'E', 'M', 'O', 'R', 'Y'};
enum { HEADER = sizeof magic + 4 + 8 + 4 + 4, RUN = 8 + 4, ID = 4, HASH = 8 };

uint64_t fr_memory_hash(uint64_t hash, const void *bytes, size_t size)
{
    const uint8_t *b = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ b[i]) * 0x100000001b3u;
    return hash;
}

static uint8_t *put(uint8_t *at, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)(value >> 8 * i);
    return at + size;
}

static uint64_t get(const uint8_t **at, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)(*at)[i] << 8 * i;
    *at += size;
    return value;
}

size_t fr_memory_save(const fr_memory *m, uint64_t fingerprint, uint8_t *bytes, size_t room)
{
    /* The break of every run is left: it is written last. A run of which only that is left counts no id, and stays out. */
    uint32_t runs = 0, ids = 0;
    for (uint32_t r = 0; r < m->n_runs; r++) {
        runs += m->runs[r].length > 1;
        ids += m->runs[r].length - 1;
    }
    const size_t size = HEADER + (size_t)runs * RUN + (size_t)ids * ID + HASH;
    if (room < size)
        return size;
    memcpy(bytes, magic, sizeof magic);
    uint8_t *at = put(bytes + sizeof magic, FR_MEMORY_VERSION, 4);
    at = put(at, fingerprint, 8);
    at = put(at, runs, 4);
    at = put(at, ids, 4);
    for (uint32_t r = 0; r < m->n_runs; r++)
        if (m->runs[r].length > 1)
            at = put(put(at, m->runs[r].conversation, 8), m->runs[r].length - 1, 4);
    for (uint32_t i = 0; i < m->count; i++)
        if (*slot(m, i) != FR_DRAFT_BREAK)
            at = put(at, *slot(m, i), ID);
    put(at, fr_memory_hash(FR_MEMORY_HASH, bytes, size - HASH), HASH);
    return size;
}

/* What is wrong with the bytes, before anything is taken from them. */
static fr_status inspect(uint64_t fingerprint, uint32_t vocab, const uint8_t *bytes, size_t size, const char *name, fr_error_text *err)
{
    static const char remedy[] = "delete it, and memory begins anew";
    const uint8_t *at = bytes + sizeof magic;
    if (size < HEADER + HASH || memcmp(bytes, magic, sizeof magic))
        return fr_fail(err, FR_BAD_ARGUMENT, "%s is no session memory: it does not begin with FRMEMORY and a header; give another file",
                       name);
    const uint64_t version = get(&at, 4), made_for = get(&at, 8), runs = get(&at, 4), ids = get(&at, 4);
    if (version != FR_MEMORY_VERSION)
        return fr_fail(err, FR_BAD_ARGUMENT, "%s is a session memory of version %u, this program knows %d; %s", name, (unsigned)version,
                       FR_MEMORY_VERSION, remedy);
    if (runs + ids > FR_MEMORY_TOKENS || runs > ids)
        return fr_fail(err, FR_BAD_ARGUMENT, "%s: %u runs of %u tokens, more than a session memory holds; it is damaged: %s", name,
                       (unsigned)runs, (unsigned)ids, remedy);
    if (size != HEADER + runs * RUN + ids * ID + HASH)
        return fr_fail(err, FR_BAD_ARGUMENT, "%s has %zu bytes, but promises %zu; it is damaged: %s", name, size,
                       (size_t)(HEADER + runs * RUN + ids * ID + HASH), remedy);
    const uint8_t *hash = bytes + size - HASH;
    if (get(&hash, HASH) != fr_memory_hash(FR_MEMORY_HASH, bytes, size - HASH))
        return fr_fail(err, FR_BAD_ARGUMENT, "%s: its checksum is wrong; it is damaged: %s", name, remedy);
    if (made_for != fingerprint)
        return fr_fail(err, FR_BAD_ARGUMENT, "%s is the session memory of another model; give each model a file of its own", name);
    uint64_t sum = 0;
    for (uint64_t r = 0; r < runs; r++) {
        const uint64_t conversation = get(&at, 8), length = get(&at, 4);
        if (conversation == FR_MEMORY_EVERY || length == 0 || length > ids - sum)
            return fr_fail(err, FR_BAD_ARGUMENT, "%s: run %u has %u tokens, of conversation %llu; it is damaged: %s", name, (unsigned)r,
                           (unsigned)length, (unsigned long long)conversation, remedy);
        sum += length;
    }
    if (sum != ids)
        return fr_fail(err, FR_BAD_ARGUMENT, "%s: its runs have %u tokens, not %u; it is damaged: %s", name, (unsigned)sum, (unsigned)ids,
                       remedy);
    for (uint64_t i = 0; i < ids; i++) {
        const uint64_t id = get(&at, ID);
        if (id >= vocab)
            return fr_fail(err, FR_BAD_ARGUMENT, "%s: token %u is %u, but the model has %u tokens; it is damaged: %s", name, (unsigned)i,
                           (unsigned)id, vocab, remedy);
    }
    return FR_OK;
}

fr_status fr_memory_load(fr_memory *m, uint64_t fingerprint, uint32_t vocab, const uint8_t *bytes, size_t size, const char *name,
                         fr_error_text *err)
{
    fr_memory fresh;
    fr_status status = inspect(fingerprint, vocab, bytes, size, name, err);
    if (status == FR_OK)
        status = fr_memory_open(&fresh, m->capacity, err);
    if (status != FR_OK)
        return status;
    const uint8_t *at = bytes + sizeof magic + 4 + 8;
    const uint64_t runs = get(&at, 4);
    const uint8_t *run = at + 4, *id = run + runs * RUN;
    uint32_t *ids = malloc(FR_MEMORY_TOKENS * sizeof *ids);
    if (!ids)
        status = fr_fail(err, FR_FAILED, "out of memory for %s", name);
    for (uint64_t r = 0; r < runs && status == FR_OK; r++) {
        const uint64_t conversation = get(&run, 8), length = get(&run, 4);
        for (uint64_t i = 0; i < length; i++)
            ids[i] = (uint32_t)get(&id, ID);
        status = fr_memory_add(&fresh, conversation, NULL, 0, ids, (size_t)length, err);
    }
    free(ids);
    if (status != FR_OK) {
        fr_memory_close(&fresh);
        return status;
    }
    fresh.off = m->off;
    fresh.only = m->only;
    fr_memory_close(m);
    *m = fresh;
    return FR_OK;
}
