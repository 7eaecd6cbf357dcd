/* heap.h: malloc with a count, so that the loader can say (and a test can hold it to) how much memory it took. Sizes are given back
 * by the caller, which keeps blocks free of headers. */
#ifndef FR_LOAD_HEAP_H
#define FR_LOAD_HEAP_H

#include <stddef.h>

typedef struct load_heap {
    size_t now, peak; /* bytes */
} load_heap;

/* Zeroed. NULL: out of memory. */
void *heap_alloc(load_heap *, size_t size);
/* Grows a block, contents kept, the new part undefined; while it is copied both count. NULL: out of memory, the old block stays. */
void *heap_grow(load_heap *, void *block, size_t old_size, size_t new_size);
void heap_free(load_heap *, void *block, size_t size); /* NULL is fine */

#endif
