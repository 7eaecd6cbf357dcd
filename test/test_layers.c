/* test_layers.c: all layers of a step in one dispatch (layers.wgsl) against the kernels it stands for, bit for bit. On a CPU adapter with
 * one workgroup, since there no others run at the same time; what is lost then is session_whole's matter. On default limits
 * there, where the hidden layer's activations come for fewer than eight nodes at a time; the self-test on a GPU has a case of
 * that with 8-bit weights. */
#include "cli/host.h"
#include "test/kernels_help.h"
#include "test/test.h"

static void same_bits(const char *name)
{
    const rig_host host = open_host();
    const kernel_case *k = kernel_cases;
    uint32_t nodes = 0;
    rig r;
    while (strcmp(k->name, name))
        k++;
    rig_options options = k->options;
    options.portable = host.device->is_cpu;
    open_rig(&r, &host, &options);
    CHECK_MSG(kernel_case_bits(&r, &nodes), "%s", r.error.text);
    printf("  %u nodes as by decoding\n", nodes);
    CHECK(nodes > 15);
    rig_close(&r);
    fr_host_close(host.user);
}

static void q4_1(void)
{
    same_bits("layers.q4_1");
}

static void q4_0(void)
{
    same_bits("layers.q4_0");
}

const fr_test layers_tests[] = {
    {"layers.q4_1", "one token and trees of 2 to 8 nodes leave the bits of decoding; heads of 64 dimensions, short leaves", q4_1},
    {"layers.q4_0", "the same with biases, heads of 96 dimensions, and hidden rows that few threads share", q4_0},
    {0},
};
