#include "text/chat.h"

#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

/* --- what a template writes out ---------------------------------------------------------------------------------
 *
 * A Jinja template says in string literals, and in the text around its tags, what it writes. That is enough to know the
 * family and the default system text; nothing is executed. */

typedef struct scanner {
    const char *source;
    size_t size, at;
    bool in_tag;
    bool literal; /* the chunk is one */
    char *chunk; /* the last literal, or the last text around tags; room for `size` bytes */
    size_t n;
} scanner;

static bool looking_at(const scanner *s, const char *what)
{
    size_t n = strlen(what);
    return s->size - s->at >= n && !memcmp(s->source + s->at, what, n);
}

/* From behind a quote to behind the closing one. */
static void scan_literal(scanner *s, char quote)
{
    for (s->n = 0; s->at < s->size && s->source[s->at] != quote; s->at++) {
        char c = s->source[s->at];
        if (c == '\\' && s->at + 1 < s->size) {
            c = s->source[++s->at];
            c = (char)(c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c);
        }
        s->chunk[s->n++] = c;
    }
    s->at += s->at < s->size;
}

static void scan_text(scanner *s)
{
    for (s->n = 0; s->at < s->size && !looking_at(s, "{{") && !looking_at(s, "{%") && !looking_at(s, "{#"); s->at++)
        s->chunk[s->n++] = s->source[s->at];
}

/* The next chunk; false at the end. */
static bool scan(scanner *s)
{
    while (s->at < s->size) {
        if (!s->in_tag) {
            scan_text(s);
            s->literal = false;
            bool comment = looking_at(s, "{#");
            s->in_tag = !comment;
            for (; comment && s->at < s->size && !looking_at(s, "#}"); s->at++)
                ;
            s->at += s->size - s->at < 2 ? s->size - s->at : 2;
            return true;
        }
        char c = s->source[s->at];
        if (looking_at(s, "}}") || looking_at(s, "%}")) {
            s->in_tag = false;
            s->at += 2;
        } else {
            s->at++;
            if (c == '\'' || c == '"') {
                scan_literal(s, c);
                s->literal = true;
                return true;
            }
        }
    }
    return false;
}

/* Where `what` begins in bytes[0 .. n); NULL: nowhere. */
static const char *find(const char *bytes, size_t n, const char *what)
{
    size_t size = strlen(what);
    for (; n >= size; bytes++, n--)
        if (!memcmp(bytes, what, size))
            return bytes;
    return NULL;
}

/* --- recognising a family --------------------------------------------------------------------------------------- */

static bool has_tokens(const fr_tokenizer *t, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fr_tokenizer_id(t, names[i], strlen(names[i])) == UINT32_MAX)
            return false;
    return true;
}

/* The text between "<|im_start|>system\n" and "<|im_end|>", where one literal has both, is what such templates add if the
 * conversation begins otherwise. */
static void take_default_system(fr_chat_template *c, const char *chunk, size_t n)
{
    static const char open[] = "<|im_start|>system\n";
    const char *start = find(chunk, n, open);
    if (!start || c->default_system[0])
        return;
    start += sizeof open - 1;
    const char *end = find(start, (size_t)(chunk + n - start), "<|im_end|>");
    if (!end || (size_t)(end - start) >= sizeof c->default_system)
        return;
    memcpy(c->default_system, start, (size_t)(end - start));
    c->default_system[end - start] = 0;
}

/* What the template writes behind the header of an answer. */
typedef struct opening {
    bool found; /* the header */
    bool fits;
    char text[sizeof((fr_chat_template *)0)->generation];
    size_t n;
} opening;

static void add_opening(opening *o, const char *bytes, size_t n)
{
    o->fits = o->fits && n < sizeof o->text - o->n && !memchr(bytes, 0, n);
    if (!o->fits)
        return;
    memcpy(o->text + o->n, bytes, n);
    o->n += n;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_blanks(scanner *s)
{
    while (s->at < s->size && is_blank(s->source[s->at]))
        s->at++;
}

/* From inside a tag, behind a literal, to the next tag that could hold one; the white space between is written unless a "-" takes it away.
 * False: something else follows. */
static bool next_tag(scanner *s, opening *o)
{
    bool trims = looking_at(s, "-");
    s->at += trims;
    if (!looking_at(s, "}}"))
        return false;
    const size_t blanks = s->at += 2;
    skip_blanks(s);
    const size_t n = s->at - blanks;
    if (!looking_at(s, "{{"))
        return false;
    s->at += 2;
    if (!trims && !looking_at(s, "-"))
        add_opening(o, s->source + blanks, n);
    s->at += looking_at(s, "-");
    skip_blanks(s);
    return true;
}

/* Literals that follow at once, added with + or ~ or in tags of their own. Anything that must be executed ends the row. `inside`: of a tag
 * that has just begun, else behind a literal. */
static void follow_literals(scanner s, opening *o, bool inside)
{
    for (;; inside = false) {
        skip_blanks(&s);
        if (!inside) {
            if (looking_at(&s, "+") || looking_at(&s, "~")) {
                s.at++;
                skip_blanks(&s);
            } else if (!next_tag(&s, o)) {
                return;
            }
        }
        if (!looking_at(&s, "'") && !looking_at(&s, "\""))
            return;
        const char quote = s.source[s.at++];
        scan_literal(&s, quote);
        scanner behind = s;
        skip_blanks(&behind);
        if (!looking_at(&behind, "+") && !looking_at(&behind, "~") && !looking_at(&behind, "}}") && !looking_at(&behind, "-}}"))
            return; /* a condition, a filter */
        add_opening(o, s.chunk, s.n);
    }
}

/* The text that a tag, or the end of the template, stands behind, as Jinja leaves it with trim_blocks and lstrip_blocks. */
static size_t text_before_tag(const scanner *s, const char *text, size_t n)
{
    const bool at_end = s->at == s->size, strips = s->in_tag && looking_at(s, "-");
    if (at_end)
        return n && text[n - 1] == '\n' ? n - 1 : n;
    if (strips) {
        while (n && is_blank(text[n - 1]))
            n--;
        return n;
    }
    size_t line = n;
    while (line && (text[line - 1] == ' ' || text[line - 1] == '\t'))
        line--;
    const bool is_block = !s->in_tag || s->source[s->at - 1] == '%';
    return is_block && (!line || text[line - 1] == '\n') ? line : n;
}

/* If the chunk has the header of an answer: the answer's opening is what stands behind it. The last one counts, for earlier ones are of
 * answers in the conversation. */
static void take_opening(opening *o, const scanner *s, const char *header)
{
    const char *rest = NULL, *end = s->chunk + s->n;
    for (const char *p = s->chunk; (p = find(p, (size_t)(end - p), header)); rest = p)
        p += strlen(header);
    if (!rest)
        return;
    *o = (opening){.found = true, .fits = true};
    const size_t n = (size_t)(end - rest);
    add_opening(o, rest, s->literal ? n : text_before_tag(s, rest, n));
    if (s->literal) {
        follow_literals(*s, o, false);
    } else if (s->in_tag && s->at < s->size && s->source[s->at - 1] == '{') {
        scanner inside = *s;
        inside.at += looking_at(s, "-");
        follow_literals(inside, o, true);
    }
}

/* Reads what the template writes out. ChatML only if it opens the answer as ChatML does; Llama-3 templates may put the header together
 * from pieces. */
static void detect_writing(fr_chat_template *c, fr_chat_family family, const char *source, size_t size)
{
    const bool chatml = family == FR_CHAT_CHATML;
    scanner s = {.source = source, .size = size, .chunk = malloc(size)};
    opening o = {.fits = true};
    if (!s.chunk)
        return;
    while (scan(&s)) {
        if (chatml)
            take_default_system(c, s.chunk, s.n);
        take_opening(&o, &s, chatml ? "<|im_start|>assistant\n" : "<|start_header_id|>assistant<|end_header_id|>\n\n");
    }
    if (o.fits && (o.found || !chatml))
        c->family = family;
    memcpy(c->generation, o.text, o.n);
    free(s.chunk);
}

static bool has_trim(const char *source, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (source[i] != '|')
            continue;
        size_t at = i + 1;
        while (at < size && source[at] == ' ')
            at++;
        if (size - at >= 4 && !memcmp(source + at, "trim", 4))
            return true;
    }
    return false;
}

void fr_chat_detect(fr_chat_template *c, const char *source, size_t size, const fr_tokenizer *t)
{
    static const char *const chatml[] = {"<|im_start|>", "<|im_end|>"};
    static const char *const llama3[] = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
    bool has_chatml = has_tokens(t, chatml, 2), has_llama3 = has_tokens(t, llama3, 3);
    *c = (fr_chat_template){0};
    if (!source || !size) {
        c->family = has_llama3 ? FR_CHAT_LLAMA3 : has_chatml ? FR_CHAT_CHATML : FR_CHAT_NONE;
        c->trims = c->begins = has_llama3;
        return;
    }
    c->begins = find(source, size, "bos_token") || find(source, size, "<|begin_of_text|>");
    if (has_llama3 && find(source, size, "<|start_header_id|>") && find(source, size, "<|eot_id|>")) {
        detect_writing(c, FR_CHAT_LLAMA3, source, size);
        c->trims = has_trim(source, size);
        c->system_header = find(source, size, "Cutting Knowledge Date") != NULL;
    } else if (has_chatml) {
        detect_writing(c, FR_CHAT_CHATML, source, size);
    }
}

const char *fr_chat_name(fr_chat_family family)
{
    return family == FR_CHAT_CHATML ? "chatml" : family == FR_CHAT_LLAMA3 ? "llama3" : "";
}

/* --- encoding --------------------------------------------------------------------------------------------------- */

/* A prompt in the making. Text collects until the next special token, because the reference tokenises it in one go: the line
 * break of a header and one at the start of the content may be one token. */
typedef struct prompt {
    const fr_tokenizer *tokenizer;
    char *text;
    size_t size, capacity;
    uint32_t *ids;
    size_t n;
    bool failed; /* out of memory */
} prompt;

static void add_bytes(prompt *p, const char *bytes, size_t size)
{
    if (p->failed || size == 0)
        return;
    if (size > p->capacity - p->size) {
        size_t capacity = (p->size + size) * 2;
        char *text = capacity > size ? realloc(p->text, capacity) : NULL;
        if (!text) {
            p->failed = true;
            return;
        }
        p->text = text;
        p->capacity = capacity;
    }
    memcpy(p->text + p->size, bytes, size);
    p->size += size;
}

static void add_text(prompt *p, const char *text)
{
    add_bytes(p, text, strlen(text));
}

static void flush(prompt *p, bool special)
{
    if (!p->failed && !fr_tokenizer_encode(p->tokenizer, p->text, p->size, special, false, &p->ids, &p->n))
        p->failed = true;
    p->size = 0;
}

static void add_id(prompt *p, uint32_t id)
{
    flush(p, false);
    if (p->failed)
        return;
    uint32_t *ids = realloc(p->ids, (p->n + 1) * sizeof *ids);
    if (!ids) {
        p->failed = true;
        return;
    }
    p->ids = ids;
    p->ids[p->n++] = id;
}

static void add_special(prompt *p, const char *token)
{
    add_id(p, fr_tokenizer_id(p->tokenizer, token, strlen(token)));
}

/* Python's str.strip(), which is what Jinja's trim calls: white space, and the four separators of ASCII. */
static bool is_trimmed(uint32_t code)
{
    return fr_code_class(code) == FR_SPACE || (code >= 0x1c && code <= 0x1f);
}

static void add_trimmed(prompt *p, const char *text)
{
    const uint8_t *bytes = (const uint8_t *)text;
    size_t size = strlen(text), start = 0, end = 0;
    bool leading = true;
    for (size_t i = 0; i < size;) {
        uint32_t code;
        size_t n = fr_utf8_read(bytes + i, size - i, &code);
        if (!is_trimmed(code)) {
            start = leading ? i : start;
            end = i + n;
            leading = false;
        }
        i += n;
    }
    add_bytes(p, text + start, end - start);
}

static void encode_chatml(const fr_chat_template *c, const fr_message *messages, size_t n, prompt *p)
{
    const fr_message preset = {"system", c->default_system};
    bool add_preset = c->default_system[0] && strcmp(messages[0].role, "system") != 0;
    for (size_t i = 0; i < n + add_preset; i++) {
        const fr_message *m = !add_preset ? &messages[i] : i == 0 ? &preset : &messages[i - 1];
        add_special(p, "<|im_start|>");
        add_text(p, m->role);
        add_text(p, "\n");
        add_text(p, m->content);
        add_special(p, "<|im_end|>");
        add_text(p, "\n");
    }
    add_special(p, "<|im_start|>");
    add_text(p, "assistant\n");
    add_text(p, c->generation);
}

static void llama3_header(prompt *p, const char *role)
{
    add_special(p, "<|start_header_id|>");
    add_text(p, role);
    add_special(p, "<|end_header_id|>");
    add_text(p, "\n\n");
}

static void encode_llama3(const fr_chat_template *c, const fr_message *messages, size_t n, prompt *p)
{
    size_t first = 0;
    if (c->system_header) {
        llama3_header(p, "system");
        add_text(p,
                 "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"); /* its template's default where no clock is given */
        if (!strcmp(messages[0].role, "system"))
            add_trimmed(p, messages[first++].content);
        add_special(p, "<|eot_id|>");
    }
    for (size_t i = first; i < n; i++) {
        llama3_header(p, messages[i].role);
        if (c->trims)
            add_trimmed(p, messages[i].content);
        else
            add_text(p, messages[i].content);
        add_special(p, "<|eot_id|>");
    }
    llama3_header(p, "assistant");
    add_text(p, c->generation);
}

static fr_status check_messages(const fr_message *messages, size_t n, fr_error_text *e)
{
    if (n == 0)
        return fr_fail(e, FR_BAD_ARGUMENT, "chat: no messages; give at least one");
    for (size_t i = 0; i < n; i++) {
        const char *role = messages[i].role;
        if (!role || (strcmp(role, "system") && strcmp(role, "user") && strcmp(role, "assistant")))
            return fr_fail(e, FR_BAD_ARGUMENT, "chat: message %zu has the role \"%.40s\"; use system, user or assistant", i,
                           role ? role : "");
        if (!messages[i].content)
            return fr_fail(e, FR_BAD_ARGUMENT, "chat: message %zu has no content; use \"\" for none", i);
    }
    return FR_OK;
}

fr_status fr_chat_encode(const fr_chat_template *c, const fr_tokenizer *t, const fr_message *messages, size_t n, uint32_t **ids,
                         size_t *n_ids, fr_error_text *e)
{
    if (c->family == FR_CHAT_NONE)
        return fr_fail(e, FR_BAD_MODEL, "tokenizer.chat_template: neither ChatML nor Llama-3; give the prompt without a template (--raw)");
    fr_status status = check_messages(messages, n, e);
    if (status != FR_OK)
        return status;
    prompt p = {.tokenizer = t, .ids = *ids, .n = *n_ids};
    if (c->begins && fr_tokenizer_bos(t) != UINT32_MAX)
        add_id(&p, fr_tokenizer_bos(t));
    if (c->family == FR_CHAT_CHATML)
        encode_chatml(c, messages, n, &p);
    else
        encode_llama3(c, messages, n, &p);
    flush(&p, true); /* what is left was written by the template: the header of the answer and what it puts behind it */
    free(p.text);
    *ids = p.ids;
    if (p.failed)
        return fr_fail(e, FR_FAILED, "chat: out of memory; shorten the conversation");
    *n_ids = p.n;
    return FR_OK;
}
