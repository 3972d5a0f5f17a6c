/* lapwing compare: how far apart two stored runs are, and what makes up the difference; or every
 * execution beside its prediction. */
#include <math.h>
#include <stdio.h>

#include "analysis/compare/compare_by.h"
#include "analysis/compare/compare_print.h"
#include "analysis/compare/compare_side.h"
#include "analysis/store/run_numbers.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"

/* What one call was asked to do. */
struct request {
    const char *db;
    enum lw_format format;
    double tolerance; /* < 0: none */
    bool all;         /* buckets */
    const char *by;   /* NULL: none */
};

/* load: of a step that was measured under load, the share of other programs in percent; else 0. */
static enum lw_status judge_pct(double e, double tolerance, double load, struct lw_err *err)
{
    if (tolerance < 0 || (!isnan(e) && fabs(e) <= tolerance))
        return LW_OK;
    if (load > 0)
        return lw_fail(err, LW_ELOAD,
                       "measured under load: repeat; other programs took %.1f %% of the "
                       "processors, and the step is %+.2f %% off, beyond the tolerance of %g %%",
                       load, e, tolerance);
    return lw_fail(err, LW_ENO, "the step is %+.2f %% off, beyond the tolerance of %g %%", e,
                   tolerance);
}

static double load_of(const struct lw_run *a, const struct lw_run *b)
{
    return lw_run_under_load(b) ? b->others_pct : lw_run_under_load(a) ? a->others_pct : 0;
}

static enum lw_status compare_two(const struct request *r, char **names, struct lw_err *err)
{
    struct lw_store *store = NULL;
    struct lw_comparison c = {0};

    enum lw_status st = lw_store_open(r->db, LW_STORE_READ, &store, err);
    if (st == LW_OK)
        st = lw_compare(store, names[0], names[1], &c, err);
    lw_store_close(store);
    if (st != LW_OK)
        return st;
    struct lw_per_unit u = lw_comparison_per_unit(&c);
    enum lw_status verdict =
        judge_pct(u.unit ? lw_per_unit_pct(u, c.step) : lw_both_error_pct(c.step), r->tolerance,
                  load_of(&c.predicted, &c.measured), err);
    if (r->format == LW_FORMAT_JSON)
        lw_comparison_json(&c, r->tolerance, verdict == LW_OK, stdout);
    else
        st = r->format == LW_FORMAT_CSV ? lw_comparison_csv(&c, stdout, err)
                                        : lw_comparison_text(&c, r->all, stdout, err);
    lw_comparison_free(&c);
    return st == LW_OK ? verdict : st;
}

/* The run that is furthest from the first decides. */
static enum lw_status compare_sides(const struct request *r, char **names, int n,
                                    struct lw_err *err)
{
    struct lw_store *store = NULL;
    struct lw_sides x = {0};

    enum lw_status st = lw_store_open(r->db, LW_STORE_READ, &store, err);
    if (st == LW_OK)
        st = lw_sides_read(store, names, n, &x, err);
    lw_store_close(store);
    if (st == LW_OK)
        st = lw_sides_print(&x, r->format, stdout, err);
    for (int32_t i = 1; st == LW_OK && i < x.n; i++)
        st = lw_err_context(
            err, judge_pct(lw_sides_pct(&x, i, -1), r->tolerance,
                           load_of(&x.run[0], &x.run[i]), err),
            "runs %lld and %lld", (long long)x.run[0].id, (long long)x.run[i].id);
    lw_sides_free(&x);
    return st;
}

/* The worst pair decides. */
static enum lw_status judge_pairs(const struct request *r, const struct lw_run *runs, int32_t n,
                                  struct lw_err *err)
{
    for (int32_t i = 0; i < n; i++) {
        const struct lw_run *p = lw_prediction_of(runs, n, &runs[i]);
        if (p)
            LW_TRY(lw_err_context(
                err,
                judge_pct(lw_both_error_pct((struct lw_both){p->step, runs[i].step}), r->tolerance,
                          load_of(p, &runs[i]), err),
                "runs %lld and %lld", (long long)p->id, (long long)runs[i].id));
    }
    return LW_OK;
}

static enum lw_status compare_pairs(const struct request *r, struct lw_err *err)
{
    struct lw_store *store = NULL;
    struct lw_arena arena = {0};
    struct lw_run *runs;
    int32_t n;

    enum lw_status st = lw_store_open(r->db, LW_STORE_READ, &store, err);
    if (st == LW_OK)
        st = lw_store_select_runs(store, NULL, 0, &arena, &runs, &n, err);
    if (st == LW_OK && r->format == LW_FORMAT_JSON)
        lw_pairs_json(runs, n, stdout);
    else if (st == LW_OK)
        st = lw_pairs_text(runs, n, r->format == LW_FORMAT_CSV, stdout, err);
    if (st == LW_OK)
        st = judge_pairs(r, runs, n, err);
    lw_store_close(store);
    lw_arena_free(&arena);
    return st;
}

static enum lw_status compare_by(const struct request *r, char **names, int n_names,
                                 struct lw_err *err)
{
    struct lw_store *store = NULL;
    struct lw_arena arena = {0};
    struct lw_run *runs;
    enum lw_by by;
    int32_t n;

    enum lw_status st = lw_by_parse(r->by, &by, err);
    if (st == LW_OK)
        st = lw_store_open(r->db, LW_STORE_READ, &store, err);
    if (st == LW_OK)
        st = lw_store_select_runs(store, names, n_names, &arena, &runs, &n, err);
    if (st == LW_OK)
        st = lw_err_context(err, lw_compare_by(runs, n, by, r->format, stdout, err), "%s", r->db);
    lw_store_close(store);
    lw_arena_free(&arena);
    return st;
}

/* Lists and ranges of runs, one by one. */
static enum lw_status list_runs(const char *db, struct lw_arena *a, char ***names, int *n,
                                struct lw_err *err)
{
    struct lw_store *store = NULL;
    bool lists = false;

    for (int i = 0; i < *n; i++)
        lists |= lw_names_runs((*names)[i]);
    if (!lists)
        return LW_OK;
    enum lw_status st = lw_store_open(db, LW_STORE_READ, &store, err);
    if (st == LW_OK)
        st = lw_store_run_numbers(store, *names, *n, a, names, n, err);
    lw_store_close(store);
    return st;
}

static enum lw_status work(const struct request *r, char **names, int n, struct lw_arena *a,
                           struct lw_err *err)
{
    LW_TRY(list_runs(r->db, a, &names, &n, err));
    if (n == 1)
        return lw_fail(err, LW_EUSAGE, "needs two runs, or none for all pairs");
    if (r->all && (r->by || n != 2))
        return lw_fail(err, LW_EUSAGE,
                       "--all prints the buckets of two runs: it changes nothing %s",
                       r->by ? "with --by" : "of more, or of all pairs");
    if (r->by)
        return compare_by(r, names, n, err);
    if (n > LW_SIDES_MOST)
        return lw_fail(err, LW_EUSAGE, "found %d runs, expected at most %d; --by takes any number",
                       n, LW_SIDES_MOST);
    return n > 2    ? compare_sides(r, names, n, err)
           : n == 2 ? compare_two(r, names, err)
                    : compare_pairs(r, err);
}

int cmd_compare(int argc, char **argv)
{
    struct request r = {.db = "lapwing.db", .tolerance = -1};
    const struct lw_opt options[] = {
        {"tolerance", 0, LW_OPT_DOUBLE, &r.tolerance, "PCT",
         "exit with status 3 if the steps differ by more than this percentage of the measured "
         "one", 0, 1000000},
        {"all", 0, LW_OPT_FLAG, &r.all, NULL, "print every bucket (the ten that differ most)"},
        {"by", 0, LW_OPT_STRING, &r.by, "framework|cluster|strategy",
         "runs (all without operands) that differ only in this, against each other"},
        LW_OPTION_DB(&r.db),
        LW_OPTION_FORMAT(&r.format),
        {0},
    };
    const struct lw_usage usage = {
        "compare", "[RUN RUN...] [options]",
        "Compare two stored runs: step, parts of it, buckets and ops. Of a simulation and an "
        "execution the simulation is the prediction; else the first. Three and more runs (a "
        "prediction, its execution, a recording): step and parts beside each other, each against "
        "the first. RUN is a number, 'last', a range or a list (2,5-7). "
        "With --by: runs that differ only in their framework, cluster or strategy, in groups. "
        "Without runs: every execution beside the last prediction of its plan.",
        0, -1};
    struct lw_err err = {0};
    struct lw_arena arena = {0};
    int n_operands, rc;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n_operands)) >= 0)
        return rc;
    if (r.by && r.tolerance >= 0)
        return lw_cli_usage("compare", "--tolerance judges two runs: leave out --by");
    enum lw_status st = work(&r, argv + 1, n_operands, &arena, &err);
    lw_arena_free(&arena);
    return lw_cli_end("compare", st, &err);
}
