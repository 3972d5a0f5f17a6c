/* Published tables of measured training runs: a case per row. Every row ends as a case or, with a
 * reason, among the rows passed over. */
#include "analysis/validate/validate_kinds.h"

#include <stdio.h>
#include <string.h>

#include "analysis/published/run_predict.h"
#include "analysis/published/run_table.h"
#include "shared/base/shown_text.h"
#include "shared/files/files.h"

bool lw_validate_is_table(const struct lw_input *in)
{
    return lw_run_table_of(in) != NULL;
}

struct table {
    const struct lw_run_table *kind;
    const struct lw_rows *rows;
    struct lw_validation *v;
    char name[80];
    int32_t family;
};

static void id_of(const struct table *t, int32_t row, const struct lw_run_variant *v, char *id,
                  size_t size)
{
    char number[16];
    const char *cell = lw_rows_cell(t->rows, row, "row");

    snprintf(number, sizeof number, "%d", row);
    snprintf(id, size, "%s:%s%s%s", t->name, *cell ? cell : number, *v->name ? "/" : "", v->name);
}

/* The figures of the row's framework that were fitted on published runs. */
static enum lw_status add_fits(struct table *t, const struct lw_run *run, struct lw_err *err)
{
    struct lw_framework f;

    LW_TRY(lw_framework_find(lw_run_framework(run), &f, err));
    enum lw_status s = lw_validate_fits(t->v, t->family, &f, err);
    lw_framework_free(&f);
    return s;
}

static enum lw_status add_case(struct table *t, const char *id, const struct lw_run *run,
                               const struct lw_run_prediction *p, const struct lw_run_measured *m,
                               struct lw_err *err)
{
    char sweep[160];
    struct lw_case c = {.id = id,
                        .unit = "ns",
                        .family = t->family,
                        .series = -1,
                        .predicted = p->step_ns,
                        .measured = m->step_s * 1e9,
                        .predicted_bytes = p->memory_bytes,
                        .measured_bytes = m->memory_bytes,
                        .needed_bytes = p->needed_bytes,
                        .capacity_bytes = p->capacity_bytes,
                        .failed = m->failed,
                        .refused = p->is_refused,
                        .tokens_per_s_device = p->tokens_per_s_device,
                        .remark = p->why,
                        .command = p->command};

    snprintf(sweep, sizeof sweep, "%.80s on %lld", run->model, (long long)run->gpus);
    if (!m->failed)
        LW_TRY(lw_validation_sweep(t->v, t->family, sweep, &c.series, err));
    LW_TRY(add_fits(t, run, err));
    return lw_validation_case(t->v, &c, err);
}

/* The file of --framework, where it is of the framework that the row has. */
static const char *own_framework(const struct lw_validation *v, const struct lw_run *run)
{
    bool same = v->framework_file && strcmp(v->framework_name, lw_run_framework(run)) == 0;

    return same ? v->framework_file : NULL;
}

static enum lw_status add_run(struct table *t, int32_t row, const struct lw_run_variant *v,
                              struct lw_err *err)
{
    struct lw_run run;
    struct lw_run_options o;
    struct lw_run_prediction p;
    struct lw_run_measured m;
    struct lw_err why = {0};
    char id[160];

    id_of(t, row, v, id, sizeof id);
    LW_TRY(lw_run_read(t->kind, v, t->rows, row, &t->v->arena, &run, err));
    enum lw_status s = lw_run_express(&run, &o, &why);
    if (s == LW_OK)
        s = lw_run_predict(&run, &o, own_framework(t->v, &run), &p, &why);
    if (s == LW_ENOMEM)
        return lw_fail_nomem(err);
    if (s != LW_OK)
        return lw_validation_skip(t->v, t->family, id, why.msg, err);
    lw_run_measure(v, t->rows, row, &run, p.step_flops, p.peak, &m);
    if (m.step_s == 0 && m.memory_bytes == 0 && !m.failed)
        return lw_validation_skip(t->v, t->family, id, "no measured column gives a step or memory",
                                  err);
    return add_case(t, id, &run, &p, &m, err);
}

static enum lw_status add_rows(struct table *t, struct lw_err *err)
{
    LW_TRY(lw_validation_family(t->v, t->name, t->kind->bars, false, &t->family, err));
    t->v->families[t->family].runs = true;
    t->v->families[t->family].memory_bar_pct = t->kind->memory_bar_pct;
    t->v->families[t->family].rank_bar = t->kind->rank_bar;
    for (int32_t i = 0;
         i < t->rows->n_rows && lw_validation_goes_on(t->v, t->name, i, t->rows->n_rows); i++)
        for (int k = 0; k < LW_RUN_VARIANTS && t->kind->variants[k].measured; k++)
            LW_TRY(add_run(t, i, &t->kind->variants[k], err));
    return LW_OK;
}

/* A wrong cell in the last row does not cost the minutes of all rows before it. */
static enum lw_status check_rows(const struct table *t, struct lw_err *err)
{
    for (int32_t i = 0; i < t->rows->n_rows; i++)
        for (int k = 0; k < LW_RUN_VARIANTS && t->kind->variants[k].measured; k++)
            LW_TRY(lw_run_check(t->kind, &t->kind->variants[k], t->rows, i, err));
    return LW_OK;
}

enum lw_status lw_validate_table(const struct lw_input *in, struct lw_validation *v,
                                 struct lw_err *err)
{
    struct lw_rows rows;
    struct table t = {.kind = lw_run_table_of(in), .rows = &rows, .v = v};

    lw_file_stem(t.name, sizeof t.name, in->name);
    LW_TRY(lw_rows_read(in, &rows, err));
    enum lw_status s = check_rows(&t, err);
    if (s == LW_OK)
        s = add_rows(&t, err);
    lw_rows_free(&rows);
    return s;
}
