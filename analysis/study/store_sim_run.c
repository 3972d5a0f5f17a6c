/* Storing what sim did. */
#include "analysis/study/store_sim_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "analysis/alike/alike_step.h"
#include "analysis/compare/compare.h"
#include "analysis/store/store.h"
#include "sim/predict/sim_result.h"

enum { FEW_SPANS = 50000 }; /* stored without being requested: explain and plot need them */

void lw_sim_row_begin(struct lw_sim_row *row, const char *db, const struct lw_run_info *info)
{
    *row = (struct lw_sim_row){.db = db, .id = -1};
    enum lw_status status = lw_store_open(db, LW_STORE_WRITE, &row->store, &row->unstored);

    if (status == LW_OK)
        status = lw_store_begin_run(row->store, info, &row->id, &row->unstored);
    if (status != LW_OK)
        lw_sim_row_close(row);
}

void lw_sim_row_close(struct lw_sim_row *row)
{
    lw_store_close(row->store);
    row->store = NULL;
}

static enum lw_status store_rows(struct lw_sim_row *row, const struct lw_sim_end *end,
                                 const struct lw_timeline *rows, struct lw_err *err)
{
    LW_TRY(lw_store_spans(row->store, row->id, rows, err));
    return end->summary->memory.rank >= 0
               ? lw_store_memory(row->store, row->id, rows, end->plan, err) : LW_OK;
}

static enum lw_status store_every_rank(struct lw_sim_row *row, const struct lw_sim_end *end,
                                       struct lw_err *err)
{
    struct lw_timeline all;

    if (end->classes->n_classes == end->classes->n_ranks) /* in the order of the ranks */
        return store_rows(row, end, &end->classes->rows, err);
    LW_TRY(lw_sim_expand(end->classes, &all, err));
    enum lw_status status = store_rows(row, end, &all, err);
    lw_timeline_free(&all);
    return status;
}

/* The rows of one rank of each class, and which ranks they represent. */
static enum lw_status store_classes(struct lw_sim_row *row, const struct lw_sim_end *end,
                                    struct lw_err *err)
{
    const struct lw_sim_classes *c = end->classes;
    struct lw_timeline rows;
    int32_t *rows_of;

    LW_TRY(lw_timeline_copy(&c->rows, &rows, err));
    for (int64_t i = 0; i < rows.n; i++)
        rows.rank[i] = c->rank_of[rows.rank[i]];
    rows_of = lw_calloc((size_t)c->n_ranks, sizeof *rows_of);
    enum lw_status status = rows_of ? LW_OK : lw_fail_nomem(err);
    for (int32_t r = 0; status == LW_OK && r < c->n_ranks; r++)
        rows_of[r] = c->rank_of[lw_alike_class(&c->ranks, r)];
    if (status == LW_OK)
        status = lw_store_rows_of_ranks(row->store, row->id, rows_of, c->n_ranks, err);
    if (status == LW_OK)
        status = store_rows(row, end, &rows, err);
    lw_timeline_free(&rows);
    lw_free(rows_of);
    return status;
}

bool lw_sim_row_has_spans(const struct lw_sim_end *end)
{
    return end->spans || end->stats->n_ops <= FEW_SPANS || end->classes->rows.n <= FEW_SPANS;
}

static enum lw_status store_spans(struct lw_sim_row *row, const struct lw_sim_end *end,
                                  struct lw_err *err)
{
    if (!lw_sim_row_has_spans(end))
        return LW_OK;
    return end->spans || end->stats->n_ops <= FEW_SPANS ? store_every_rank(row, end, err)
                                                        : store_classes(row, end, err);
}

/* From here on the run counts as "not stored whole" until it is. */
static enum lw_status take(struct lw_sim_row *row, int32_t n_warmup, struct lw_err *err)
{
    bool mine;

    LW_TRY(lw_store_end_of_run(row->store, row->id, NULL, NULL, n_warmup, &mine, err));
    return mine ? LW_OK
                : lw_fail(err, LW_EFAILED, "%s: run %" PRId64 " was deleted or ended by another "
                          "command while it ran", row->db, row->id);
}

static enum lw_status store_interval(struct lw_sim_row *row, const struct lw_sim_end *end,
                                     struct lw_err *err)
{
    lw_ps p10, p90;

    return lw_alike_step_interval(end->alike, end->summary->step, &p10, &p90)
               ? lw_store_interval(row->store, row->id, p10, p90, end->alike->of, err)
               : LW_OK;
}

/* Those that are known: docs/formats/schema.md. */
static enum lw_status store_result(struct lw_sim_row *row, const struct lw_sim_result *x,
                                   struct lw_err *err)
{
    const struct {
        const char *name;
        double value;
    } real[] = {
        {"tokens_per_s", x->tokens_per_s},
        {"samples_per_s", x->samples_per_s},
        {"mfu_pct", x->mfu_pct},
        {"overlap_pct", x->overlap_pct},
        {"price_per_device_hour", x->price_per_device_hour},
        {"cost_per_trillion_tokens", x->cost_per_trillion_tokens},
    };
    const struct {
        const char *name;
        int64_t value;
    } whole[] = {
        {"memory_bytes", x->memory_bytes},
        {"device_memory_bytes", x->device_memory_bytes},
        {"fits", x->fits},
    };

    for (size_t i = 0; i < sizeof real / sizeof *real; i++)
        if (!isnan(real[i].value))
            LW_TRY(lw_store_metric_real(row->store, row->id, real[i].name, -1, -1, real[i].value,
                                        err));
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (whole[i].value >= 0)
            LW_TRY(lw_store_metric_int(row->store, row->id, whole[i].name, -1, -1, whole[i].value,
                                       err));
    return LW_OK;
}

static enum lw_status store_figures(struct lw_sim_row *row, const struct lw_sim_end *end,
                                    struct lw_err *err)
{
    LW_TRY(take(row, end->n_warmup, err));
    LW_TRY(store_spans(row, end, err));
    LW_TRY(store_interval(row, end, err));
    LW_TRY(store_result(row, end->result, err));
    LW_TRY(lw_store_metric_int(row->store, row->id, "n_events", -1, -1, end->stats->n_events, err));
    LW_TRY(lw_store_metric_real(row->store, row->id, "wall_s", -1, -1, end->wall_s, err));
    LW_TRY(lw_store_finish_run(row->store, row->id, end->summary, LW_RUN_OK, "", err));
    return lw_comparison_record(row->store, row->id, err);
}

static void hold_interrupts(sigset_t *before)
{
    sigset_t interrupts;

    sigemptyset(&interrupts);
    sigaddset(&interrupts, SIGINT);
    sigaddset(&interrupts, SIGTERM);
    sigaddset(&interrupts, SIGHUP);
    sigprocmask(SIG_BLOCK, &interrupts, before);
}

enum lw_status lw_sim_row_end(struct lw_sim_row *row, const struct lw_sim_end *end,
                              struct lw_err *err)
{
    sigset_t before;

    if (!row->store) {
        *err = row->unstored;
        return row->unstored.code;
    }
    hold_interrupts(&before);
    enum lw_status status = store_figures(row, end, err);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}

static void forget(struct lw_sim_row *row)
{
    struct lw_arena arena = {0};
    struct lw_err unused;
    struct lw_run r;
    char id[24];

    snprintf(id, sizeof id, "%" PRId64, row->id);
    if (lw_store_find_run(row->store, id, &arena, &r, &unused) == LW_OK)
        (void)lw_store_delete_runs(row->store, &r, 1, &unused);
    lw_arena_free(&arena);
}

void lw_sim_row_fail(struct lw_sim_row *row, enum lw_status status, const char *message,
                     int32_t n_warmup)
{
    struct lw_err unused; /* what failed is the message to give */

    if (!row->store)
        return;
    if (status != LW_EFAILED && status != LW_ENOMEM)
        forget(row);
    else if (take(row, n_warmup, &unused) == LW_OK)
        (void)lw_store_finish_run(row->store, row->id, NULL, LW_RUN_FAILED, message, &unused);
}
