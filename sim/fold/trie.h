#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers for sequences of whole numbers: two sequences have the same number if and only if they
 * are equal. A sequence is a path from the root, node 0; numbers count up in the order in which
 * they were first requested. A zeroed trie is a valid one that holds the root alone. */
struct sim_trie {
    struct sim_trie_edge *edges;
    int64_t capacity; /* a power of two, or 0 */
    int64_t n;        /* edges = nodes besides the root */
    bool failed;      /* memory ran out: answers since then are 0 */
};

/* The node after `node` for one more number of the sequence, and for n more. */
int64_t sim_trie_next(struct sim_trie *t, int64_t node, int64_t value);
int64_t sim_trie_path(struct sim_trie *t, int64_t node, const int64_t *values, size_t n);
#define SIM_TRIE_PATH(t, node, ...)                                                                \
    sim_trie_path(t, node, (const int64_t[]){__VA_ARGS__},                                         \
                  sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
void sim_trie_free(struct sim_trie *t);
