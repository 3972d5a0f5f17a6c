/* A trie whose edges (node, value) -> node lie in one hash table with open addressing. Comparison
 * is of the edge itself, so equal numbers mean equal sequences, for any hash function. */
#include "sim/fold/trie.h"

#include "shared/base/arena.h"

struct sim_trie_edge {
    int64_t node, value, to; /* to 0: empty place (nothing leads back to the root) */
};

static struct sim_trie_edge *place_of(struct sim_trie_edge *edges, int64_t capacity, int64_t node,
                                      int64_t value)
{
    uint64_t mask = (uint64_t)capacity - 1;
    uint64_t h = ((uint64_t)node * UINT64_C(0x9e3779b97f4a7c15)) ^
                 ((uint64_t)value * UINT64_C(0xbf58476d1ce4e5b9));
    uint64_t i = (h ^ h >> 32) & mask;

    while (edges[i].to != 0 && (edges[i].node != node || edges[i].value != value))
        i = (i + 1) & mask;
    return &edges[i];
}

static int grow(struct sim_trie *t)
{
    int64_t capacity = t->capacity > 0 ? 2 * t->capacity : 256;
    struct sim_trie_edge *edges = lw_calloc((size_t)capacity, sizeof *edges);

    if (!edges)
        return -1;
    for (int64_t i = 0; i < t->capacity; i++)
        if (t->edges[i].to != 0)
            *place_of(edges, capacity, t->edges[i].node, t->edges[i].value) = t->edges[i];
    lw_free(t->edges);
    t->edges = edges;
    t->capacity = capacity;
    return 0;
}

int64_t sim_trie_next(struct sim_trie *t, int64_t node, int64_t value)
{
    if (t->failed || (2 * (t->n + 1) > t->capacity && grow(t) != 0)) {
        t->failed = true;
        return 0;
    }
    struct sim_trie_edge *x = place_of(t->edges, t->capacity, node, value);
    if (x->to == 0)
        *x = (struct sim_trie_edge){node, value, ++t->n};
    return x->to;
}

int64_t sim_trie_path(struct sim_trie *t, int64_t node, const int64_t *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        node = sim_trie_next(t, node, values[i]);
    return node;
}

void sim_trie_free(struct sim_trie *t)
{
    lw_free(t->edges);
    *t = (struct sim_trie){0};
}
