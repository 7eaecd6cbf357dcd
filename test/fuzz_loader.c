/* fuzz_loader: damaged models of all kinds, any chunking, a sink that refuses and pools of any size. Whatever comes, the loader must end
 * with FR_OK or with an error line, and every write must stay inside its buffer. The vocabulary is read too, as the engine does.
 *
 * An input is a small header and edits of a valid model, so that short inputs reach deep; the models are made here, no corpus is needed:
 *
 *   byte 0       bits 0-2: which model; bit 3: the rest is a file of its own, not edits
 *   byte 1       chunks: below 128 the whole file at once, else the square of what is above 127
 *   byte 2       refusals: seed, 0 never
 *   byte 3       pool size: 2^12 to 2^27
 *   then edits   u16 place in the header or u24 in the file, operation, operands (see apply()) */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/load_sink.h"
#include "tools/tiny_model.h"

enum { N_MODELS = 8, MAX_EDITS = 32, ROOM = 1 << 16 };

static struct {
    uint8_t *bytes;
    size_t size;
} models[N_MODELS];

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    static const tiny_model options[N_MODELS] = {
        {.type = "q4_0", .head_type = "q8_0"},
        {.type = "q4_1", .untied = true, .rope_factors = true},
        {.type = "q8_0", .arch = "qwen2"},
        {.type = "f16", .layers = 1},
        {.type = "bf16", .layers = 1, .arch = "qwen2"},
        {.type = "f32", .layers = 1},
        {.type = "q4_0", .v_type = "q8_0", .up_type = "f32", .arch = "qwen2"},
        {.type = "q8_0", .v_type = "q6_k", .dim = 256, .head_dim = 32, .ffn = 32, .layers = 1}, /* rows of q6_k are long */
    };
    for (int i = 0; i < N_MODELS; i++) {
        tiny_model m = options[i];
        m.dim = m.dim ? m.dim : 32;
        m.heads = 1;
        m.ffn = m.ffn ? m.ffn : 64;
        m.vocab = 260;
        models[i].bytes = tiny_model_bytes(&m, &models[i].size);
        if (!models[i].bytes)
            abort();
    }
    return 0;
}

typedef struct input {
    const uint8_t *bytes;
    size_t size;
} input;

static uint64_t take(input *in, size_t n) /* zeros behind the end */
{
    uint64_t v = 0;
    for (size_t i = 0; i < n && in->size; i++, in->bytes++, in->size--)
        v |= (uint64_t)*in->bytes << 8 * i;
    return v;
}

static const uint64_t special[] = {0,
                                   1,
                                   31,
                                   32,
                                   33,
                                   63,
                                   64,
                                   0x7f,
                                   0xff,
                                   0xffff,
                                   0x10000,
                                   0x7fffffff,
                                   0x80000000,
                                   0xffffffff,
                                   UINT64_C(1) << 32,
                                   UINT64_C(1) << 62,
                                   INT64_MAX,
                                   UINT64_C(1) << 63,
                                   UINT64_MAX - 31,
                                   UINT64_MAX};

static void overwrite(uint8_t *file, size_t size, size_t at, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n && at + i < size; i++)
        file[at + i] = (uint8_t)(v >> 8 * i);
}

/* One edit. The file has room for what is inserted. */
static void apply(input *in, uint8_t *file, size_t *size)
{
    uint8_t operation = (uint8_t)take(in, 1);
    size_t at = (size_t)take(in, operation & 0x80 ? 3 : 2) % (*size + 1), n = 0;
    switch (operation & 7) {
    case 0: /* a number that is known to hurt, in 1, 2, 4 or 8 bytes */
        overwrite(file, *size, at, special[take(in, 1) % (sizeof special / sizeof *special)], (size_t)1 << (operation >> 3 & 3));
        break;
    case 1:
        overwrite(file, *size, at, take(in, 1), 1);
        break;
    case 2:
        overwrite(file, *size, at, take(in, 8), 8);
        break;
    case 3: /* cut */
        *size = at;
        break;
    case 4: /* remove */
        n = (size_t)take(in, 1);
        n = n < *size - at ? n : *size - at;
        memmove(file + at, file + at + n, *size - at - n);
        *size -= n;
        break;
    case 5: /* insert */
        n = (size_t)take(in, 1) & 31;
        memmove(file + at + n, file + at, *size - at);
        for (size_t i = 0; i < n; i++)
            file[at + i] = (uint8_t)take(in, 1);
        *size += n;
        break;
    case 6: { /* copy from elsewhere: names and keys that appear twice */
        size_t from = (size_t)take(in, 2) % (*size + 1);
        n = (size_t)take(in, 1) & 63;
        n = n < *size - at ? n : *size - at;
        n = n < *size - from ? n : *size - from;
        memmove(file + at, file + from, n);
        break;
    }
    default: /* add to what is there */
        if (at < *size)
            file[at] = (uint8_t)(file[at] + take(in, 1));
        break;
    }
}

static void check(fr_status s, const fr_error_text *e)
{
    if (s == FR_OK ? e->status != FR_OK : (e->status != s || !*e->text || strchr(e->text, '\n'))) {
        fprintf(stderr, "status %d, error %d \"%s\"\n", s, e->status, e->text);
        abort();
    }
}

static void load(const uint8_t *file, size_t size, size_t chunk, uint32_t refuse, uint64_t pool)
{
    load_sink sink = {.refuse = refuse, .vocabulary = true};
    const fr_sink interface = load_sink_interface(&sink);
    fr_loader *l = fr_loader_new(&interface, pool);
    fr_error_text e = {0};
    if (!l)
        return;
    check(load_all(l, file, size, chunk, &e), &e);
    if (sink.fault) {
        fprintf(stderr, "%s\n", sink.fault);
        abort();
    }
    if (fr_loader_peak_bytes(l) > 64 << 20)
        abort();
    fr_loader_free(l);
    load_sink_free(&sink);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t file[1 << 20];
    input in = {data, size};
    uint8_t choice = (uint8_t)take(&in, 1);
    size_t pace = (size_t)take(&in, 1), chunk = pace < 128 ? 0 : (pace - 127) * (pace - 127);
    uint32_t refuse = (uint32_t)take(&in, 1) * 7919;
    uint64_t pool = UINT64_C(1) << (12 + take(&in, 1) % 16);
    if (choice & 8) {
        load(in.bytes, in.size, chunk, refuse, pool);
        return 0;
    }
    size_t n = models[choice & 7].size;
    if (n > sizeof file - ROOM)
        abort();
    memcpy(file, models[choice & 7].bytes, n);
    for (int i = 0; i < MAX_EDITS && in.size; i++)
        apply(&in, file, &n);
    uint8_t *exact = malloc(n ? n : 1); /* so that a read behind the end is seen */
    if (!exact)
        return 0;
    memcpy(exact, file, n);
    load(exact, n, chunk, refuse, pool);
    free(exact);
    return 0;
}
