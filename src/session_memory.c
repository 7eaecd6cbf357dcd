/* session_memory.c: session memory in the engine. spec/memory.h is the store; here is when it is written, what of it is on the device, and
 * the functions of forerun.h. Whatever fails here costs drafts, never an answer. */
#include <stdlib.h>
#include <string.h>

#include "session.h"

fr_status fr_recall_open(fr_engine *e, fr_error_text *error)
{
    return fr_memory_open(&e->recall.memory, FR_MEMORY_TOKENS, error);
}

void fr_recall_close(fr_engine *e)
{
    fr_memory_close(&e->recall.memory);
    free(e->recall.copy);
}

/* ---- around a request ---- */

static uint32_t count_tokens(const uint32_t *words, uint32_t n)
{
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < n; i++)
        tokens += words[i] != FR_DRAFT_BREAK;
    return tokens;
}

uint32_t fr_recall_begin(fr_engine *e)
{
    fr_recall *r = &e->recall;
    fr_run *run = &e->run;
    if ((run->mode != FR_MODE_TREE && run->mode != FR_MODE_ADAPTIVE) || run->scope == FR_SCOPE_NONE)
        return 0;
    const uint64_t only = run->scope == FR_SCOPE_CONVERSATION ? run->conversation : FR_MEMORY_EVERY;
    if (!r->current || r->only != only) {
        uint32_t *words = r->copy ? r->copy : malloc(sizeof *words * FR_MEMORY_TOKENS);
        if (!words)
            return 0; /* no drafts from memory this time */
        r->copy = words;
        r->memory.only = r->only = only;
        r->words = fr_memory_view(&r->memory, words);
        r->tokens = count_tokens(words, r->words);
        r->current = true;
        r->written = r->words > r->written ? r->words : r->written;
        fr_forward_set_memory(e->forward, words, r->words);
    }
    run->searched = r->tokens;
    return r->words;
}

void fr_recall_end(fr_engine *e)
{
    const fr_run *run = &e->run;
    fr_error_text ignored = {0};
    if (run->task != FR_TASK_GENERATE || run->finish == FR_FINISH_ERROR || run->scope == FR_SCOPE_NONE || !run->shown)
        return;
    fr_memory_add(&e->recall.memory, run->conversation, e->history, run->prompt, e->history + run->prompt, run->shown, &ignored);
    e->recall.current = false;
}

/* ---- the API ---- */

void fr_set_memory(fr_engine *e, bool on)
{
    e->recall.memory.off = !on;
    e->recall.current = false;
}

/* The device's copy goes too. A request in flight then drafts zeros out of it. */
static void wipe_device(fr_engine *e)
{
    fr_recall *r = &e->recall;
    uint32_t *zeros = r->written && e->state != FR_STATE_FAILED ? calloc(r->written, sizeof *zeros) : NULL;
    if (zeros) {
        fr_forward_set_memory(e->forward, zeros, r->written);
        r->written = 0;
    }
    free(zeros);
    free(r->copy);
    r->copy = NULL;
    r->current = false;
}

void fr_clear_memory(fr_engine *e)
{
    fr_memory_clear(&e->recall.memory, FR_MEMORY_EVERY);
    wipe_device(e);
}

void fr_clear_conversation(fr_engine *e, uint64_t conversation)
{
    fr_memory_clear(&e->recall.memory, conversation ? conversation : FR_RECALL_DEFAULT);
    wipe_device(e);
}

uint64_t fr_conversation(const char *name)
{
    const uint64_t hash = name && *name ? fr_memory_hash(FR_MEMORY_HASH, name, strlen(name)) : 0;
    return !name || !*name || hash ? hash : 1;
}

/* Of all tokens, their bytes and whether they are text: the same ids mean the same under the same fingerprint. */
static bool find_fingerprint(fr_engine *e)
{
    fr_recall *r = &e->recall;
    if (!fr_engine_has_vocabulary(e))
        return false;
    const uint32_t n = r->fingerprint ? 0 : fr_tokenizer_size(e->tokenizer);
    uint64_t hash = FR_MEMORY_HASH;
    for (uint32_t id = 0; id < n; id++) {
        size_t size, as_text;
        fr_tokenizer_bytes(e->tokenizer, id, false, &as_text);
        const char *bytes = fr_tokenizer_bytes(e->tokenizer, id, true, &size);
        const uint8_t head[] = {(uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16), as_text == size};
        hash = fr_memory_hash(fr_memory_hash(hash, head, sizeof head), bytes, size);
    }
    if (n)
        r->fingerprint = hash ? hash : 1;
    return true;
}

size_t fr_save_memory(fr_engine *e, void *bytes, size_t room)
{
    return find_fingerprint(e) ? fr_memory_save(&e->recall.memory, e->recall.fingerprint, bytes, room) : 0;
}

fr_status fr_load_memory(fr_engine *e, const void *bytes, size_t size, const char *name)
{
    fr_error_text error = {0};
    if (!find_fingerprint(e))
        return e->error.status;
    if (fr_memory_load(&e->recall.memory, e->recall.fingerprint, e->config->vocab, bytes, size, name ? name : "the saved memory", &error) !=
        FR_OK)
        return fr_engine_refuse(e, error.status, error.text);
    e->recall.current = false;
    return FR_OK;
}
