/* Where ranks disagree. Calls of one group with one number must be the same collective: the same
 * operation, of the same type, of the same size where an operation has one size on all ranks. A
 * rank whose last call of the group is before the number never came that far; one whose first is
 * after it has forgotten it. Sends and receives are listed, not matched: a dump does not name the
 * peer. */
#include "traces/collectives/coll_log.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/json/jsonout.h"
#include "shared/numbers/order.h"
#include "shared/text/table.h"

enum { SHOWN = 20 };

void coll_log_free(struct coll_log *l)
{
    for (int32_t i = 0; i < l->n; i++)
        lw_free(l->sources[i].calls);
    lw_arena_free(&l->arena);
    *l = (struct coll_log){0};
}

struct seen { /* a collective call of a source */
    const struct coll_source *source;
    const struct coll_call *call;
    int64_t at; /* the source's number among those of all files */
};

struct mismatch {
    const char *what; /* "operation", "type", "size", "missing", "state" */
    struct seen a, b; /* b.call NULL: the rank that never came that far */
};

struct mismatches {
    struct mismatch *v;
    int64_t n, cap, n_groups, n_calls;
};

static int by_group(const void *pa, const void *pb)
{
    const struct seen *a = pa, *b = pb;
    int c = strcmp(a->call->group, b->call->group);

    return c ? c : LW_ORDER(a->call->seq, b->call->seq, a->at, b->at);
}

/* All ranks give and get the same. */
static bool has_one_size(const char *op)
{
    static const char *const other[] = {"all_to_all", "alltoall", "gather", "scatter", "_v", NULL};
    static const char *const one[] = {"all_reduce", "allreduce", "broadcast", "all_gather",
                                      "allgather", "reduce_scatter", "reducescatter", "barrier",
                                      NULL};

    for (int i = 0; one[i]; i++)
        if (strcasestr(op, one[i]))
            return true;
    for (int i = 0; other[i]; i++)
        if (strcasestr(op, other[i]))
            return false;
    return true;
}

static const char *differ(const struct coll_call *a, const struct coll_call *b)
{
    return strcmp(a->op, b->op) != 0                      ? "operation"
           : strcmp(a->dtype, b->dtype) != 0              ? "type"
           : has_one_size(a->op) && a->numel != b->numel  ? "size"
           : a->has_state && b->has_state && a->done != b->done ? "state"
                                                                 : NULL;
}

static enum lw_status add(struct mismatches *m, const char *what, struct seen a, struct seen b,
                          struct lw_err *err)
{
    LW_ROOM(m->v, m->cap, m->n + 1, err);
    m->v[m->n++] = (struct mismatch){what, a, b};
    return LW_OK;
}

/* v[n]: the calls of one group, by number and source; last[sources]: scratch, -1 everywhere. */
static enum lw_status check_group(struct mismatches *m, const struct seen *v, int64_t n,
                                  int64_t *last, struct lw_err *err)
{
    m->n_groups++;
    for (int64_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && v[next].call->seq == v[i].call->seq; next++) {
            const char *what = differ(v[i].call, v[next].call);
            if (what)
                LW_TRY(add(m, what, v[i], v[next], err));
        }
        m->n_calls++;
    }
    for (int64_t i = 0; i < n; i++)
        last[v[i].at] = i; /* of each member the call that it came to last */
    for (int64_t i = 0; i < n; i++) {
        int64_t at = last[v[i].at], after = at + 1;
        last[v[i].at] = -1;
        if (at < 0 || v[at].call->seq == v[n - 1].call->seq)
            continue;
        while (v[after].call->seq == v[at].call->seq)
            after++;
        LW_TRY(add(m, "missing", v[after], (struct seen){v[at].source, NULL, v[at].at}, err));
    }
    return LW_OK;
}

static enum lw_status find(const struct coll_log *const *logs, int n_logs, struct mismatches *m,
                           struct lw_err *err)
{
    struct seen *v;
    int64_t n = 0, n_sources = 0, *last;

    for (int k = 0; k < n_logs; k++)
        for (int32_t s = 0; s < logs[k]->n; s++, n_sources++)
            n += logs[k]->sources[s].n;
    v = lw_calloc((size_t)n + 1, sizeof *v);
    last = lw_calloc((size_t)n_sources + 1, sizeof *last);
    n = n_sources = 0;
    for (int k = 0; v && last && k < n_logs; k++)
        for (int32_t s = 0; s < logs[k]->n; s++, n_sources++) {
            const struct coll_source *x = &logs[k]->sources[s];
            last[n_sources] = -1;
            for (int64_t i = 0; i < x->n; i++)
                if (!x->calls[i].p2p)
                    v[n++] = (struct seen){x, &x->calls[i], n_sources};
        }
    enum lw_status status = v && last ? LW_OK : lw_fail_nomem(err);
    if (status == LW_OK)
        lw_sort(v, n, by_group);
    for (int64_t i = 0, next; i < n && status == LW_OK; i = next) {
        for (next = i + 1; next < n && strcmp(v[next].call->group, v[i].call->group) == 0; next++)
            ;
        status = check_group(m, v + i, next - i, last, err);
    }
    lw_free(v);
    lw_free(last);
    return status;
}

static const char *label(char text[96], const struct coll_source *s)
{
    if (s->rank >= 0)
        snprintf(text, 96, "rank %d", s->rank);
    else
        snprintf(text, 96, "%.90s", s->name);
    return text;
}

static const char *shown(char text[160], const struct coll_call *c)
{
    if (!c)
        snprintf(text, 160, "never came to it");
    else
        snprintf(text, 160, "%.60s %.20s[%lld]%s%.40s", c->op, c->dtype, (long long)c->numel,
                 *c->state ? " " : "", c->done ? "done" : c->state);
    return text;
}

enum lw_status coll_mismatches_text(const struct coll_log *const *logs, int n, FILE *f,
                                    struct lw_err *err)
{
    static const char *const titles[] = {"group", ">number", "differs in", "of", "is", "of", "is"};
    struct mismatches m = {0};
    char a[96], b[96], x[160], y[160];
    enum lw_status status = find(logs, n, &m, err);

    if (status == LW_OK && m.n == 0)
        fprintf(f, "%lld collectives of %lld groups: all ranks agree\n", (long long)m.n_calls,
                (long long)m.n_groups);
    if (status == LW_OK && m.n > 0) {
        struct lw_table *t = lw_table_new(7, titles);
        for (int64_t i = 0; i < m.n && i < SHOWN; i++) {
            const struct mismatch *k = &m.v[i];
            LW_CELLS(t, k->a.call->group, k->a.call->seq, k->what, label(a, k->a.source),
                     shown(x, k->a.call), label(b, k->b.source), shown(y, k->b.call));
        }
        fprintf(f, "%lld mismatch%s between ranks%s\n", (long long)m.n, m.n > 1 ? "es" : "",
                m.n > SHOWN ? ", of which the first 20" : "");
        status = lw_table_end(t, f, 2, err);
    }
    lw_free(m.v);
    return status;
}

enum lw_status coll_mismatches_json(const struct coll_log *const *logs, int n,
                                    struct lw_jsonout *o, struct lw_err *err)
{
    struct mismatches m = {0};
    char x[160], y[160];
    enum lw_status status = find(logs, n, &m, err);

    if (status == LW_OK) {
        lw_jsonout_array(o, "mismatches");
        for (int64_t i = 0; i < m.n; i++) {
            const struct mismatch *k = &m.v[i];
            LW_JSON_ROW(o, NULL, "group", k->a.call->group, "number", k->a.call->seq, "differs_in",
                        k->what, "rank", lw_known(k->a.source->rank), "source", k->a.source->name,
                        "call", shown(x, k->a.call), "other_rank", lw_known(k->b.source->rank),
                        "other_source", k->b.source->name, "other_call", shown(y, k->b.call));
        }
        lw_jsonout_end(o);
    }
    lw_free(m.v);
    return status;
}
