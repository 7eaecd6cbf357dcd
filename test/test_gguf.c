/* The reader: chunking, truncation, corruption, metadata. */
#include "test/test.h"

#include "load/gguf.h"
#include "test/gguf_build.h"
#include "test/load_sink.h"
#include "tools/tiny_model.h"

/* A small valid model; the caller frees. */
static uint8_t *small(size_t *size)
{
    const tiny_model m = {.layers = 2, .dim = 32, .heads = 1, .ffn = 64, .vocab = 260, .type = "q4_0", .head_type = "q8_0", .seed = 1};
    uint8_t *file = tiny_model_bytes(&m, size);
    CHECK(file);
    return file;
}

static uint8_t *find(uint8_t *file, size_t size, const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i + n <= size; i++)
        if (!memcmp(file + i, text, n))
            return file + i;
    test_fail(__FILE__, __LINE__, "no \"%s\" in the file", text);
}

static void every_chunk_size(void)
{
    size_t size;
    uint8_t *file = small(&size);
    load_sink whole = {0};
    fr_error_text e = {0};
    CHECK_MSG(load_file(&whole, file, size, 0, &e) == FR_OK, "%s", e.text);
    CHECK_MSG(!whole.fault, "%s", whole.fault);
    for (size_t chunk = 1; chunk <= 4096; chunk++) {
        load_sink cut = {0};
        CHECK_MSG(load_file(&cut, file, size, chunk, &e) == FR_OK, "%zu: %s", chunk, e.text);
        CHECK_INT(cut.n_plans, 1);
        for (uint32_t b = 0; b < LOAD_BUFFERS; b++) {
            CHECK_INT(cut.sizes[b], whole.sizes[b]);
            CHECK_MSG(!whole.sizes[b] || !memcmp(cut.buffers[b], whole.buffers[b], whole.sizes[b]), "chunks of %zu: buffer %u differs",
                      chunk, b);
        }
        load_sink_free(&cut);
    }
    load_sink_free(&whole);
    free(file);
}

static size_t header_size(const uint8_t *file, size_t size)
{
    load_sink sink = {0};
    const fr_sink interface = load_sink_interface(&sink);
    fr_loader *l = fr_loader_new(&interface, 1 << 27);
    fr_error_text e = {0};
    size_t n = 0, used;
    while (!sink.n_plans && n < size)
        CHECK_INT(fr_loader_feed(l, file + n++, 1, &used, &e), FR_OK);
    fr_loader_free(l);
    load_sink_free(&sink);
    return n;
}

static void truncated(void)
{
    size_t size;
    uint8_t *file = small(&size);
    size_t header = header_size(file, size);
    CHECK(header > 1000 && header < size);
    for (size_t n = 0; n < size - 32; n += n < header ? 1 : 37) { /* the last 32 bytes may be padding */
        load_sink sink = {0};
        fr_error_text e = {0};
        CHECK_INT(load_file(&sink, file, n, 0, &e), FR_BAD_MODEL);
        const char *expected = n == 0 ? "is empty" : n < 4 ? "not a GGUF" : n < header ? "truncated: it ends at byte" : "bytes of tensor ";
        CHECK_MSG(strstr(e.text, expected), "%zu bytes: \"%s\" lacks \"%s\"", n, e.text, expected);
        load_sink_free(&sink);
    }
    free(file);
}

static void foreign(void)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *expected;
    } cases[] = {
        {"", 0, "is empty"},
        {"<!DOCTYPE html><html><body>Sign in</body></html>", 48, "HTML page"},
        {"\r\n  <html lang=en><head><title>Not found</title></head><body></body></html>", 75, "HTML page"},
        {"\xef\xbb\xbf<html>", 9, "HTML page"},
        {"{\"error\":\"Repository not found\"}", 32, "JSON"},
        {"PK\x03\x04\x14\0\0\0\x08\0archive/data.pkl..............................................", 70, "PyTorch"},
        {"\x80\x02}q\0", 5, "PyTorch"},
        {"\xe8\x2a\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"pt\"}}", 41, "safetensors"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:00", 56, "Git LFS"},
        {"tjgg\x03\0\0\0", 8, "before GGUF"},
        {"\x1f\x8b\x08\0\0\0\0\0", 8, "gzip"},
        {"FUGG\0\0\0\x03", 8, "little-endian"},
        {"GGU", 3, "not a GGUF"},
        {"gguf\x03\0\0\0", 8, "not a GGUF"},
        {"hello", 5, "use a .gguf"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t chunk = 0; chunk < 2; chunk++) {
            load_sink sink = {0};
            fr_error_text e = {0};
            CHECK_INT(load_file(&sink, (const uint8_t *)cases[i].bytes, cases[i].size, chunk, &e), FR_BAD_MODEL);
            CHECK_MSG(strstr(e.text, cases[i].expected), "case %zu: \"%s\" lacks \"%s\"", i, e.text, cases[i].expected);
            CHECK(!strchr(e.text, '\n'));
        }
}

/* A change of a valid file: `size` bytes at `offset` behind the place where `where` begins become `bytes`. */
typedef struct corruption {
    const char *where;
    int offset;
    const char *bytes;
    size_t size;
    const char *expected;
} corruption;

#define HUGE_COUNT "\xff\xff\xff\xff\xff\xff\xff\x7f"
#define TENSOR "blk.1.attn_k.weight" /* 19 bytes, 32 x 32; n_dims, dims, type and offset follow */
static const corruption corruptions[] = {
    {"GGUF", 0, "GGML", 4, "not a GGUF"},
    {"GGUF", 4, "\x01\0\0\0", 4, "GGUF version 1"},
    {"GGUF", 4, "\0\0\0\x03", 4, "big-endian"},
    {"GGUF", 4, "\x04\0\0\0", 4, "GGUF version 4"},
    {"GGUF", 4, "\0\0\0\0", 4, "GGUF version 0"},
    {"GGUF", 8, HUGE_COUNT, 8, "tensors, at most"},
    {"GGUF", 8, "\x01\0\x01\0\0\0\0\0", 8, "65537 tensors"},
    {"GGUF", 16, HUGE_COUNT, 8, "metadata keys, at most"},
    {"GGUF", 24, "\0\0\0\0\0\0\0\0", 8, "the key at byte"},
    {"GGUF", 24, HUGE_COUNT, 8, "the key at byte"},
    {"GGUF", 24, "\0\0\x01\0\0\0\0\0", 8, "claims 65536 bytes"},
    {"general.name", 2, "\0", 1, "NUL"},
    {"general.name", 12, "\x0d\0\0\0", 4, "unknown type 13"},
    {"general.name", 16, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, "more than 48 MiB"},
    {"general.name", 16, "\x01\0\0\x03\0\0\0\0", 8, "more than 48 MiB"},
    {"general.name", 16, "\0\0\x10\0\0\0\0\0", 8, "truncated"}, /* 1 MiB, longer than the file */
    {"llama.block_count", 17, "\x09\0\0\0\x09\0\0\0\x01\0\0\0\0\0\0\0", 16, "array of arrays"},
    {"llama.block_count", 17, "\x09\0\0\0\x0d\0\0\0\x01\0\0\0\0\0\0\0", 16, "array of an unknown type"},
    {"llama.context_length", 0, "llama.rope.freq_base", 20, "appears twice"},
    {"tokenizer.ggml.add_bos_token", 32, "\x02", 1, "boolean of value 2"},
    {"tokenizer.ggml.tokens", 25, "\x09\0\0\0", 4, "array of arrays"},
    {"tokenizer.ggml.tokens", 29, HUGE_COUNT, 8, "more than 48 MiB"},
    {"tokenizer.ggml.tokens", 29, "\0\0\0\x40\0\0\0\0", 8, "more than 48 MiB"}, /* 4 bytes a token: 2^32 */
    {"tokenizer.ggml.tokens", 37, "\x01\0\x04\0\0\0\0\0", 8, "claims 262145 bytes"},
    {"tokenizer.ggml.tokens", 37, HUGE_COUNT, 8, "item 0 of metadata key tokenizer.ggml.tokens"},
    {TENSOR, -8, HUGE_COUNT, 8, "the tensor name at byte"},
    {TENSOR, -8, "\0\0\0\0\0\0\0\0", 8, "the tensor name at byte"},
    {TENSOR, 3, "\0", 1, "NUL"},
    {TENSOR, 4, "0", 1, "tensor blk.0.attn_k.weight appears twice"},
    {TENSOR, 4, "2", 1, "missing"},
    {TENSOR, 19, "\0\0\0\0", 4, "0 dimensions"},
    {TENSOR, 19, "\x05\0\0\0", 4, "5 dimensions"},
    {TENSOR, 19, "\xff\xff\xff\xff", 4, "4294967295 dimensions"},
    {TENSOR, 23, "\0\0\0\0\0\0\0\0", 8, "has no elements"},
    {TENSOR, 23, "\x21\0\0\0\0\0\0\0", 8, "rows of 33 elements"},
    {TENSOR, 23, "\x40\0\0\0\0\0\0\0", 8, "overlap"},
    {TENSOR, 23, "\0\0\0\0\0\0\0\x80", 8, "more than 2^63"},
    {TENSOR, 23, "\0\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0", 16, "more than 2^63"},
    {TENSOR, 31, "\0\0\0\0\0\0\0\x10", 8, "more than 2^63"},
    {TENSOR, 31, "\x1f\0\0\0\0\0\0\0", 8, "[32, 31], expected is [32, 32]"},
    {TENSOR, 39, "\x10\0\0\0", 4, "type IQ2_XXS, which is not supported; use a file with Q4_0"},
    {TENSOR, 39, "\x04\0\0\0", 4, "type Q4_2"},
    {TENSOR, 39, "\xff\0\0\0", 4, "unknown type 255"},
    {TENSOR, 39, "\0\0\0\0", 4, "overlap"}, /* F32 is larger */
    {TENSOR, 43, "\x01", 1, "alignment 32"},
    {TENSOR, 43, "\0\0\0\0\0\0\0\x40\0", 8, "truncated"},
    {TENSOR, 43, "\xe0\xff\xff\xff\xff\xff\xff\x7f", 8, "beyond 2^63"},
    {TENSOR, 43, "\xe0\xff\xff\xff\xff\xff\xff\xff", 8, "beyond 2^63"},
    {TENSOR, 31, "\0\0\0\0\0\0\0\x04\x02\0\0\0\0\0\0\0\0\0\0\x70", 20, "beyond 2^63"}, /* 18 * 2^58 bytes at 7 * 2^60 */
    {"blk.1.attn_norm.weight", 34, "\x08\0\0\0", 4, "type Q8_0; supported for it are F32"},
    {"blk.1.attn_norm.weight", 26, "\x10\0\0\0", 4, "[16], expected is [32]"},
    {"general.architecture", 32, "gemma", 5, "architecture is gemma"},
    {"general.architecture", 0, "general.architectur3", 20, "lacks the metadata key general.architecture"},
};

static void corrupt(void)
{
    for (size_t i = 0; i < sizeof corruptions / sizeof *corruptions; i++) {
        const corruption *c = &corruptions[i];
        size_t size;
        uint8_t *file = small(&size);
        memcpy(find(file, size, c->where) + c->offset, c->bytes, c->size);
        load_sink sink = {0};
        fr_error_text e = {0};
        CHECK_MSG(load_file(&sink, file, size, 4096, &e) == FR_BAD_MODEL, "case %zu (%s): loaded", i, c->expected);
        CHECK_MSG(strstr(e.text, c->expected), "case %zu: \"%s\" lacks \"%s\"", i, e.text, c->expected);
        CHECK_MSG(strlen(e.text) < sizeof e.text - 1, "case %zu: the message is cut: %s", i, e.text);
        CHECK(!strchr(e.text, '\n'));
        load_sink_free(&sink);
        free(file);
    }
}

/* Events that note what was seen. */
typedef struct seen {
    int metadata, header;
    size_t data;
    uint8_t bytes[256];
} seen;

static fr_status see_metadata(void *user, fr_error_text *e)
{
    (void)e;
    ((seen *)user)->metadata++;
    return FR_OK;
}

static fr_status see_header(void *user, fr_error_text *e)
{
    (void)e;
    ((seen *)user)->header++;
    return FR_OK;
}

static fr_status see_data(void *user, const gguf_tensor *t, uint64_t at, const uint8_t *bytes, size_t size, size_t *used, fr_error_text *e)
{
    seen *s = user;
    (void)t, (void)at, (void)e;
    *used = size < 3 ? size : 3; /* pauses often */
    CHECK(s->data + *used <= sizeof s->bytes);
    memcpy(s->bytes + s->data, bytes, *used);
    s->data += *used;
    return FR_OK;
}

typedef struct session {
    seen seen;
    gguf_events events;
    load_heap heap;
    gguf_reader *reader;
    fr_error_text error;
} session;

static fr_status read_all(session *s, const gguf_build *b)
{
    s->events = (gguf_events){&s->seen, see_metadata, see_header, see_data};
    s->reader = gguf_reader_new(&s->events, &s->heap);
    CHECK(s->reader);
    for (size_t at = 0, used; at < b->size; at += used) {
        fr_status status = gguf_reader_feed(s->reader, b->bytes + at, b->size - at, &used, &s->error);
        if (status != FR_OK)
            return status;
    }
    return gguf_reader_end(s->reader, &s->error);
}

static void finish(session *s, gguf_build *b)
{
    gguf_reader_free(s->reader);
    CHECK_INT(s->heap.now, 0);
    free(b->bytes);
}

static void put_numbers(gguf_build *b)
{
    gguf_build_scalar(b, "u8", GGUF_U8, 200, 1);
    gguf_build_scalar(b, "i8", GGUF_I8, 0xff, 1);
    gguf_build_scalar(b, "u16", GGUF_U16, 60000, 2);
    gguf_build_scalar(b, "i16", GGUF_I16, 0xfffe, 2);
    gguf_build_scalar(b, "u32", GGUF_U32, 4000000000u, 4);
    gguf_build_scalar(b, "i32", GGUF_I32, 7, 4);
    gguf_build_scalar(b, "f32", GGUF_F32, 0x3fc00000, 4); /* 1.5 */
    gguf_build_scalar(b, "bool", GGUF_BOOL, 1, 1);
    gguf_build_scalar(b, "u64", GGUF_U64, 1ull << 32, 8);
    gguf_build_scalar(b, "u64 max", GGUF_U64, UINT64_MAX, 8);
    gguf_build_scalar(b, "i64", GGUF_I64, 12, 8);
    gguf_build_scalar(b, "f64", GGUF_F64, 0x4004000000000000u, 8);      /* 2.5 */
    gguf_build_scalar(b, "f64 huge", GGUF_F64, 0x7fe0000000000000u, 8); /* 2^1023 */
}

static void check_numbers(const gguf_meta *m)
{
    static const struct {
        const char *key;
        bool fits;
        uint32_t value;
    } integers[] = {{"u8", true, 200},  {"i8", false, 0},  {"u16", true, 60000},  {"i16", false, 0}, {"u32", true, 4000000000u},
                    {"i32", true, 7},   {"u64", false, 0}, {"u64 max", false, 0}, {"i64", true, 12}, {"f32", false, 0},
                    {"bool", false, 0}, {"f64", false, 0}, {"absent", false, 0},  {"u", false, 0}};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        uint32_t v = 0;
        CHECK_MSG(gguf_u32(m, integers[i].key, &v) == integers[i].fits, "%s", integers[i].key);
        CHECK_INT(v, integers[i].value);
    }
    static const struct {
        const char *key;
        float value;
    } floats[] = {{"f32", 1.5f}, {"f64", 2.5f}, {"u8", 200}, {"i8", -1}, {"i16", -2}, {"u64", 4294967296.f}};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        float v;
        CHECK(gguf_f32(m, floats[i].key, &v));
        CHECK_MSG(v == floats[i].value, "%s is %g", floats[i].key, (double)v);
    }
    float v;
    bool flag = false;
    CHECK(gguf_f32(m, "f64 huge", &v) && v > 3e38f);
    CHECK(!gguf_f32(m, "bool", &v) && !gguf_f32(m, "text", &v));
    CHECK(gguf_bool(m, "bool", &flag) && flag && !gguf_bool(m, "u8", &flag));
}

static void check_arrays(const gguf_meta *m)
{
    gguf_string s;
    gguf_type type;
    size_t n;
    CHECK(gguf_str(m, "text", &s) && s.size == 5 && !memcmp(s.data, "a\0b\nc", 5));
    CHECK(gguf_str(m, "empty", &s) && s.size == 0 && !gguf_str(m, "u8", &s) && !gguf_str(m, "words", &s));
    CHECK(gguf_array(m, "words", &type, &n) && type == GGUF_STRING && n == 3);
    s = gguf_array_str(m, "words", 0);
    CHECK(s.size == 3 && !memcmp(s.data, "one", 3));
    CHECK_INT(gguf_array_str(m, "words", 1).size, 0);
    s = gguf_array_str(m, "words", 2);
    CHECK(s.size == 5 && !memcmp(s.data, "three", 5));
    CHECK_INT(gguf_array_str(m, "words", 3).size, 0);
    CHECK_INT(gguf_array_str(m, "numbers", 0).size, 0);
    CHECK(gguf_array(m, "numbers", &type, &n) && type == GGUF_I16 && n == 2);
    CHECK_INT(gguf_array_int(m, "numbers", 0), 5);
    CHECK_INT(gguf_array_int(m, "numbers", 1), -6);
    CHECK_INT(gguf_array_int(m, "numbers", 2), 0);
    CHECK_INT(gguf_array_int(m, "words", 0), 0);
    CHECK(gguf_array(m, "nothing", &type, &n) && n == 0 && !gguf_array(m, "u8", &type, &n));
}

static void lookups(void)
{
    gguf_build b = {0};
    gguf_build_head(&b, 0, 18);
    put_numbers(&b);
    gguf_build_string(&b, "text");
    gguf_build_int(&b, GGUF_STRING, 4);
    gguf_build_int(&b, 5, 8);
    gguf_build_bytes(&b, "a\0b\nc", 5);
    gguf_build_string(&b, "empty");
    gguf_build_int(&b, GGUF_STRING, 4);
    gguf_build_string(&b, "");
    gguf_build_array(&b, "words", GGUF_STRING, 3);
    gguf_build_string(&b, "one");
    gguf_build_string(&b, "");
    gguf_build_string(&b, "three");
    gguf_build_array(&b, "numbers", GGUF_I16, 2);
    gguf_build_int(&b, 5, 2);
    gguf_build_int(&b, 0xfffa, 2);
    gguf_build_array(&b, "nothing", GGUF_U8, 0);
    session s = {0};
    CHECK_MSG(read_all(&s, &b) == FR_OK, "%s", s.error.text);
    CHECK_INT(s.seen.metadata, 1);
    CHECK_INT(s.seen.header, 1);
    check_numbers(gguf_reader_meta(s.reader));
    check_arrays(gguf_reader_meta(s.reader));
    finish(&s, &b);
}

static void put_text(gguf_build *b, const char *key, size_t size)
{
    gguf_build_string(b, key);
    gguf_build_int(b, GGUF_STRING, 4);
    gguf_build_int(b, size, 8);
    for (size_t i = 0; i < size; i++)
        gguf_build_int(b, 'x', 1);
}

/* An empty value where the memory for values has just been used up (src/load/gguf_meta.c takes it in chunks of GGUF_MAX_ITEM + 4). */
static void empty_at_the_end(void)
{
    enum { PIECE = (GGUF_MAX_ITEM + 4) / 4, KEY = 2 };
    for (size_t less = 0; less < 8; less++) {
        gguf_build b = {0};
        gguf_build_head(&b, 0, 5);
        put_text(&b, "a", PIECE - KEY);
        put_text(&b, "b", PIECE - KEY);
        put_text(&b, "c", PIECE - KEY);
        put_text(&b, "d", PIECE - 2 * KEY - less);
        put_text(&b, "e", 0);
        session s = {0};
        gguf_string text;
        CHECK_MSG(read_all(&s, &b) == FR_OK, "%s", s.error.text);
        CHECK(gguf_str(gguf_reader_meta(s.reader), "e", &text) && text.size == 0 && text.data);
        CHECK(gguf_str(gguf_reader_meta(s.reader), "d", &text) && text.size == PIECE - 2 * KEY - less);
        finish(&s, &b);
    }
}

static void put_tensor(gguf_build *b, const char *name, uint64_t cols, uint64_t offset)
{
    gguf_build_string(b, name);
    gguf_build_int(b, 1, 4);
    gguf_build_int(b, cols, 8);
    gguf_build_int(b, GGML_F32, 4);
    gguf_build_int(b, offset, 8);
}

/* Tensors listed out of order, with gaps between them, and another alignment, behind headers of any size. */
static void check_order(size_t name_size)
{
    gguf_build b = {0};
    char name[80] = {0};
    memset(name, 'n', name_size);
    gguf_build_head(&b, 3, 2);
    gguf_build_scalar(&b, "general.alignment", GGUF_U32, 64, 4);
    gguf_build_scalar(&b, name, GGUF_U8, 0, 1);
    put_tensor(&b, "second", 2, 128);
    put_tensor(&b, "third", 1, 320);
    put_tensor(&b, "first", 3, 0);
    while (b.size % 64)
        gguf_build_int(&b, 0xee, 1);
    size_t start = b.size;
    for (uint32_t i = 0; i < 320; i++)
        gguf_build_int(&b, i / 64, 1);
    gguf_build_int(&b, 0x05050505, 4);
    gguf_build_int(&b, 0xdddddddd, 4); /* behind the end */
    session s = {0};
    CHECK_MSG(read_all(&s, &b) == FR_OK, "%s", s.error.text);
    static const uint8_t expected[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 5, 5, 5, 5};
    CHECK_INT(s.seen.data, sizeof expected);
    CHECK(!memcmp(s.seen.bytes, expected, sizeof expected));
    CHECK_INT(gguf_reader_expected_bytes(s.reader), start + 324);
    size_t n;
    const gguf_tensor *t = gguf_reader_tensors(s.reader, &n);
    CHECK_INT(n, 3);
    CHECK_STR(t[0].name, "first");
    CHECK_STR(t[2].name, "third");
    CHECK(gguf_reader_find(s.reader, "second") == &t[1]);
    CHECK(!gguf_reader_find(s.reader, "fourth"));
    finish(&s, &b);
}

static void order(void)
{
    for (size_t name_size = 1; name_size <= 64; name_size++)
        check_order(name_size);
}

static void alignment(void)
{
    static const uint64_t bad[] = {0, 3, 48, 1 << 21, 0xffffffff};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gguf_build b = {0};
        gguf_build_head(&b, 0, 1);
        gguf_build_scalar(&b, "general.alignment", GGUF_U32, bad[i], 4);
        session s = {0};
        CHECK_INT(read_all(&s, &b), FR_BAD_MODEL);
        CHECK(strstr(s.error.text, "general.alignment"));
        finish(&s, &b);
    }
}

/* Metadata of nearly 48 MiB, in strings of all sizes: what is stored must not cost much more, and one piece more is refused. */
static void large_metadata(void)
{
    gguf_build b = {0};
    enum { ITEMS = 400000 };
    static char text[1 << 20];
    memset(text, 'x', sizeof text);
    gguf_build_head(&b, 0, 3);
    gguf_build_array(&b, "words", GGUF_STRING, ITEMS);
    for (uint32_t i = 0; i < ITEMS; i++) {
        uint32_t n = i % 100000 == 5 ? 200000 : i % 40;
        gguf_build_int(&b, n, 8);
        gguf_build_bytes(&b, text, n);
    }
    gguf_build_array(&b, "numbers", GGUF_U64, 4 << 20);
    for (int i = 0; i < 32; i++)
        gguf_build_bytes(&b, text, sizeof text);
    size_t before = b.size;
    gguf_build_string(&b, "last");
    gguf_build_int(&b, GGUF_STRING, 4);
    gguf_build_string(&b, "end");
    session s = {0};
    CHECK_MSG(read_all(&s, &b) == FR_OK, "%s", s.error.text);
    CHECK_INT(gguf_array_str(gguf_reader_meta(s.reader), "words", 200005).size, 200000);
    CHECK_INT(gguf_array_str(gguf_reader_meta(s.reader), "words", ITEMS - 1).size, (ITEMS - 1) % 40);
    CHECK_MSG(s.heap.peak < (50 << 20), "%zu bytes at the peak", s.heap.peak);
    gguf_reader_free(s.reader);
    b.size = before;
    gguf_build_array(&b, "more", GGUF_U8, 8 << 20);
    session refused = {0};
    CHECK_INT(read_all(&refused, &b), FR_BAD_MODEL);
    CHECK(strstr(refused.error.text, "48 MiB (more"));
    finish(&refused, &b);
}

const fr_test gguf_tests[] = {
    {"gguf.every_chunk_size", "pieces of 1 to 4096 bytes give the same buffers as the whole file", every_chunk_size},
    {"gguf.truncated", "a file cut at every byte of its header, and in its data, is refused with the place", truncated},
    {"gguf.foreign", "files of other kinds are recognised", foreign},
    {"gguf.corrupt", "each kind of damage gives its own message", corrupt},
    {"gguf.lookups", "values of every type, and lookups that ask for the wrong one", lookups},
    {"gguf.empty_at_the_end", "an empty value where a chunk of memory ends", empty_at_the_end},
    {"gguf.order", "tensors in any order, gaps, alignment, bytes behind the end", order},
    {"gguf.alignment", "alignments that are none", alignment},
    {"gguf.large_metadata", "48 MiB of metadata take 48 MiB; more is refused", large_metadata},
    {0},
};
