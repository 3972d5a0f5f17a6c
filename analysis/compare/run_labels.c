/* Labels of runs: one value for every (run, trait), where traits are the options of strategies, the
 * workload and the cluster; a trait that is the same for all runs is left out. */
#include "analysis/compare/run_labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/store/run_name.h"
#include "analysis/store/sql.h"

enum { LABEL_BYTES = 120 };

struct trait {
    int32_t run;
    const char *name, *value;
};

struct traits {
    struct trait *v;
    int64_t n, capacity;
};

static enum lw_status add(struct traits *t, int32_t run, const char *name, const char *value,
                          struct lw_arena *a, struct lw_err *err)
{
    struct trait x = {run, lw_arena_strdup(a, name), lw_arena_strdup(a, value)};

    if (!x.name || !x.value ||
        lw_reserve(&t->v, &t->capacity, t->n + 1, sizeof *t->v) != 0)
        return lw_fail_nomem(err);
    t->v[t->n++] = x;
    return LW_OK;
}

static enum lw_status read_run(struct lw_store *s, const struct lw_run *r, int32_t run,
                               struct traits *t, struct lw_arena *a, struct lw_err *err)
{
    struct lw_sql *q;
    enum lw_status st = LW_OK;
    char cluster[96];

    LW_TRY(lw_sql_query(s, &q, err, "SELECT name, value FROM plan_option WHERE plan = ?", "l",
                        r->plan));
    while (st == LW_OK && lw_sql_next(q))
        st = add(t, run, lw_sql_text(q, 0), lw_sql_text(q, 1), a, err);
    enum lw_status end = lw_sql_finish(q, st == LW_OK ? err : NULL);
    if (st == LW_OK)
        st = end;
    /* equal names of different contents are told apart by the hash */
    snprintf(cluster, sizeof cluster, "%.60s (%.8s)", r->cluster_name, r->cluster_hash);
    if (st == LW_OK && r->workload_name[0])
        st = add(t, run, "workload", r->workload_name, a, err);
    if (st == LW_OK && r->cluster_name[0])
        st = add(t, run, "cluster", cluster, a, err);
    return st;
}

static int by_name(const void *pa, const void *pb)
{
    const struct trait *a = pa, *b = pb;
    int c = strcmp(a->name, b->name);

    return c ? c : a->run - b->run;
}

/* The value that most of the traits [from, to) have; of equals the one of the lowest run. */
static const char *most_common(const struct trait *v, int64_t from, int64_t to)
{
    const char *best = v[from].value;
    int64_t most = 0;

    for (int64_t i = from; i < to; i++) {
        int64_t same = 0;
        for (int64_t k = from; k < to; k++)
            same += strcmp(v[i].value, v[k].value) == 0;
        if (same > most) {
            most = same;
            best = v[i].value;
        }
    }
    return best;
}

static void append(char *text, const char *name, const char *value)
{
    size_t at = strlen(text);

    char shown[64];

    snprintf(text + at, LABEL_BYTES - at, "%s%s %s", at ? ", " : "", name,
             value[0] ? lw_option_shown(name, value, shown) : "default");
}

/* One trait, of the runs that have it. */
static void tell(const struct trait *v, int64_t from, int64_t to, bool whole, char *texts)
{
    const char *usual = most_common(v, from, to);
    bool differ = false;

    for (int64_t i = from + 1; i < to; i++)
        differ |= strcmp(v[i].value, v[from].value) != 0;
    for (int64_t i = from; differ && i < to; i++)
        if (whole || strcmp(v[i].value, usual) != 0)
            append(texts + (size_t)v[i].run * LABEL_BYTES, v[i].name, v[i].value);
}

static enum lw_status label(struct traits *t, int32_t n, bool whole, struct lw_arena *a,
                            const char ***labels, struct lw_err *err)
{
    char *texts = lw_arena_alloc(a, n, LABEL_BYTES);
    const char **out = lw_arena_alloc(a, n, sizeof *out);

    if (!texts || !out)
        return lw_fail_nomem(err);
    if (t->n > 0)
        qsort(t->v, (size_t)t->n, sizeof *t->v, by_name);
    for (int64_t from = 0, to; from < t->n; from = to) {
        for (to = from + 1; to < t->n && strcmp(t->v[to].name, t->v[from].name) == 0;)
            to++;
        tell(t->v, from, to, whole, texts);
    }
    for (int32_t i = 0; i < n; i++)
        out[i] = texts + (size_t)i * LABEL_BYTES;
    *labels = out;
    return LW_OK;
}

enum lw_status lw_run_labels(struct lw_store *s, const struct lw_run *runs, int32_t n, bool whole,
                             struct lw_arena *a, const char ***labels, struct lw_err *err)
{
    struct traits t = {0};
    enum lw_status st = LW_OK;

    for (int32_t i = 0; i < n && st == LW_OK; i++)
        st = read_run(s, &runs[i], i, &t, a, err);
    if (st == LW_OK)
        st = label(&t, n, whole, a, labels, err);
    lw_free(t.v);
    return st;
}
