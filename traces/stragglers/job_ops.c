/* A table of operations: step, rank, dp_rank, stage, optype, seq_id, mc, gmc, mb_id, start_us,
 * duration_us (the columns of ByteDance's straggler analysis, data/trace-*.parquet @ 8efcd7f, as
 * CSV). Every (step, dp_rank) must have the same operations on each stage: what-if simulations put
 * one in the place of another. */
#include "traces/stragglers/job_ops.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/io/csv_rows.h"
#include "shared/io/input.h"
#include "shared/numbers/order.h"
#include "traces/trace/decimal_time.h"

static const char titles[] =
    "step rank dp_rank stage optype seq_id mc gmc start_us duration_us";

enum { MOST_WORKERS = 1 << 20, MOST_OPS = 20000 };

static const struct {
    const char *name;
    bool computes;
} types[JOB_N_TYPES] = {
    [JOB_FORWARD] = {"forward-compute", true},
    [JOB_BACKWARD] = {"backward-compute", true},
    [JOB_FORWARD_SEND] = {"forward-send", false},
    [JOB_FORWARD_RECV] = {"forward-recv", false},
    [JOB_BACKWARD_SEND] = {"backward-send", false},
    [JOB_BACKWARD_RECV] = {"backward-recv", false},
    [JOB_GATHER_PARAMS] = {"params-all-gather", false},
    [JOB_REDUCE_GRADS] = {"grads-reduce-scatter", false},
    [JOB_REDUCE_SEPARATE] = {"separate-grads-all-reduce", false},
    [JOB_REDUCE_NORMS] = {"layernorm-grads-all-reduce", false},
    [JOB_REDUCE_EMBEDDING] = {"embedding-grads-all-reduce", false},
    [JOB_CLIP] = {"optimizer-clip-main-grad", false},
    [JOB_OPTIMIZER] = {"optimizer", true},
    [JOB_GC] = {"gc", true},
};

const char *job_type_name(enum job_type t)
{
    return types[t].name;
}

bool job_type_computes(enum job_type t)
{
    return types[t].computes;
}

bool job_ops_is(const struct lw_input *in)
{
    return lw_rows_have(in, titles);
}

struct row {
    struct job_op op;
    int64_t step, start, dur;
    int32_t rank, dp, line;
};

struct reader {
    struct lw_rows table;
    struct row *rows;
    struct job_ops *j;
};

/* ---- lines ---- */

static enum lw_status read_type(const struct lw_rows *t, int32_t i, enum job_type *type,
                                struct lw_err *err)
{
    const char *name = lw_rows_cell(t, i, "optype");
    char all[512] = "";

    for (int k = 0; k < JOB_N_TYPES; k++)
        if (strcmp(name, types[k].name) == 0) {
            *type = (enum job_type)k;
            return LW_OK;
        }
    for (int k = 0; k < JOB_N_TYPES; k++)
        lw_err_word(all, sizeof all, types[k].name);
    return lw_fail_at(err, LW_EFORMAT, t->file, t->line[i],
                      "unknown optype '%.60s'; expected one of %s", name, all);
}

static enum lw_status read_us(const struct lw_rows *t, int32_t i, const char *title, int64_t *ns,
                              struct lw_err *err)
{
    const char *text = lw_rows_cell(t, i, title);

    if (!traces_decimal(text, strlen(text), 3, ns) || *ns < 0 || *ns > INT64_MAX / 4000)
        return lw_fail_at(err, LW_EFORMAT, t->file, t->line[i],
                          "%s is '%.40s'; expected microseconds from 0 to 26 days", title, text);
    return LW_OK;
}

static enum lw_status read_int32(const struct lw_rows *t, int32_t i, const char *title,
                                 int64_t least, int32_t *v, struct lw_err *err)
{
    int64_t value;

    LW_TRY(lw_rows_int(t, i, title, least, MOST_WORKERS, &value, err));
    *v = (int32_t)value;
    return LW_OK;
}

static enum lw_status read_row(struct reader *r, int32_t i, struct lw_err *err)
{
    const struct lw_rows *t = &r->table;
    struct row *x = &r->rows[i];

    x->line = t->line[i];
    LW_TRY(read_type(t, i, &x->op.type, err));
    LW_TRY(lw_rows_int(t, i, "step", 0, INT64_MAX, &x->step, err));
    LW_TRY(read_int32(t, i, "rank", 0, &x->rank, err));
    LW_TRY(read_int32(t, i, "dp_rank", 0, &x->dp, err));
    LW_TRY(read_int32(t, i, "stage", 0, &x->op.stage, err));
    LW_TRY(read_int32(t, i, "seq_id", 0, &x->op.seq, err));
    LW_TRY(read_int32(t, i, "mc", -1, &x->op.chunk, err));
    LW_TRY(read_int32(t, i, "gmc", -1, &x->op.model_chunk, err));
    LW_TRY(read_us(t, i, "start_us", &x->start, err));
    return read_us(t, i, "duration_us", &x->dur, err);
}

/* ---- the grid ---- */

static int by_place(const struct row *a, const struct row *b)
{
    return LW_ORDER(a->op.stage, b->op.stage, a->op.type, b->op.type, a->op.seq, b->op.seq);
}

static int by_run(const void *pa, const void *pb)
{
    const struct row *a = pa, *b = pb;
    int place = by_place(a, b);

    return place ? place : LW_ORDER(a->step, b->step, a->dp, b->dp);
}

LW_COMPARATOR(by_number, int64_t, *a, *b)

static enum lw_status list_steps(struct reader *r, struct lw_err *err)
{
    struct job_ops *j = r->j;
    int64_t n = r->table.n_rows;

    LW_TAKE(&j->arena, j->steps, n, err);
    for (int64_t i = 0; i < n; i++) {
        j->steps[i] = r->rows[i].step;
        j->n_dp = r->rows[i].dp >= j->n_dp ? r->rows[i].dp + 1 : j->n_dp;
        if (r->rows[i].op.stage >= j->n_stages)
            j->n_stages = r->rows[i].op.stage + 1;
        if (r->rows[i].op.chunk >= j->n_chunks)
            j->n_chunks = r->rows[i].op.chunk + 1;
    }
    lw_sort(j->steps, n, by_number);
    for (int64_t i = 0; i < n; i++)
        if (j->n_steps == 0 || j->steps[i] != j->steps[j->n_steps - 1])
            j->steps[j->n_steps++] = j->steps[i];
    j->n_runs = (int64_t)j->n_steps * j->n_dp;
    return LW_OK;
}

static enum lw_status no_such_run(const struct reader *r, const struct row *x, int64_t step,
                                  int32_t dp, struct lw_err *err)
{
    return lw_fail_at(err, LW_EFORMAT, r->table.file, x->line,
                      "'%s' %d of stage %d is missing in step %lld on dp_rank %d, or is there "
                      "twice; every step needs every operation of every worker once",
                      types[x->op.type].name, x->op.seq, x->op.stage, (long long)step, dp);
}

/* Rows sorted by place, step and rank are the grid, if it is whole. */
static enum lw_status fill_grid(struct reader *r, struct lw_err *err)
{
    struct job_ops *j = r->j;
    int64_t n = r->table.n_rows;

    for (int64_t i = 0; i < n; i++)
        j->n_ops += i == 0 || by_place(&r->rows[i - 1], &r->rows[i]) != 0;
    if (j->n_ops > MOST_OPS)
        return lw_fail_at(err, LW_EFORMAT, r->table.file, 0,
                          "a step of one pipeline has %d operations; at most %d", j->n_ops,
                          MOST_OPS);
    if (j->n_ops * j->n_runs > 2 * n + 1000000) /* far from whole: no memory for it */
        return lw_fail_at(err, LW_EFORMAT, r->table.file, 0,
                          "%lld operations of %d dp_ranks in %d steps; expected %lld, one of each "
                          "kind in every step",
                          (long long)n, j->n_dp, j->n_steps, (long long)(j->n_ops * j->n_runs));
    LW_TAKE(&j->arena, j->ops, j->n_ops, err);
    LW_TAKE(&j->arena, j->start_ns, j->n_ops * j->n_runs, err);
    LW_TAKE(&j->arena, j->dur_ns, j->n_ops * j->n_runs, err);
    LW_TAKE(&j->arena, j->rank, (int64_t)j->n_dp * j->n_stages, err);
    int64_t i = 0;
    for (int32_t o = 0; o < j->n_ops; o++) {
        const struct row *first = &r->rows[i];
        j->ops[o] = first->op;
        for (int64_t k = 0; k < j->n_runs; k++, i++) {
            int64_t step = j->steps[k / j->n_dp];
            int32_t dp = (int32_t)(k % j->n_dp);
            const struct row *x = &r->rows[i];
            if (i >= n || by_place(first, x) != 0 || x->step != step || x->dp != dp)
                return no_such_run(r, first, step, dp, err);
            j->start_ns[o * j->n_runs + k] = x->start;
            j->dur_ns[o * j->n_runs + k] = x->dur;
            j->rank[dp * j->n_stages + x->op.stage] = x->rank;
        }
        if (i < n && by_place(first, &r->rows[i]) == 0)
            return no_such_run(r, first, r->rows[i].step, r->rows[i].dp, err);
    }
    return LW_OK;
}

static enum lw_status read_rows(struct reader *r, struct lw_err *err)
{
    for (int32_t i = 0; i < r->table.n_rows; i++)
        LW_TRY(read_row(r, i, err));
    LW_TRY(list_steps(r, err));
    if ((int64_t)r->j->n_dp * r->j->n_stages > MOST_WORKERS)
        return lw_fail_at(err, LW_EFORMAT, r->table.file, 0, "%d dp_ranks and %d stages",
                          r->j->n_dp, r->j->n_stages);
    lw_sort(r->rows, r->table.n_rows, by_run);
    return fill_grid(r, err);
}

enum lw_status job_ops_read(const struct lw_input *in, struct job_ops *out, struct lw_err *err)
{
    struct job_ops j = {.file = in->name};
    struct reader r = {.j = &j};

    LW_TRY(lw_rows_read(in, &r.table, err));
    r.rows = lw_calloc((size_t)r.table.n_rows + 1, sizeof *r.rows);
    enum lw_status status = r.rows ? read_rows(&r, err) : lw_fail_nomem(err);
    lw_free(r.rows);
    lw_rows_free(&r.table);
    LW_GIVE(status, out, j, job_ops_free(&j));
}

LW_FREE_BY_ARENA(job_ops_free, struct job_ops)
