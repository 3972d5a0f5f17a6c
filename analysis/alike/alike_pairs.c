/* Differences between predictions of measured runs of one table. Each table has the same weight:
 * a table of many runs of one cluster would else speak for all. */
#include "analysis/alike/alike_pairs.h"

#include <math.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/numbers/median.h"

enum { LEAST_PAIRS = 3, PARALLELISM = 2 };

struct pairs {
    double *v;
    int64_t n, capacity;
};

static enum lw_status add(struct pairs *p, double x, struct lw_err *err)
{
    if (lw_reserve(&p->v, &p->capacity, p->n + 1, sizeof *p->v) != 0)
        return lw_fail_nomem(err);
    p->v[p->n++] = x;
    return LW_OK;
}

static bool alike(const struct lw_alike_run *a, const struct lw_alike_run *b)
{
    bool same = a->table_number == b->table_number;

    for (int k = 0; k < LW_ALIKE_PARTS; k++)
        same = same && strcmp(a->key.part[k], b->key.part[k]) == 0;
    return same;
}

static bool counts(const struct lw_alike_run *r, const struct lw_alike_key *key)
{
    return !key || strcmp(r->key.part[PARALLELISM], key->part[PARALLELISM]) == 0;
}

/* Of one table, into p, in no order. */
static enum lw_status add_table(const struct lw_alike_runs *r, int32_t table,
                                const struct lw_alike_key *key, struct pairs *p, struct lw_err *err)
{
    p->n = 0;
    for (int32_t i = 0; i < r->n; i++) {
        const struct lw_alike_run *a = &r->judged[i];
        if (a->table_number != table || !counts(a, key))
            continue;
        for (int32_t k = 0; k < i; k++)
            if (alike(a, &r->judged[k]))
                LW_TRY(add(p, fabs(log(a->judged / r->judged[k].judged)), err));
    }
    return LW_OK;
}

static enum lw_status find(const struct lw_alike_runs *r, const struct lw_alike_key *key,
                           struct pairs *p, struct pairs *tables, struct lw_alike_pairs *out,
                           struct lw_err *err)
{
    tables->n = 0;
    *out = (struct lw_alike_pairs){.within = NAN, .same = key != NULL};
    for (int32_t t = 0; t < r->n_tables; t++) {
        LW_TRY(add_table(r, t, key, p, err));
        if (p->n < LEAST_PAIRS)
            continue;
        out->n_tables++;
        out->n_pairs += p->n;
        LW_TRY(add(tables, lw_kth_smallest(p->v, p->n, (p->n - 1) * 4 / 5), err));
    }
    if (tables->n >= LW_ALIKE_TABLES)
        out->within = exp(lw_kth_smallest(tables->v, tables->n, tables->n / 2));
    return LW_OK;
}

enum lw_status lw_alike_pairs_of(const struct lw_alike_runs *runs, const struct lw_alike_key *key,
                                 struct lw_alike_pairs *out, struct lw_err *err)
{
    struct pairs p = {0}, tables = {0};
    enum lw_status st = find(runs, key, &p, &tables, out, err);

    if (st == LW_OK && isnan(out->within))
        st = find(runs, NULL, &p, &tables, out, err);
    lw_free(p.v);
    lw_free(tables.v);
    return st;
}
