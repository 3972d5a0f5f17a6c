/* Timelines: columns and their order. The measures stand in measure.c.
 * Invariants: all columns have room for `capacity` rows; rows [0, n) are filled. */
#include "shared/timeline/timeline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/numbers/checked.h"
#include "shared/base/host_memory.h"
#include "shared/plan/op.h"
#include "shared/timeline/packed_rows.h"
#include "shared/numbers/order.h"

/* The columns as a table, so that growing, moving and freeing them are one loop each. */
enum { N_COLUMNS = 12 };

struct column {
    void **data;
    size_t size;
};

static void columns_of(struct lw_timeline *t, struct column c[N_COLUMNS])
{
    const struct column all[N_COLUMNS] = {
        {(void **)&t->step, sizeof *t->step},     {(void **)&t->pass, sizeof *t->pass},
        {(void **)&t->rank, sizeof *t->rank},     {(void **)&t->stream, sizeof *t->stream},
        {(void **)&t->comm, sizeof *t->comm},     {(void **)&t->op, sizeof *t->op},
        {(void **)&t->kind, sizeof *t->kind},     {(void **)&t->ready, sizeof *t->ready},
        {(void **)&t->issue, sizeof *t->issue},   {(void **)&t->start, sizeof *t->start},
        {(void **)&t->all_in, sizeof *t->all_in}, {(void **)&t->end, sizeof *t->end},
    };

    memcpy(c, all, sizeof all);
}

/* The system grants memory that it does not have and ends the process later: so the free memory is
 * checked first. Small timelines are not worth reading /proc for. */
enum lw_status lw_timeline_fits(int64_t n, double row_bytes, struct lw_err *err)
{
    enum { SMALL = 1000000 };
    char need[32], has[32];
    double left;

    if (n <= SMALL)
        return LW_OK;
    left = lw_host_memory_left();
    if (row_bytes * (double)n <= left)
        return LW_OK;
    return lw_fail(err, LW_ENOTSUP,
                   "a timeline of %" PRId64 " ops needs %s of memory and this machine has %s left: "
                   "take fewer --steps, or ranks", n,
                   lw_format_bytes(need, lw_round_sat(row_bytes * (double)n)),
                   lw_format_bytes(has, (int64_t)left));
}

static double row_bytes(const struct column c[N_COLUMNS])
{
    double bytes = 0;

    for (int i = 0; i < N_COLUMNS; i++)
        bytes += (double)c[i].size;
    return bytes;
}

enum lw_status lw_timeline_reserve(struct lw_timeline *t, int64_t n, struct lw_err *err)
{
    struct column c[N_COLUMNS];

    if (n <= t->capacity)
        return LW_OK;
    columns_of(t, c);
    LW_TRY(lw_timeline_fits(n, row_bytes(c), err));
    for (int i = 0; i < N_COLUMNS; i++) {
        void *grown = lw_realloc(*c[i].data, (size_t)n * c[i].size);
        if (!grown)
            return lw_fail_nomem(err); /* columns grown so far are larger than capacity says */
        *c[i].data = grown;
    }
    t->capacity = n;
    return LW_OK;
}

void lw_timeline_put(struct lw_timeline *t, int64_t row, const struct lw_span *s)
{
    t->step[row] = s->step;
    t->pass[row] = s->pass;
    t->rank[row] = s->rank;
    t->stream[row] = s->stream;
    t->comm[row] = s->comm;
    t->op[row] = s->op;
    t->kind[row] = (uint8_t)s->kind;
    t->ready[row] = s->ready;
    t->issue[row] = s->issue;
    t->start[row] = s->start;
    t->all_in[row] = s->all_in;
    t->end[row] = s->end;
}

enum lw_status lw_timeline_add(struct lw_timeline *t, const struct lw_span *s, struct lw_err *err)
{
    if (t->n == t->capacity)
        LW_TRY(lw_timeline_reserve(t, t->capacity > 0 ? 2 * t->capacity : 64, err));
    lw_timeline_put(t, t->n++, s);
    return LW_OK;
}

void lw_timeline_free(struct lw_timeline *t)
{
    struct column c[N_COLUMNS];

    columns_of(t, c);
    for (int i = 0; i < N_COLUMNS; i++)
        lw_free(*c[i].data);
    lw_packed_free(t->packed);
    *t = (struct lw_timeline){0};
}

enum lw_status lw_timeline_copy(const struct lw_timeline *t, struct lw_timeline *out,
                                struct lw_err *err)
{
    struct lw_timeline copy = {.comm_workers = t->comm_workers};
    enum lw_status status = lw_timeline_reserve(&copy, t->n, err);

    for (int64_t i = 0; status == LW_OK && i < t->n; i++) {
        struct lw_span s = lw_timeline_get(t, i);
        status = lw_timeline_add(&copy, &s, err);
    }
    LW_GIVE(status, out, copy, lw_timeline_free(&copy));
}

enum lw_status lw_timeline_unpack(struct lw_timeline *t, struct lw_err *err)
{
    struct lw_timeline columns;

    if (!t->packed)
        return LW_OK;
    LW_TRY(lw_timeline_copy(t, &columns, err));
    lw_timeline_free(t);
    *t = columns;
    return LW_OK;
}

/* --- rows of either form --- */

struct lw_span lw_timeline_get(const struct lw_timeline *t, int64_t row)
{
    if (t->packed)
        return lw_packed_get(t->packed, row);
    return (struct lw_span){
        t->step[row],  t->pass[row],  t->rank[row],   t->stream[row],
        t->comm[row],  t->op[row],    (enum lw_op_kind)t->kind[row],
        t->ready[row], t->issue[row], t->start[row],  t->all_in[row], t->end[row],
    };
}

struct lw_times lw_timeline_times(const struct lw_timeline *t, int64_t row)
{
    return t->packed ? lw_packed_times(t->packed, row)
                     : (struct lw_times){t->start[row], t->all_in[row], t->end[row]};
}

struct lw_row_run lw_timeline_run(const struct lw_timeline *t, int64_t row)
{
    struct lw_row_run run;

    if (t->packed) {
        const struct lw_packed_run *p = lw_packed_run_of(t->packed, row, &run.to);
        run.step = p->step;
        run.pass = p->pass;
        run.rank = p->rank;
        return run;
    }
    run = (struct lw_row_run){row + 1, t->step[row], t->pass[row], t->rank[row]};
    while (run.to < t->n && t->rank[run.to] == run.rank && t->pass[run.to] == run.pass &&
           t->step[run.to] == run.step)
        run.to++;
    return run;
}

int32_t lw_timeline_op(const struct lw_timeline *t, int64_t row)
{
    int64_t end;

    if (!t->packed)
        return t->op[row];
    const struct lw_packed_run *run = lw_packed_run_of(t->packed, row, &end);
    return (int32_t)(run->first_op + row - run->first);
}

int32_t lw_timeline_comm(const struct lw_timeline *t, int64_t row)
{
    return t->packed ? lw_packed_comm(t->packed, lw_timeline_op(t, row)) : t->comm[row];
}

uint8_t lw_timeline_kind(const struct lw_timeline *t, int64_t row)
{
    return t->packed ? lw_packed_kind(t->packed, lw_timeline_op(t, row)) : t->kind[row];
}

/* --- order --- */

struct key {
    int32_t step, pass, rank, op;
    int64_t row;
};

LW_COMPARATOR(compare_keys, struct key, a->step, b->step, a->pass, b->pass, a->rank, b->rank, a->op,
              b->op, a->row, b->row)

static struct key key_of(const struct lw_timeline *t, int64_t row)
{
    return (struct key){t->step[row], t->pass[row], t->rank[row], t->op[row], row};
}

static int64_t first_unsorted(const struct lw_timeline *t)
{
    for (int64_t i = 1; i < t->n; i++) {
        struct key a = key_of(t, i - 1), b = key_of(t, i);
        if (compare_keys(&a, &b) > 0)
            return i;
    }
    return -1;
}

enum lw_status lw_timeline_sort(struct lw_timeline *t, struct lw_err *err)
{
    struct column c[N_COLUMNS];

    if (t->packed || first_unsorted(t) < 0) /* a simulation's rows are in order */
        return LW_OK;
    struct key *keys = lw_alloc((size_t)t->n * sizeof *keys);
    char *copy = lw_alloc((size_t)t->n * sizeof(int64_t));
    if (!keys || !copy) {
        lw_free(keys);
        lw_free(copy);
        return lw_fail_nomem(err);
    }
    for (int64_t i = 0; i < t->n; i++)
        keys[i] = key_of(t, i);
    lw_sort(keys, t->n, compare_keys);
    columns_of(t, c);
    for (int k = 0; k < N_COLUMNS; k++) {
        char *data = *c[k].data;
        memcpy(copy, data, (size_t)t->n * c[k].size);
        for (int64_t i = 0; i < t->n; i++)
            memcpy(data + (size_t)i * c[k].size, copy + (size_t)keys[i].row * c[k].size, c[k].size);
    }
    lw_free(keys);
    lw_free(copy);
    return LW_OK;
}
