/* The results that the program carries. The build put them in order, so nothing is parsed here. */
#include "analysis/alike/alike.h"
#include "analysis/alike/known_runs.h"

static void fill(const struct alike_known_run *known, struct lw_alike_run *runs)
{
    for (int32_t i = 0; i < alike_known_n_runs; i++) {
        const struct alike_known_run *k = &known[i];
        runs[i] = (struct lw_alike_run){.table = alike_known_tables[k->table],
                                        .ratio = k->ratio,
                                        .judged = k->judged,
                                        .number = k->number,
                                        .table_number = k->table};
        for (int part = 0; part < LW_ALIKE_PARTS; part++)
            runs[i].key.part[part] = alike_known_kinds[k->kind][part];
    }
}

static enum lw_status take(struct lw_alike_runs *r, struct lw_err *err)
{
    LW_TAKE(&r->arena, r->runs, r->n, err);
    LW_TAKE(&r->arena, r->judged, r->n, err);
    LW_TAKE(&r->arena, r->count, r->n_tables, err);
    fill(alike_known_runs, r->runs);
    fill(alike_known_runs_judged, r->judged);
    return LW_OK;
}

enum lw_status lw_alike_known(struct lw_alike_runs *out, struct lw_err *err)
{
    struct lw_alike_runs r = {.n = alike_known_n_runs, .n_tables = alike_known_n_tables};
    enum lw_status s = take(&r, err);

    LW_GIVE(s, out, r, lw_alike_free(&r));
}
