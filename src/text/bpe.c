#include "text/bpe.h"

#include <stdlib.h>

/* A piece is a doubly linked list of symbols, at first one a byte. A merge widens the left symbol and unlinks the right one.
 * A heap holds the merges that may apply as rank << 32 | left symbol, so that its order is the order of merging. An entry
 * whose symbol has another neighbour by now is recognised by the symbol's rank, and skipped. */
struct fr_symbol {
    uint32_t id;
    uint32_t prev, next; /* END at the ends */
    uint32_t rank;       /* of the merge with `next`; NO_RANK: there is none, or the symbol is unlinked */
};
#define END UINT32_MAX
#define NO_RANK UINT32_MAX

bool fr_ids_push(fr_ids *a, uint32_t id)
{
    if (a->n == a->capacity) {
        size_t capacity = a->capacity + a->capacity / 2 + 64;
        if (capacity > SIZE_MAX / sizeof *a->ids)
            return false;
        uint32_t *ids = realloc(a->ids, capacity * sizeof *ids);
        if (!ids)
            return false;
        a->ids = ids;
        a->capacity = capacity;
    }
    a->ids[a->n++] = id;
    return true;
}

void fr_bpe_free(fr_bpe *b)
{
    free(b->symbols);
    free(b->heap);
    *b = (fr_bpe){0};
}

static bool reserve(fr_bpe *b, size_t size)
{
    if (size <= b->capacity)
        return true;
    if (size >= END || size > SIZE_MAX / sizeof(struct fr_symbol) / 2)
        return false;
    size += size / 2;
    fr_bpe_free(b);
    b->symbols = malloc(size * sizeof *b->symbols);
    b->heap = malloc(2 * size * sizeof *b->heap); /* a pair of neighbours at the start, and two for each merge less the one taken out */
    b->capacity = b->symbols && b->heap ? size : 0;
    return b->capacity > 0;
}

/* --- a heap with four children a node: half the levels, and the children share a cache line ------------------------- */

static void sift_up(uint64_t *heap, size_t at)
{
    uint64_t entry = heap[at];
    for (size_t parent; at > 0 && heap[parent = (at - 1) / 4] > entry; at = parent)
        heap[at] = heap[parent];
    heap[at] = entry;
}

static void sift_down(uint64_t *heap, size_t n, size_t at)
{
    uint64_t entry = heap[at];
    for (size_t first; (first = 4 * at + 1) < n;) {
        size_t least = first, end = first + 4 < n ? first + 4 : n;
        for (size_t child = first + 1; child < end; child++)
            if (heap[child] < heap[least])
                least = child;
        if (heap[least] >= entry)
            break;
        heap[at] = heap[least];
        at = least;
    }
    heap[at] = entry;
}

/* --- merging ---------------------------------------------------------------------------------------------------- */

/* Looks up the merge of the symbol with its neighbour; true if there is one. */
static bool rank_symbol(const fr_vocab *v, struct fr_symbol *symbols, uint32_t at)
{
    struct fr_symbol *s = &symbols[at];
    s->rank = s->next == END ? NO_RANK : fr_vocab_rank(v, s->id, symbols[s->next].id);
    return s->rank != NO_RANK;
}

static uint64_t entry_of(const struct fr_symbol *symbols, uint32_t at)
{
    return (uint64_t)symbols[at].rank << 32 | at;
}

/* The bytes of the piece as a list; returns its length. */
static uint32_t link_bytes(const fr_vocab *v, struct fr_symbol *symbols, const uint8_t *piece, size_t size)
{
    uint32_t n = 0;
    for (size_t i = 0; i < size; i++) {
        uint32_t id = v->byte_tokens[piece[i]];
        if (id == FR_NO_TOKEN)
            continue;
        symbols[n] = (struct fr_symbol){id, n - 1 /* END for the first */, n + 1, NO_RANK};
        n++;
    }
    if (n)
        symbols[n - 1].next = END;
    return n;
}

static void merge_all(const fr_vocab *v, struct fr_symbol *symbols, uint32_t n_symbols, uint64_t *heap)
{
    size_t n = 0;
    for (uint32_t at = 0; at < n_symbols; at++)
        if (rank_symbol(v, symbols, at))
            heap[n++] = entry_of(symbols, at);
    for (size_t at = n / 4 + 1; at-- > 0;)
        if (at < n)
            sift_down(heap, n, at);
    while (n > 0) {
        uint32_t rank = (uint32_t)(heap[0] >> 32), left = (uint32_t)heap[0];
        heap[0] = heap[--n];
        if (n)
            sift_down(heap, n, 0);
        struct fr_symbol *s = &symbols[left];
        if (s->rank != rank)
            continue;
        struct fr_symbol *gone = &symbols[s->next];
        s->id = v->merges[rank].result;
        s->next = gone->next;
        gone->rank = NO_RANK;
        if (s->next != END)
            symbols[s->next].prev = left;
        if (rank_symbol(v, symbols, left)) {
            heap[n] = entry_of(symbols, left);
            sift_up(heap, n++);
        }
        if (s->prev != END && rank_symbol(v, symbols, s->prev)) {
            heap[n] = entry_of(symbols, s->prev);
            sift_up(heap, n++);
        }
    }
}

bool fr_bpe_encode(fr_bpe *b, const fr_vocab *v, const uint8_t *piece, size_t size, fr_ids *ids)
{
    if (!reserve(b, size))
        return false;
    uint32_t n = link_bytes(v, b->symbols, piece, size);
    merge_all(v, b->symbols, n, b->heap);
    for (uint32_t at = 0; n > 0 && at != END; at = b->symbols[at].next)
        if (!fr_ids_push(ids, b->symbols[at].id))
            return false;
    return true;
}
