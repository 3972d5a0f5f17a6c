/* Which ranks a report holds. A report of a whole node has the processes of all its ranks, and one
 * process may drive several devices: each pair that device work was recorded of is a rank. */
#include "traces/nsys/nsys_parts.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/io/input.h"
#include "shared/numbers/order.h"
#include "traces/nsys/import_nsys.h"

enum { MOST_PARTS = 4096 };

int64_t nsys_process_of(int64_t global_id)
{
    return (int64_t)((uint64_t)global_id >> 24);
}

LW_COMPARATOR(by_device, struct nsys_part, a->device, b->device, a->process, b->process)

static const char *const pair_columns[] = {"deviceId", "?globalPid", NULL};

struct finder {
    struct nsys_part *v;
    int64_t n, cap;
    int64_t last; /* the pair of most rows is that of the row before */
};

static enum lw_status read_pair(const struct nsys_rows *r, struct nsys_part *p, struct lw_err *err)
{
    int64_t global;

    LW_TRY(nsys_rows_int(r, 0, &p->device, err));
    LW_TRY(nsys_rows_maybe(r, 1, -1, &global, err));
    p->process = global == -1 ? -1 : nsys_process_of(global);
    return LW_OK;
}

static enum lw_status add_pair(struct finder *f, const struct nsys_rows *r, struct lw_err *err)
{
    struct nsys_part p;

    LW_TRY(read_pair(r, &p, err));
    if (f->n > 0 && by_device(&f->v[f->last], &p) == 0)
        return LW_OK;
    for (f->last = 0; f->last < f->n; f->last++)
        if (by_device(&f->v[f->last], &p) == 0)
            return LW_OK;
    if (f->n >= MOST_PARTS)
        return lw_fail_at(err, LW_EFORMAT, r->d->name, 0,
                          "table %s: more than %d pairs of process and device", r->table,
                          MOST_PARTS);
    LW_ROOM(f->v, f->cap, f->n + 1, err);
    f->v[f->n++] = p;
    return LW_OK;
}

static enum lw_status add_table(struct finder *f, const struct nsys_database *d, const char *table,
                                struct lw_err *err)
{
    struct nsys_rows r;
    bool more;

    LW_TRY(nsys_rows_open(d, table, pair_columns, "", &r, err));
    enum lw_status status = nsys_rows_next(&r, &more, err);
    while (status == LW_OK && more) {
        status = add_pair(f, &r, err);
        if (status == LW_OK)
            status = nsys_rows_next(&r, &more, err);
    }
    nsys_rows_close(&r);
    return status;
}

enum lw_status nsys_parts_first(const struct nsys_database *d, struct nsys_part *part, bool *any,
                                struct lw_err *err)
{
    struct nsys_rows r;

    LW_TRY(nsys_rows_open(d, "CUPTI_ACTIVITY_KIND_KERNEL", pair_columns, "", &r, err));
    enum lw_status status = nsys_rows_next(&r, any, err);
    if (status == LW_OK && *any)
        status = read_pair(&r, part, err);
    nsys_rows_close(&r);
    return status;
}

/* Kernels tell; a report without any may hold copies. */
enum lw_status nsys_parts_find(const struct nsys_database *d, struct lw_arena *arena,
                               struct nsys_part **parts, int *n, struct lw_err *err)
{
    static const char *const tables[] = {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY",
                                         "CUPTI_ACTIVITY_KIND_MEMSET"};
    struct finder f = {0};
    enum lw_status status = LW_OK;

    for (size_t i = 0; i < sizeof tables / sizeof *tables && status == LW_OK && f.n == 0; i++)
        status = add_table(&f, d, tables[i], err);
    if (status == LW_OK && f.n > 0) {
        lw_sort(f.v, f.n, by_device);
        *parts = lw_arena_alloc(arena, f.n, sizeof **parts);
        if (*parts)
            memcpy(*parts, f.v, (size_t)f.n * sizeof *f.v);
        else
            status = lw_fail_nomem(err);
    }
    *n = (int)f.n;
    lw_free(f.v);
    return status;
}

enum lw_status lw_nsys_count(const char *file, int *n_parts, struct lw_err *err)
{
    struct nsys_database d;
    struct lw_arena arena = {0};
    struct nsys_part *parts;

    LW_TRY(nsys_database_open_file(file, &d, err));
    enum lw_status status = nsys_database_check(&d, err);
    if (status == LW_OK)
        status = nsys_parts_find(&d, &arena, &parts, n_parts, err);
    nsys_database_close(&d);
    lw_arena_free(&arena);
    return status;
}
