#include "spec/match.h"

/* At `place` of a run of tokens, how many before it equal the last ones of the text. */
static uint32_t match_at(const uint32_t *run, uint32_t place, const uint32_t *tokens, uint32_t n)
{
    uint32_t m = 0;
    while (m < FR_DRAFT_ORDERS && m < place && m < n && run[place - 1 - m] == tokens[n - 1 - m])
        m++;
    return m;
}

uint32_t fr_match_longest(const uint32_t *tokens, uint32_t n, const uint32_t *memory, uint32_t n_memory)
{
    const uint32_t last = tokens[n - 1];
    uint32_t longest = 0;
    for (uint32_t place = n - 1; place > 0 && longest < FR_DRAFT_ORDERS; place--)
        if (tokens[place - 1] == last) {
            const uint32_t m = match_at(tokens, place, tokens, n);
            longest = m > longest ? m : longest;
        }
    for (uint32_t place = 1; place < n_memory && longest < FR_DRAFT_ORDERS; place++) /* at the end nothing follows */
        if (memory[place - 1] == last && memory[place] != FR_DRAFT_BREAK) {
            const uint32_t m = match_at(memory, place, tokens, n);
            longest = m > longest ? m : longest;
        }
    return longest;
}
