/* Measured training runs in the documented format: a case per row. Every row ends as a case, as a
 * row passed over with its reason, or as a refused one with its fault. */
#include "analysis/validate/validate_kinds.h"

#include <stdio.h>
#include <string.h>

#include "analysis/evidence/runs_predict.h"
#include "shared/base/shown_text.h"
#include "shared/files/files.h"
#include "traces/models/model_workload.h"

enum lw_status lw_validate_read_runs(const struct lw_input *in, struct lw_validation *v,
                                     struct lw_runs **out, struct lw_err *err)
{
    struct lw_runs *r;
    enum lw_status s = LW_OK;

    LW_NEW(r, 1, err);
    s = lw_runs_read(in, traces_model_workload, r, err);
    for (int32_t i = 0; s == LW_OK && i < r->n_faults; i++) {
        const struct lw_runs_fault *f = &r->faults[i];
        s = lw_validation_refuse(v, &(struct lw_refusal){r->rows.file, f->column, f->text, f->line},
                                 err);
    }
    if (s != LW_OK) {
        lw_runs_free(r);
        lw_free(r);
        return s;
    }
    *out = r;
    return LW_OK;
}

struct reader {
    const struct lw_runs *r;
    struct lw_validation *v;
    char stem[80];
    int32_t row, family;
    const char *id;
};

/* --- the row's place -------------------------------------------------------------------------- */

static enum lw_status find_family(struct reader *x, struct lw_err *err)
{
    const char *table = lw_runs_cell(x->r, x->row, LW_RUN_TABLE);
    const char *id = lw_runs_cell(x->r, x->row, LW_RUN_ID);
    struct lw_validation *v = x->v;
    struct lw_bars bars = {.mean_pct = v->tolerance_pct};

    table = *table ? table : x->stem;
    LW_TRY(lw_validation_family(v, table, bars, false, &x->family, err));
    v->families[x->family].runs = true;
    v->families[x->family].memory_bar_pct = v->tolerance_pct;
    if (*id)
        LW_PRINT(&v->arena, x->id, err, "%s:%s", table, id);
    else
        LW_PRINT(&v->arena, x->id, err, "%s:%d", table, x->r->rows.line[x->row]);
    return LW_OK;
}

/* Runs of one model on as many devices of a kind: by the cells that give its size. */
static enum lw_status find_sweep(struct reader *x, double n_devices, const char *device,
                                 int32_t *series, struct lw_err *err)
{
    static const char *const sizes[] = {"layers", "hidden", "ffn", "experts"};
    char name[256];
    int n = snprintf(name, sizeof name, "%.60s", lw_rows_cell(&x->r->rows, x->row, "model"));

    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const char *cell = lw_rows_cell(&x->r->rows, x->row, sizes[k]);
        if (*cell)
            n += snprintf(name + n, sizeof name - (size_t)n, " %s %.12s", sizes[k], cell);
    }
    snprintf(name + n, sizeof name - (size_t)n, " on %.0f %.60s", n_devices, device);
    return lw_validation_sweep(x->v, x->family, name, series, err);
}

/* --- cases ------------------------------------------------------------------------------------ */

static enum lw_status add_fits(const struct reader *x, const char *framework, struct lw_err *err)
{
    struct lw_framework f;
    enum lw_status found = lw_framework_find(framework, &f, NULL);

    if (found != LW_OK) /* a file's own name: what was fitted is the file's business */
        return found == LW_ENOMEM ? lw_fail_nomem(err) : LW_OK;
    enum lw_status s = lw_validate_fits(x->v, x->family, &f, err);
    lw_framework_free(&f);
    return s;
}

static enum lw_status add_case(struct reader *x, const struct lw_runs_prediction *p,
                               const struct lw_runs_measured *m, struct lw_err *err)
{
    const char *kind = lw_runs_cell(x->r, x->row, LW_RUN_MEMORY_KIND);
    struct lw_case c = {.id = x->id,
                        .unit = "ns",
                        .family = x->family,
                        .series = -1,
                        .predicted = p->step_ns,
                        .measured = m->step_s * 1e9,
                        .predicted_bytes = p->memory_bytes,
                        .measured_bytes = m->memory_bytes,
                        .memory_kind = *kind ? kind : "allocated",
                        .needed_bytes = p->needed_bytes,
                        .capacity_bytes = p->capacity_bytes,
                        .measured_mfu_pct = m->mfu_pct,
                        .failed = m->failed,
                        .refused = p->is_refused,
                        .tokens_per_s_device = p->tokens_per_s_device,
                        .key = p->key,
                        .remark = p->why,
                        .command = p->command};

    char beyond[200];

    if (m->mfu_pct > 100) {
        snprintf(beyond, sizeof beyond, "the measured step alone implies an MFU of %.4g %%: the "
                 "row is not of such a run", m->mfu_pct);
        c.remark = beyond;
    }
    if (!m->failed && !p->is_refused)
        LW_TRY(find_sweep(x, p->n_devices, p->key.part[1], &c.series, err));
    LW_TRY(add_fits(x, p->key.part[0], err));
    return lw_validation_case(x->v, &c, err);
}

/* Options that contradict each other where only the plan shows it. */
static enum lw_status refuse(struct reader *x, const char *text, struct lw_err *err)
{
    struct lw_refusal r = {x->r->rows.file, "", NULL, x->r->rows.line[x->row]};

    LW_PRINT(&x->v->arena, r.text, err, "%s:%d: %s", r.file, r.line, text);
    return lw_validation_refuse(x->v, &r, err);
}

static enum lw_status skip(struct reader *x, const char *reason, struct lw_err *err)
{
    return lw_validation_skip(x->v, x->family, x->id, reason, err);
}

static enum lw_status add_run(struct reader *x, struct lw_err *err)
{
    const char *why = lw_runs_cell(x->r, x->row, LW_RUN_WHY);
    struct lw_runs_prediction p;
    struct lw_runs_measured m;
    struct lw_err said = {0};

    LW_TRY(find_family(x, err));
    if (*why)
        return skip(x, why, err);
    if (!lw_runs_is_measured(x->r, x->row))
        return skip(x, "nothing is measured", err);
    if (strcmp(lw_runs_cell(x->r, x->row, LW_RUN_OUTCOME), "failed") == 0)
        return skip(x, "the run failed, and not for lack of memory", err);
    enum lw_status s = lw_runs_predict(x->r, x->row, x->v->framework_file, x->v->framework_name,
                                       &x->v->arena, &p, &said);
    if (s == LW_ENOMEM)
        return lw_fail_nomem(err);
    if (s == LW_ENOTSUP)
        return skip(x, said.msg, err);
    if (s != LW_OK && lw_progress_stopped(x->v->progress)) /* interrupted */
        return LW_OK;
    if (s != LW_OK)
        return refuse(x, said.msg, err);
    x->v->n_framework_rows += p.takes_own;
    lw_runs_measure(x->r, x->row, &p, &m);
    if (p.is_refused && !m.failed) /* it ran, and is not predicted */
        return skip(x, p.why, err);
    if (m.step_s == 0 && m.memory_bytes == 0 && !m.failed)
        return skip(x, "its rate gives no step: the model has no tokens or no FLOPs that are "
                       "counted (give step_s or samples_s)", err);
    return add_case(x, &p, &m, err);
}

enum lw_status lw_validate_runs(const struct lw_runs *r, struct lw_validation *v,
                                struct lw_err *err)
{
    struct reader x = {.r = r, .v = v};

    lw_file_stem(x.stem, sizeof x.stem, r->rows.file);
    for (; x.row < r->rows.n_rows && lw_validation_goes_on(v, x.stem, x.row, r->rows.n_rows);
         x.row++)
        if (!r->is_bad[x.row])
            LW_TRY(add_run(&x, err));
    return LW_OK;
}
