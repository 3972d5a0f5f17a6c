/* Calls of an execution trace and host rows of a profiler's trace are the same calls. Two ways to
 * match them:
 *   - rows that carry a Record function id: it is the call's rf_id;
 *   - older rows have an External id, which counts the calls of each thread in blocks of its own:
 *     on each thread they ascend as the calls began. The names of a thread's calls, in that order,
 *     occur in the names of one of the other file's threads, without a gap (Knuth, Morris, Pratt
 *     1977); where they occur several times, as in equal steps, the first is taken.
 * What the profiler recorded itself is kept. Data edges follow storages as in read_et.c, over calls
 * of host and device alike; those into collectives are kept with the trace. */
#include "traces/et/et_join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/order.h"
#include "shared/numbers/units.h"
#include "traces/trace/shaped_ops.h"

struct joiner {
    struct lw_trace *t;
    const struct traces_et *e;
    struct lw_arena *arena;
    struct lw_err *err;
    int32_t *name_of; /* [strings of e] the trace's number of the same text; -1 = not in it */
    int64_t *row_of;  /* [calls] -1 = none */
    int64_t n_rows, n_calls, n_matched; /* that could match, and that do */
    int64_t n_places; /* where the calls of a thread occur, of those that occur most often */
    bool by_id;
    int64_t n_edges, n_storages, storage_bytes, n_collectives, n_shapes;
};

/* Calls that the profiler sees too: roots of threads and the list of groups are the observer's. */
static bool is_recorded(const struct joiner *j, const struct traces_et_call *c)
{
    const char *name = traces_graph_string(&j->e->graph, c->name);

    return c->order > 0 && c->name >= 0 && strcmp(name, "## process_group:init ##") != 0;
}

static enum lw_status map_names(struct joiner *j)
{
    const struct traces_strings *s = &j->e->graph.strings;

    LW_TAKE(j->arena, j->name_of, s->n, j->err);
    for (int64_t i = 0; i < s->n; i++) {
        j->name_of[i] = traces_strings_add(&j->t->strings, s->text[i], strlen(s->text[i]));
        if (j->name_of[i] < 0)
            return lw_fail_nomem(j->err);
    }
    return LW_OK;
}

/* ---- by number ---- */

static int64_t call_of_order(const struct traces_et *e, int64_t order)
{
    int64_t low = 0, high = e->n_calls;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (e->calls[middle].order < order)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void match_by_id(struct joiner *j)
{
    const struct lw_trace *t = j->t;
    const struct traces_et *e = j->e;

    for (int64_t i = 0; i < t->n; i++) {
        if (!lw_trace_on_host(t, i) || t->record[i] <= 0)
            continue;
        for (int64_t k = call_of_order(e, t->record[i]);
             k < e->n_calls && e->calls[k].order == t->record[i]; k++)
            if (is_recorded(j, &e->calls[k]) && j->name_of[e->calls[k].name] == t->name[i])
                j->row_of[k] = i;
    }
}

/* ---- by order on each thread ---- */

struct item { /* a call or a row: by thread, then as they began */
    int64_t thread, began, at;
    int32_t name;
};

LW_COMPARATOR(by_thread, struct item, a->thread, b->thread, a->began, b->began, a->at, b->at)

static enum lw_status list_calls(struct joiner *j, struct item **out, int64_t *n)
{
    struct item *v;

    LW_TAKE(j->arena, v, j->e->n_calls, j->err);
    *n = 0;
    for (int64_t k = 0; k < j->e->n_calls; k++) {
        const struct traces_et_call *c = &j->e->calls[k];
        if (is_recorded(j, c))
            v[(*n)++] = (struct item){c->thread, c->order, k, j->name_of[c->name]};
    }
    lw_sort(v, *n, by_thread);
    *out = v;
    return LW_OK;
}

static enum lw_status list_rows(struct joiner *j, struct item **out, int64_t *n)
{
    const struct lw_trace *t = j->t;
    struct item *v;

    LW_TAKE(j->arena, v, j->n_rows, j->err);
    *n = 0;
    for (int64_t i = 0; i < t->n; i++)
        if (lw_trace_on_host(t, i) && t->record[i] < 0)
            v[(*n)++] = (struct item){t->track[i], -(int64_t)t->record[i], i, t->name[i]};
    lw_sort(v, *n, by_thread);
    *out = v;
    return LW_OK;
}

static int64_t thread_end(const struct item *v, int64_t n, int64_t from)
{
    int64_t to = from;

    while (to < n && v[to].thread == v[from].thread)
        to++;
    return to;
}

/* Where the names of a[n] begin in those of b[m]; -1 = nowhere. *places: how often. border: room
 * for n. */
static int64_t find_names(const struct item *a, int64_t n, const struct item *b, int64_t m,
                          int64_t *border, int64_t *places)
{
    int64_t first = -1;

    *places = 0;
    border[0] = 0;
    for (int64_t i = 1, k = 0; i < n; i++) {
        while (k > 0 && a[i].name != a[k].name)
            k = border[k - 1];
        k += a[i].name == a[k].name;
        border[i] = k;
    }
    for (int64_t i = 0, k = 0; i < m; i++) {
        while (k > 0 && (k == n || b[i].name != a[k].name))
            k = border[k - 1];
        k += b[i].name == a[k].name;
        if (k < n)
            continue;
        first = first < 0 ? i - n + 1 : first;
        (*places)++;
    }
    return first;
}

/* The shorter of the two threads is looked for in the longer one. */
static bool match_thread(struct joiner *j, const struct item *calls, int64_t n,
                         const struct item *rows, int64_t m, int64_t *border)
{
    int64_t places, at = n <= m ? find_names(calls, n, rows, m, border, &places)
                                : find_names(rows, m, calls, n, border, &places);

    if (at < 0)
        return false;
    for (int64_t i = 0; i < (n <= m ? n : m); i++)
        j->row_of[calls[n <= m ? i : at + i].at] = rows[n <= m ? at + i : i].at;
    j->n_places = places > j->n_places ? places : j->n_places;
    return true;
}

static enum lw_status match_by_order(struct joiner *j)
{
    struct item *calls, *rows;
    int64_t n, m, *border;
    bool *taken;

    LW_TRY(list_calls(j, &calls, &n));
    LW_TRY(list_rows(j, &rows, &m));
    LW_TAKE(j->arena, border, n > m ? n : m, j->err);
    LW_TAKE(j->arena, taken, m, j->err); /* at the first row of a thread */
    for (int64_t i = 0, end; i < n; i = end) {
        end = thread_end(calls, n, i);
        for (int64_t k = 0, to; k < m; k = to) {
            to = thread_end(rows, m, k);
            if (!taken[k] &&
                (taken[k] = match_thread(j, calls + i, end - i, rows + k, to - k, border)))
                break;
        }
    }
    return LW_OK;
}

static enum lw_status match(struct joiner *j, const char *trace_file)
{
    const struct lw_trace *t = j->t;
    int64_t with_id = 0, with_order = 0;

    LW_TAKE(j->arena, j->row_of, j->e->n_calls, j->err);
    for (int64_t k = 0; k < j->e->n_calls; k++) {
        j->row_of[k] = -1;
        j->n_calls += is_recorded(j, &j->e->calls[k]);
    }
    for (int64_t i = 0; i < t->n; i++) {
        with_id += lw_trace_on_host(t, i) && t->record[i] > 0;
        with_order += lw_trace_on_host(t, i) && t->record[i] < 0;
    }
    j->by_id = with_id > 0;
    j->n_rows = j->by_id ? with_id : with_order;
    if (j->by_id)
        match_by_id(j);
    else
        LW_TRY(match_by_order(j));
    for (int64_t k = 0; k < j->e->n_calls; k++)
        j->n_matched += j->row_of[k] >= 0;
    int64_t most = j->n_calls < j->n_rows ? j->n_calls : j->n_rows;
    if (j->n_matched > 0 && j->n_matched >= most - most / 10)
        return LW_OK;
    return lw_fail(j->err, LW_EINVAL,
                   "%.200s and %.200s are not of the same process and steps: %lld of %lld calls "
                   "of the execution trace are in the profiler's (by %s): give the files that one "
                   "profiler run wrote",
                   j->e->graph.file, trace_file, (long long)j->n_matched, (long long)j->n_calls,
                   j->by_id ? "Record function id and name" : "the order of names on a thread");
}

/* ---- what rows get ---- */

static int64_t elements_of(const struct joiner *j, const struct traces_et_call *c, bool written)
{
    int64_t sum = 0;

    for (int32_t i = 0; i < c->n_tensors; i++) {
        const struct traces_et_tensor *x = &j->e->tensors[c->first_tensor + i];
        sum = lw_add_sat(sum, x->written == written ? x->elements : 0);
    }
    return sum;
}

static int32_t group_size(const struct joiner *j, const struct traces_et_call *c)
{
    const struct traces_graph *g = &j->e->graph;

    for (int32_t i = 0; c->group_size == 0 && i < g->n_groups; i++)
        if (g->groups[i].name == c->group)
            return g->groups[i].n_ranks > 0     ? g->groups[i].n_ranks
                   : j->t->world_size > 0 ? j->t->world_size
                                                : 0;
    return c->group_size;
}

static int32_t name_in(const struct joiner *j, int32_t string)
{
    return string >= 0 ? j->name_of[string] : -1;
}

static struct lw_row_detail blank(void)
{
    return (struct lw_row_detail){.op = -1, .dtype = -1, .group = -1, .wait_stream = -1,
                                  .wait_record = -1, .in_numel = -1, .out_numel = -1,
                                  .shape_type = -1, .shape_numel = -1};
}

static enum lw_status text(struct joiner *j, const char *s, int32_t *string)
{
    *string = traces_strings_add(&j->t->strings, s, strlen(s));
    return *string >= 0 ? LW_OK : lw_fail_nomem(j->err);
}

static enum lw_status add_collective(struct joiner *j, const struct traces_et_call *c,
                                     const char *word, struct lw_row_detail *d)
{
    int64_t in = c->in_elements >= 0 ? c->in_elements : elements_of(j, c, false);
    int64_t out = c->out_elements >= 0 ? c->out_elements : elements_of(j, c, true);

    j->n_collectives++;
    if (d->op < 0)
        LW_TRY(text(j, word, &d->op));
    d->group = d->group < 0 ? name_in(j, c->group) : d->group;
    d->group_size = d->group_size == 0 ? group_size(j, c) : d->group_size;
    if (d->in_numel >= 0 || (in == 0 && out == 0))
        return LW_OK;
    if (c->type < 0 && !c->typed)
        return LW_OK; /* elements of an unknown type are no size */
    d->in_numel = in > 0 ? in : out;
    d->out_numel = out > 0 ? out : in;
    d->dtype = name_in(j, c->type);
    return d->dtype < 0 ? text(j, lw_dtype_name((enum lw_dtype)c->dtype), &d->dtype) : LW_OK;
}

static enum lw_status add_shape(struct joiner *j, const struct traces_et_call *c, const char *name,
                                struct lw_row_detail *d)
{
    bool shaped = traces_op_is_shaped(name, strlen(name));

    if (d->shape_type >= 0 || !c->typed || (!shaped && !traces_op_is_typed(name, strlen(name))))
        return LW_OK;
    LW_TRY(text(j, lw_dtype_name((enum lw_dtype)c->dtype), &d->shape_type));
    if (shaped && d->shape_numel < 0)
        d->shape_numel = c->first_elements;
    j->n_shapes++;
    return LW_OK;
}

static enum lw_status fill_rows(struct joiner *j)
{
    for (int64_t k = 0; k < j->e->n_calls; k++) {
        const struct traces_et_call *c = &j->e->calls[k];
        int64_t row = j->row_of[k];
        if (row < 0)
            continue;
        const char *name = traces_graph_string(&j->e->graph, c->name);
        const char *word = traces_et_collective(j->e, c);
        struct lw_row_detail d = j->t->detail[row] >= 0 ? *lw_trace_detail(j->t, row) : blank();
        struct lw_row_detail before = d;
        if (word)
            LW_TRY(add_collective(j, c, word, &d));
        LW_TRY(add_shape(j, c, name, &d));
        if (memcmp(&d, &before, sizeof d) != 0)
            LW_TRY(lw_trace_set_detail(j->t, row, &d, j->err));
    }
    return LW_OK;
}

/* ---- data edges ---- */

struct storage {
    int64_t id, bytes;
    int64_t writer; /* call + 1; 0 = none yet */
    bool used;
};

static struct storage *storage_of(struct storage *v, int64_t n, int64_t id)
{
    int64_t i = (int64_t)((uint64_t)id * 0x9e3779b97f4a7c15U >> 17) & (n - 1);

    while (v[i].used && v[i].id != id)
        i = (i + 1) & (n - 1);
    return &v[i];
}

static bool touches(const struct traces_et *e, const struct traces_et_call *c)
{
    return traces_et_collective(e, c) ? c->comm : c->leaf && !c->view && !c->record;
}

LW_COMPARATOR(by_to, struct lw_trace_edge, a->to, b->to, a->from, b->from)

struct edges {
    struct lw_trace_edge *v;
    int64_t n, cap;
};

static enum lw_status follow_call(struct joiner *j, int64_t k, struct storage *v, int64_t n,
                                  struct edges *x)
{
    const struct traces_et_call *c = &j->e->calls[k];

    for (int32_t i = 0; i < c->n_tensors; i++) {
        const struct traces_et_tensor *tensor = &j->e->tensors[c->first_tensor + i];
        struct storage *s = storage_of(v, n, tensor->storage);
        j->n_storages += !s->used;
        s->used = true;
        s->id = tensor->storage;
        s->bytes = tensor->bytes > s->bytes ? tensor->bytes : s->bytes;
        if (s->writer > 0 && s->writer != k + 1) {
            int64_t to = j->row_of[k], from = j->row_of[s->writer - 1];
            j->n_edges++;
            if (c->comm && to >= 0 && from >= 0) {
                LW_ROOM(x->v, x->cap, x->n + 1, j->err);
                x->v[x->n++] = (struct lw_trace_edge){to, from};
            }
        }
        if (tensor->written || c->comm)
            s->writer = k + 1;
    }
    return LW_OK;
}

static enum lw_status follow_storages(struct joiner *j, struct edges *x)
{
    int64_t n = 64;
    struct storage *v;

    while (n < 2 * j->e->n_tensors + 2)
        n *= 2;
    LW_TAKE(j->arena, v, n, j->err);
    for (int64_t k = 0; k < j->e->n_calls; k++)
        if (touches(j->e, &j->e->calls[k]))
            LW_TRY(follow_call(j, k, v, n, x));
    for (int64_t i = 0; i < n; i++)
        j->storage_bytes = lw_add_sat(j->storage_bytes, v[i].bytes);
    return LW_OK;
}

static enum lw_status keep_edges(struct joiner *j, const struct edges *x)
{
    struct lw_trace *t = j->t;

    LW_TAKE(&t->arena, t->edges, x->n, j->err);
    if (x->n > 0) {
        memcpy(t->edges, x->v, (size_t)x->n * sizeof *x->v);
        lw_sort(t->edges, x->n, by_to);
    }
    t->n_edges = x->n;
    return LW_OK;
}

/* ---- what was found ---- */

static enum lw_status say(struct joiner *j)
{
    char line[640], bytes[32];
    int n = snprintf(line, sizeof line,
                     "execution trace %.200s: %lld of its %lld calls by %s; sizes and groups of "
                     "%lld collectives, shapes of %lld ops; %d process groups, %lld data edges "
                     "over %lld storages of %s",
                     j->e->graph.file, (long long)j->n_matched, (long long)j->n_calls,
                     j->by_id ? "Record function id" : "their order on each thread",
                     (long long)j->n_collectives, (long long)j->n_shapes, j->e->graph.n_groups,
                     (long long)j->n_edges, (long long)j->n_storages,
                     lw_format_bytes(bytes, j->storage_bytes));

    if (j->n_places > 1 && n < (int)sizeof line)
        snprintf(line + n, sizeof line - (size_t)n,
                 "; its calls occur %lld times: taken as the first", (long long)j->n_places);
    return text(j, line, &j->t->joined);
}

enum lw_status traces_et_join(struct lw_trace *t, const char *trace_file, const struct traces_et *e,
                              struct lw_err *err)
{
    struct lw_arena arena = {0};
    struct joiner j = {.t = t, .e = e, .arena = &arena, .err = err};
    struct edges x = {0};
    enum lw_status status = map_names(&j);

    if (status == LW_OK)
        status = match(&j, trace_file);
    if (status == LW_OK)
        status = fill_rows(&j);
    if (status == LW_OK)
        status = follow_storages(&j, &x);
    if (status == LW_OK)
        status = keep_edges(&j, &x);
    if (status == LW_OK)
        status = say(&j);
    lw_free(x.v);
    lw_arena_free(&arena);
    return status;
}
