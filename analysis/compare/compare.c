/* Two stored runs side by side, from the database alone: the runs' measures, then per step and
 * bucket the time of the last rank, then medians over the measured steps of each side (the two
 * sides need not have run equally many steps, so steps are not paired one by one; ops are, by their
 * number in the plan, which also tells a variant's buckets from another's).
 *
 * What makes up a difference: one rank's period is cut into compute, copies, exposed transfers,
 * waits and idle, by definition without rest, so the differences of the parts add up to that of
 * the step. The list of ops below it is a hint and adds up to nothing: ops overlap. */
#include "analysis/compare/compare.h"
#include "analysis/compare/step_work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/store/run_name.h"
#include "analysis/store/sql.h"
#include "shared/base/sort.h"
#include "shared/numbers/median.h"
#include "shared/numbers/order.h"
#include "shared/plan/plan.h"

double lw_both_error_pct(struct lw_both v)
{
    if (v.predicted < 0 || v.measured <= 0)
        return NAN;
    return 100.0 * (double)(v.predicted - v.measured) / (double)v.measured;
}

const char *lw_part_name(int part)
{
    return part == LW_PART_SKEW ? "step beyond the rank's period"
                                : lw_period_figure_title(lw_period_parts[part]);
}

struct lw_both lw_comparison_part(const struct lw_comparison *c, int part)
{
    return part == LW_PART_SKEW ? c->skew : c->figure[lw_period_parts[part]];
}

const char *lw_joined_name(enum lw_joined j)
{
    static const char *const names[] = {"op", "bucket", "step"};
    return names[j];
}

LW_FREE_BY_ARENA(lw_comparison_free, struct lw_comparison)

/* --- the parts of a step ---------------------------------------------------------------------- */

static void take_metric(struct lw_run_parts *p, const char *name, lw_ps value)
{
    char metric[32];

    for (int k = 0; k < LW_N_FIGURES; k++)
        if (strcmp(name, lw_period_figure_metric(k, metric)) == 0)
            p->figure[k] = value;
    if (strcmp(name, "worst_rank") == 0)
        p->rank = (int32_t)value;
}

static enum lw_status read_measures(struct lw_store *s, const struct lw_run *run, int32_t rank,
                                    struct lw_run_parts *p, struct lw_err *err)
{
    struct lw_sql *q;

    *p = (struct lw_run_parts){.rank = rank, .figure[LW_FIGURE_PERIOD] = -1,
                               .figure[LW_FIGURE_HIDDEN] = -1};
    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT name, value FROM metric WHERE run = ?1 AND step = -1 AND rank ="
                        " iif(?3, (SELECT max(rank) FROM metric WHERE run = ?1 AND step = -1 AND"
                        "  name = 'period_ps' AND rank BETWEEN 0 AND ?2), ?2)",
                        "lii", run->id, rank, rank >= 0 && run->n_ranks > LW_RANKS_STORED_EACH));
    while (lw_sql_next(q))
        take_metric(p, lw_sql_text(q, 0), lw_sql_int(q, 1));
    return lw_sql_finish(q, err);
}

enum lw_status lw_run_read_parts(struct lw_store *s, const struct lw_run *run, int32_t rank,
                                 struct lw_run_parts *p, struct lw_err *err)
{
    p->figure[LW_FIGURE_PERIOD] = -1;
    if (rank >= 0)
        LW_TRY(read_measures(s, run, rank, p, err));
    if (p->figure[LW_FIGURE_PERIOD] < 0)
        LW_TRY(read_measures(s, run, -1, p, err));
    if (run->step < 0)
        return lw_fail_at(err, LW_EINVAL, lw_store_file(s), 0,
                          "run %lld has no step to show (status %s)", (long long)run->id,
                          lw_run_status_name(run->status));
    if (p->figure[LW_FIGURE_PERIOD] < 0)
        return lw_fail_at(
            err, LW_EINVAL, lw_store_file(s), 0,
            "run %lld was stored by Lapwing %s, which measured steps differently: run "
            "it again",
            (long long)run->id, run->version);
    p->skew = run->step - p->figure[LW_FIGURE_PERIOD];
    return LW_OK;
}

static void join_parts(struct lw_comparison *c, const struct lw_run_parts *p,
                       const struct lw_run_parts *m)
{
    c->rank[0] = p->rank;
    c->rank[1] = m->rank;
    c->step = (struct lw_both){c->predicted.step, c->measured.step};
    c->skew = (struct lw_both){p->skew, m->skew};
    for (int k = 0; k < LW_N_FIGURES; k++)
        c->figure[k] = (struct lw_both){p->figure[k], m->figure[k]};
}

/* --- buckets ---------------------------------------------------------------------------------- */

/* One run's collectives on one bucket: medians over its steps. */
struct bucket_side {
    const char *kind;
    const char *set;       /* "gradients", or the word of another kind ("tied") */
    int32_t stage, place;  /* of the set; in the launch order of the set */
    int32_t bucket;
    int64_t bytes;
    bool joined;
    lw_ps time[LW_N_BUCKET_TIMES];
};

struct bucket_list {
    int32_t n;
    struct bucket_side *v;
};

#define SPANS                                                                        \
    " FROM run JOIN span_rows AS span ON span.run = run.id AND span.step >= run.n_warmup"
#define THEIR_OPS " JOIN op ON op.plan = run.plan AND op.op = span.op"

/* Spans are read three times and not kept: a table of them all would be written to a file. */
static const char bucket_text[] =
    "WITH t AS (SELECT step, min(start_ps) AS t0" SPANS " WHERE run.id = ?1 GROUP BY step),"
    " used AS (SELECT DISTINCT bucket" SPANS THEIR_OPS
    "  WHERE run.id = ?1 AND bucket >= 0 AND step = (SELECT max(step) FROM t))"
    " SELECT op.bucket, op.kind, b.launch, max(op.bytes), span.step,"
    "  max(ready_ps - t0), iif(min(issue_ps) < 0, -1, max(issue_ps - t0)), max(start_ps - t0),"
    "  max(end_ps - t0),"
    "  iif(b.set_name IN ('weights', 'tied', 'norm'), b.set_name, 'gradients'), b.stage"
    SPANS THEIR_OPS
    " JOIN t ON t.step = span.step JOIN op_kind ON op_kind.id = span.kind"
    " JOIN bucket AS b ON b.plan = run.plan AND b.bucket = op.bucket"
    " WHERE run.id = ?1 AND op_kind.class = 'collective' AND op.bucket IN (SELECT bucket FROM used)"
    " GROUP BY op.bucket, op.kind, span.step ORDER BY op.bucket, op.kind, span.step";

/* Column-wise values of one group of rows, one per step. */
struct samples {
    lw_ps *v[LW_N_BUCKET_TIMES];
    int64_t capacity[LW_N_BUCKET_TIMES];
    int64_t n;
};

static enum lw_status add_sample(struct samples *m, struct lw_sql *q, int first_column,
                                 struct lw_err *err)
{
    for (int i = 0; i < LW_N_BUCKET_TIMES; i++) {
        if (lw_reserve(&m->v[i], &m->capacity[i], m->n + 1, sizeof *m->v[i]) != 0)
            return lw_fail_nomem(err);
        m->v[i][m->n] = lw_sql_int(q, first_column + i);
    }
    m->n++;
    return LW_OK;
}

static void free_samples(struct samples *m)
{
    for (int i = 0; i < LW_N_BUCKET_TIMES; i++)
        lw_free(m->v[i]);
}

static enum lw_status close_bucket(struct bucket_list *list, int64_t *capacity,
                                   struct bucket_side *open, struct samples *m, struct lw_err *err)
{
    if (m->n == 0)
        return LW_OK;
    if (lw_reserve(&list->v, capacity, list->n + 1, sizeof *list->v) != 0)
        return lw_fail_nomem(err);
    for (int i = 0; i < LW_N_BUCKET_TIMES; i++)
        open->time[i] = lw_median(m->v[i], m->n);
    list->v[list->n++] = *open;
    m->n = 0;
    return LW_OK;
}

static enum lw_status collect_buckets(struct lw_sql *q, struct lw_arena *a, struct samples *m,
                                      struct bucket_list *list, struct lw_err *err)
{
    struct bucket_side open = {.bucket = -1, .kind = ""};
    int64_t capacity = 0;

    while (lw_sql_next(q)) {
        int32_t bucket = (int32_t)lw_sql_int(q, 0);
        const char *kind = lw_sql_text(q, 1);
        if (bucket != open.bucket || strcmp(kind, open.kind) != 0) {
            LW_TRY(close_bucket(list, &capacity, &open, m, err));
            open = (struct bucket_side){.bucket = bucket, .place = (int32_t)lw_sql_int(q, 2),
                                        .bytes = lw_sql_int(q, 3),
                                        .kind = lw_arena_strdup(a, kind),
                                        .set = lw_arena_strdup(a, lw_sql_text(q, 9)),
                                        .stage = (int32_t)lw_sql_int(q, 10)};
            if (!open.kind || !open.set)
                return lw_fail_nomem(err);
        }
        LW_TRY(add_sample(m, q, 5, err));
    }
    return close_bucket(list, &capacity, &open, m, err);
}

static enum lw_status read_buckets(struct lw_store *s, const struct lw_run *run,
                                   struct lw_arena *a, struct bucket_list *list,
                                   struct lw_err *err)
{
    struct samples m = {0};
    struct lw_sql *q;

    LW_TRY(lw_sql_query(s, &q, err, bucket_text, "l", run->id));
    enum lw_status st = lw_sql_end(q, collect_buckets(q, a, &m, list, err), err);
    free_samples(&m);
    return st;
}

LW_COMPARATOR(by_launch, struct lw_bucket_line, a->time[LW_BUCKET_START].predicted,
              b->time[LW_BUCKET_START].predicted, a->bucket, b->bucket)

static struct lw_bucket_line join_bucket(const struct bucket_side *p, const struct bucket_side *m)
{
    struct lw_bucket_line line = {.kind = p->kind, .bucket = p->bucket,
                                  .bytes = {p->bytes, m->bytes}};

    for (int i = 0; i < LW_N_BUCKET_TIMES; i++)
        line.time[i] = (struct lw_both){p->time[i], m->time[i]};
    return line;
}

static bool same_place(const struct bucket_side *a, const struct bucket_side *b)
{
    return a->place == b->place && a->stage == b->stage && strcmp(a->set, b->set) == 0;
}

/* The other side's collective of the bucket; NULL: none that is left. */
static struct bucket_side *partner_of(const struct bucket_side *x, const struct bucket_list *of,
                                      bool by_number)
{
    for (int32_t k = 0; k < of->n; k++) {
        struct bucket_side *y = &of->v[k];
        bool same = by_number ? x->bucket == y->bucket : same_place(x, y);
        if (same && !y->joined && strcmp(x->kind, y->kind) == 0)
            return y;
    }
    return NULL;
}

static enum lw_status join_buckets(struct lw_comparison *c, const struct bucket_list *p,
                                   const struct bucket_list *m, struct lw_err *err)
{
    LW_TAKE(&c->arena, c->buckets, p->n, err);
    for (int32_t i = 0; i < p->n; i++) {
        struct bucket_side *y = partner_of(&p->v[i], m, c->joined == LW_JOINED_OP);
        if (!y)
            continue;
        y->joined = true;
        c->buckets[c->n_buckets++] = join_bucket(&p->v[i], y);
    }
    lw_sort(c->buckets, c->n_buckets, by_launch);
    return LW_OK;
}

static enum lw_status compare_buckets(struct lw_store *s, struct lw_comparison *c,
                                      struct lw_err *err)
{
    struct bucket_list p = {0}, m = {0};

    enum lw_status st = read_buckets(s, &c->predicted, &c->arena, &p, err);
    if (st == LW_OK)
        st = read_buckets(s, &c->measured, &c->arena, &m, err);
    if (st == LW_OK)
        st = join_buckets(c, &p, &m, err);
    lw_free(p.v);
    lw_free(m.v);
    return st;
}

/* --- ops -------------------------------------------------------------------------------------- */

/* The mean over ranks, of which the rows of one may stand for many. */
static const char op_text[] =
    "SELECT span.op, cast(1.0 * sum(ifnull(n_alike, 1) *"
    "  iif(all_in_ps < 0, end_ps - start_ps, end_ps - all_in_ps)) / sum(ifnull(n_alike, 1)) + 0.5"
    "  AS INTEGER)"
    SPANS " LEFT JOIN (SELECT cast(value AS INTEGER) AS rows_of, count(*) AS n_alike FROM metric"
    "  WHERE run = ?1 AND name = 'rows_of_rank' GROUP BY value) ON rows_of = span.rank"
    " JOIN op_kind ON op_kind.id = span.kind"
    " WHERE run.id = ?1 AND op_kind.class IN ('compute', 'copy', 'collective', 'p2p')"
    " GROUP BY span.op, span.step ORDER BY span.op, span.step";

static enum lw_status collect_ops(struct lw_sql *q, struct samples *m, lw_ps *time, int64_t n_ops,
                                  struct lw_err *err)
{
    int64_t open = -1;

    for (bool more = true; more;) {
        more = lw_sql_next(q);
        int64_t op = more ? lw_sql_int(q, 0) : -1;
        if (op != open && open >= 0 && open < n_ops)
            time[open] = lw_median(m->v[0], m->n);
        if (op != open)
            m->n = 0;
        open = op;
        if (!more)
            break;
        if (lw_reserve(&m->v[0], &m->capacity[0], m->n + 1, sizeof *m->v[0]) != 0)
            return lw_fail_nomem(err);
        m->v[0][m->n++] = lw_sql_int(q, 1);
    }
    return LW_OK;
}

static enum lw_status read_ops(struct lw_store *s, const struct lw_run *run, lw_ps *time,
                               int64_t n_ops, struct lw_err *err)
{
    struct samples m = {0};
    struct lw_sql *q;

    for (int64_t i = 0; i < n_ops; i++)
        time[i] = -1;
    LW_TRY(lw_sql_query(s, &q, err, op_text, "l", run->id));
    enum lw_status st = lw_sql_end(q, collect_ops(q, &m, time, n_ops, err), err);
    free_samples(&m);
    return st;
}

/* "all_reduce, transfer of bucket 2", "backward: h.3, micro-batch 1"; "op 12, ..." where others
 * have the same name: parts of a module, ops of another role or variant. */
static const char *describe_op(struct lw_sql *q, struct lw_arena *a)
{
    const char *kind = lw_sql_text(q, 0), *class = lw_sql_text(q, 1), *name = lw_sql_text(q, 2);
    long long module = lw_sql_int(q, 3), bucket = lw_sql_int(q, 4);
    bool wire = strcmp(class, "collective") == 0 || strcmp(class, "p2p") == 0;
    long long micro_batch = lw_sql_int(q, 5), number = lw_sql_int(q, 6);
    char text[256], before[48] = "", after[48] = "";

    if (number >= 0)
        snprintf(before, sizeof before, "op %lld, ", number);
    if (micro_batch >= 0)
        snprintf(after, sizeof after, ", micro-batch %lld", micro_batch);
    if (name[0] && bucket < 0)
        snprintf(text, sizeof text, "%s%s: %s%s", before, kind, name, after);
    else if (bucket >= 0)
        snprintf(text, sizeof text, "%s%s%s of bucket %lld%s", before, kind,
                 wire ? ", transfer" : "", bucket, after);
    else if (module >= 0)
        snprintf(text, sizeof text, "%s%s of module %lld%s", before, kind, module, after);
    else
        snprintf(text, sizeof text, "%s%s%s", before, kind, after);
    return lw_arena_strdup(a, text);
}

struct ranked_op {
    int64_t op;
    lw_ps size; /* of the difference */
};

LW_COMPARATOR(by_size, struct ranked_op, b->size, a->size, a->op, b->op)

/* The micro-batch where the plan has several, and the number where others are named alike. */
static const char named_op[] =
    "SELECT o.kind, o.class, o.name, o.module, o.bucket,"
    " CASE WHEN EXISTS (SELECT 1 FROM op WHERE plan = o.plan AND micro_batch > 0)"
    "  THEN o.micro_batch ELSE -1 END,"
    " CASE WHEN EXISTS (SELECT 1 FROM op AS x WHERE x.plan = o.plan AND x.op <> o.op"
    "  AND x.kind = o.kind AND x.name = o.name AND x.module = o.module AND x.bucket = o.bucket"
    "  AND x.micro_batch = o.micro_batch) THEN o.op ELSE -1 END"
    " FROM op AS o WHERE o.plan = ? AND o.op = ?";

static enum lw_status name_ops(struct lw_store *s, struct lw_comparison *c, const lw_ps *p,
                               const lw_ps *m, const struct ranked_op *order, int64_t n,
                               struct lw_err *err)
{
    struct lw_sql *q;

    LW_TAKE(&c->arena, c->ops, LW_OPS_SHOWN, err);
    for (int64_t i = 0; i < n && i < LW_OPS_SHOWN && order[i].size > 0; i++) {
        LW_TRY(lw_sql_query(s, &q, err, named_op, "ll", c->predicted.plan, order[i].op));
        const char *name = lw_sql_next(q) ? describe_op(q, &c->arena) : "";
        LW_TRY(lw_sql_finish(q, err));
        if (!name)
            return lw_fail_nomem(err);
        c->ops[c->n_ops++] =
            (struct lw_op_line){name, {p[order[i].op], m[order[i].op]}};
    }
    return LW_OK;
}

static enum lw_status compare_ops(struct lw_store *s, struct lw_comparison *c, struct lw_err *err)
{
    struct lw_arena work = {0};
    int64_t n_ops, n = 0;

    LW_TRY(lw_sql_number(s, &n_ops, err, "SELECT n_ops FROM plan WHERE id = ?", "l",
                         c->predicted.plan));
    lw_ps *p = lw_arena_alloc(&work, n_ops, sizeof *p),
          *m = lw_arena_alloc(&work, n_ops, sizeof *m),
          *other = lw_arena_alloc(&work, n_ops, sizeof *other);
    struct ranked_op *order = lw_arena_alloc(&work, n_ops, sizeof *order);
    enum lw_status st = p && m && other && order ? LW_OK : lw_fail_nomem(err);
    if (st == LW_OK)
        st = read_ops(s, &c->predicted, p, n_ops, err);
    if (st == LW_OK)
        st = read_ops(s, &c->measured, m, n_ops, err);
    for (int64_t i = 0; st == LW_OK && c->same_op && i < n_ops; i++)
        other[i] = m[c->same_op[i]];
    m = c->same_op ? other : m;
    for (int64_t i = 0; st == LW_OK && i < n_ops; i++)
        if (p[i] >= 0 && m[i] >= 0)
            order[n++] = (struct ranked_op){i, p[i] > m[i] ? p[i] - m[i] : m[i] - p[i]};
    if (st == LW_OK) {
        lw_sort(order, n, by_size);
        st = name_ops(s, c, p, m, order, n, err);
    }
    lw_arena_free(&work);
    return st;
}

/* --- together --------------------------------------------------------------------------------- */

bool lw_same_decisions(const struct lw_run *a, const struct lw_run *b)
{
    return a->plan >= 0 && b->plan >= 0 && strcmp(a->plan_hash, b->plan_hash) == 0;
}

#define OP_KEY \
    "g.variant, g.role, op.kind, op.module, op.stage, op.micro_batch, op.bucket, op.name, op.comm"
#define OPS_OF(plan) \
    "FROM program AS g JOIN op ON op.plan = g.plan" \
    " AND op.op BETWEEN g.first_op AND g.first_op + g.n_ops - 1 WHERE g.plan = " plan

/* Of plans that differ: they may have the same ops, in another order where times decided it, or
 * under two frameworks that keep other activations. An op is known by its program, what it is
 * about, and which of those that are about the same it is. same_op[op of the prediction] = op of
 * the other; NULL: not all are found. */
static enum lw_status match_ops(struct lw_store *s, struct lw_comparison *c, struct lw_err *err)
{
    static const char counts[] =
        "SELECT n.n_ops FROM plan AS n JOIN plan AS o ON o.id = ?2 AND o.n_ops = n.n_ops"
        " AND o.n_ranks = n.n_ranks WHERE n.id = ?1 AND n.n_ranks ="
        " (SELECT count(*) FROM plan_rank AS a JOIN plan_rank AS b ON b.plan = ?2"
        "  AND b.rank = a.rank AND b.role = a.role WHERE a.plan = ?1)";
    static const char text[] =
        "SELECT op.op " OPS_OF("?1") " ORDER BY " OP_KEY ", op.op";
    static const char differing[] =
        "SELECT count(*) FROM (SELECT " OP_KEY ", count(*) " OPS_OF("?1") " GROUP BY " OP_KEY
        " EXCEPT SELECT " OP_KEY ", count(*) " OPS_OF("?2") " GROUP BY " OP_KEY ")";
    struct lw_sql *a, *b;
    int64_t n_ops, differ, *same;

    LW_TRY(lw_sql_number(s, &n_ops, err, counts, "ll", c->predicted.plan, c->measured.plan));
    if (n_ops == 0)
        return LW_OK;
    LW_TRY(lw_sql_number(s, &differ, err, differing, "ll", c->predicted.plan, c->measured.plan));
    if (differ > 0)
        return LW_OK;
    LW_TAKE(&c->arena, same, n_ops, err);
    LW_TRY(lw_sql_query(s, &a, err, text, "l", c->predicted.plan));
    enum lw_status st = lw_sql_query(s, &b, err, text, "l", c->measured.plan);
    if (st != LW_OK)
        return lw_sql_end(a, st, err);
    while (lw_sql_next(a) && lw_sql_next(b)) {
        int64_t from = lw_sql_int(a, 0), to = lw_sql_int(b, 0);
        if (from >= 0 && from < n_ops && to >= 0 && to < n_ops)
            same[from] = to;
    }
    st = lw_sql_finish(b, err);
    c->same_op = same;
    return lw_sql_end(a, st, err);
}

static enum lw_status take_from_times(struct lw_comparison *c, int side, const struct lw_plan *p,
                                      struct lw_err *err)
{
    LW_TAKE(&c->arena, c->from_times[side], p->n_from_times, err);
    c->n_from_times[side] = p->n_from_times;
    for (int32_t i = 0; i < p->n_from_times; i++)
        if (!(c->from_times[side][i] = lw_arena_strdup(&c->arena, p->from_times[i])))
            return lw_fail_nomem(err);
    return LW_OK;
}

/* "" where a plan was stored without its file: what its tables lack would be a difference. */
static enum lw_status find_difference(struct lw_store *s, struct lw_comparison *c,
                                      struct lw_err *err)
{
    struct lw_plan p, m;
    struct lw_plan_difference d = {0};
    struct lw_err why;

    if (c->predicted.plan < 0 || c->measured.plan < 0 || !c->predicted.plan_times[0] ||
        !c->measured.plan_times[0])
        return LW_OK;
    enum lw_status st = lw_store_load_plan(s, &c->predicted, &p, &why);
    if (st != LW_OK)
        return st == LW_ENOMEM ? lw_fail_nomem(err) : LW_OK;
    st = lw_store_load_plan(s, &c->measured, &m, &why);
    if (st == LW_OK) {
        st = lw_plan_diff(&p, &m, &d, err);
        if (st == LW_OK && !d.of_strategy)
            st = take_from_times(c, 0, &p, err);
        if (st == LW_OK && !d.of_strategy)
            st = take_from_times(c, 1, &m, err);
        lw_plan_free(&m);
    } else {
        st = st == LW_ENOMEM ? lw_fail_nomem(err) : LW_OK;
    }
    lw_plan_free(&p);
    LW_TRY(st);
    c->difference = lw_arena_strdup(&c->arena, d.decision);
    return c->difference ? LW_OK : lw_fail_nomem(err);
}

static enum lw_status choose_join(struct lw_store *s, struct lw_comparison *c, struct lw_err *err)
{
    const struct lw_run *p = &c->predicted, *m = &c->measured;

    c->note = c->difference = "";
    c->joined = LW_JOINED_OP;
    c->same_decisions = lw_same_decisions(p, m);
    if (!c->same_decisions)
        LW_TRY(find_difference(s, c, err));
    if (p->n_spans == 0 || m->n_spans == 0) {
        c->joined = LW_JOINED_STEP;
        c->note = "one of the runs has no spans (lapwing sim --spans): only totals are compared";
        return LW_OK;
    }
    if (c->same_decisions)
        return LW_OK;
    LW_TRY(match_ops(s, c, err));
    c->joined = c->same_op ? LW_JOINED_OP : LW_JOINED_BUCKET;
    c->note = c->same_op ? "the plans differ, but have the same ops one by one"
                           : "the plans differ: buckets are paired by their place in the launch "
                           "order, ops are not compared";
    return LW_OK;
}

double lw_comparison_pct(const struct lw_comparison *c, struct lw_both v)
{
    return lw_both_error_pct(c->of_one_kind ? (struct lw_both){v.measured, v.predicted} : v);
}

struct lw_per_unit lw_comparison_per_unit(const struct lw_comparison *c)
{
    const struct lw_run *const both[] = {&c->predicted, &c->measured};
    struct lw_step_work w = lw_step_work_of(both, 2);

    if (!c->of_one_kind || !w.unit)
        return (struct lw_per_unit){NULL, 1, 1};
    return (struct lw_per_unit){w.unit, lw_step_units(&w, both[0]), lw_step_units(&w, both[1])};
}

double lw_per_unit_pct(struct lw_per_unit u, struct lw_both v)
{
    if (v.predicted <= 0 || v.measured < 0)
        return NAN;
    return 100 * ((double)v.measured / u.b / ((double)v.predicted / u.a) - 1);
}

static enum lw_status name_sides(struct lw_comparison *c, struct lw_err *err)
{
    struct lw_run *const run[2] = {&c->predicted, &c->measured};
    const struct lw_run both[2] = {c->predicted, c->measured};
    const char **labels, **names;
    char number[32];

    c->of_one_kind = (c->predicted.kind == LW_RUN_SIM) == (c->measured.kind == LW_RUN_SIM);
    LW_TRY(lw_run_texts(both, 2, LW_RUN_DIFFERENCES, &c->arena, &labels, err));
    LW_TRY(lw_run_texts(both, 2, LW_RUN_NAMES, &c->arena, &names, err));
    for (int side = 0; side < 2; side++) {
        if (!run[side]->named)
            run[side]->name = names[side];
        snprintf(number, sizeof number, "run %lld", (long long)both[side].id);
        c->label[side] = labels[side][0] ? labels[side] : lw_arena_strdup(&c->arena, number);
        if (!c->label[side])
            return lw_fail_nomem(err);
    }
    return LW_OK;
}

static enum lw_status compare_found(struct lw_store *s, struct lw_comparison *c,
                                    struct lw_err *err)
{
    struct lw_run_parts p, m;

    LW_TRY(name_sides(c, err));

    LW_TRY(lw_run_read_parts(s, &c->measured, -1, &m, err));
    LW_TRY(lw_run_read_parts(s, &c->predicted, m.rank, &p, err));
    join_parts(c, &p, &m);
    LW_TRY(choose_join(s, c, err));
    if (c->joined == LW_JOINED_STEP)
        return LW_OK;
    LW_TRY(lw_store_check_spans(s, c->predicted.id, err));
    LW_TRY(lw_store_check_spans(s, c->measured.id, err));
    LW_TRY(compare_buckets(s, c, err));
    return c->joined == LW_JOINED_OP ? compare_ops(s, c, err) : LW_OK;
}

static enum lw_status read_calibration(struct lw_store *s, struct lw_comparison *c,
                                       struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT 1 FROM metric WHERE run = ? AND name = 'other_calibration'", "l",
                        c->measured.id));
    c->other_calibration = lw_sql_next(q) && !c->of_one_kind;
    return lw_sql_finish(q, err);
}

/* By the measured rank's speed. Beside other programs a step says nothing of the prediction. */
static enum lw_status split_compute(struct lw_store *s, struct lw_comparison *c, struct lw_err *err)
{
    struct lw_both v = c->figure[LW_FIGURE_COMPUTE];
    double speed = NAN;
    struct lw_sql *q;

    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT value FROM metric WHERE run = ? AND name = 'compute_speed'"
                        " AND step = -1 AND rank = ?", "li", c->measured.id, c->rank[1]));
    if (lw_sql_next(q) && !c->of_one_kind && !lw_run_under_load(&c->measured))
        speed = lw_sql_real(q, 0);
    c->split = lw_speed_split_of(v.predicted, v.measured, speed);
    return lw_sql_finish(q, err);
}

enum lw_status lw_compare(struct lw_store *s, const char *run_a, const char *run_b,
                          struct lw_comparison *out, struct lw_err *err)
{
    struct lw_comparison c = {0};

    enum lw_status st = lw_store_find_run(s, run_a, &c.arena, &c.predicted, err);
    if (st == LW_OK)
        st = lw_store_find_run(s, run_b, &c.arena, &c.measured, err);
    if (st == LW_OK && c.predicted.kind != LW_RUN_SIM && c.measured.kind == LW_RUN_SIM) {
        struct lw_run swap = c.predicted;
        c.predicted = c.measured;
        c.measured = swap;
    }
    if (st == LW_OK)
        st = lw_framework_differ(&c.predicted, &c.measured, &c.arena, &c.framework, err);
    if (st == LW_OK)
        st = compare_found(s, &c, err);
    if (st == LW_OK)
        st = read_calibration(s, &c, err);
    if (st == LW_OK)
        st = split_compute(s, &c, err);
    if (st != LW_OK) {
        lw_comparison_free(&c);
        return st;
    }
    *out = c;
    return LW_OK;
}

bool lw_run_is_measured(const struct lw_run *r)
{
    return r->kind != LW_RUN_SIM && r->status == LW_RUN_OK && r->step >= 0;
}

static bool same_cluster(const struct lw_run *a, const struct lw_run *b)
{
    return a->cluster_hash && b->cluster_hash && *a->cluster_hash &&
           strcmp(a->cluster_hash, b->cluster_hash) == 0;
}

const struct lw_run *lw_prediction_of(const struct lw_run *runs, int32_t n,
                                      const struct lw_run *measured)
{
    const struct lw_run *other = NULL;

    for (int32_t i = n - 1; i >= 0 && lw_run_is_measured(measured); i--) {
        const struct lw_run *r = &runs[i];
        if (r->kind != LW_RUN_SIM || r->plan != measured->plan || measured->plan < 0 ||
            r->status != LW_RUN_OK || r->step < 0 || !lw_same_framework(r, measured))
            continue;
        if (same_cluster(r, measured))
            return r;
        if (!other)
            other = r;
    }
    return other;
}

/* As lw_same_framework. */
#define SAME_FRAMEWORK \
    "(r.framework IS NULL OR self.framework IS NULL" \
    " OR (r.framework = self.framework AND r.framework_hash IS self.framework_hash))"
static const char record_text[] =
    "INSERT INTO comparison (predicted, measured, cluster_hash, joined_by, predicted_step_ps,"
    " measured_step_ps, error_pct, predicted_exposed_ps, measured_exposed_ps, made_at)"
    " SELECT p.id, m.id, p.cluster_hash, iif(p.n_spans > 0 AND m.n_spans > 0, 'op', 'step'),"
    "  ps.value, ms.value, 100.0 * (ps.value - ms.value) / ms.value, ifnull(pe.value, -1),"
    "  ifnull(me.value, -1), ?2"
    " FROM run AS self"
    " JOIN run AS p ON p.id = iif(self.kind = 'sim', self.id, (SELECT max(r.id) FROM run AS r"
    "  WHERE r.kind = 'sim' AND r.status = 'ok' AND r.plan = self.plan"
    "   AND r.cluster_hash = self.cluster_hash AND " SAME_FRAMEWORK "))"
    " JOIN run AS m ON m.id = iif(self.kind <> 'sim', self.id, (SELECT max(r.id) FROM run AS r"
    "  WHERE r.kind <> 'sim' AND r.status = 'ok' AND r.plan = self.plan"
    "   AND r.cluster_hash = self.cluster_hash AND " SAME_FRAMEWORK "))"
    " JOIN metric AS ps ON ps.run = p.id AND ps.name = 'step_ps' AND ps.step = -1 AND ps.rank = -1"
    " JOIN metric AS ms ON ms.run = m.id AND ms.name = 'step_ps' AND ms.step = -1 AND ms.rank = -1"
    " LEFT JOIN metric AS pe ON pe.run = p.id AND pe.name = 'exposed_comm_ps' AND pe.step = -1"
    "  AND pe.rank = -1"
    " LEFT JOIN metric AS me ON me.run = m.id AND me.name = 'exposed_comm_ps' AND me.step = -1"
    "  AND me.rank = -1"
    " WHERE self.id = ?1 AND self.status = 'ok' AND ms.value > 0"
    " ON CONFLICT (predicted, measured) DO NOTHING";

enum lw_status lw_comparison_record(struct lw_store *s, int64_t run, struct lw_err *err)
{
    return lw_sql_do(s, err, record_text, "ll", run, (int64_t)time(NULL));
}
