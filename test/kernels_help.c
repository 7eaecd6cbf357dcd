#include "test/kernels_help.h"

#include "cli/host.h"
#include "test/test.h"

static void pump(void *host)
{
    fr_host_pump(host);
}

rig_host open_host(void)
{
    fr_error_text e = {0};
    fr_host *host = fr_host_open(NULL, &e);
    CHECK_MSG(host, "%s", e.text);
    return (rig_host){fr_host_device(host), pump, host};
}

void open_rig(rig *r, const rig_host *host, const rig_options *o)
{
    CHECK_MSG(rig_open(r, host, o), "%s", r->error.text);
}

void run_cases(const char *group)
{
    const rig_host host = open_host();
    uint32_t n = 0;
    for (const kernel_case *k = kernel_cases; k->name; k++) {
        fr_error_text e = {0};
        uint32_t dispatches;
        if (strncmp(k->name, group, strlen(group)))
            continue;
        CHECK_MSG(kernel_case_run(&host, k, &dispatches, &e), "%s", e.text);
        printf("  %s: %u dispatches\n", k->name, dispatches);
        n += dispatches;
    }
    CHECK(n > 0);
    fr_host_close(host.user);
}

/* ---- what a node leaves ---- */

typedef struct area {
    bool work;
    uint32_t at, size; /* vec4, of the first node; words of a node */
} area;

void take_node(const rig *r, rig_snapshot *s, uint32_t node, uint32_t *out)
{
    const fr_config *c = r->config;
    const uint32_t heads = c->n_heads * c->head_dim;
    const area areas[] = {
        {true, r->shape->x_at, c->dim},
        {false, r->shape->act_x, c->dim / FR_BLOCK * 4 * FR_ACT_FINE},
        {false, r->shape->act_a, heads / FR_BLOCK * 4 * FR_ACT},
        {false, r->shape->act_h, c->ffn_dim / FR_BLOCK * 4 * FR_ACT},
        {true, r->shape->q_at, heads},
    };
    for (size_t i = 0; i < sizeof areas / sizeof *areas; i++) {
        const area *a = &areas[i];
        memcpy(out, rig_part(r, s, a->work ? REF_WORK : REF_ACT) + 4 * (size_t)a->at + (size_t)node * a->size, 4 * (size_t)a->size);
        out += a->size;
    }
}

size_t words_per_node(const rig *r)
{
    const fr_config *c = r->config;
    return c->dim + c->dim / FR_BLOCK * 4 * FR_ACT_FINE + (size_t)c->n_heads * c->head_dim / 32 * 44 + c->ffn_dim / 32 * 12;
}
