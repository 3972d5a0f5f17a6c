/* Modules to pipeline stages: the result, its check, and the policies that need no search.
 *
 * Invariants: items keep their order; part q = chunk * n_stages + stage holds the items right
 * after those of part q - 1; the parts tile [0, n_items). Sums of weights stay within int64 or are
 * refused.
 *
 * Sources: ColossalAI colossalai/builder/pipeline.py@96780e6 (uniform), DeepSpeed
 * deepspeed/runtime/utils.py@edaa7221 (uniform, balanced). Searching policies are in
 * partition_colossal.c, partition_exact.c and partition_pipedream.c. Not modelled here: the cost of
 * a schedule; a part's weight is the sum of its items' weights. */
#include "shared/partition/partition.h"

#include <inttypes.h>

LW_FREE_BY_ARENA(lw_partition_free, struct lw_partitioning)

const struct lw_range *lw_partition_part(const struct lw_partitioning *p, int32_t stage,
                                         int32_t chunk)
{
    return &p->parts[(int64_t)stage * p->n_chunks + chunk];
}

static struct lw_range *part_number(struct lw_partitioning *p, int64_t q)
{
    return &p->parts[(q % p->n_stages) * p->n_chunks + q / p->n_stages];
}

enum lw_status lw_partition_alloc(int32_t n_items, int32_t n_stages, int32_t n_chunks,
                                  struct lw_partitioning *out, struct lw_err *err)
{
    struct lw_partitioning p = {.n_items = n_items, .n_stages = n_stages, .n_chunks = n_chunks};

    if (n_stages < 1 || n_chunks < 1)
        return lw_fail(err, LW_EINVAL,
                       "a partition needs at least one stage and one chunk, got %d and %d",
                       n_stages, n_chunks);
    if (n_items < 0)
        return lw_fail(err, LW_EINVAL, "a partition needs 0 or more items, got %d", n_items);
    if ((int64_t)n_stages * n_chunks > INT32_MAX)
        return lw_fail(err, LW_EINVAL, "%d stages of %d chunks are more than 2^31 parts", n_stages,
                       n_chunks);
    LW_TAKE(&p.arena, p.parts, (int64_t)n_stages * n_chunks, err);
    *out = p;
    return LW_OK;
}

enum lw_status lw_partition_check_weights(const int64_t *weights, int32_t n, int64_t *total,
                                          struct lw_err *err)
{
    int64_t sum = 0;

    for (int32_t i = 0; i < n; i++) {
        if (weights[i] < 0)
            return lw_fail(err, LW_EINVAL, "weight of item %d is %" PRId64 ", allowed: 0 or more",
                           i, weights[i]);
        /* a weight of 0 may count as 1 */
        if (__builtin_add_overflow(sum, weights[i] + (weights[i] == 0), &sum))
            return lw_fail(err, LW_EINVAL, "the weights of items 0 to %d sum to more than 2^63 - 1",
                           i);
    }
    *total = sum;
    return LW_OK;
}

enum lw_status lw_partition_uniform(int32_t n_items, int32_t n_stages, int32_t n_chunks,
                                    struct lw_partitioning *out, struct lw_err *err)
{
    struct lw_partitioning p = {0};

    LW_TRY(lw_partition_alloc(n_items, n_stages, n_chunks, &p, err));
    if (n_items % n_chunks != 0) {
        lw_partition_free(&p);
        return lw_fail(
            err, LW_EINVAL,
            "uniform partition: %d items do not divide into %d chunks (use a balanced or "
            "explicit partition, or another --chunks)",
            n_items, n_chunks);
    }
    int32_t per_chunk = n_items / n_chunks, base = per_chunk / n_stages;
    int32_t first_larger = n_stages - per_chunk % n_stages, at = 0;

    for (int32_t c = 0; c < n_chunks; c++)
        for (int32_t s = 0; s < n_stages; s++) {
            struct lw_range *r = &p.parts[(int64_t)s * n_chunks + c];
            r->begin = at;
            at += base + (s >= first_larger);
            r->end = at;
            p.has_empty |= r->begin == r->end;
        }
    p.warned_empty = base == 0;
    *out = p;
    return LW_OK;
}

enum lw_status lw_partition_deepspeed_uniform(int32_t n_items, int32_t n_stages,
                                              struct lw_partitioning *out, struct lw_err *err)
{
    struct lw_partitioning p = {0};
    int32_t at = 0;

    LW_TRY(lw_partition_alloc(n_items, n_stages, 1, &p, err));
    for (int32_t s = 0; s < n_stages; s++) {
        p.parts[s].begin = at;
        at += n_items / n_stages + (s < n_items % n_stages);
        p.parts[s].end = at;
    }
    p.has_empty = n_items < n_stages;
    *out = p;
    return LW_OK;
}

/* DeepSpeed's recurrence over (items seen, parts made). It keeps, for the best difference of each
 * state, the heaviest and lightest part that gave it: greedy in those two, so it can miss its own
 * optimum. Of equal differences the last cut tried wins. */
struct difference_table {
    int64_t *heaviest, *lightest; /* [(n + 1) * (k + 1)] */
    int32_t *cut;
};

static void fill_differences(struct difference_table *t, const int64_t *prefix, int32_t n,
                             int32_t k)
{
    int64_t row = (int64_t)k + 1;

    t->lightest[0] = INT64_MAX;
    for (int32_t i = 1; i <= n; i++)
        for (int32_t j = 1; j <= k && j <= i; j++) {
            int64_t best = INT64_MAX, at = i * row + j;
            for (int32_t c = j - 1; c < i && (j > 1 || c == 0); c++) {
                int64_t from = c * row + j - 1, part = prefix[i] - prefix[c];
                int64_t max = t->heaviest[from] > part ? t->heaviest[from] : part;
                int64_t min = t->lightest[from] < part ? t->lightest[from] : part;
                if (best >= max - min) {
                    best = max - min;
                    t->heaviest[at] = max;
                    t->lightest[at] = min;
                    t->cut[at] = c;
                }
            }
        }
}

static enum lw_status balance_differences(const int64_t *weights, struct lw_partitioning *p,
                                          struct lw_err *err)
{
    int32_t n = p->n_items, k = p->n_stages;
    int64_t states = ((int64_t)n + 1) * ((int64_t)k + 1);
    struct lw_arena work = {0};
    struct difference_table t = {
        .heaviest = lw_arena_alloc(&work, states, sizeof *t.heaviest),
        .lightest = lw_arena_alloc(&work, states, sizeof *t.lightest),
        .cut = lw_arena_alloc(&work, states, sizeof *t.cut),
    };
    int64_t *prefix = lw_arena_alloc(&work, (int64_t)n + 1, sizeof *prefix);

    if (!t.heaviest || !t.lightest || !t.cut || !prefix) {
        lw_arena_free(&work);
        return lw_fail_nomem(err);
    }
    for (int32_t i = 0; i < n; i++)
        prefix[i + 1] = prefix[i] + weights[i];
    fill_differences(&t, prefix, n, k);
    for (int32_t s = k - 1, end = n; s >= 0; s--) {
        p->parts[s].end = end;
        end = t.cut[(int64_t)end * (k + 1) + s + 1];
        p->parts[s].begin = end;
    }
    lw_arena_free(&work);
    return LW_OK;
}

enum lw_status lw_partition_deepspeed_balanced(const int64_t *weights, int32_t n_items,
                                               int32_t n_stages, struct lw_partitioning *out,
                                               struct lw_err *err)
{
    struct lw_partitioning p = {0};
    int64_t total;

    LW_TRY(lw_partition_check_weights(weights, n_items, &total, err));
    if (n_items <= n_stages)
        return lw_partition_deepspeed_uniform(n_items, n_stages, out, err);
    LW_TRY(lw_partition_alloc(n_items, n_stages, 1, &p, err));
    enum lw_status status = balance_differences(weights, &p, err);
    LW_GIVE(status, out, p, lw_partition_free(&p));
}

enum lw_status lw_partition_explicit(const int32_t *begins, int32_t n_items, int32_t n_stages,
                                     int32_t n_chunks, struct lw_partitioning *out,
                                     struct lw_err *err)
{
    struct lw_partitioning p = {0};

    LW_TRY(lw_partition_alloc(n_items, n_stages, n_chunks, &p, err));
    int64_t n_parts = (int64_t)n_stages * n_chunks;

    for (int64_t q = 0; q < n_parts; q++) {
        int32_t low = q == 0 ? 0 : begins[q - 1] + 1, high = q == 0 ? 0 : n_items - 1;
        if (begins[q] < low || begins[q] > high) {
            int32_t found = begins[q];
            lw_partition_free(&p);
            return lw_fail(err, LW_EINVAL,
                           "explicit partition: part %" PRId64 " begins at item %d, allowed: %d to "
                           "%d (parts ascend, none is empty, there are %d items)",
                           q, found, low, high, n_items);
        }
        part_number(&p, q)->begin = begins[q];
        part_number(&p, q)->end = q + 1 < n_parts ? begins[q + 1] : n_items;
    }
    if (n_items == 0)
        p.has_empty = true;
    *out = p;
    return LW_OK;
}

void lw_partition_extremes(const struct lw_partitioning *p, const int64_t *weights,
                           int64_t *heaviest, int64_t *lightest)
{
    int64_t n_parts = (int64_t)p->n_stages * p->n_chunks;

    *heaviest = *lightest = 0;
    for (int64_t q = 0; q < n_parts; q++) {
        int64_t sum = 0;
        for (int32_t i = p->parts[q].begin; i < p->parts[q].end; i++)
            sum += weights[i];
        *heaviest = q == 0 || sum > *heaviest ? sum : *heaviest;
        *lightest = q == 0 || sum < *lightest ? sum : *lightest;
    }
}
