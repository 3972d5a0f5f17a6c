/* Memory over time, stored when a run's spans are: a plan that is read back has no fixed bytes and
 * no activations, so it cannot be computed again. */
#include "analysis/store/sql.h"
#include "analysis/store/store.h"
#include "shared/timeline/param_memory.h"

struct writer {
    struct lw_sql *insert;
    int64_t run, n;
    int32_t rank;
    int64_t held[LW_N_MEMORY];
};

static void put(struct writer *w, enum lw_memory m, lw_ps at)
{
    lw_sql_run(w->insert, "lliltl", w->run, w->n++, w->rank, at, lw_memory_name(m), w->held[m]);
}

static enum lw_status put_changes(void *ctx, const struct lw_memory_change *v, int64_t n,
                                  struct lw_err *err)
{
    struct writer *w = ctx;

    (void)err;
    for (int64_t i = 0; i < n; i++) {
        w->held[v[i].memory] += v[i].bytes;
        put(w, (enum lw_memory)v[i].memory, v[i].at);
    }
    return lw_sql_failed(w->insert) ? LW_EIO : LW_OK; /* the statement holds the words */
}

static enum lw_status put_all(struct writer *w, const struct lw_plan *plan,
                              struct lw_memory_walk *walk, struct lw_err *err)
{
    lw_memory_at_start(plan, w->rank, w->held);
    for (int m = 0; m < LW_N_MEMORY; m++)
        put(w, (enum lw_memory)m, 0);
    return lw_memory_walk_visit(walk, w->rank, put_changes, w, err);
}

static enum lw_status insert_all(struct lw_store *s, struct writer *w, const struct lw_plan *plan,
                                 struct lw_memory_walk *walk, struct lw_err *err)
{
    enum lw_status st = lw_sql_begin(s, err);

    if (st == LW_OK)
        st = lw_sql_prepare(s, "INSERT INTO memory VALUES (?,?,?,?,?,?)", &w->insert, err);
    if (st == LW_OK)
        st = put_all(w, plan, walk, err);
    enum lw_status inserted = lw_sql_finish(w->insert, err);
    return lw_sql_commit(s, inserted != LW_OK ? inserted : st, err);
}

enum lw_status lw_store_memory(struct lw_store *s, int64_t run, const struct lw_timeline *t,
                               const struct lw_plan *plan, struct lw_err *err)
{
    struct lw_memory_peak peak;
    struct lw_memory_walk *walk;
    struct writer w = {.run = run};

    LW_TRY(lw_memory_peaks(t, plan, NULL, &peak, err));
    LW_TRY(lw_memory_walk_new(t, plan, &walk, err));
    w.rank = peak.rank;
    enum lw_status st = insert_all(s, &w, plan, walk, err);
    lw_memory_walk_free(walk);
    return st;
}
