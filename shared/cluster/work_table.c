/* Tables of local work: their names, and which one speaks for what. */
#include "shared/cluster/work_table.h"

#include "shared/cluster/cluster.h"
#include "shared/cluster/curve.h"

const char *lw_work_name(enum lw_work_kind kind)
{
    static const char *const names[] = {
        [LW_WORK_GEMM] = "gemm",         [LW_WORK_FILL] = "fill", [LW_WORK_COPY_IN] = "copy_in",
        [LW_WORK_COPY_OUT] = "copy_out", [LW_WORK_COPY] = "copy", [LW_WORK_CAST] = "cast",
        [LW_WORK_SGD] = "sgd",           [LW_WORK_MOMENTUM] = "momentum",
        [LW_WORK_ADAM] = "adam",
    };
    return (unsigned)kind < LW_N_WORK_KINDS ? names[kind] : NULL;
}

/* How well a table fits: its types count as they are, then what results, then any. */
static int fit(const struct lw_work_table *t, enum lw_work_kind kind, enum lw_dtype dtype,
               enum lw_dtype from)
{
    if (t->kind != kind || (kind == LW_WORK_GEMM && t->dtype != dtype))
        return 0;
    if (t->dtype != dtype)
        return 1;
    return t->from == from || from == LW_N_DTYPES ? 3 : 2;
}

const struct lw_work_table *lw_work_find(const struct lw_device *d, enum lw_work_kind kind,
                                         enum lw_dtype dtype, enum lw_dtype from)
{
    const struct lw_work_table *best = NULL;
    int best_fit = 0;

    for (int32_t i = 0; i < d->n_work; i++) {
        int this = fit(&d->work[i], kind, dtype, from);
        if (this > best_fit) {
            best_fit = this;
            best = &d->work[i];
        }
    }
    return best;
}

lw_ps lw_work_time(const struct lw_work_table *t, int64_t size)
{
    const char *unused;

    if (size <= 0)
        return 0;
    return lw_curve_at((struct lw_curve){t->n_rows, t->size, t->time_ps}, size, &unused);
}
