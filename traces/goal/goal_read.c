/* GOAL text, token by token, and the binary form of LogGOPSim's txt2bin (its Parser.hpp:
 * little-endian, packed). */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/io/input.h"
#include "traces/goal/goal.h"

enum { COOKIE = 4223, HEADER = 14, NODE_BYTES = 39, MOST_RANKS = 1 << 24 };

struct label {
    const char *text;
    int32_t len, op;
};

struct pending { /* a line "A requires B", until its rank ends */
    const char *a, *b;
    int32_t a_len, b_len, line;
    bool start;
};

struct reader {
    struct traces_goal *g;
    const char *p, *end;
    int32_t line;
    struct lw_err *err;
    int64_t ops_cap, deps_cap, labels_cap, pending_cap;
    int64_t n_labels, n_pending;
    struct goal_op *ops;
    struct goal_dep *deps;
    struct label *labels;
    struct pending *pending;
    int32_t *slots; /* [n_slots] labels of this rank by their hash, number + 1 */
    int64_t n_slots;
    int64_t *first, *last; /* [n_ranks] -1 = not given yet */
    int64_t rank_end;      /* binary: where the rank before ends */
};

void traces_goal_free(struct traces_goal *g)
{
    lw_arena_free(&g->arena);
    *g = (struct traces_goal){0};
}

const char *traces_goal_op_text(const struct traces_goal *g, int32_t rank, int64_t op, char *text)
{
    if (g->ops[op].line > 0)
        snprintf(text, GOAL_TEXT, "line %d", g->ops[op].line);
    else
        snprintf(text, GOAL_TEXT, "op %lld of rank %d", (long long)(op - g->first[rank]), rank);
    return text;
}

bool traces_goal_is(const char *text, size_t len)
{
    static const uint8_t little[8] = {0x7f, 0x10}, big[8] = {0, 0, 0, 0, 0, 0, 0x10, 0x7f};
    size_t i = 0;

    if (len >= 8 && (memcmp(text, little, 8) == 0 || memcmp(text, big, 8) == 0))
        return true;
    while (i < len) { /* comments may come first */
        if (isspace((unsigned char)text[i])) {
            i++;
        } else if (i + 1 < len && text[i] == '/' && text[i + 1] == '/') {
            while (i < len && text[i] != '\n')
                i++;
        } else if (i + 1 < len && text[i] == '/' && text[i + 1] == '*') {
            const char *close = memmem(text + i, len - i, "*/", 2);
            if (!close)
                return false;
            i = (size_t)(close - text) + 2;
        } else {
            break;
        }
    }
    return len - i > 10 && memcmp(text + i, "num_ranks", 9) == 0 &&
           isspace((unsigned char)text[i + 9]);
}

/* ---- tokens ---- */

static enum lw_status fail(struct reader *r, const char *expected)
{
    char found[32];
    size_t n = 0;

    while (r->p + n < r->end && n < 24 && !isspace((unsigned char)r->p[n]))
        n++;
    snprintf(found, sizeof found, "%.*s", (int)n, r->p);
    return lw_fail_at(r->err, LW_EFORMAT, r->g->file, r->line, "found %s%s%s, expected %s",
                      n > 0 ? "'" : "", n > 0 ? found : "the end", n > 0 ? "'" : "", expected);
}

/* What our own export says about the file, in a comment. */
static void take_comment(struct reader *r, const char *text, size_t len)
{
    static const char begin[] = "lapwing: ";
    char copy[160];
    struct goal_network n = traces_goal_network_default();
    struct lw_err unused = {0};
    const char *at = memmem(text, len, begin, sizeof begin - 1);

    if (!at)
        return;
    at += sizeof begin - 1;
    snprintf(copy, sizeof copy, "%.*s", (int)(len - (size_t)(at - text)), at);
    char *unit = strstr(copy, " unit=ps");
    if (unit)
        *unit = '\0';
    if (traces_goal_network_parse(copy, &n, &unused) != LW_OK)
        return;
    r->g->unit = unit ? 1 : LW_PS_PER_NS;
    r->g->has_network = true;
    n.source = "of the file";
    r->g->network = n;
}

static enum lw_status skip(struct reader *r)
{
    while (r->p < r->end) {
        if (*r->p == '\n') {
            r->line++;
            r->p++;
        } else if (isspace((unsigned char)*r->p)) {
            r->p++;
        } else if (r->end - r->p > 1 && r->p[0] == '/' && r->p[1] == '/') {
            const char *stop = memchr(r->p, '\n', (size_t)(r->end - r->p));
            stop = stop ? stop : r->end;
            take_comment(r, r->p, (size_t)(stop - r->p));
            r->p = stop;
        } else if (r->end - r->p > 1 && r->p[0] == '/' && r->p[1] == '*') {
            const char *stop = memmem(r->p + 2, (size_t)(r->end - r->p) - 2, "*/", 2);
            if (!stop)
                return lw_fail_at(r->err, LW_EFORMAT, r->g->file, r->line,
                                  "a comment without its end '*/'");
            for (; r->p < stop + 2; r->p++)
                r->line += *r->p == '\n';
        } else {
            break;
        }
    }
    return LW_OK;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool next_is(const struct reader *r, const char *word)
{
    size_t n = strlen(word);

    return (size_t)(r->end - r->p) >= n && memcmp(r->p, word, n) == 0 &&
           (!is_word(word[n - 1]) || r->p + n == r->end || !is_word(r->p[n]));
}

static bool take(struct reader *r, const char *word)
{
    if (!next_is(r, word))
        return false;
    r->p += strlen(word);
    return true;
}

static enum lw_status number(struct reader *r, int64_t min, int64_t max, const char *what,
                             int64_t *v)
{
    bool negative = r->p < r->end && *r->p == '-';
    const char *p = r->p + negative;
    int64_t n = 0;

    if (p == r->end || !isdigit((unsigned char)*p))
        return fail(r, what);
    for (; p < r->end && isdigit((unsigned char)*p); p++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *p - '0', &n))
            return fail(r, what);
    n = negative ? -n : n;
    if (n < min || n > max)
        return fail(r, what);
    r->p = p;
    *v = n;
    return LW_OK;
}

/* ---- labels ---- */

static uint64_t hash_of(const char *text, int32_t len)
{
    uint64_t h = 1469598103934665603U;

    for (int32_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)text[i]) * 1099511628211U;
    return h;
}

static int32_t *slot_of(const struct reader *r, const char *text, int32_t len)
{
    uint64_t i = hash_of(text, len) & (uint64_t)(r->n_slots - 1);

    while (r->slots[i] > 0) {
        const struct label *l = &r->labels[r->slots[i] - 1];
        if (l->len == len && memcmp(l->text, text, (size_t)len) == 0)
            break;
        i = (i + 1) & (uint64_t)(r->n_slots - 1);
    }
    return &r->slots[i];
}

static enum lw_status grow_slots(struct reader *r)
{
    int64_t n = r->n_slots > 0 ? 2 * r->n_slots : 256;
    int32_t *slots = lw_calloc((size_t)n, sizeof *slots);

    if (!slots)
        return lw_fail_nomem(r->err);
    lw_free(r->slots);
    r->slots = slots;
    r->n_slots = n;
    for (int64_t i = 0; i < r->n_labels; i++)
        *slot_of(r, r->labels[i].text, r->labels[i].len) = (int32_t)i + 1;
    return LW_OK;
}

static enum lw_status add_label(struct reader *r, const char *text, int32_t len, int32_t op)
{
    if (2 * (r->n_labels + 1) > r->n_slots)
        LW_TRY(grow_slots(r));
    int32_t *slot = slot_of(r, text, len);
    if (*slot > 0)
        return lw_fail_at(r->err, LW_EFORMAT, r->g->file, r->ops[op].line,
                          "label '%.*s' is given twice in one rank", len < 60 ? len : 60, text);
    LW_ROOM(r->labels, r->labels_cap, r->n_labels + 1, r->err);
    r->labels[r->n_labels++] = (struct label){text, len, op};
    *slot = (int32_t)r->n_labels;
    return LW_OK;
}

/* ---- lines ---- */

static enum lw_status add_op(struct reader *r, struct goal_op *op)
{
    struct traces_goal *g = r->g;

    if (g->n_ops >= INT32_MAX / 8)
        return lw_fail_at(r->err, LW_ENOTSUP, g->file, r->line, "more than %d ops", INT32_MAX / 8);
    LW_ROOM(r->ops, r->ops_cap, g->n_ops + 1, r->err);
    g->n_sends += op->type == GOAL_SEND;
    g->n_recvs += op->type == GOAL_RECV;
    g->n_calcs += op->type == GOAL_CALC;
    g->n_cpus = op->cpu + 1 > g->n_cpus ? op->cpu + 1 : g->n_cpus;
    g->n_nics = op->nic + 1 > g->n_nics ? op->nic + 1 : g->n_nics;
    r->ops[g->n_ops++] = *op;
    return LW_OK;
}

static enum lw_status options(struct reader *r, struct goal_op *op)
{
    int64_t v;

    for (;;) {
        LW_TRY(skip(r));
        bool tag = take(r, "tag"), cpu = !tag && take(r, "cpu"),
             nic = !tag && !cpu && take(r, "nic");
        if (!tag && !cpu && !nic)
            return LW_OK;
        LW_TRY(skip(r));
        if (tag) {
            LW_TRY(number(r, op->type == GOAL_RECV ? GOAL_ANY : 0, INT32_MAX, "a tag", &v));
            op->tag = (int32_t)v;
            continue;
        }
        LW_TRY(number(r, 0, UINT8_MAX, cpu ? "a cpu (0 to 255)" : "a nic (0 to 255)", &v));
        *(cpu ? &op->cpu : &op->nic) = (uint8_t)v;
    }
}

static enum lw_status read_op(struct reader *r)
{
    struct goal_op op = {.line = r->line};
    int64_t v;

    op.type = take(r, "send") ? GOAL_SEND : take(r, "recv") ? GOAL_RECV : GOAL_CALC;
    if (op.type == GOAL_CALC && !take(r, "calc"))
        return fail(r, "send, recv or calc");
    LW_TRY(skip(r));
    LW_TRY(number(r, 0, INT64_MAX / LW_PS_PER_NS / 64, op.type == GOAL_CALC ? "a time" : "a size",
                  &op.size));
    if (op.type != GOAL_CALC) {
        bool sends = op.type == GOAL_SEND;
        if (r->p < r->end && *r->p == 'b')
            r->p++;
        LW_TRY(skip(r));
        if (!take(r, sends ? "to" : "from"))
            return fail(r, sends ? "'to' and a rank" : "'from' and a rank");
        LW_TRY(skip(r));
        LW_TRY(number(r, sends ? 0 : GOAL_ANY, r->g->n_ranks - 1,
                      sends ? "a rank below num_ranks" : "a rank below num_ranks, or -1", &v));
        op.peer = (int32_t)v;
    }
    LW_TRY(options(r, &op));
    return add_op(r, &op);
}

static enum lw_status read_label(struct reader *r)
{
    const char *a = r->p, *b;
    int32_t a_len, line = r->line;

    while (r->p < r->end && is_word(*r->p))
        r->p++;
    a_len = (int32_t)(r->p - a);
    if (a_len == 0)
        return fail(r, "an op, a label, or '}'");
    LW_TRY(skip(r));
    if (r->p < r->end && *r->p == ':') {
        r->p++;
        LW_TRY(skip(r));
        LW_TRY(read_op(r));
        return add_label(r, a, a_len, (int32_t)r->g->n_ops - 1);
    }
    bool start = take(r, "irequires");
    if (!start && !take(r, "requires"))
        return fail(r, "':', 'requires' or 'irequires' after a label");
    LW_TRY(skip(r));
    b = r->p;
    while (r->p < r->end && is_word(*r->p))
        r->p++;
    if (r->p == b)
        return fail(r, "a label");
    LW_ROOM(r->pending, r->pending_cap, r->n_pending + 1, r->err);
    r->pending[r->n_pending++] = (struct pending){a, b, a_len, (int32_t)(r->p - b), line, start};
    *(start ? &r->g->n_irequires : &r->g->n_requires) += 1;
    return LW_OK;
}

static enum lw_status find_label(const struct reader *r, const char *text, int32_t len,
                                 int32_t line, int32_t *op)
{
    int32_t slot = r->n_slots > 0 ? *slot_of(r, text, len) : 0;

    if (slot == 0)
        return lw_fail_at(r->err, LW_EFORMAT, r->g->file, line,
                          "no op of this rank has the label '%.*s'", len < 60 ? len : 60, text);
    *op = r->labels[slot - 1].op;
    return LW_OK;
}

/* A rank's lines "A requires B" as lists of its ops. */
static enum lw_status close_rank(struct reader *r, int64_t first)
{
    struct traces_goal *g = r->g;
    int64_t n = g->n_deps;

    LW_ROOM(r->deps, r->deps_cap, g->n_deps + r->n_pending, r->err);
    for (int64_t i = 0; i < r->n_pending; i++) {
        int32_t a, b;
        const struct pending *x = &r->pending[i];
        LW_TRY(find_label(r, x->a, x->a_len, x->line, &a));
        LW_TRY(find_label(r, x->b, x->b_len, x->line, &b));
        r->ops[a].n_deps++;
    }
    for (int64_t i = first; i < g->n_ops; i++) {
        r->ops[i].first_dep = (int32_t)n;
        n += r->ops[i].n_deps;
        r->ops[i].n_deps = 0;
    }
    for (int64_t i = 0; i < r->n_pending; i++) {
        int32_t a = 0, b = 0;
        const struct pending *x = &r->pending[i];
        LW_TRY(find_label(r, x->a, x->a_len, x->line, &a));
        LW_TRY(find_label(r, x->b, x->b_len, x->line, &b));
        r->deps[r->ops[a].first_dep + r->ops[a].n_deps++] =
            (struct goal_dep){b - (int32_t)first, x->start};
    }
    g->n_deps = n;
    r->n_pending = r->n_labels = 0;
    if (r->n_slots > 0)
        memset(r->slots, 0, (size_t)r->n_slots * sizeof *r->slots);
    return LW_OK;
}

static enum lw_status read_rank(struct reader *r)
{
    int64_t rank;

    if (!take(r, "rank"))
        return fail(r, "'rank N {'");
    LW_TRY(skip(r));
    LW_TRY(number(r, 0, r->g->n_ranks - 1, "a rank below num_ranks", &rank));
    if (r->first[rank] >= 0)
        return lw_fail_at(r->err, LW_EFORMAT, r->g->file, r->line, "rank %lld is given twice",
                          (long long)rank);
    LW_TRY(skip(r));
    if (!take(r, "{"))
        return fail(r, "'{'");
    int64_t first = r->first[rank] = r->g->n_ops;
    for (;;) {
        LW_TRY(skip(r));
        if (take(r, "}"))
            break;
        if (r->p == r->end)
            return lw_fail_at(r->err, LW_EFORMAT, r->g->file, r->line,
                              "the file ends within rank %lld: '}' is missing", (long long)rank);
        LW_TRY(next_is(r, "send") || next_is(r, "recv") || next_is(r, "calc") ? read_op(r)
                                                                              : read_label(r));
    }
    r->last[rank] = r->g->n_ops;
    return close_rank(r, first);
}

/* Ranks that no block describes do nothing. In the order of their numbers. */
static enum lw_status order_ranks(struct reader *r)
{
    struct traces_goal *g = r->g;
    int64_t n = 0;

    LW_TAKE(&g->arena, g->ops, g->n_ops + 1, r->err);
    LW_TAKE(&g->arena, g->first, g->n_ranks + 1, r->err);
    for (int32_t k = 0; k < g->n_ranks; k++) {
        g->first[k] = n;
        if (r->first[k] < 0)
            continue;
        for (int64_t i = r->first[k]; i < r->last[k]; i++)
            g->ops[n++] = r->ops[i];
    }
    g->first[g->n_ranks] = n;
    LW_TAKE(&g->arena, g->deps, g->n_deps + 1, r->err);
    if (g->n_deps > 0)
        memcpy(g->deps, r->deps, (size_t)g->n_deps * sizeof *g->deps);
    return LW_OK;
}

static enum lw_status no_missing_ranks(const struct reader *r)
{
    char list[160] = "", word[16];
    int32_t n = 0;

    for (int32_t k = 0; k < r->g->n_ranks; k++)
        if (r->first[k] < 0) {
            snprintf(word, sizeof word, "%d", k);
            lw_err_word(list, sizeof list, word);
            n++;
        }
    if (n == 0)
        return LW_OK;
    return lw_fail_at(
        r->err, LW_EFORMAT, r->g->file, 0,
        "num_ranks is %d, and rank%s %s %s missing: expected a block 'rank N { }' for "
        "each",
        r->g->n_ranks, lw_plural(n), list, n == 1 ? "is" : "are");
}

static enum lw_status read_text(struct reader *r)
{
    int64_t n;

    LW_TRY(skip(r));
    if (!take(r, "num_ranks"))
        return fail(r, "num_ranks");
    LW_TRY(skip(r));
    LW_TRY(number(r, 1, MOST_RANKS, "a number of ranks (1 to 16777216)", &n));
    if (n > (r->end - r->p) / 7 + 1) /* "rank 0{}" */
        return lw_fail_at(r->err, LW_EFORMAT, r->g->file, r->line,
                          "num_ranks is %lld, and the file is too short for so many ranks",
                          (long long)n);
    r->g->n_ranks = (int32_t)n;
    LW_NEW(r->first, n, r->err);
    LW_NEW(r->last, n, r->err);
    for (int64_t i = 0; i < n; i++)
        r->first[i] = -1;
    for (;;) {
        LW_TRY(skip(r));
        if (r->p == r->end)
            break;
        LW_TRY(read_rank(r));
    }
    LW_TRY(no_missing_ranks(r));
    return order_ranks(r);
}

/* ---- binary ---- */

static uint64_t at(const struct reader *r, int64_t offset, int bytes)
{
    uint64_t v = 0;

    for (int i = bytes - 1; i >= 0; i--)
        v = v << 8 | (uint8_t)r->p[offset + i];
    return v;
}

static enum lw_status bad(const struct reader *r, int64_t byte, const char *what)
{
    return lw_fail_at(r->err, LW_EFORMAT, r->g->file, 0,
                      "byte %lld: %s: the file is cut or damaged", (long long)byte, what);
}

/* The dependents of a node, of one kind: each node gets its dependencies. */
static enum lw_status take_dependents(struct reader *r, int64_t appendix, int64_t n_appendix,
                                      int64_t byte, int32_t node, int32_t n_nodes, int64_t *fill)
{
    struct traces_goal *g = r->g;
    int64_t first_op = g->n_ops - n_nodes;

    for (int kind = 0; kind < 2; kind++) {
        int64_t n = (int64_t)at(r, byte + 23 + 8 * kind, 4);
        int64_t first = (int64_t)at(r, byte + 27 + 8 * kind, 4);
        for (int64_t i = 0; i < n; i++) {
            if (first + i >= n_appendix)
                return bad(r, byte, "a node's dependents lie beyond the list of its rank");
            int64_t to = (int64_t)at(r, appendix + 4 * (first + i), 4);
            if (to >= n_nodes)
                return bad(r, appendix + 4 * (first + i), "a dependent that is not a node");
            struct goal_op *op = &r->ops[first_op + to];
            if (fill)
                r->deps[op->first_dep + fill[to]++] = (struct goal_dep){node, kind == 1};
            else
                op->n_deps++;
            if (fill)
                *(kind ? &g->n_irequires : &g->n_requires) += 1;
        }
    }
    return LW_OK;
}

static enum lw_status read_nodes(struct reader *r, int64_t first, int32_t n, int64_t len)
{
    for (int32_t i = 0; i < n; i++) {
        int64_t byte = first + (int64_t)i * NODE_BYTES;
        if (byte + NODE_BYTES > len)
            return bad(r, byte, "a node ends beyond its rank");
        uint64_t peer = at(r, byte + 5, 4), size = at(r, byte + 9, 8), tag = at(r, byte + 17, 4);
        struct goal_op op = {.type = (uint8_t)r->p[byte + 4],
                             .cpu = (uint8_t)r->p[byte + 21],
                             .nic = (uint8_t)r->p[byte + 22]};
        if (op.type < GOAL_SEND || op.type > GOAL_CALC)
            return bad(r, byte + 4, "a type that is not 1 (send), 2 (receive) or 3 (calculation)");
        if (size > INT64_MAX / LW_PS_PER_NS / 64)
            return bad(r, byte + 9, "a size that is too large");
        bool any = op.type == GOAL_RECV && peer == UINT32_MAX;
        if (op.type != GOAL_CALC && !any && peer >= (uint64_t)r->g->n_ranks)
            return bad(r, byte + 5, "a peer that is not below the number of ranks");
        op.size = (int64_t)size;
        op.peer = any || op.type == GOAL_CALC ? GOAL_ANY : (int32_t)peer;
        op.tag = tag == UINT32_MAX ? GOAL_ANY : (int32_t)(tag & INT32_MAX);
        LW_TRY(add_op(r, &op));
    }
    return LW_OK;
}

static enum lw_status read_binary_rank(struct reader *r, int32_t rank, int64_t len)
{
    struct traces_goal *g = r->g;
    int64_t from = (int64_t)at(r, HEADER + 16L * rank, 8),
            to = (int64_t)at(r, HEADER + 16L * rank + 8, 8);

    if (from < 0 || to < from || to > len - 8 || to - from < 8 || from + 8 < r->rank_end)
        return bad(r, HEADER + 16L * rank, "a rank that lies beyond the file or in another one");
    from += 8;
    to += 8;
    r->rank_end = to;
    int64_t n = (int64_t)at(r, from, 4), roots = (int64_t)at(r, from + 4, 4);
    int64_t nodes = from + 8 + 4 * roots, appendix = nodes + NODE_BYTES * n;
    if (appendix > to)
        return bad(r, from, "more nodes than the rank has bytes");
    r->first[rank] = g->n_ops;
    LW_TRY(read_nodes(r, nodes, (int32_t)n, to));
    for (int32_t i = 0; i < n; i++)
        LW_TRY(take_dependents(r, appendix, (to - appendix) / 4, nodes + (int64_t)i * NODE_BYTES, i,
                               (int32_t)n, NULL));
    int64_t total = g->n_deps;
    for (int64_t i = r->first[rank]; i < g->n_ops; i++) {
        r->ops[i].first_dep = (int32_t)total;
        total += r->ops[i].n_deps;
        if (total - g->n_deps > (to - appendix) / 4 || total > INT32_MAX)
            return bad(r, from, "more dependents than the list of the rank holds");
    }
    LW_ROOM(r->deps, r->deps_cap, total + 1, r->err);
    int64_t *fill = lw_calloc((size_t)n + 1, sizeof *fill);
    enum lw_status status = fill ? LW_OK : lw_fail_nomem(r->err);
    for (int32_t i = 0; status == LW_OK && i < n; i++)
        status = take_dependents(r, appendix, (to - appendix) / 4, nodes + (int64_t)i * NODE_BYTES,
                                 i, (int32_t)n, fill);
    lw_free(fill);
    g->n_deps = total;
    r->last[rank] = g->n_ops;
    return status;
}

static enum lw_status read_binary(struct reader *r)
{
    int64_t len = r->end - r->p;

    if (r->p[0] == 0)
        return lw_fail_at(r->err, LW_EFORMAT, r->g->file, 0,
                          "binary GOAL in big-endian byte order, expected little-endian: write it "
                          "with txt2bin on a little-endian machine");
    if (len < HEADER)
        return bad(r, 0, "no header");
    uint64_t n = at(r, 8, 4);
    if (n == 0 || n > MOST_RANKS || HEADER + 16 * (int64_t)n > len)
        return bad(r, 8, "a number of ranks that the file has no room for");
    r->g->n_ranks = (int32_t)n;
    r->g->binary = true;
    LW_NEW(r->first, n, r->err);
    LW_NEW(r->last, n, r->err);
    for (int32_t k = 0; k < r->g->n_ranks; k++)
        LW_TRY(read_binary_rank(r, k, len));
    return order_ranks(r);
}

enum lw_status traces_goal_read(const struct lw_input *in, struct traces_goal *out,
                                struct lw_err *err)
{
    struct traces_goal g = {.file = in->name, .n_cpus = 1, .n_nics = 1, .unit = LW_PS_PER_NS};
    struct reader r = {.g = &g, .p = in->text, .end = in->text + in->len, .line = 1, .err = err};
    bool binary = in->len >= 8 && (in->text[0] == 0x7f || in->text[0] == 0);

    if (in->len >= 3 && memcmp(r.p, "\xef\xbb\xbf", 3) == 0)
        r.p += 3;
    enum lw_status status = binary ? read_binary(&r) : read_text(&r);
    lw_free(r.ops);
    lw_free(r.deps);
    lw_free(r.labels);
    lw_free(r.pending);
    lw_free(r.slots);
    lw_free(r.first);
    lw_free(r.last);
    LW_GIVE(status, out, g, traces_goal_free(&g));
}

/* ---- parameters ---- */

struct goal_network traces_goal_network_default(void)
{
    return (struct goal_network){.L = 2500 * LW_PS_PER_NS,
                                 .o = 1500 * LW_PS_PER_NS,
                                 .g = 1000 * LW_PS_PER_NS,
                                 .G_fs = 6000000,
                                 .O_fs = 0,
                                 .S = 65535,
                                 .source = "LogGOPSim's defaults"};
}

enum lw_status traces_goal_network_parse(const char *text, struct goal_network *n,
                                         struct lw_err *err)
{
    struct goal_network x = *n;

    for (const char *p = text; *p;) {
        char *end, key = *p;
        double v = p[1] == '=' ? strtod(p + 2, &end) : -1;
        if (!strchr("LogGOS", key) || p[1] != '=' || end == p + 2 || !(v >= 0 && v <= 1e15) ||
            (*end && *end != ',' && *end != ' '))
            return lw_fail(err, LW_EINVAL,
                           "'%.60s': expected L, o, g (ns), G, O (ns a byte) and S (bytes) as "
                           "KEY=NUMBER[,...]: L=2500,o=1500,g=1000,G=6,O=0,S=65535",
                           p);
        switch (key) {
        case 'L':
            x.L = (lw_ps)(v * 1e3 + 0.5);
            break;
        case 'o':
            x.o = (lw_ps)(v * 1e3 + 0.5);
            break;
        case 'g':
            x.g = (lw_ps)(v * 1e3 + 0.5);
            break;
        case 'S':
            x.S = (int64_t)v;
            break;
        default: /* G, O */
            if (v > 1e9)
                return lw_fail(err, LW_EINVAL, "%c=%g: expected at most 1e9 ns a byte", key, v);
            *(key == 'G' ? &x.G_fs : &x.O_fs) = (int64_t)(v * 1e6 + 0.5);
        }
        p = *end ? end + 1 : end;
    }
    x.source = "given";
    *n = x;
    return LW_OK;
}

enum lw_status traces_goal_network_check(const char *text, struct lw_err *err)
{
    struct goal_network n = traces_goal_network_default();

    return traces_goal_network_parse(text, &n, err);
}
