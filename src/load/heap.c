#include "load/heap.h"

#include <stdlib.h>

static void count(load_heap *h, size_t more)
{
    h->now += more;
    if (h->now > h->peak)
        h->peak = h->now;
}

void *heap_alloc(load_heap *h, size_t size)
{
    void *block = calloc(size ? size : 1, 1);
    if (block)
        count(h, size);
    return block;
}

void *heap_grow(load_heap *h, void *block, size_t old_size, size_t new_size)
{
    void *grown = realloc(block, new_size);
    if (grown) {
        count(h, new_size);
        h->now -= old_size;
    }
    return grown;
}

void heap_free(load_heap *h, void *block, size_t size)
{
    if (!block)
        return;
    free(block);
    h->now -= size;
}
