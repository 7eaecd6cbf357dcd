/* info.c: forerun info. Each fact is written by one function, as a line for people or a member of a JSON object. */
#include <inttypes.h>
#include <string.h>

#include "base/line.h"
#include "cli/adapter.h"
#include "cli/file.h"
#include "cli/json.h"
#include "cli/verbs.h"
#include "text/chat.h"

typedef struct page {
    bool json;
    fr_json j;
} page;

static void heading(page *p, const char *name)
{
    if (p->json)
        fr_json_open(&p->j, name, '{');
    else
        printf("%s\n", name);
}

static void close_heading(page *p)
{
    if (p->json)
        fr_json_close(&p->j, '}');
}

static void text_fact(page *p, const char *name, const char *text, size_t size)
{
    char line[1024]; /* a file may hold anything, such as what makes a terminal do things */
    if (p->json) {
        fr_json_bytes(&p->j, name, text, size);
    } else {
        fr_line_copy(line, sizeof line, text, size);
        printf("  %-34s %s\n", name, line);
    }
}

static void count_fact(page *p, const char *name, uint64_t value)
{
    if (p->json)
        fr_json_count(&p->j, name, value);
    else
        printf("  %-34s %" PRIu64 "\n", name, value);
}

static void number_fact(page *p, const char *name, double value)
{
    if (p->json)
        fr_json_number(&p->j, name, value);
    else
        printf("  %-34s %g\n", name, value);
}

static void bool_fact(page *p, const char *name, bool value)
{
    if (p->json)
        fr_json_bool(&p->j, name, value);
    else
        printf("  %-34s %s\n", name, value ? "yes" : "no");
}

static void string_fact(page *p, const char *name, const gguf_meta *meta, const char *key)
{
    gguf_string s;
    if (gguf_str(meta, key, &s))
        text_fact(p, name, s.data, s.size);
}

static void print_config(page *p, const fr_config *c)
{
    text_fact(p, "architecture", c->architecture, strlen(c->architecture));
    count_fact(p, "layers", c->n_layers);
    count_fact(p, "dim", c->dim);
    count_fact(p, "heads", c->n_heads);
    count_fact(p, "kv_heads", c->n_kv_heads);
    count_fact(p, "head_dim", c->head_dim);
    count_fact(p, "ffn_dim", c->ffn_dim);
    count_fact(p, "vocabulary", c->vocab);
    count_fact(p, "train_context", c->train_context);
    number_fact(p, "rope_base", (double)c->rope_base);
    bool_fact(p, "qkv_bias", c->qkv_bias);
    bool_fact(p, "tied_head", c->tied_head);
}

static void print_sizes(page *p, const fr_file *f)
{
    const fr_weights *w = fr_loader_weights(f->loader);
    const char *types = fr_loader_types(f->loader);
    uint64_t device = w->vector_bytes;
    for (uint32_t i = 0; i < w->n_pools; i++)
        device += w->pools[i].code_bytes + w->pools[i].scale_bytes;
    text_fact(p, "types", types, strlen(types));
    count_fact(p, "parameters", w->parameters);
    count_fact(p, "file_bytes", fr_loader_expected_bytes(f->loader));
    count_fact(p, "device_bytes", device); /* weights alone */
    count_fact(p, "bytes_per_step", w->matrix_bytes);
}

static void print_model(page *p, const fr_file *f, const fr_tokenizer *tokenizer)
{
    const gguf_meta *meta = fr_loader_meta(f->loader);
    gguf_string source = {NULL, 0};
    fr_chat_template chat;
    gguf_str(meta, "tokenizer.chat_template", &source);
    fr_chat_detect(&chat, source.data, source.size, tokenizer);
    const char *pre = fr_tokenizer_pre(tokenizer), *family = fr_chat_name(chat.family);

    heading(p, "model");
    string_fact(p, "name", meta, "general.name");
    print_config(p, fr_loader_config(f->loader));
    print_sizes(p, f);
    text_fact(p, "tokenizer", pre, strlen(pre));
    text_fact(p, "template", family, strlen(family));
    string_fact(p, "licence", meta, "general.license");
    close_heading(p);
}

static void print_adapter(page *p, const fr_host *host)
{
    const fr_device *d = fr_host_device(host);
    fr_limit limits[FR_LIMITS];
    heading(p, "adapter");
    text_fact(p, "name", d->name, strlen(d->name));
    bool_fact(p, "software", d->is_cpu);
    bool_fact(p, "subgroups", d->has_subgroups);
    count_fact(p, "subgroup_min", d->subgroup_min);
    count_fact(p, "subgroup_max", d->subgroup_max);
    if (fr_adapter_limits(host, limits))
        for (int i = 0; i < FR_LIMITS; i++)
            count_fact(p, limits[i].name, limits[i].value);
    close_heading(p);
}

/* `f` and `tokenizer` may be NULL. With a file to describe, a machine without a GPU is a fact and no failure. */
static fr_status print_all(page *p, const fr_file *f, const fr_tokenizer *tokenizer, const char *adapter, fr_error_text *err)
{
    fr_error_text gpu = {0};
    fr_host *host = fr_host_open(adapter, &gpu);
    if (!host && (!f || adapter))
        return fr_fail(err, gpu.status, "%s", gpu.text);
    if (p->json)
        fr_json_open(&p->j, NULL, '{');
    if (f)
        print_model(p, f, tokenizer);
    if (host) {
        print_adapter(p, host);
    } else {
        heading(p, "adapter");
        text_fact(p, "error", gpu.text, strlen(gpu.text));
        close_heading(p);
    }
    if (p->json) {
        fr_json_close(&p->j, '}');
        putchar('\n');
    }
    fr_host_close(host);
    return FR_OK;
}

/* A file whose tokenizer `run` would refuse is refused here too. */
static fr_status describe(page *p, const char *model, const char *adapter, fr_error_text *err)
{
    fr_file file;
    fr_status status = fr_file_open(&file, model, err);
    if (status != FR_OK)
        return status;
    fr_tokenizer *tokenizer = fr_file_tokenizer(&file, err);
    status = tokenizer ? print_all(p, &file, tokenizer, adapter, err) : err->status;
    fr_tokenizer_free(tokenizer);
    fr_file_close(&file);
    return status;
}

fr_status fr_verb_info(const fr_verb *verb, int argc, char **argv, fr_error_text *err)
{
    const char *model, *adapter = NULL;
    page p = {false, {stdout, false}};
    const fr_arg table[] = {
        {FR_ARG_TEXT, "--adapter", "NAME", "a GPU whose name contains this, or cpu", &adapter, 0, 0},
        {FR_ARG_FLAG, "--json", NULL, "one JSON object: {\"model\", \"adapter\"}", &p.json, 0, 0},
        {0},
    };
    fr_args_result result = fr_args_parse(verb, table, argc, argv, &model, err);
    if (result != FR_ARGS_GO)
        return result == FR_ARGS_HELP ? FR_OK : err->status;
    return model ? describe(&p, model, adapter, err) : print_all(&p, NULL, NULL, adapter, err);
}
