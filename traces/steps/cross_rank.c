/* Matching collectives over ranks by order: members of a process group issue the same collectives
 * in the same order (NCCL and gloo demand it), so the k-th of each are one. All end together but
 * for the clock; the member that entered last did not wait, so the shortest duration is the
 * transfer. Ranks whose counts or kinds differ are not matched, and the reason is kept. Clocks:
 * base times are added, nothing is corrected; how far the ends of collectives are apart says how
 * good that is. */
#include "traces/steps/cross_rank.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/numbers/median.h"
#include "traces/trace/kernel_launches.h"

enum lw_status traces_comm_list_build(const struct lw_trace *t, const struct lw_kernel_table *table,
                                      struct lw_arena *arena, struct traces_comm_list *out,
                                      struct lw_err *err)
{
    struct traces_comm_list list = {.t = t};
    struct traces_comm_index index;
    struct traces_launches l;
    uint8_t *class_of;

    LW_TRY(traces_kernel_classes(t, table, arena, &class_of, err));
    LW_TRY(traces_comm_index_build(t, arena, &index, err));
    LW_TRY(traces_launches_build(t, arena, &l, err));
    LW_TAKE(arena, list.items, l.n, err);
    for (int64_t i = 0; i < l.n; i++) {
        int64_t row = l.row[i];
        if (t->class[row] == LW_ROW_KERNEL && class_of[t->name[row]] == LW_KERNEL_COMM)
            list.items[list.n++] = (struct traces_comm_item){
                .row = row, .launch = l.launch[i], .start_ns = t->start_ns[row],
                .dur_ns = t->dur_ns[row], .class = -1, .k = -1,
                .fact = traces_comm_fact_of(t, &index, row, l.launch[i])};
    }
    *out = list;
    return LW_OK;
}

/* ---- classes ---- */

struct matcher {
    struct traces_comm_list *lists;
    int32_t n;
    struct lw_arena *arena;
    struct traces_cross_rank *out;
    int64_t cap;
    struct lw_err *err;
};

enum end { END_NONE, END_SEND, END_RECV }; /* of a message of the host */

static enum end message_end(const struct traces_comm_list *l, const struct traces_comm_item *x)
{
    if (!lw_trace_on_host(l->t, x->row) || !x->fact.op)
        return END_NONE;
    return strcmp(x->fact.op, "send") == 0   ? END_SEND
           : strcmp(x->fact.op, "recv") == 0 ? END_RECV
                                             : END_NONE;
}

/* What names the class of an item: its group, else the ordinal of its stream on this rank. Messages
 * between two ranks are matched by direction: the k-th sent is the k-th received. */
static const char *key_of(const struct matcher *m, int32_t list, int64_t i, int32_t *streams,
                          int32_t *n_streams, char text[32])
{
    const struct traces_comm_list *l = &m->lists[list];
    const struct traces_comm_item *x = &l->items[i];
    int32_t k = 0, stream = l->t->track[x->row];
    enum end end = message_end(l, x);

    if (end != END_NONE && m->n == 2) {
        snprintf(text, 32, "messages to file %d", end == END_RECV ? list : 1 - list);
        return text;
    }
    if (x->fact.group)
        return x->fact.group;
    if (lw_trace_on_host(l->t, x->row))
        return "gloo";
    while (k < *n_streams && streams[k] != stream)
        k++;
    if (k == *n_streams && k < 1024)
        streams[(*n_streams)++] = stream;
    snprintf(text, 32, "stream %d", k);
    return text;
}

static enum lw_status class_of(struct matcher *m, const char *key, int32_t list, int32_t *class)
{
    struct traces_cross_rank *out = m->out;
    struct traces_comm_class *c;

    for (*class = 0; *class < out->n_classes; ++*class)
        if (strcmp(out->classes[*class].name, key) == 0)
            break;
    if (*class == out->n_classes) {
        if (out->n_classes == 4096)
            return lw_fail(m->err, LW_ENOTSUP, "more than 4096 process groups in these traces");
        c = &out->classes[out->n_classes++];
        *c = (struct traces_comm_class){.why = ""};
        LW_PRINT(m->arena, c->name, m->err, "%s", key);
        LW_TAKE(m->arena, c->members, m->n, m->err);
    }
    c = &out->classes[*class];
    if (c->n_members == 0 || c->members[c->n_members - 1] != list) {
        c->members[c->n_members++] = list;
        c->n = c->n_members == 1 ? 0 : c->n;
    }
    return LW_OK;
}

static enum lw_status classify(struct matcher *m, int32_t list, int64_t *count)
{
    struct traces_comm_list *l = &m->lists[list];
    int32_t streams[1024], n_streams = 0;
    char text[32];

    memset(count, 0, 4096 * sizeof *count);
    for (int64_t i = 0; i < l->n; i++) {
        const char *key = key_of(m, list, i, streams, &n_streams, text);
        LW_TRY(class_of(m, key, list, &l->items[i].class));
        l->items[i].k = count[l->items[i].class]++;
        struct traces_comm_class *c = &m->out->classes[l->items[i].class];
        c->p2p = m->n == 2 && message_end(l, &l->items[i]) != END_NONE;
        if (c->members[0] == list)
            c->n = count[l->items[i].class];
    }
    return LW_OK;
}

/* ---- matching ---- */

/* The items of one class on one member, in order. */
static int64_t *items_of(struct matcher *m, int32_t class, int32_t list, int64_t *n)
{
    const struct traces_comm_list *l = &m->lists[list];
    int64_t *v = lw_arena_alloc(m->arena, l->n, sizeof *v);

    *n = 0;
    for (int64_t i = 0; v && i < l->n; i++)
        if (l->items[i].class == class)
            v[(*n)++] = i;
    return v;
}

static const char *say(struct matcher *m, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static const char *say(struct matcher *m, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    const char *s = lw_arena_vprintf(m->arena, fmt, args);
    va_end(args);
    return s ? s : "";
}

static const char *short_name(const struct traces_comm_list *l, int64_t i, int *len)
{
    const char *name = lw_trace_name(l->t, l->items[i].row);

    *len = (int)strcspn(name, "(");
    return name;
}

static enum lw_op_kind kind_of(const struct traces_comm_list *l, int64_t i)
{
    return traces_comm_kind(l->items[i].fact.op);
}

/* Why the members of a class cannot be matched; NULL = they can. */
static const char *obstacle(struct matcher *m, const struct traces_comm_class *c,
                            int64_t *const *items, const int64_t *n)
{
    if (c->n_members == 1)
        return "one member was given";
    for (int32_t k = 1; k < c->n_members; k++) {
        const struct traces_comm_list *a = &m->lists[c->members[0]], *b = &m->lists[c->members[k]];
        if (n[k] != n[0])
            return say(m, "file %d holds %lld collectives of it and file %d %lld", c->members[0],
                       (long long)n[0], c->members[k], (long long)n[k]);
        for (int64_t i = 0; i < n[0]; i++)
            if (kind_of(a, items[0][i]) != kind_of(b, items[k][i]))
                return say(m, "collective %lld is %s in file %d and %s in file %d", (long long)i,
                           lw_op_name(kind_of(a, items[0][i])), c->members[0],
                           lw_op_name(kind_of(b, items[k][i])), c->members[k]);
    }
    int32_t size = m->lists[c->members[0]].items[items[0][0]].fact.group_size;
    if (size > 0 && size != c->n_members)
        return say(m, "%d of its %d ranks were given", c->n_members, size);
    return NULL;
}

static int64_t absolute(const struct traces_comm_list *l, int64_t ns, int64_t base)
{
    return (int64_t)((uint64_t)ns + (uint64_t)l->t->base_ns - (uint64_t)base -
                     (uint64_t)l->late_ns); /* wraps: any file */
}

static enum lw_status compare(struct matcher *m, struct traces_comm_class *c, int64_t *const *items)
{
    int64_t base = m->lists[0].t->base_ns;

    LW_TAKE(m->arena, c->ops, c->n, m->err);
    for (int64_t i = 0; i < c->n; i++) {
        struct traces_matched x = {.same_kernel = true, .transfer_ns = INT64_MAX};
        int64_t start[2] = {INT64_MAX, INT64_MIN}, end[2] = {INT64_MAX, INT64_MIN};
        int first_len, len;
        const char *first = short_name(&m->lists[c->members[0]], items[0][i], &first_len);
        for (int32_t k = 0; k < c->n_members; k++) {
            const struct traces_comm_list *l = &m->lists[c->members[k]];
            const struct traces_comm_item *item = &l->items[items[k][i]];
            const char *name = short_name(l, items[k][i], &len);
            int64_t s = absolute(l, item->start_ns, base), e = s + item->dur_ns;
            x.same_kernel =
                x.same_kernel && len == first_len && memcmp(name, first, (size_t)len) == 0;
            x.transfer_ns = item->dur_ns < x.transfer_ns ? item->dur_ns : x.transfer_ns;
            x.longest_ns = item->dur_ns > x.longest_ns ? item->dur_ns : x.longest_ns;
            start[0] = s < start[0] ? s : start[0];
            start[1] = s > start[1] ? s : start[1];
            if (c->p2p && message_end(l, item) == END_SEND)
                continue; /* its range ends when its thread waited */
            end[0] = e < end[0] ? e : end[0];
            end[1] = e > end[1] ? e : end[1];
        }
        x.kernel = lw_arena_strndup(m->arena, first, (size_t)first_len);
        x.start_skew_ns = start[1] - start[0];
        x.end_skew_ns = end[1] - end[0];
        x.last_start_ns = start[1];
        x.last_start_to_last_end_ns = end[1] - start[1];
        if (!x.kernel)
            return lw_fail_nomem(m->err);
        c->ops[i] = x;
    }
    return LW_OK;
}

static enum lw_status match(struct matcher *m, int32_t class)
{
    struct traces_comm_class *c = &m->out->classes[class];
    int64_t **items, *n;

    LW_TAKE(m->arena, items, c->n_members, m->err);
    LW_TAKE(m->arena, n, c->n_members, m->err);
    for (int32_t k = 0; k < c->n_members; k++)
        if (!(items[k] = items_of(m, class, c->members[k], &n[k])))
            return lw_fail_nomem(m->err);
    const char *why = obstacle(m, c, items, n);
    c->matched = why == NULL;
    c->why = why ? why : "";
    return c->matched ? compare(m, c, items) : LW_OK;
}

/* ---- clocks ---- */

/* Ends of the collectives that list k and list 0 both took part in, compared. */
static enum lw_status clock_of(struct matcher *m, int32_t k, int64_t *const *end_of)
{
    struct traces_comm_list *l = &m->lists[k];
    int64_t n = 0, *late;

    LW_TAKE(m->arena, late, l->n, m->err);
    for (int64_t i = 0; i < l->n; i++) {
        const struct traces_comm_item *x = &l->items[i];
        const struct traces_comm_class *c = &m->out->classes[x->class];
        if (!c->matched || c->members[0] != 0 || c->p2p)
            continue;
        int64_t s = absolute(l, x->start_ns, m->lists[0].t->base_ns);
        late[n++] = s + x->dur_ns - end_of[x->class][x->k];
    }
    if (n == 0)
        return LW_OK;
    lw_sort(late, n, lw_compare_int64);
    m->out->clock_ns[k] = late[(n - 1) / 2];
    m->out->clock_known[k] = true;
    return LW_OK;
}

static enum lw_status compare_clocks(struct matcher *m)
{
    const struct traces_comm_list *l = &m->lists[0];
    int64_t **end_of;

    LW_TAKE(m->arena, end_of, m->out->n_classes, m->err);
    LW_TAKE(m->arena, m->out->clock_ns, m->n, m->err);
    LW_TAKE(m->arena, m->out->clock_known, m->n, m->err);
    for (int32_t c = 0; c < m->out->n_classes; c++)
        LW_TAKE(m->arena, end_of[c], m->out->classes[c].n, m->err);
    for (int64_t i = 0; i < l->n; i++)
        if (m->out->classes[l->items[i].class].matched)
            end_of[l->items[i].class][l->items[i].k] =
                l->items[i].start_ns + l->items[i].dur_ns;
    for (int32_t k = 0; k < m->n; k++)
        LW_TRY(clock_of(m, k, end_of));
    return LW_OK;
}

enum lw_status traces_cross_rank_build(struct traces_comm_list *lists, int32_t n,
                                       struct lw_arena *arena, struct traces_cross_rank *out,
                                       struct lw_err *err)
{
    struct traces_cross_rank result = {0};
    struct matcher m = {.lists = lists, .n = n, .arena = arena, .out = &result, .err = err};
    int64_t *count;

    LW_TAKE(arena, count, 4096, err);
    LW_TAKE(arena, result.classes, 4096, err);
    for (int32_t k = 0; k < n; k++)
        LW_TRY(classify(&m, k, count));
    for (int32_t c = 0; c < result.n_classes; c++)
        LW_TRY(match(&m, c));
    LW_TRY(compare_clocks(&m));
    *out = result;
    return LW_OK;
}
