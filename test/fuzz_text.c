/* fuzz_text.c: vocabularies, text, prompts and stop strings made of the fuzzer's bytes (libFuzzer).
 *
 * What must hold for any of them: a vocabulary is taken or refused with a reason; ids lie in the vocabulary; where every byte
 * has a token, the tokens' bytes are the text; a stream is the text of the whole up to the first stop string, in whole code points. */
#include "test/text_help.h"
#include "text/chat.h"
#include "text/detokenizer.h"
#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

/* The input, eaten from the front. */
typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

static uint8_t take_byte(input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}

static const char *take_bytes(input *in, size_t most, size_t *size)
{
    size_t n = take_byte(in);
    n = n < most ? n : most;
    *size = n < in->left ? n : in->left;
    const char *bytes = (const char *)in->at;
    in->at += *size;
    in->left -= *size;
    return bytes;
}

static void require(bool holds)
{
    if (!holds)
        abort();
}

static const char *const pres[] = {"gpt-2", "qwen2", "llama-bpe", "smollm"};

/* Sound vocabularies, made once, with merges of a few kinds of text. */
static fr_tokenizer *sound_tokenizer(size_t pre)
{
    static const char *const joins[] = {"Ġ t", "h e", "Ġt he", "i n",  "Ċ Ċ", "Ġ Ġ", "ĠĠ ĠĠ", "1 2",
                                        "' s", "Ã ©", "ä ¸",   "ä¸ Ģ", "< |", "a a", "aa aa"};
    static const char *const special[] = {"<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
    static const char *const user[] = {"<tool>", "<tool", "é", "  ", "\xcc"};
    static fr_tokenizer *made[4];
    if (made[pre])
        return made[pre];
    text_vocab v = text_vocab_new(pres[pre]);
    text_vocab_bytes(&v);
    for (size_t i = 0; i < sizeof joins / sizeof joins[0]; i++)
        text_vocab_join(&v, joins[i]);
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        text_vocab_word(&v, special[i], FR_TOKEN_CONTROL);
    for (size_t i = 0; i < sizeof user / sizeof user[0]; i++)
        text_vocab_word(&v, user[i], FR_TOKEN_USER);
    v.bos = 0;
    v.add_bos = FR_BOS_YES;
    fr_error_text e = {0};
    made[pre] = text_vocab_make(&v, &e);
    require(made[pre] != NULL);
    return made[pre];
}

/* A vocabulary that the input spells out; NULL if it is refused. */
static fr_tokenizer *spelled_tokenizer(input *in, size_t pre)
{
    text_vocab v = text_vocab_new(pres[pre]);
    for (int i = take_byte(in) % 10; i > 0; i--) {
        size_t size;
        int type = take_byte(in) % 8;
        const char *text = take_bytes(in, 20, &size);
        text_vocab_token(&v, text, size, type);
    }
    for (int i = take_byte(in) % 6; i > 0; i--) {
        size_t size;
        const char *text = take_bytes(in, 12, &size);
        text_vocab_merge_bytes(&v, text, size);
    }
    v.bos = take_byte(in) & 1 ? UINT32_MAX : take_byte(in);
    v.add_bos = FR_BOS_YES;
    fr_error_text e = {0};
    fr_tokenizer *t = text_vocab_make(&v, &e);
    require((t == NULL) == (e.status != FR_OK && e.text[0]));
    return t;
}

static text_ids encode(const fr_tokenizer *t, const char *text, size_t size, bool special)
{
    text_ids l = {0};
    require(fr_tokenizer_encode(t, text, size, special, special, &l.ids, &l.n));
    for (size_t i = 0; i < l.n; i++)
        require(l.ids[i] < fr_tokenizer_size(t));
    return l;
}

static void check_round_trip(const fr_tokenizer *t, text_ids l, const char *text, size_t size)
{
    uint8_t *normal = NULL;
    size_t normal_size = size;
    if (!strcmp(fr_tokenizer_pre(t), "qwen2")) {
        /* User tokens are cut out before NFC, so only text that is normal already is sure to come back. */
        require(fr_nfc((const uint8_t *)text, size, &normal, &normal_size));
        bool is_normal = !normal || (normal_size == size && !memcmp(normal, text, size));
        free(normal);
        if (!is_normal)
            return;
    }
    text_bytes back = text_decode(t, l.ids, l.n, true);
    require(back.size == size && (size == 0 || !memcmp(back.data, text, size)));
    free(back.data);
}

/* Pushes the ids and takes text in between; the result is whole code points. */
static text_bytes stream(const fr_tokenizer *t, text_ids l, const char *const *stop, size_t n_stop, size_t step)
{
    fr_detokenizer *d = fr_detokenizer_new(t, stop, n_stop);
    text_bytes out = {calloc(1, 64), 0};
    require(d && out.data);
    for (size_t i = 0; i <= l.n; i++) {
        if (i == l.n)
            fr_detokenizer_end(d);
        else
            fr_detokenizer_push(d, l.ids[i]);
        char piece[64];
        for (size_t n; (n = fr_detokenizer_take(d, piece, step)) > 0;) {
            out.data = realloc(out.data, out.size + n + 1);
            require(out.data != NULL);
            memcpy(out.data + out.size, piece, n);
            out.size += n;
        }
    }
    out.data[out.size] = 0;
    fr_detokenizer_free(d);
    for (size_t i = 0; i < out.size;) {
        uint32_t code;
        i += fr_utf8_read((const uint8_t *)out.data + i, out.size - i, &code);
        require(code <= FR_CODE_MAX);
    }
    return out;
}

static bool is_utf8(const char *text)
{
    uint32_t code = 0;
    for (size_t i = 0, n = strlen(text); i < n && code <= FR_CODE_MAX;)
        i += fr_utf8_read((const uint8_t *)text + i, n - i, &code);
    return code <= FR_CODE_MAX;
}

static bool holds(text_bytes text, const char *part)
{
    size_t n = strlen(part);
    for (size_t i = 0; i + n <= text.size; i++)
        if (!memcmp(text.data + i, part, n))
            return true;
    return false;
}

static void check_stream(const fr_tokenizer *t, text_ids l, input *in)
{
    char strings[2][9] = {{0}};
    const char *stop[2] = {strings[0], strings[1]};
    for (size_t i = 0; i < 2; i++) {
        size_t size;
        const char *bytes = take_bytes(in, 8, &size);
        memcpy(strings[i], bytes, size);
    }
    text_bytes whole = stream(t, l, NULL, 0, 64), cut = stream(t, l, stop, 2, 4 + (l.n & 7));
    require(cut.size <= whole.size && !memcmp(cut.data, whole.data, cut.size));
    for (size_t i = 0; i < 2; i++)
        require(!*stop[i] || !is_utf8(stop[i]) || !holds(cut, stop[i]));
    free(whole.data);
    free(cut.data);
}

/* `opens`: the template begins with the header of an answer, in a literal. */
static void check_chat(const fr_tokenizer *t, input *in, bool opens)
{
    static const char opening[] = "{{ '<|im_start|>assistant\n";
    size_t size, n_opening = opens ? sizeof opening - 1 : 0;
    const char *rest = take_bytes(in, 200, &size);
    char *source = malloc(n_opening + size); /* exact, so that a read behind the end is seen */
    require(source || !size);
    fr_chat_template c;
    if (n_opening)
        memcpy(source, opening, n_opening);
    if (size)
        memcpy(source + n_opening, rest, size);
    fr_chat_detect(&c, n_opening + size ? source : NULL, n_opening + size, t); /* without a template the tokens decide */
    free(source);
    char content[32] = "";
    const char *bytes = take_bytes(in, sizeof content - 1, &size);
    memcpy(content, bytes, size);
    const fr_message messages[] = {{"user", content}, {"assistant", content}};
    uint32_t *ids = NULL;
    size_t n = 0;
    fr_error_text e = {0};
    require(fr_chat_encode(&c, t, messages, 2, &ids, &n, &e) == e.status);
    for (size_t i = 0; i < n; i++)
        require(ids[i] < fr_tokenizer_size(t));
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    uint8_t options = take_byte(&in);
    bool sound = options & 4;
    fr_tokenizer *t = sound ? sound_tokenizer(options & 3) : spelled_tokenizer(&in, options & 3);
    if (!t)
        return 0;
    check_chat(t, &in, options & 8);
    size_t n;
    const char *text = take_bytes(&in, 255, &n);
    text_ids plain = encode(t, text, n, false), special = encode(t, text, n, true);
    if (sound)
        check_round_trip(t, plain, text, n);
    check_stream(t, plain, &in);
    check_stream(t, special, &in);
    free(plain.ids);
    free(special.ids);
    if (!sound)
        fr_tokenizer_free(t);
    return 0;
}
