/* Rows of a rule, made in one block and fed from there: XXH3 takes every byte in order. The block
 * holds all rows of the fastest digits and as many values of the next one (`cut`) as it has room
 * for. The next block is the same rows, each with one sum added. Where that sum is 0, the block is
 * fed again as it is. */
#include "shared/plan/hash_rows.h"

#include <stdbool.h>
#include <string.h>

enum { LANES = 8 };

typedef void add_fn(int64_t *v, const int64_t *by, int64_t n);

struct block {
    int32_t width;
    int64_t n;    /* numbers in v */
    int64_t n_by; /* numbers in by that hold `last` */
    add_fn *add;
    int64_t last[LW_ROW_STEPS];
    _Alignas(64) int64_t v[LW_ROW_WIDTH], by[LW_ROW_WIDTH];
};

static int column_of(int32_t c)
{
    return c < LW_ROW_STEPS ? c : LW_ROW_STEPS - 1;
}

/* What is added to each number of the block. */
static void prepare(struct block *b, const int64_t sum[LW_ROW_STEPS])
{
    if (b->n_by == b->n && memcmp(b->last, sum, sizeof b->last) == 0)
        return;
    for (int32_t c = 0; c < b->width; c++)
        b->by[c] = sum[column_of(c)];
    for (int64_t n = b->width; n < b->n; n *= 2)
        memcpy(b->by + n, b->by, (size_t)(n < b->n - n ? n : b->n - n) * sizeof *b->by);
    memcpy(b->last, sum, sizeof b->last);
    b->n_by = b->n;
}

static void add_numbers(int64_t *v, const int64_t *by, int64_t n)
{
    int64_t i = 0;

    for (; n - i >= LANES; i += LANES) /* a count that compilers vectorize at -O2 */
#pragma GCC unroll 4
        for (int a = 0; a < LANES; a++)
            v[i + a] += by[i + a];
    for (; i < n; i++)
        v[i] += by[i];
}

#ifdef __x86_64__
/* The same in vectors of four and of eight numbers, for processors that have them. */
__attribute__((target("avx2"))) static void add_fours(int64_t *v, const int64_t *by, int64_t n)
{
    typedef int64_t four __attribute__((vector_size(32), aligned(8)));
    int64_t i = 0;

    for (; n - i >= LANES; i += LANES) {
        *(four *)(void *)(v + i) += *(const four *)(const void *)(by + i);
        *(four *)(void *)(v + i + 4) += *(const four *)(const void *)(by + i + 4);
    }
    for (; i < n; i++)
        v[i] += by[i];
}

__attribute__((target("avx512f"))) static void add_eights(int64_t *v, const int64_t *by, int64_t n)
{
    typedef int64_t eight __attribute__((vector_size(64), aligned(8)));
    int64_t i = 0;

    for (; n - i >= 2 * LANES; i += 2 * LANES) {
        *(eight *)(void *)(v + i) += *(const eight *)(const void *)(by + i);
        *(eight *)(void *)(v + i + LANES) += *(const eight *)(const void *)(by + i + LANES);
    }
    for (; i < n; i++)
        v[i] += by[i];
}

static add_fn *widest_add(void)
{
    return __builtin_cpu_supports("avx512f") ? add_eights
           : __builtin_cpu_supports("avx2")  ? add_fours
                                             : add_numbers;
}
#else
static add_fn *widest_add(void)
{
    return add_numbers;
}
#endif

static void add(struct block *b, const int64_t sum[LW_ROW_STEPS])
{
    static const int64_t nothing[LW_ROW_STEPS];

    if (memcmp(sum, nothing, sizeof nothing) == 0)
        return;
    prepare(b, sum);
    b->add(b->v, b->by, b->n);
}

/* The rows again, `count - 1` times, each time with the step added once more: as many as are there
 * are made at a time. */
static void repeat(struct block *b, int32_t count, const int64_t step[LW_ROW_STEPS])
{
    int64_t n = b->n, sum[LW_ROW_STEPS];

    for (int32_t have = 1, more; have < count; have += more) {
        more = have < count - have ? have : count - have;
        for (int c = 0; c < LW_ROW_STEPS; c++)
            sum[c] = have * step[c];
        prepare(b, sum);
        memcpy(b->v + b->n, b->v, (size_t)(more * n) * sizeof *b->v);
        b->add(b->v + b->n, b->by, more * n);
        b->n += more * n;
    }
}

/* The next values of digits 0 to n - 1; false after the last. *sum: what is added by it. */
static bool next(const struct lw_row_digit *at, int32_t n, int32_t *value,
                 int64_t sum[LW_ROW_STEPS])
{
    while (n-- > 0) {
        bool more = ++value[n] < at[n].count;
        int64_t times = more ? 1 : 1 - at[n].count;
        for (int c = 0; c < LW_ROW_STEPS; c++)
            sum[c] += times * at[n].step[c];
        if (more)
            return true;
        value[n] = 0;
    }
    return false;
}

/* All values of the digit of which the block holds `held`. moved: what that added to the block. */
static void feed_cut(struct lw_hash *h, struct block *b, const struct lw_row_digit *cut,
                     int32_t held, int64_t moved[LW_ROW_STEPS])
{
    int64_t step[LW_ROW_STEPS], each = b->n / held;

    for (int c = 0; c < LW_ROW_STEPS; c++)
        step[c] = held * cut->step[c];
    for (int32_t left = cut->count;; left -= held) {
        lw_hash_ints(h, b->v, (left < held ? left : held) * each);
        if (left <= held)
            return;
        add(b, step);
        for (int c = 0; c < LW_ROW_STEPS; c++)
            moved[c] += step[c];
    }
}

void lw_hash_rows(struct lw_hash *h, const int64_t *first, int32_t width,
                  const struct lw_row_rule *rule)
{
    static const struct lw_row_digit none = {.count = 1};
    struct block b;
    int32_t value[LW_ROW_DIGITS] = {0}, n = rule->n;
    int64_t sum[LW_ROW_STEPS] = {0};
    bool more = true;

    b.width = width;
    b.n = width;
    b.n_by = 0;
    b.add = widest_add();
    memcpy(b.v, first, (size_t)width * sizeof *first);
    for (; n > 0 && b.n * rule->at[n - 1].count <= LW_ROW_WIDTH; n--)
        repeat(&b, rule->at[n - 1].count, rule->at[n - 1].step);
    const struct lw_row_digit *cut = n > 0 ? &rule->at[n - 1] : &none;
    int64_t room = LW_ROW_WIDTH / b.n;
    int32_t held = room < cut->count ? (int32_t)room : cut->count;
    repeat(&b, held, cut->step);
    n -= n > 0;
    while (more) {
        int64_t moved[LW_ROW_STEPS] = {0};
        feed_cut(h, &b, cut, held, moved);
        for (int c = 0; c < LW_ROW_STEPS; c++)
            sum[c] = -moved[c];
        more = next(rule->at, n, value, sum);
        if (more)
            add(&b, sum);
    }
}
