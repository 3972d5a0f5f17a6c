/* Storing what exec did. */
#include "analysis/study/store_exec_run.h"

#include <math.h>
#include <unistd.h>

#include "analysis/compare/compare.h"
#include "analysis/store/store.h"
#include "shared/cluster/calibrated_backend.h"

bool cmd_exec_ran(enum lw_status s)
{
    return s == LW_OK || s == LW_ENO || s == LW_EFAILED || s == LW_ETIMEOUT || s == LW_ENOMEM ||
           s == LW_EIO;
}

static enum lw_run_status run_status(enum lw_status status)
{
    return status == LW_OK ? LW_RUN_OK : status == LW_ETIMEOUT ? LW_RUN_TIMEOUT : LW_RUN_FAILED;
}

const char *cmd_exec_status_name(enum lw_status status)
{
    return lw_run_status_name(run_status(status));
}

static enum lw_status store_places(struct lw_store *db, int64_t run, const struct lw_exec_result *x,
                                   struct lw_err *err)
{
    for (int32_t i = 0; i < x->n_places; i++) {
        const struct lw_exec_place *p = &x->places[i];
        if (!p->known)
            continue;
        LW_TRY(lw_store_metric_int(db, run, "last_finished_op", p->step, p->rank, p->last_op, err));
        LW_TRY(lw_store_metric_int(db, run, "first_unfinished_op", p->step, p->rank, p->open_op,
                                   err));
    }
    return LW_OK;
}

static enum lw_status store_states(struct lw_store *db, int64_t run, const struct lw_exec_result *x,
                                   struct lw_err *err)
{
    const struct exec_device_state *s = x->n_states > 0 ? x->states : &x->state;

    for (int32_t i = 0; i < (x->n_states > 0 ? x->n_states : 1); i++)
        for (int k = 0; s[i].n_readings > 0 && lw_exec_device_figures[k].name; k++)
            LW_TRY(lw_store_metric_real(db, run, lw_exec_device_figures[k].name, -1, i,
                                        lw_exec_device_figure(&s[i], k), err));
    return *x->settings ? lw_store_settings(db, run, x->settings, err) : LW_OK;
}

static enum lw_status store_speed(struct lw_store *db, int64_t run, const struct lw_exec_result *x,
                                  struct lw_err *err)
{
    const struct lw_machine_speed *s = &x->speed;

    for (int64_t i = 0; i < x->n_probes; i++)
        LW_TRY(lw_store_metric_real(db, run, "probe_ns", x->probes[i].step, x->probes[i].rank,
                                    x->probes[i].now_ns, err));
    for (int32_t rank = 0; rank < x->n_compute_speeds; rank++)
        if (!isnan(x->compute_speed[rank]))
            LW_TRY(lw_store_metric_real(db, run, "compute_speed", -1, rank,
                                        x->compute_speed[rank], err));
    if (s->n == 0)
        return LW_OK;
    LW_TRY(lw_store_metric_real(db, run, "machine_speed", -1, -1, s->median, err));
    LW_TRY(lw_store_metric_real(db, run, "machine_speed_p10", -1, -1, s->p10, err));
    return lw_store_metric_real(db, run, "machine_speed_p90", -1, -1, s->p90, err);
}

static enum lw_status fill(struct lw_store *db, int64_t run, const struct lw_run_info *info,
                           const struct lw_exec_result *x, const struct lw_summary *summary,
                           enum lw_status ran, const char *message, struct lw_err *err)
{
    if (x->timeline.n > 0)
        LW_TRY(lw_store_spans(db, run, &x->timeline, err));
    if (x->timeline.n > 0 && summary->memory.rank >= 0)
        LW_TRY(lw_store_memory(db, run, &x->timeline, info->plan, err));
    LW_TRY(lw_store_metric_real(db, run, "wall_s", -1, -1, x->wall_s, err));
    LW_TRY(lw_store_metric_int(db, run, "n_compared_steps", -1, -1, x->n_compared_steps, err));
    LW_TRY(lw_store_metric_int(db, run, "n_checked_bytes", -1, -1, x->n_checked_bytes, err));
    LW_TRY(lw_store_metric_int(db, run, "over_ps", -1, -1, x->over, err));
    if (x->others_share >= 0)
        LW_TRY(lw_store_metric_real(db, run, "others_pct", -1, -1, 100 * x->others_share, err));
    if (info->cluster && info->backend && lw_calibrated_for_another(info->cluster, info->backend))
        LW_TRY(lw_store_metric_int(db, run, "other_calibration", -1, -1, 1, err));
    LW_TRY(store_places(db, run, x, err));
    LW_TRY(store_speed(db, run, x, err));
    LW_TRY(store_states(db, run, x, err));
    LW_TRY(lw_store_finish_run(db, run, summary->n_steps > 0 ? summary : NULL,
                               run_status(ran), message, err));
    return lw_comparison_record(db, run, err);
}

enum lw_status cmd_exec_begin(const char *db, const struct lw_run_info *info, int64_t *run,
                              struct lw_err *err)
{
    struct lw_store *store;

    LW_TRY(lw_store_open(db, LW_STORE_WRITE, &store, err));
    enum lw_status s = lw_store_begin_run(store, info, run, err);
    lw_store_close(store);
    return s;
}

void cmd_exec_blame(const char *db, int64_t run, const char *why)
{
    struct lw_store *store;

    if (lw_store_open(db, LW_STORE_WRITE, &store, NULL) != LW_OK)
        return;
    lw_store_wait_at_most(store, 500);
    lw_store_blame(store, run, why, NULL);
    lw_store_close(store);
}

void cmd_exec_name_cause(const char *db, int64_t run, int rank, const char *cause, bool sure)
{
    struct lw_store *store;

    if (lw_store_open(db, LW_STORE_WRITE, &store, NULL) != LW_OK)
        return;
    lw_store_name_cause(store, run, rank, cause, sure, NULL);
    lw_store_close(store);
}

enum lw_status cmd_exec_store(const char *db, const struct lw_run_info *info,
                              const struct lw_exec_result *x, const struct lw_summary *summary,
                              enum lw_status ran, const char *message, int64_t *run, bool *mine,
                              struct lw_err *err)
{
    struct lw_store *store;
    int64_t id = *run;

    *mine = true;
    LW_TRY(lw_store_open(db, id < 0 ? LW_STORE_WRITE : LW_STORE_FINISH, &store, err));
    enum lw_status s = id < 0 ? lw_store_begin_run(store, info, &id, err)
                              : lw_store_end_of_run(store, id, message, info->honesty,
                                                    info->n_warmup, mine, err);
    if (s == LW_OK && *mine)
        s = fill(store, id, info, x, summary, ran, message, err);
    if (s == LW_OK)
        *run = id;
    lw_store_close(store);
    return s;
}
