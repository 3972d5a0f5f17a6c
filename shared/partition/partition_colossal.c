/* ColossalAI's balanced partition (colossalai/builder/pipeline.py@96780e6).
 *
 * 1. Prefix sums in which a weight of 0 counts 1. Bisect, in whole numbers, the largest block:
 *    between the largest weight as given and the total; a value passes when greedy filling from the
 *    left, cutting before the item that would exceed it, makes at most as many blocks as parts.
 * 2. Fill with the final value. While blocks are missing, take the heaviest (ties: the one that
 *    begins first) and cut it where the difference between its halves is smallest (first such
 *    place); a block of one item is set aside and counts for nothing.
 * 3. Blocks in order of their begin go to the stages in turn.
 *
 * Kept as it is, because it is the reference system's: the search's lower bound uses the weights as
 * given while blocks are measured with 1 for 0; greedy filling leaves the last block light; the
 * cost is elements, not time. lw_partition_exact is the improved policy. */
#include "shared/base/sort.h"
#include "shared/partition/partition.h"
#include "shared/numbers/order.h"

#include <stdlib.h>

struct block {
    int64_t weight;
    int32_t begin, end;
};

struct blocks { /* a heap, heaviest on top */
    struct block *at;
    int32_t n;
};

static int64_t weight_of(const int64_t *prefix, int32_t begin, int32_t end)
{
    return prefix[end] - prefix[begin];
}

/* Greedy filling; begins[] (may be NULL) receives where each block begins. */
static int32_t fill_greedily(const int64_t *prefix, int32_t n, int64_t value, int32_t *begins)
{
    int32_t n_blocks = 1, begin = 0;

    if (begins)
        begins[0] = 0;
    for (int32_t i = 0; i < n; i++)
        if (weight_of(prefix, begin, i + 1) > value) {
            begin = i;
            if (begins)
                begins[n_blocks] = i;
            n_blocks++;
        }
    return n_blocks;
}

static int64_t search_value(const int64_t *prefix, const int64_t *weights, int32_t n,
                            int32_t n_parts)
{
    int64_t low = 0, high = prefix[n];

    for (int32_t i = 0; i < n; i++)
        low = weights[i] > low ? weights[i] : low;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (fill_greedily(prefix, n, mid, NULL) <= n_parts)
            high = mid;
        else
            low = mid + 1;
    }
    return high;
}

static bool before(const struct block *a, const struct block *b)
{
    return a->weight != b->weight ? a->weight > b->weight : a->begin < b->begin;
}

static void heap_push(struct blocks *h, struct block b)
{
    int32_t i = h->n++;

    for (; i > 0 && before(&b, &h->at[(i - 1) / 2]); i = (i - 1) / 2)
        h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = b;
}

static struct block heap_pop(struct blocks *h)
{
    struct block top = h->at[0], last = h->at[--h->n];
    int32_t i = 0;

    for (;;) {
        int32_t child = 2 * i + 1;
        if (child + 1 < h->n && before(&h->at[child + 1], &h->at[child]))
            child++;
        if (child >= h->n || !before(&h->at[child], &last))
            break;
        h->at[i] = h->at[child];
        i = child;
    }
    h->at[i] = last;
    return top;
}

static int32_t halving_place(const int64_t *prefix, const struct block *b)
{
    int64_t best = INT64_MAX;
    int32_t place = b->begin + 1;

    for (int32_t i = b->begin + 1; i < b->end; i++) {
        int64_t left = weight_of(prefix, b->begin, i), right = b->weight - left;
        int64_t difference = left > right ? left - right : right - left;
        if (difference < best) {
            best = difference;
            place = i;
        }
    }
    return place;
}

/* Halve blocks until there are n_parts; there are more items than parts, so there is always one to
 * halve. done[] collects what was set aside, then the rest. */
static void halve_heaviest(const int64_t *prefix, struct blocks *heap, struct blocks *done,
                           int32_t n_missing)
{
    while (n_missing > 0) {
        struct block b = heap_pop(heap);
        if (b.end - b.begin == 1) {
            done->at[done->n++] = b;
            continue;
        }
        int32_t place = halving_place(prefix, &b);
        heap_push(heap, (struct block){weight_of(prefix, b.begin, place), b.begin, place});
        heap_push(heap, (struct block){weight_of(prefix, place, b.end), place, b.end});
        n_missing--;
    }
    for (int32_t i = 0; i < heap->n; i++)
        done->at[done->n++] = heap->at[i];
}

LW_COMPARATOR(by_begin, struct block, a->begin, b->begin)

static enum lw_status balance(const int64_t *weights, struct lw_partitioning *p, struct lw_err *err)
{
    int32_t n = p->n_items, n_parts = p->n_stages * p->n_chunks;
    struct lw_arena work = {0};
    int64_t *prefix = lw_arena_alloc(&work, (int64_t)n + 1, sizeof *prefix);
    int32_t *begins = lw_arena_alloc(&work, (int64_t)n + 1, sizeof *begins);
    struct blocks heap = {.at = lw_arena_alloc(&work, n_parts, sizeof *heap.at)};
    struct blocks done = {.at = lw_arena_alloc(&work, n_parts, sizeof *done.at)};

    if (!prefix || !begins || !heap.at || !done.at) {
        lw_arena_free(&work);
        return lw_fail_nomem(err);
    }
    for (int32_t i = 0; i < n; i++)
        prefix[i + 1] = prefix[i] + (weights[i] == 0 ? 1 : weights[i]);
    int32_t n_blocks = fill_greedily(prefix, n, search_value(prefix, weights, n, n_parts), begins);

    begins[n_blocks] = n;
    for (int32_t b = 0; b < n_blocks; b++)
        heap_push(&heap, (struct block){weight_of(prefix, begins[b], begins[b + 1]), begins[b],
                                        begins[b + 1]});
    halve_heaviest(prefix, &heap, &done, n_parts - n_blocks);
    lw_sort(done.at, done.n, by_begin);
    for (int32_t q = 0; q < done.n; q++)
        p->parts[(int64_t)(q % p->n_stages) * p->n_chunks + q / p->n_stages] =
            (struct lw_range){done.at[q].begin, done.at[q].end};
    lw_arena_free(&work);
    return LW_OK;
}

enum lw_status lw_partition_colossal(const int64_t *weights, int32_t n_items, int32_t n_stages,
                                     int32_t n_chunks, struct lw_partitioning *out,
                                     struct lw_err *err)
{
    struct lw_partitioning p = {0};
    int64_t total;

    LW_TRY(lw_partition_check_weights(weights, n_items, &total, err));
    if (n_items <= (int64_t)n_stages * n_chunks)
        return lw_partition_uniform(n_items, n_stages, n_chunks, out, err);
    LW_TRY(lw_partition_alloc(n_items, n_stages, n_chunks, &p, err));
    enum lw_status status = balance(weights, &p, err);
    LW_GIVE(status, out, p, lw_partition_free(&p));
}
