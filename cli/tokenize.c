/* tokenize.c: forerun tokenize. */
#include <stdlib.h>

#include "cli/file.h"
#include "cli/json.h"
#include "cli/verbs.h"

static void print_lines(const fr_tokenizer *tokenizer, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t size;
        const char *bytes = fr_tokenizer_bytes(tokenizer, ids[i], true, &size);
        fr_json j = {stdout, false};
        printf("%u\t", ids[i]);
        fr_json_bytes(&j, NULL, bytes, size); /* in quotes, with escapes: spaces and line ends are visible */
        putchar('\n');
    }
}

static void print_json(const fr_tokenizer *tokenizer, const uint32_t *ids, size_t n)
{
    fr_json j = {stdout, false};
    fr_json_open(&j, NULL, '{');
    fr_json_open(&j, "ids", '[');
    for (size_t i = 0; i < n; i++)
        fr_json_count(&j, NULL, ids[i]);
    fr_json_close(&j, ']');
    fr_json_open(&j, "pieces", '[');
    for (size_t i = 0; i < n; i++) {
        size_t size;
        const char *bytes = fr_tokenizer_bytes(tokenizer, ids[i], true, &size);
        fr_json_bytes(&j, NULL, bytes, size);
    }
    fr_json_close(&j, ']');
    fr_json_close(&j, '}');
    putchar('\n');
}

static fr_status tokenize(const char *path, const fr_text *text, bool special, bool json, fr_error_text *err)
{
    fr_file file;
    fr_status status = fr_file_open(&file, path, err);
    if (status != FR_OK)
        return status;
    fr_tokenizer *tokenizer = fr_file_tokenizer(&file, err);
    fr_file_close(&file);
    if (!tokenizer)
        return err->status;
    uint32_t *ids = NULL;
    size_t n = 0;
    if (!fr_tokenizer_encode(tokenizer, text->data, text->size, special, true, &ids, &n))
        status = fr_fail(err, FR_FAILED, "out of memory for a text of %zu bytes", text->size);
    else if (json)
        print_json(tokenizer, ids, n);
    else
        print_lines(tokenizer, ids, n);
    free(ids);
    fr_tokenizer_free(tokenizer);
    return status;
}

fr_status fr_verb_tokenize(const fr_verb *verb, int argc, char **argv, fr_error_text *err)
{
    const char *model, *prompt = NULL, *file = NULL;
    bool special = false, json = false;
    const fr_arg table[] = {
        {FR_ARG_TEXT, "-p", "TEXT", "the text", &prompt, 0, 0},
        {FR_ARG_TEXT, "-f", "FILE", "the text from a file (- for standard input)", &file, 0, 0},
        {FR_ARG_FLAG, "--special", NULL, "special tokens written out in the text count", &special, 0, 0},
        {FR_ARG_FLAG, "--json", NULL, "one JSON object: {\"ids\", \"pieces\"}", &json, 0, 0},
        {0},
    };
    fr_args_result result = fr_args_parse(verb, table, argc, argv, &model, err);
    if (result != FR_ARGS_GO)
        return result == FR_ARGS_HELP ? FR_OK : err->status;
    if (!model)
        return fr_fail(err, FR_BAD_ARGUMENT, "tokenize needs a model: forerun tokenize MODEL -p TEXT");
    fr_text text = {0};
    fr_status status = fr_text_prompt(&text, prompt, file, err);
    if (status == FR_OK)
        status = tokenize(model, &text, special, json, err);
    fr_text_free(&text);
    return status;
}
