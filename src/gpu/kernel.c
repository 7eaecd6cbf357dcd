#include "gpu/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels_gen.h"

static void append(fr_kernel *k, const char *s, size_t n)
{
    if (k->size + n + 1 > k->room) {
        const size_t room = (k->size + n + 1) * 2;
        char *text = k->text ? realloc(k->text, room) : NULL;
        if (!text) {
            free(k->text);
            k->text = NULL;
            return;
        }
        k->text = text;
        k->room = room;
    }
    memcpy(k->text + k->size, s, n);
    k->size += n;
    k->text[k->size] = 0;
}

void fr_kernel_begin(fr_kernel *k, bool subgroups)
{
    enum { ROOM = 16384 };
    *k = (fr_kernel){.text = malloc(ROOM), .room = ROOM};
    if (!k->text)
        return;
    k->text[0] = 0;
    if (subgroups) {
        static const char enable[] = "enable subgroups;\ndiagnostic(off, subgroup_uniformity);\n";
        append(k, enable, sizeof enable - 1);
    }
    fr_kernel_u32(k, "RING", FR_RING);
    fr_kernel_u32(k, "STATS", FR_STATS);
    fr_kernel_u32(k, "END_TOKEN", FR_RUN_END);
    fr_kernel_u32(k, "LIMIT", FR_RUN_LIMIT);
    fr_kernel_u32(k, "NOT_FINITE", FR_RUN_NOT_FINITE);
    fr_kernel_u32(k, "LOST", FR_RUN_LOST);
}

static void constant(fr_kernel *k, const char *name, const char *value)
{
    char line[128];
    const int n = snprintf(line, sizeof line, "const %s = %s;\n", name, value);
    append(k, line, (size_t)n);
}

void fr_kernel_u32(fr_kernel *k, const char *name, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "%uu", (unsigned)value);
    constant(k, name, text);
}

void fr_kernel_bool(fr_kernel *k, const char *name, bool value)
{
    constant(k, name, value ? "true" : "false");
}

void fr_kernel_f32(fr_kernel *k, const char *name, float value)
{
    char text[48];
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    snprintf(text, sizeof text, "bitcast<f32>(0x%08xu)", (unsigned)bits);
    constant(k, name, text);
}

void fr_kernel_piece(fr_kernel *k, const char *name)
{
    for (size_t i = 0; i < fr_kernel_sources_count; i++)
        if (!strcmp(fr_kernel_sources[i].name, name)) {
            append(k, fr_kernel_sources[i].text, strlen(fr_kernel_sources[i].text));
            return;
        }
    append(k, "missing kernel piece ", 21); /* a programming error: the compiler's message will show the name */
    append(k, name, strlen(name));
}

fr_pipeline *fr_kernel_build(fr_kernel *k, fr_gpu *g, const char *entry, fr_layout layout)
{
    fr_kernel_piece(k, entry);
    fr_pipeline *p = k->text ? fr_gpu_pipeline(g, entry, k->text, layout) : NULL;
    free(k->text);
    *k = (fr_kernel){0};
    return p;
}
