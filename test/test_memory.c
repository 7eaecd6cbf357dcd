/* Session memory: the ring against a plain list, conversations, and saved bytes, whole and damaged. */
#include "test/test.h"

#include "ref/ref_draft.h"
#include "spec/memory.h"

enum { SMALL = 50, VOCAB = 1000, FINGERPRINT = 77 };

static uint32_t next_random(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    return *seed ^= *seed << 5;
}

static fr_memory open_memory(uint32_t capacity)
{
    fr_memory m;
    fr_error_text err = {0};
    CHECK_MSG(fr_memory_open(&m, capacity, &err) == FR_OK, "%s", err.text);
    return m;
}

static void add(fr_memory *m, uint64_t conversation, const uint32_t *lead, size_t n_lead, const uint32_t *answer, size_t n_answer)
{
    fr_error_text err = {0};
    CHECK_MSG(fr_memory_add(m, conversation, lead, n_lead, answer, n_answer, &err) == FR_OK, "%s", err.text);
}

static void check_view(const fr_memory *m, const uint32_t *want, size_t n)
{
    static uint32_t got[FR_MEMORY_TOKENS];
    CHECK_INT(fr_memory_view(m, got), n);
    for (size_t i = 0; i < n; i++)
        CHECK_MSG(got[i] == want[i], "token %zu of memory is %u, expected %u", i, got[i], want[i]);
}

#define B FR_DRAFT_BREAK

static void runs(void)
{
    static const uint32_t prompt[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, answer[] = {20, 21};
    fr_memory m = open_memory(SMALL);
    check_view(&m, NULL, 0);
    add(&m, 1, prompt, 10, answer, 2);
    add(&m, 1, prompt, 2, answer, 1);
    add(&m, 1, prompt, 10, NULL, 0); /* no answer, no run */
    add(&m, 1, NULL, 0, answer, 2);
    check_view(&m, (uint32_t[]){3, 4, 5, 6, 7, 8, 9, 10, 20, 21, B, 1, 2, 20, B, 20, 21, B}, 18);
    CHECK_INT(m.n_runs, 3);
    fr_error_text err = {0};
    CHECK_INT(fr_memory_add(&m, FR_MEMORY_EVERY, NULL, 0, answer, 2, &err), FR_BAD_ARGUMENT);
    CHECK_INT(m.n_runs, 3);
    fr_memory_close(&m);
}

/* Runs of random lengths, also longer than the ring: always the end of what a plain list has. */
static void wraps(void)
{
    static uint32_t list[1 << 20];
    uint32_t seed = 5;
    for (uint32_t capacity = 2; capacity < 40; capacity++) {
        fr_memory m = open_memory(capacity);
        size_t n = 0;
        for (uint32_t round = 0; round < 60; round++) {
            uint32_t answer[64];
            const uint32_t length = 1 + next_random(&seed) % (round % 8 ? 10 : 64);
            for (uint32_t i = 0; i < length; i++)
                list[n++] = answer[i] = next_random(&seed) % VOCAB;
            list[n++] = FR_DRAFT_BREAK;
            add(&m, 1 + round % 3, NULL, 0, answer, length);
            const size_t shown = n < capacity ? n : capacity;
            CHECK_INT(m.count, shown);
            check_view(&m, list + n - shown, shown);
            uint32_t sum = 0;
            for (uint32_t r = 0; r < m.n_runs; r++) {
                CHECK(m.runs[r].length > 0);
                sum += m.runs[r].length;
            }
            CHECK_INT(sum, m.count);
        }
        CHECK(m.n_runs <= capacity && m.room <= 128);
        fr_memory_close(&m);
    }
}

/* The ring itself is what the drafter can read; the view gives the same trees. */
static void drafts(void)
{
    uint32_t seed = 6, view[SMALL];
    fr_memory m = open_memory(SMALL);
    for (uint32_t round = 0; round < 200; round++) {
        uint32_t words[20];
        for (uint32_t i = 0; i < 20; i++)
            words[i] = next_random(&seed) % 4;
        add(&m, 1, NULL, 0, words, 1 + next_random(&seed) % 20);
        fr_draft_node a[FR_DRAFT_WIDTH], b[FR_DRAFT_WIDTH];
        const uint32_t count = fr_memory_view(&m, view);
        const uint32_t n = ref_draft(&(fr_draft_corpus){m.ring, m.capacity, m.head, m.count, words, 20}, FR_DRAFT_WIDTH, a);
        CHECK_INT(ref_draft(&(fr_draft_corpus){view, SMALL, count % SMALL, count, words, 20}, FR_DRAFT_WIDTH, b), n);
        CHECK(!memcmp(a, b, n * sizeof *a));
    }
    fr_memory_close(&m);
}

static void conversations(void)
{
    fr_memory m = open_memory(12);
    for (uint32_t i = 0; i < 6; i++) /* the ring has wrapped: runs 2 to 5 are left */
        add(&m, 1 + i % 2, NULL, 0, (uint32_t[]){10 * i, 10 * i + 1}, 2);
    check_view(&m, (uint32_t[]){20, 21, B, 30, 31, B, 40, 41, B, 50, 51, B}, 12);
    m.only = 2;
    check_view(&m, (uint32_t[]){30, 31, B, 50, 51, B}, 6);
    m.only = 3;
    check_view(&m, NULL, 0);
    m.only = FR_MEMORY_EVERY;
    m.off = true;
    check_view(&m, NULL, 0);
    add(&m, 1, NULL, 0, (uint32_t[]){90}, 1);
    m.off = false;
    fr_memory_clear(&m, 1);
    check_view(&m, (uint32_t[]){30, 31, B, 50, 51, B}, 6);
    for (uint32_t i = 0; i < m.capacity; i++)
        CHECK(m.ring[i] != 20 && m.ring[i] != 41); /* the words are gone, too */
    add(&m, 7, NULL, 0, (uint32_t[]){60, 61, 62, 63, 64, 65}, 6);
    check_view(&m, (uint32_t[]){31, B, 50, 51, B, 60, 61, 62, 63, 64, 65, B}, 12);
    fr_memory_clear(&m, 9);
    CHECK_INT(m.count, 12);
    fr_memory_clear(&m, FR_MEMORY_EVERY);
    check_view(&m, NULL, 0);
    for (uint32_t i = 0; i < m.capacity; i++)
        CHECK_INT(m.ring[i], 0);
    add(&m, 1, NULL, 0, (uint32_t[]){70}, 1);
    check_view(&m, (uint32_t[]){70, B}, 2);
    fr_memory_close(&m);
}

/* ---- saved bytes ---- */

static fr_memory sample(void)
{
    fr_memory m = open_memory(SMALL);
    uint32_t seed = 8;
    for (uint32_t i = 0; i < 20; i++)
        add(&m, 1 + i % 3, NULL, 0, (uint32_t[]){next_random(&seed) % VOCAB, next_random(&seed) % VOCAB, i, 999}, 1 + i % 4);
    return m;
}

static uint8_t *save(const fr_memory *m, size_t *size)
{
    *size = fr_memory_save(m, FINGERPRINT, NULL, 0);
    uint8_t *bytes = malloc(*size + 1);
    CHECK(bytes);
    bytes[*size] = 0xee;
    CHECK_INT(fr_memory_save(m, FINGERPRINT, bytes, *size - 1), *size);
    CHECK_INT(fr_memory_save(m, FINGERPRINT, bytes, *size), *size);
    CHECK_INT(bytes[*size], 0xee);
    return bytes;
}

static fr_status load(fr_memory *m, const uint8_t *bytes, size_t size, fr_error_text *err)
{
    *err = (fr_error_text){0};
    return fr_memory_load(m, FINGERPRINT, VOCAB, bytes, size, "file.mem", err);
}

static void round_trip(void)
{
    fr_memory m = sample(), other = open_memory(SMALL), narrow = open_memory(7), empty = open_memory(SMALL);
    uint32_t view[SMALL], count = fr_memory_view(&m, view);
    size_t size, again;
    fr_error_text err;
    uint8_t *bytes = save(&m, &size);
    add(&other, 4, NULL, 0, (uint32_t[]){5}, 1);
    other.only = 2;
    CHECK_MSG(load(&other, bytes, size, &err) == FR_OK, "%s", err.text);
    CHECK_INT(other.only, 2);
    other.only = FR_MEMORY_EVERY;
    check_view(&other, view, count);
    CHECK_INT(other.n_runs, m.n_runs);
    CHECK(!memcmp(other.runs, m.runs, m.n_runs * sizeof *m.runs));
    uint8_t *same = save(&other, &again);
    CHECK(again == size && !memcmp(bytes, same, size));
    CHECK_INT(load(&narrow, bytes, size, &err), FR_OK);
    check_view(&narrow, view + count - 7, 7);
    free(bytes);
    free(same);
    bytes = save(&empty, &size);
    CHECK_INT(load(&m, bytes, size, &err), FR_OK);
    check_view(&m, NULL, 0);
    free(bytes);
    fr_memory_close(&narrow);
    narrow = open_memory(3); /* of the first run its break is left, which is not worth keeping */
    add(&narrow, 1, NULL, 0, (uint32_t[]){1, 2}, 2);
    add(&narrow, 2, NULL, 0, (uint32_t[]){3}, 1);
    check_view(&narrow, (uint32_t[]){B, 3, B}, 3);
    bytes = save(&narrow, &size);
    CHECK_INT(load(&m, bytes, size, &err), FR_OK);
    check_view(&m, (uint32_t[]){3, B}, 2);
    CHECK_INT(fr_memory_load(&m, FINGERPRINT, 4, bytes, size, "file.mem", &err), FR_OK);
    CHECK_INT(fr_memory_load(&m, FINGERPRINT, 3, bytes, size, "file.mem", &err), FR_BAD_ARGUMENT);
    CHECK_STR(err.text, "file.mem: token 0 is 3, but the model has 3 tokens; it is damaged: delete it, and memory begins anew");
    free(bytes);
    fr_memory_close(&m);
    fr_memory_close(&other);
    fr_memory_close(&narrow);
    fr_memory_close(&empty);
}

/* The bytes that doc comments promise, one by one. */
static void bytes_as_documented(void)
{
    static const uint8_t want[] = {'F', 'R', 'M', 'E', 'M', 'O', 'R', 'Y', 1, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 2, 0,
                                   0,   0,   3,   0,   0,   0,   5,   0,   0, 0, 0, 0, 0,  0, 2, 0, 0, 0, 1, 2, 0, 0,
                                   0,   0,   0,   0,   1,   0,   0,   0,   7, 0, 0, 0, 0,  1, 0, 0, 8, 0, 0, 0};
    fr_memory m = open_memory(SMALL);
    size_t size;
    add(&m, 5, (uint32_t[]){7}, 1, (uint32_t[]){256}, 1);
    add(&m, 0x201, NULL, 0, (uint32_t[]){8}, 1);
    uint8_t *bytes = save(&m, &size);
    CHECK_INT(size, sizeof want + 8);
    CHECK(!memcmp(bytes, want, sizeof want));
    CHECK(fr_memory_hash(FR_MEMORY_HASH, "a", 1) == 0xaf63dc4c8601ec8cu); /* published value of FNV-1a */
    free(bytes);
    fr_memory_close(&m);
}

static void seal(uint8_t *bytes, size_t size)
{
    const uint64_t hash = fr_memory_hash(FR_MEMORY_HASH, bytes, size - 8);
    for (size_t i = 0; i < 8; i++)
        bytes[size - 8 + i] = (uint8_t)(hash >> 8 * i);
}

/* Every byte changed, every length: refused, with one line, and what was there stays. */
static void damaged(void)
{
    fr_memory m = sample(), other = open_memory(SMALL);
    const uint32_t kept[] = {5, B};
    fr_error_text err;
    size_t size;
    uint8_t *bytes = save(&m, &size);
    add(&other, 4, NULL, 0, kept, 1);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= (uint8_t)(1 << i % 8);
        CHECK_MSG(load(&other, bytes, size, &err) == FR_BAD_ARGUMENT, "byte %zu changed, and nobody minds", i);
        CHECK_MSG(!strncmp(err.text, "file.mem", 8), "%s", err.text);
        bytes[i] ^= (uint8_t)(1 << i % 8);
    }
    for (size_t n = 0; n < size; n++) {
        uint8_t *part = malloc(n ? n : 1); /* of its own, so that a sanitizer sees reads behind it */
        CHECK(part);
        memcpy(part, bytes, n);
        CHECK_INT(load(&other, part, n, &err), FR_BAD_ARGUMENT);
        if (n > 60) {
            seal(part, n);
            CHECK_INT(load(&other, part, n, &err), FR_BAD_ARGUMENT);
        }
        free(part);
    }
    check_view(&other, kept, 2);
    free(bytes);
    fr_memory_close(&m);
    fr_memory_close(&other);
}

/* Damage that the checksum does not tell, because it was made anew. */
static void wrong_fields(void)
{
    static const struct {
        size_t at;
        uint8_t value;
        const char *error;
    } cases[] = {
        {0, 'f', "file.mem is no session memory"},
        {8, 2, "file.mem is a session memory of version 2, this program knows 1; delete it"},
        {12, 78, "file.mem is the session memory of another model"},
        {19, 1, "file.mem is the session memory of another model"},
        {20, 3, "file.mem has 76 bytes, but promises 88"},
        {20, 9, "file.mem: 9 runs of 4 tokens, more than a session memory holds"},
        {21, 1, "file.mem: 258 runs of 4 tokens"},
        {23, 255, "file.mem: 4278190082 runs of 4 tokens"},
        {24, 3, "file.mem has 76 bytes, but promises 72"},
        {26, 1, "file.mem: 2 runs of 65540 tokens"},
        {28, 0, "file.mem: run 0 has 2 tokens, of conversation 0"},
        {36, 0, "file.mem: run 0 has 0 tokens"},
        {36, 1, "file.mem: its runs have 3 tokens, not 4"},
        {36, 4, "file.mem: run 1 has 2 tokens"},
        {36, 5, "file.mem: run 0 has 5 tokens"},
        {39, 255, "file.mem: run 0 has 4278190082 tokens"},
        {55, 1, "file.mem: token 0 is 16777217, but the model has 1000 tokens"},
        {53, 4, "file.mem: token 0 is 1025, but the model has 1000 tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fr_memory m = open_memory(SMALL);
        fr_error_text err;
        size_t size;
        add(&m, 5, NULL, 0, (uint32_t[]){1, 2}, 2);
        add(&m, 6, NULL, 0, (uint32_t[]){3, 4}, 2);
        uint8_t *bytes = save(&m, &size);
        CHECK_INT(size, 76);
        CHECK_INT(load(&m, bytes, size, &err), FR_OK);
        bytes[cases[i].at] = cases[i].value;
        seal(bytes, size);
        CHECK_INT(load(&m, bytes, size, &err), FR_BAD_ARGUMENT);
        CHECK_MSG(!strncmp(err.text, cases[i].error, strlen(cases[i].error)), "byte %zu: \"%s\", expected \"%s\"", cases[i].at, err.text,
                  cases[i].error);
        CHECK_INT(m.n_runs, 2);
        free(bytes);
        fr_memory_close(&m);
    }
}

static void sizes(void)
{
    fr_memory m;
    fr_error_text err = {0};
    CHECK_INT(fr_memory_open(&m, 1, &err), FR_BAD_ARGUMENT);
    CHECK_INT(fr_memory_open(&m, FR_MEMORY_TOKENS + 1, &err), FR_BAD_ARGUMENT);
    m = open_memory(FR_MEMORY_TOKENS); /* full, of the shortest runs: the largest file */
    for (uint32_t i = 0; i < FR_MEMORY_TOKENS; i++)
        add(&m, 1, NULL, 0, &i, 1);
    CHECK_INT(m.n_runs, FR_MEMORY_TOKENS / 2);
    size_t size;
    uint8_t *bytes = save(&m, &size);
    err = (fr_error_text){0};
    CHECK_MSG(fr_memory_load(&m, FINGERPRINT, FR_MEMORY_TOKENS, bytes, size, "full", &err) == FR_OK, "%s", err.text);
    CHECK_INT(m.count, FR_MEMORY_TOKENS);
    free(bytes);
    fr_memory_close(&m);
}

const fr_test memory_tests[] = {
    {"memory.runs", "prompt's end, answer, break; no run without an answer", runs},
    {"memory.wraps", "rings of 2 to 39 words hold the end of a plain list", wraps},
    {"memory.drafts", "the ring and its view give the drafter the same", drafts},
    {"memory.conversations", "only one shown, off, one forgotten, all forgotten", conversations},
    {"memory.round_trip", "saved and loaded: the same runs; into a smaller ring: the latest", round_trip},
    {"memory.bytes_as_documented", "the format, byte by byte", bytes_as_documented},
    {"memory.damaged", "every byte changed, every length: refused", damaged},
    {"memory.wrong_fields", "every field, with a right checksum: one line that says what is wrong", wrong_fields},
    {"memory.sizes", "the smallest and the largest", sizes},
    {0},
};
