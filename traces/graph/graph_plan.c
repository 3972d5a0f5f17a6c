/* From graphs to a plan. Ranks are matched by process group: the k-th collective of a group is the
 * same one on all its ranks. With one file alone a collective keeps its recorded time, in which the
 * rank waited for others. */
#include "traces/graph/graph_plan.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/order.h"
#include "traces/graph/p2p_classes.h"

/* ---- the state ---- */

struct class_ { /* a process group, and the p2p of our own exports on it */
    const char *name;
    int32_t comm;
    int32_t n_ops;  /* collectives of each member */
    int32_t *first; /* [n] the member's in `list`; -1 = no member */
    int32_t n_members;
    int32_t *members;
    lw_ps *time;    /* [n_ops] -1 = unknown */
    int64_t *bytes; /* [n_ops] of an all-to-all the most that a member exchanges */
};

struct link {                 /* a message: its two ends */
    int32_t from, to, tag;    /* ranks of the plan */
    int32_t rank, node, side; /* where it was recorded; side 0 = sent */
};

struct maker {
    const struct traces_graph *g;
    int32_t n;
    const struct traces_replay_rule *rule;
    struct lw_arena *arena;
    struct lw_builder *b;
    struct lw_err *err;
    int32_t *number;    /* [n] rank that file i is */
    int32_t *by_number; /* [n] files in order of rank: rank k of the plan is file ... */
    int32_t n_classes;
    struct class_ *classes;
    int32_t **class_of;           /* [n][nodes] of communication; -1 */
    int32_t **k_of;               /* [n][nodes] number of the collective in its class */
    int32_t **stream_of, **op_of; /* [n][nodes] */
    lw_ps **message_time;         /* [n][nodes] of messages: the shorter of its ends */
    int32_t **comm_of;            /* [n][nodes] of messages */
    struct traces_p2p p2p;
    bool has_durations; /* some node that computes has one */
    int64_t n_untimed, n_alone, n_dangling, n_ops;
};

/* ---- ranks ---- */

int32_t traces_rank_of_name(const char *file)
{
    const char *base = strrchr(file, '/'), *p;
    char *end;

    base = base ? base + 1 : file;
    for (p = strcasestr(base, "rank"); p; p = strcasestr(p + 1, "rank")) {
        const char *digits = p + 4 + (p[4] == '_' || p[4] == '-');
        if (isdigit((unsigned char)*digits)) {
            long v = strtol(digits, &end, 10);
            return v >= 0 && v < INT32_MAX ? (int32_t)v : -1;
        }
    }
    for (p = strchr(base, '.'); p; p = strchr(p + 1, '.'))
        if (isdigit((unsigned char)p[1])) {
            long v = strtol(p + 1, &end, 10);
            if (*end == '.' && v >= 0 && v < INT32_MAX)
                return (int32_t)v;
        }
    return -1;
}

struct numbered {
    int32_t number, file;
};

LW_COMPARATOR(by_number, struct numbered, a->number, b->number, a->file, b->file)

static const struct traces_graph *graph_of(const struct maker *m, int32_t rank)
{
    return &m->g[m->by_number[rank]];
}

/* The plan's rank with that number; -1. */
static int32_t rank_of(const struct maker *m, int32_t number)
{
    int32_t low = 0, high = m->n;

    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (m->number[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->n && m->number[low] == number ? low : -1;
}

static enum lw_status fail_missing(const struct maker *m, const char *what, const char *name,
                                   const int32_t *ranks, int32_t n)
{
    char list[160] = "", word[16];
    int32_t n_missing = 0;

    for (int32_t i = 0; i < n; i++) {
        int32_t number = ranks ? ranks[i] : i;
        if (rank_of(m, number) >= 0)
            continue;
        snprintf(word, sizeof word, "%d", number);
        lw_err_word(list, sizeof list, word);
        n_missing++;
    }
    return lw_fail(
        m->err, LW_EFORMAT,
        "%s%s%s needs %d ranks, and the file%s of rank%s %s %s missing: give the files of "
        "all ranks, or one alone",
        what, *name ? " " : "", name, n, lw_plural(n_missing), lw_plural(n_missing), list,
        n_missing == 1 ? "is" : "are");
}

/* As the files say, else as their names do, else in the order of the command line. */
static enum lw_status number_ranks(struct maker *m)
{
    struct numbered *v;
    bool said = true, named = true, all_named = true;

    LW_TAKE(m->arena, v, m->n, m->err);
    for (int32_t i = 0; i < m->n; i++) {
        said = said && m->g[i].rank >= 0;
        all_named = all_named && traces_rank_of_name(m->g[i].file) >= 0;
    }
    for (int32_t i = 0; i < m->n; i++)
        v[i] = (struct numbered){said        ? m->g[i].rank
                                 : all_named ? traces_rank_of_name(m->g[i].file)
                                             : i,
                                 i};
    lw_sort(v, m->n, by_number);
    for (int32_t i = 1; i < m->n; i++) {
        if (v[i].number != v[i - 1].number)
            continue;
        if (said || all_named)
            return lw_fail(m->err, LW_EFORMAT,
                           "%.150s and %.150s are both of rank %d: give each "
                           "rank once",
                           m->g[v[i - 1].file].file, m->g[v[i].file].file, v[i].number);
    }
    int32_t world = 0;
    for (int32_t i = 0; i < m->n && said; i++)
        world = m->g[i].world > world ? m->g[i].world : world;
    LW_TAKE(m->arena, m->number, m->n, m->err);
    LW_TAKE(m->arena, m->by_number, m->n, m->err);
    for (int32_t i = 0; i < m->n; i++) {
        m->by_number[i] = v[i].file;
        m->number[i] = v[i].number;
    }
    for (int32_t k = 0; m->n > 1 && k < world; k++)
        if (rank_of(m, k) < 0)
            return fail_missing(m, "the run", "", NULL, world);
    named = said || all_named;
    if (!named && m->n > 1)
        lw_builder_note(m->b, "neither the files nor their names say their ranks: the order of the "
                              "command line is taken");
    return LW_OK;
}

/* ---- process groups ---- */

static const struct traces_group *listed(const struct maker *m, const char *name)
{
    for (int32_t r = 0; r < m->n; r++) {
        const struct traces_graph *g = graph_of(m, r);
        for (int32_t i = 0; i < g->n_groups; i++)
            if (strcmp(traces_graph_string(g, g->groups[i].name), name) == 0)
                return &g->groups[i];
    }
    return NULL;
}

static const int32_t *listed_ranks(const struct maker *m, const char *name)
{
    for (int32_t r = 0; r < m->n; r++) {
        const struct traces_graph *g = graph_of(m, r);
        for (int32_t i = 0; i < g->n_groups; i++)
            if (strcmp(traces_graph_string(g, g->groups[i].name), name) == 0)
                return g->group_ranks + g->groups[i].first_rank;
    }
    return NULL;
}

static enum lw_status find_class(struct maker *m, const char *name, int32_t *out)
{
    for (int32_t i = 0; i < m->n_classes; i++)
        if (strcmp(m->classes[i].name, name) == 0) {
            *out = i;
            return LW_OK;
        }
    struct class_ *v = lw_arena_more(m->arena, m->classes, m->n_classes, sizeof *v);
    if (!v)
        return lw_fail_nomem(m->err);
    m->classes = v;
    v += m->n_classes;
    *v = (struct class_){.name = name};
    LW_TAKE(m->arena, v->first, m->n, m->err);
    for (int32_t r = 0; r < m->n; r++)
        v->first[r] = -1;
    *out = m->n_classes++;
    return LW_OK;
}

static bool is_collective(const struct traces_node *n)
{
    return n->comm && n->op != LW_OP_SEND && n->op != LW_OP_RECV;
}

/* Numbers the collectives of each rank within their class. */
static enum lw_status number_collectives(struct maker *m, int32_t r)
{
    const struct traces_graph *g = graph_of(m, r);
    int32_t *class_of_string;

    LW_TAKE(m->arena, m->class_of[r], g->n + 1, m->err);
    LW_TAKE(m->arena, m->k_of[r], g->n + 1, m->err);
    LW_TAKE(m->arena, class_of_string, g->strings.n + 1, m->err);
    for (int32_t i = 0; i < g->n; i++) {
        const struct traces_node *x = &g->nodes[g->order[i]];
        int32_t c = 0, s = x->group + 1;
        m->class_of[r][g->order[i]] = -1;
        if (!x->comm || (!is_collective(x) && (x->group < 0 || m->n == 1)))
            continue;
        if (class_of_string[s] == 0) {
            LW_TRY(find_class(m, traces_graph_string(g, x->group), &c));
            class_of_string[s] = c + 1;
        }
        c = class_of_string[s] - 1;
        m->class_of[r][g->order[i]] = c;
        m->classes[c].first[r] = m->classes[c].first[r] < 0 ? 0 : m->classes[c].first[r];
        if (is_collective(x))
            m->k_of[r][g->order[i]] = m->classes[c].first[r]++; /* first counts here */
    }
    return LW_OK;
}

static enum lw_status check_members(struct maker *m, const struct class_ *c)
{
    const struct traces_group *l = listed(m, c->name);
    const int32_t *ranks = listed_ranks(m, c->name);
    int32_t n = l ? l->n_ranks : 0;

    if (m->n == 1)
        return LW_OK;
    if (n == 0) {
        for (int32_t r = 0; r < m->n; r++)
            n = graph_of(m, r)->world > n ? graph_of(m, r)->world : n;
        if (*c->name && !l && n == 0)
            return LW_OK; /* the files that use the group are its ranks */
        n = m->number[m->n - 1] + 1 > n ? m->number[m->n - 1] + 1 : n;
        if (*c->name && !l)
            return LW_OK;
        ranks = NULL;
    }
    for (int32_t i = 0; i < n; i++)
        if (rank_of(m, ranks ? ranks[i] : i) < 0)
            return fail_missing(m, *c->name ? "process group" : "the run", c->name, ranks, n);
    return LW_OK;
}

/* Bytes of the buffer that holds all of a collective of n ranks. */
static int64_t whole_of(const struct traces_node *x, int32_t n)
{
    if (x->whole >= 0)
        return x->whole;
    return x->op == LW_OP_ALL_GATHER && x->bytes > 0 ? lw_mul_sat(x->bytes, n) : x->bytes;
}

/* The shortest time of each collective; the first member says which one it is. */
static enum lw_status match(struct maker *m, int32_t class)
{
    struct class_ *c = &m->classes[class];
    const struct traces_node **of;
    int32_t first = -1;

    LW_TAKE(m->arena, c->members, m->n, m->err);
    for (int32_t r = 0; r < m->n; r++)
        if (c->first[r] >= 0)
            c->members[c->n_members++] = r;
    LW_TRY(check_members(m, c));
    first = c->members[0];
    c->n_ops = c->first[first];
    LW_TAKE(m->arena, c->time, c->n_ops + 1, m->err);
    LW_TAKE(m->arena, c->bytes, c->n_ops + 1, m->err);
    LW_TAKE(m->arena, of, c->n_ops + 1, m->err);
    for (int32_t i = 0; i < c->n_members; i++) {
        int32_t r = c->members[i];
        const struct traces_graph *g = graph_of(m, r);
        if (c->first[r] != c->n_ops)
            return lw_fail(m->err, LW_EFORMAT,
                           "%.150s: rank %d has %d collectives of process group '%.60s', rank %d "
                           "has %d (%.100s): not one run, or cut",
                           g->file, m->number[r], c->first[r], c->name, m->number[first], c->n_ops,
                           graph_of(m, first)->file);
        for (int32_t k = 0; k < g->n; k++) {
            const struct traces_node *x = &g->nodes[k];
            if (m->class_of[r][k] != class || !is_collective(x))
                continue;
            int32_t at = m->k_of[r][k];
            int64_t whole = whole_of(x, c->n_members);
            c->bytes[at] = whole > c->bytes[at] ? whole : c->bytes[at];
            if (i == 0) {
                of[at] = x;
                c->time[at] = x->time;
                continue;
            }
            if (x->op != of[at]->op || (x->bytes != of[at]->bytes && x->op != LW_OP_ALL_TO_ALL))
                return lw_fail(m->err, LW_EFORMAT,
                               "%.150s: collective %d of process group '%.60s': rank %d has %s of "
                               "%lld bytes, rank %d %s of %lld: not one run, or cut",
                               g->file, at, c->name, m->number[r], lw_op_name(x->op),
                               (long long)x->bytes, m->number[first], lw_op_name(of[at]->op),
                               (long long)of[at]->bytes);
            if (x->time >= 0 && (c->time[at] < 0 || x->time < c->time[at]))
                c->time[at] = x->time;
        }
    }
    return LW_OK;
}

static enum lw_status match_collectives(struct maker *m)
{
    LW_TAKE(m->arena, m->class_of, m->n, m->err);
    LW_TAKE(m->arena, m->k_of, m->n, m->err);
    for (int32_t r = 0; r < m->n; r++)
        LW_TRY(number_collectives(m, r));
    for (int32_t c = 0; c < m->n_classes; c++)
        LW_TRY(match(m, c));
    return LW_OK;
}

/* ---- messages ---- */

LW_COMPARATOR(by_link, struct link, a->from, b->from, a->to, b->to, a->tag, b->tag, a->side,
              b->side, a->node, b->node)

static enum lw_status add_link(const struct maker *m, int32_t r, int32_t node, struct link *x)
{
    const struct traces_graph *g = graph_of(m, r);
    const struct traces_node *n = &g->nodes[node];
    int32_t other = rank_of(m, n->peer);
    bool sent = n->op == LW_OP_SEND;

    if (other == r)
        return lw_fail(m->err, LW_EFORMAT,
                       "%.150s: node %llu '%.60s': rank %d exchanges a message "
                       "with itself",
                       g->file, (unsigned long long)n->id, traces_graph_string(g, n->name),
                       n->peer);
    if (other < 0)
        return lw_fail(
            m->err, LW_EFORMAT,
            "%.150s: node %llu '%.60s' %s rank %d, whose file is missing: give the files "
            "of all ranks, or one alone",
            g->file, (unsigned long long)n->id, traces_graph_string(g, n->name),
            sent ? "sends to" : "receives from", n->peer);
    *x = (struct link){sent ? r : other, sent ? other : r, n->tag, r, node, !sent};
    return LW_OK;
}

static enum lw_status fail_alone(const struct maker *m, const struct link *x)
{
    const struct traces_graph *g = graph_of(m, x->rank);
    const struct traces_node *n = &g->nodes[x->node];

    return lw_fail(m->err, LW_EFORMAT,
                   "%.150s: node %llu '%.60s' of rank %d %s rank %d (tag %d, %lld bytes), and rank "
                   "%d has no %s for it",
                   g->file, (unsigned long long)n->id, traces_graph_string(g, n->name),
                   m->number[x->rank], x->side ? "receives from" : "sends to", n->peer, n->tag,
                   (long long)n->bytes, n->peer, x->side ? "send" : "receive");
}

/* A buffered send takes no time of its sender. */
static lw_ps shorter(lw_ps sent, lw_ps received)
{
    return sent <= 0 || (received >= 0 && received < sent) ? received : sent;
}

/* The k-th send with a tag from a to b meets the k-th receive with it. */
static enum lw_status check_pairs(const struct maker *m, const struct link *v, int64_t n)
{
    for (int64_t i = 0; i < n;) {
        int64_t sends = 0, receives = 0, k = i;
        for (; k < n && v[k].from == v[i].from && v[k].to == v[i].to && v[k].tag == v[i].tag; k++)
            *(v[k].side ? &receives : &sends) += 1;
        int64_t both = sends < receives ? sends : receives;
        if (sends > receives)
            return fail_alone(m, &v[i + both]);
        if (receives > sends)
            return fail_alone(m, &v[i + sends + both]);
        for (int64_t j = 0; j < both; j++) {
            const struct traces_node *a = &graph_of(m, v[i + j].rank)->nodes[v[i + j].node];
            const struct link *y = &v[i + both + j];
            const struct traces_node *b = &graph_of(m, y->rank)->nodes[y->node];
            lw_ps time = shorter(a->time, b->time);
            m->message_time[v[i + j].rank][v[i + j].node] = time;
            m->message_time[y->rank][y->node] = time;
            if (a->bytes != b->bytes)
                return lw_fail(m->err, LW_EFORMAT,
                               "%.150s: node %llu '%.60s' of rank %d receives %lld bytes, and rank "
                               "%d sends %lld",
                               graph_of(m, y->rank)->file, (unsigned long long)b->id,
                               traces_graph_string(graph_of(m, y->rank), b->name),
                               m->number[y->rank], (long long)b->bytes, m->number[v[i].from],
                               (long long)a->bytes);
        }
        i = k;
    }
    return LW_OK;
}

static enum lw_status match_messages(struct maker *m)
{
    int64_t n = 0, k = 0;
    struct link *v;

    for (int32_t r = 0; r < m->n; r++)
        for (int32_t i = 0; i < graph_of(m, r)->n; i++)
            n += graph_of(m, r)->nodes[i].comm && !is_collective(&graph_of(m, r)->nodes[i]);
    if (n == 0 || m->n == 1)
        return LW_OK;
    LW_TAKE(m->arena, v, n, m->err);
    LW_TAKE(m->arena, m->message_time, m->n, m->err);
    for (int32_t r = 0; r < m->n; r++)
        LW_TAKE(m->arena, m->message_time[r], graph_of(m, r)->n + 1, m->err);
    for (int32_t r = 0; r < m->n; r++)
        for (int32_t i = 0; i < graph_of(m, r)->n; i++) {
            const struct traces_node *x = &graph_of(m, r)->nodes[i];
            if (x->comm && !is_collective(x))
                LW_TRY(add_link(m, r, i, &v[k++]));
        }
    lw_sort(v, n, by_link);
    return check_pairs(m, v, n);
}

/* ---- streams and communicators ---- */

struct stream_key {
    bool host, comm;
    int64_t track;
    const char *name;
    int32_t stream;
};

struct streams {
    int32_t n;
    struct stream_key *v;
};

static enum lw_stream_class class_of_word(const char *name, size_t len)
{
    for (int c = 0; lw_stream_class_word(c); c++)
        if (strlen(lw_stream_class_word(c)) == len &&
            memcmp(lw_stream_class_word(c), name, len) == 0)
            return (enum lw_stream_class)c;
    return LW_STREAM_COMPUTE;
}

static enum lw_status find_stream(struct maker *m, struct streams *s, bool host, int64_t track,
                                  bool comm, const char *name, int32_t *out)
{
    char text[64];

    for (int32_t i = 0; i < s->n; i++)
        if (s->v[i].host == host && s->v[i].track == track && s->v[i].comm == (comm && !name) &&
            (name == s->v[i].name || (name && s->v[i].name && strcmp(name, s->v[i].name) == 0))) {
            *out = s->v[i].stream;
            return LW_OK;
        }
    struct stream_key *v = lw_arena_more(m->arena, s->v, s->n, sizeof *v);
    if (!v)
        return lw_fail_nomem(m->err);
    s->v = v;
    v += s->n++;
    enum lw_stream_class class = host ? LW_STREAM_HOST : comm ? LW_STREAM_COMM : LW_STREAM_COMPUTE;
    if (name) { /* "comm gradients": its class, and its name */
        const char *space = strchr(name, ' ');
        size_t len = space ? (size_t)(space - name) : strlen(name);
        class = class_of_word(name, len);
        snprintf(text, sizeof text, "%.60s", space ? space + 1 : name);
    } else if (track < 0) {
        snprintf(text, sizeof text, "%s", host ? "host" : comm ? "communication" : "compute");
    } else {
        snprintf(text, sizeof text, "%s %lld", host ? "thread" : "stream", (long long)track);
    }
    *v = (struct stream_key){host, comm && !name, track, name,
                             lw_builder_stream(m->b, text, class, class == LW_STREAM_COMM ? 1 : 0)};
    *out = v->stream;
    return LW_OK;
}

/* Where nodes of the device carry the thread that launched them, and not a stream: compute is one
 * stream, communication another. */
static bool tracks_are_threads(const struct traces_graph *g)
{
    int64_t threads[64];
    int32_t n = 0;

    for (int32_t i = 0; i < g->n && n < 64; i++) {
        bool known = !g->nodes[i].host || g->nodes[i].track < 0;
        for (int32_t k = 0; k < n && !known; k++)
            known = threads[k] == g->nodes[i].track;
        if (!known)
            threads[n++] = g->nodes[i].track;
    }
    for (int32_t i = 0; i < g->n; i++)
        for (int32_t k = 0; !g->nodes[i].host && k < n; k++)
            if (g->nodes[i].track == threads[k])
                return true;
    return false;
}

static bool is_host(const struct traces_node *n)
{
    return n->ours ? lw_op_class(n->op) == LW_CLASS_HOST
                   : n->host || n->type == TRACES_NODE_METADATA || n->type == TRACES_NODE_INVALID ||
                         n->type >= TRACES_NODE_STORAGE;
}

static enum lw_status add_streams(struct maker *m, struct streams *s, int32_t r)
{
    const struct traces_graph *g = graph_of(m, r);
    bool threads = tracks_are_threads(g);

    LW_TAKE(m->arena, m->stream_of[r], g->n + 1, m->err);
    LW_TAKE(m->arena, m->op_of[r], g->n + 1, m->err);
    for (int32_t i = 0; i < g->n; i++) {
        const struct traces_node *x = &g->nodes[i];
        bool host = is_host(x);
        int64_t track = !host && threads ? -1 : x->track;
        if (x->stream >= 0)
            LW_TRY(find_stream(m, s, false, -1, x->comm, traces_graph_string(g, x->stream),
                               &m->stream_of[r][i]));
        else
            LW_TRY(find_stream(m, s, host, track, x->comm && track < 0, NULL, &m->stream_of[r][i]));
    }
    return LW_OK;
}

static void add_comms(struct maker *m)
{
    for (int32_t i = 0; i < m->n_classes; i++) {
        struct class_ *c = &m->classes[i];
        c->comm = lw_builder_comm(m->b, *c->name ? c->name : "all ranks", LW_COMM_RECORDED,
                                  LW_REDUCER_AUTO, 0);
        lw_builder_group(m->b, c->comm, c->members, c->n_members);
        bool timed = false;
        for (int32_t k = 0; k < c->n_ops; k++)
            timed = timed || c->time[k] >= 0;
        if (m->n > 1)
            lw_builder_note(m->b, "collectives of process group '%s': %d ranks matched%s",
                            *c->name ? c->name : "of all ranks", c->n_members,
                            timed ? ", each takes the shortest recorded time" : "");
    }
}

static enum lw_status add_message_classes(struct maker *m)
{
    LW_TRY(traces_p2p_begin(&m->p2p, m->b, m->n, m->arena, m->err));
    LW_TAKE(m->arena, m->comm_of, m->n, m->err);
    for (int32_t r = 0; r < m->n && m->n > 1; r++) {
        const struct traces_graph *g = graph_of(m, r);
        LW_TAKE(m->arena, m->comm_of[r], g->n + 1, m->err);
        for (int32_t i = 0; i < g->n; i++) {
            const struct traces_node *x = &g->nodes[i];
            struct traces_p2p_class c;
            if (!x->comm || is_collective(x))
                continue;
            if (m->class_of[r][i] >= 0) {
                m->comm_of[r][i] = m->classes[m->class_of[r][i]].comm;
                continue;
            }
            int32_t other = rank_of(m, x->peer);
            bool sent = x->op == LW_OP_SEND;
            LW_TRY(traces_p2p_class(&m->p2p, sent ? r : other, sent ? other : r, &c, m->err));
            m->comm_of[r][i] = c.comm;
            if (x->stream < 0)
                m->stream_of[r][i] = sent ? c.send_stream : c.recv_stream;
        }
    }
    return LW_OK;
}

/* ---- ops ---- */

static enum lw_op_kind kind_of(const struct traces_node *n)
{
    if (n->ours || n->comm)
        return n->op;
    if (is_host(n))
        return LW_OP_HOST;
    return n->type == TRACES_NODE_MEM_LOAD || n->type == TRACES_NODE_MEM_STORE ? LW_OP_COPY
                                                                               : LW_OP_KERNEL;
}

static enum lw_status ask(struct maker *m, int32_t r, const struct traces_node *n, int32_t size,
                          int64_t bytes, lw_ps *time)
{
    struct traces_replay_op q = {.name = traces_graph_string(graph_of(m, r), n->name),
                                 .comm = n->comm,
                                 .kind = kind_of(n),
                                 .dtype = n->dtype,
                                 .bytes = bytes,
                                 .group_size = size,
                                 .recorded = *time,
                                 .flops = n->flops,
                                 .moved = n->moved,
                                 .measured = true};

    if (n->product >= 0)
        q.product = &graph_of(m, r)->products[n->product];
    if (!m->rule || is_host(n))
        return LW_OK;
    return m->rule->time(m->rule->ctx, &q, time, m->err);
}

static enum lw_status set_time(struct maker *m, int32_t r, const struct traces_node *n,
                               struct lw_op *op, lw_ps time)
{
    if (time >= 0 || n->comm || is_host(n) || lw_op_class(op->kind) == LW_CLASS_MEMORY) {
        op->work_ps = time >= 0 ? time : n->comm ? -1 : 0;
        m->n_untimed += n->comm && time < 0;
        return LW_OK;
    }
    if (!m->has_durations && (n->flops > 0 || n->moved > 0))
        return lw_fail_at(
            m->err, LW_EINVAL, graph_of(m, r)->file, 0,
            "the file holds no durations (not of '%.60s'): 'lapwing sim --replay' with -c CLUSTER "
            "or --device KIND times its ops by their shapes",
            op->name);
    if (!m->has_durations && !n->ours && n->flops < 0 && n->moved < 0)
        return lw_fail_at(m->err, LW_EFORMAT, graph_of(m, r)->file, 0,
                          "node %llu '%.60s' computes, and the file holds no duration of any node "
                          "and no operations of this one (num_ops): nothing says how long it takes",
                          (unsigned long long)n->id, op->name);
    op->work_ps = 0; /* shorter than the microsecond that the file can say */
    return LW_OK;
}

static enum lw_status emit(struct maker *m, int32_t r, int32_t i, int32_t *deps)
{
    const struct traces_graph *g = graph_of(m, r);
    const struct traces_node *n = &g->nodes[i];
    struct lw_op op = lw_builder_blank(kind_of(n), m->stream_of[r][i]);
    lw_ps time = n->time;
    int32_t size = -1;

    op.name = traces_graph_string(g, n->name);
    op.dtype = n->dtype;
    if (is_collective(n)) {
        const struct class_ *c = &m->classes[m->class_of[r][i]];
        op.comm = c->comm;
        op.bytes = c->bytes[m->k_of[r][i]];
        op.peer = n->op == LW_OP_BROADCAST || n->op == LW_OP_REDUCE ? c->members[0] : -1;
        time = c->time[m->k_of[r][i]];
        size = m->n > 1 ? c->n_members : -1;
        m->n_alone += m->n == 1 && time >= 0;
    } else if (n->comm && m->n > 1) {
        op.comm = m->comm_of[r][i];
        op.peer = rank_of(m, n->peer);
        op.bytes = n->bytes;
        op.call = n->call;
        time = m->message_time[r][i];
        size = 2;
    } else if (n->comm) { /* of a rank alone: as long as it took */
        op.kind = LW_OP_KERNEL;
        m->n_alone++;
        if (time < 0)
            return lw_fail(m->err, LW_EFORMAT,
                           "%.150s: node %llu '%.60s' exchanges a message with rank %d and has no "
                           "duration: give the files of all ranks",
                           g->file, (unsigned long long)n->id, op.name, n->peer);
    }
    if (is_collective(n) && m->n == 1 && time < 0 && !m->rule)
        return lw_fail(m->err, LW_EFORMAT,
                       "%.150s: node %llu '%.60s' has no duration and its other ranks are missing: "
                       "give the files of all ranks (and a network, -c CLUSTER)",
                       g->file, (unsigned long long)n->id, op.name);
    LW_TRY(ask(m, r, n, size, n->bytes < 0 ? -1 : op.bytes, &time));
    if (n->comm && time == 0)
        op.bytes = 0; /* nothing to move, in no time */
    LW_TRY(set_time(m, r, n, &op, time));
    for (int32_t k = 0; k < n->n_deps; k++)
        deps[k] = m->op_of[r][g->deps[n->first_dep + k]];
    m->op_of[r][i] = lw_builder_op(m->b, &op, deps, n->n_deps);
    m->n_ops++;
    return LW_OK;
}

static enum lw_status emit_rank(struct maker *m, int32_t r)
{
    const struct traces_graph *g = graph_of(m, r);
    int32_t most = 0, *deps;

    for (int32_t i = 0; i < g->n; i++)
        most = g->nodes[i].n_deps > most ? g->nodes[i].n_deps : most;
    LW_TAKE(m->arena, deps, most + 1, m->err);
    lw_builder_program(m->b, 0, r);
    for (int32_t i = 0; i < g->n; i++)
        LW_TRY(emit(m, r, g->order[i], deps));
    return LW_OK;
}

static bool is_in(const int32_t *v, int32_t n, int32_t x)
{
    for (int32_t i = 0; i < n; i++)
        if (v[i] == x)
            return true;
    return false;
}

/* The ranks of the process groups of a rank alone, without it; *n of them. A group that lists none
 * is of all ranks: of those that the file counts, if it does. */
static enum lw_status find_absent(struct maker *m, int32_t **absent, int32_t *n)
{
    int32_t room = 1, *v;

    for (int32_t i = 0; i < m->n_classes; i++) {
        const struct traces_group *l = listed(m, m->classes[i].name);
        room += l && l->n_ranks > 0 ? l->n_ranks : m->g[0].world > 0 ? m->g[0].world : 0;
    }
    LW_TAKE(m->arena, v, room, m->err);
    *n = 0;
    for (int32_t i = 0; i < m->n_classes; i++) {
        const struct traces_group *l = listed(m, m->classes[i].name);
        const int32_t *ranks = l && l->n_ranks > 0 ? listed_ranks(m, m->classes[i].name) : NULL;
        int32_t size = ranks ? l->n_ranks : m->g[0].world;
        for (int32_t k = 0; k < size; k++) {
            int32_t number = ranks ? ranks[k] : k;
            if (number != m->number[0] && !is_in(v, *n, number))
                v[(*n)++] = number;
        }
    }
    *absent = v;
    return LW_OK;
}

/* Of one file: whose are not given, and what its collectives take. */
static enum lw_status note_alone(struct maker *m)
{
    char list[100] = "", word[16];
    int32_t *absent, n;

    LW_TRY(find_absent(m, &absent, &n));
    for (int32_t i = 0; i < n; i++) {
        snprintf(word, sizeof word, "%d", absent[i]);
        lw_err_word(list, sizeof list, word);
    }
    if (n > 0)
        lw_builder_note(m->b, "rank%s %s of its process groups %s no file here", lw_plural(n), list,
                        n == 1 ? "has" : "have");
    if (m->n_alone > 0 && !(m->rule && m->rule->network))
        lw_builder_note(m->b, "collectives keep their recorded times, waiting for other ranks "
                              "inside: give the files of all ranks to simulate it");
    return LW_OK;
}

static enum lw_status add_notes(struct maker *m)
{
    for (int32_t r = 0; r < m->n; r++)
        m->n_dangling += graph_of(m, r)->n_dangling;
    if (graph_of(m, 0)->by_data)
        lw_builder_note(m->b, "data dependencies order the nodes; control dependencies are the "
                              "stack of calls");
    if (m->n_dangling > 0)
        lw_builder_note(m->b, "%lld dependencies name nodes that the files do not hold",
                        (long long)m->n_dangling);
    if (m->n == 1)
        LW_TRY(note_alone(m));
    if (m->n_untimed > 0)
        lw_builder_note(m->b,
                        "%lld collectives and messages have no recorded time: the cluster "
                        "times them",
                        (long long)m->n_untimed);
    for (int k = 0; m->rule && m->rule->note && m->rule->note(m->rule->ctx, k); k++)
        lw_builder_note(m->b, "%s", m->rule->note(m->rule->ctx, k));
    return LW_OK;
}

static enum lw_status make(struct maker *m)
{
    struct streams s = {0};
    char name[32];

    for (int32_t r = 0; r < m->n; r++)
        if (m->g[r].n == 0)
            return lw_fail_at(m->err, LW_EFORMAT, m->g[r].file, 0, "no node: nothing to replay");
    LW_TRY(number_ranks(m));
    for (int32_t r = 0; r < m->n; r++) {
        snprintf(name, sizeof name, "rank %d", m->number[r]);
        lw_builder_rank(m->b, r, lw_builder_role(m->b, &(struct lw_role){.name = name}), r, 0, 0);
    }
    for (int32_t r = 0; r < m->n; r++)
        for (int32_t i = 0; i < graph_of(m, r)->n; i++)
            m->has_durations |=
                !graph_of(m, r)->nodes[i].comm && graph_of(m, r)->nodes[i].time >= 0;
    LW_TRY(match_collectives(m));
    LW_TRY(match_messages(m));
    LW_TAKE(m->arena, m->stream_of, m->n, m->err);
    LW_TAKE(m->arena, m->op_of, m->n, m->err);
    for (int32_t r = 0; r < m->n; r++)
        LW_TRY(add_streams(m, &s, r));
    add_comms(m);
    LW_TRY(add_message_classes(m));
    lw_builder_variant(m->b, "replay", "", true);
    for (int32_t r = 0; r < m->n; r++)
        LW_TRY(emit_rank(m, r));
    lw_builder_pass(m->b, 0);
    return add_notes(m);
}

enum lw_status traces_graphs_plan(const struct traces_graph *g, int n,
                                  const struct traces_replay_rule *rule, struct lw_plan *out,
                                  struct lw_err *err)
{
    struct lw_arena scratch = {0};
    struct lw_plan plan = {0};
    struct maker m = {.g = g,
                      .n = n,
                      .rule = rule,
                      .arena = &scratch,
                      .err = err,
                      .b = lw_builder_new("graph", n)};
    enum lw_status status = m.b ? make(&m) : lw_fail_nomem(err);

    lw_arena_free(&scratch);
    if (status != LW_OK) {
        lw_builder_free(m.b);
        return status;
    }
    LW_TRY(lw_builder_finish(m.b, &plan, err));
    status = lw_plan_check(&plan, err);
    LW_GIVE(status, out, plan, lw_plan_free(&plan));
}
