/* Measured collectives as a CSV with titles (RFC 4180), in any order, with any other columns. A row
 * without a time takes it from its bandwidth. --where keeps the rows whose cells have given values:
 * published collections have several machines and algorithms in one file. */
#include "traces/nccl_tests/bench_rows.h"

#include <stdio.h>
#include <string.h>

#include "shared/numbers/checked.h"

/* MOST_RANKS: as `lapwing cost --ranks` takes; sums of ranks and nodes stay within 32 bits. */
enum { MOST_COLUMNS = 64, MOST_CONDITIONS = 8, MOST_RANKS = 1 << 24 };

enum column {
    OP,
    RANKS,
    NODES,
    SIZE,
    TIME,
    IN_PLACE,
    TYPE,
    GPU,
    ALGO,
    SOURCE,
    ALGBW,
    BUSBW,
    N_COLUMNS
};

static const struct {
    const char *title, *other; /* other: as collections of several sources call it */
} columns[N_COLUMNS] = {
    {"op", "op"},
    {"nranks", "gpus"},
    {"nnodes", "nodes"},
    {"size_bytes", "size_bytes"},
    {"time_us", "time_us"},
    {"in_place_us", "in_place_us"},
    {"dtype", "dtype"},
    {"gpu", "gpu"},
    {"algo", "algo"},
    {"source", "source"},
    {"algbw_gbs", "algbw_gbps"},
    {"busbw_gbs", "busbw_gbps"},
};

struct condition {
    int column;
    struct bench_cell value;
};

struct csv {
    struct bench_reader *r;
    int at[N_COLUMNS]; /* -1 = absent */
    int n_conditions;
    struct condition condition[MOST_CONDITIONS];
};

/* The cells of one record (RFC 4180), unquoted in place; *at moves after it. */
static int csv_record(char **at, char *end, int64_t *lines, struct bench_cell *cells)
{
    char *p = *at;
    int n = 0;

    *lines = 1;
    for (;;) {
        char *to = p, *from = p;
        bool quoted = p < end && *p == '"';
        p += quoted;
        while (p < end && (quoted || (*p != ',' && *p != '\n'))) {
            if (quoted && *p == '"' && !(p + 1 < end && p[1] == '"'))
                break;
            p += quoted && *p == '"';
            *lines += *p == '\n';
            *to++ = *p++;
        }
        p += quoted && p < end;
        while (p < end && *p != ',' && *p != '\n')
            p++;
        if (n < MOST_COLUMNS)
            cells[n++] = (struct bench_cell){from, (size_t)(to - from)};
        if (p >= end || *p == '\n')
            break;
        p++;
    }
    if (n > 0 && cells[n - 1].len > 0 && cells[n - 1].at[cells[n - 1].len - 1] == '\r')
        cells[n - 1].len--;
    *at = p < end ? p + 1 : end;
    return n;
}

static enum lw_status lacks(const struct csv *c, int column)
{
    return lw_fail_at(c->r->err, LW_EFORMAT, c->r->in->name, 1,
                      "no column '%s' (needed: op, nranks, nnodes, size_bytes, and time_us, "
                      "in_place_us, algbw_gbs or busbw_gbs)",
                      columns[column].title);
}

static enum lw_status take_titles(struct csv *c, const struct bench_cell *cells, int n)
{
    for (int k = 0; k < N_COLUMNS; k++) {
        c->at[k] = -1;
        for (int i = n - 1; i >= 0; i--)
            if (bench_is(cells[i], columns[k].title) ||
                (bench_is(cells[i], columns[k].other) && c->at[k] < 0))
                c->at[k] = i;
        if (c->at[k] < 0 && k < TIME)
            return lacks(c, k);
    }
    if (c->at[TIME] < 0 && c->at[IN_PLACE] < 0 && c->at[ALGBW] < 0 && c->at[BUSBW] < 0)
        return lacks(c, TIME);
    return LW_OK;
}

enum lw_status traces_bench_where_check(const char *where, struct lw_err *err)
{
    int n = 0;

    for (const char *p = where; *p; n++) {
        size_t len = strcspn(p, ";"), name = strcspn(p, "=");
        if (name == 0 || name >= len || n == MOST_CONDITIONS)
            return lw_fail(err, LW_EINVAL,
                           "--where '%s': expected COLUMN=TEXT, at most %d of them with ';' "
                           "between", where, MOST_CONDITIONS);
        p += len + (p[len] == ';');
    }
    return LW_OK;
}

/* "gpu=H200-SXM;algo=NVLS" */
static enum lw_status take_conditions(struct csv *c, const struct bench_cell *titles, int n)
{
    const char *p = c->r->hint->where;

    if (p)
        LW_TRY(traces_bench_where_check(p, c->r->err));
    while (p && *p) {
        size_t len = strcspn(p, ";"), name = strcspn(p, "=");
        int column = -1;
        for (int i = 0; i < n; i++)
            if (titles[i].len == name && memcmp(titles[i].at, p, name) == 0)
                column = i;
        if (column < 0)
            return lw_fail_at(c->r->err, LW_EINVAL, c->r->in->name, 1, "--where: no column '%.*s'",
                              (int)(name < 40 ? name : 40), p);
        c->condition[c->n_conditions++] =
            (struct condition){column, {p + name + 1, len - name - 1}};
        p += len + (p[len] == ';');
    }
    return LW_OK;
}

static bool is_wanted(const struct csv *c, const struct bench_cell *cells)
{
    for (int i = 0; i < c->n_conditions; i++) {
        struct bench_cell have = cells[c->condition[i].column], want = c->condition[i].value;
        if (have.len != want.len || memcmp(have.at, want.at, want.len) != 0)
            return false;
    }
    return true;
}

static struct bench_cell cell(const struct csv *c, const struct bench_cell *cells, enum column k)
{
    return c->at[k] >= 0 ? cells[c->at[k]] : (struct bench_cell){"", 0};
}

static enum lw_status whole(const struct csv *c, const struct bench_cell *cells, enum column k,
                            int64_t most, int64_t *v)
{
    struct bench_cell x = cell(c, cells, k);

    if (bench_number(x, 0, v) && *v >= 1 && *v <= most)
        return LW_OK;
    return lw_fail_at(c->r->err, LW_EFORMAT, c->r->in->name, c->r->line,
                      "%s: found '%.*s', expected a whole number from 1%s", columns[k].title,
                      (int)(x.len < 40 ? x.len : 40), x.at,
                      c->n_conditions ? "" : " (--where COLUMN=TEXT leaves rows out)");
}

/* The row's time, else its size divided by its bandwidth, else its in-place time. */
static enum lw_status take_time(const struct csv *c, const struct bench_cell *cells,
                                struct traces_bench_table *t, struct bench_stated *s)
{
    struct bench_cell x = cell(c, cells, TIME);
    double alg = s->algbw > 0 ? s->algbw : s->busbw / bench_bus_factor(t->op, t->n_ranks);

    if (bench_number(x, 6, &s->time))
        return LW_OK;
    if (x.len == 0 && !(alg > 0) && s->in_place > 0) {
        t->only_in_place = true;
        s->time = s->in_place;
        return LW_OK;
    }
    if (x.len > 0 || !(alg > 0) || t->n_ranks < 2)
        return lw_fail_at(c->r->err, LW_EFORMAT, c->r->in->name, c->r->line,
                          "time_us: found '%.*s', expected a time in us%s",
                          (int)(x.len < 40 ? x.len : 40), x.at,
                          x.len ? "" : ", or a bandwidth above 0");
    double time = 1e3 * (double)s->bytes / alg; /* ps */
    if (time >= (double)INT64_MAX)
        return lw_fail_at(c->r->err, LW_EFORMAT, c->r->in->name, c->r->line,
                          "%lld bytes at %g GB/s take %.3g s, allowed: 106 days (9.2e6 s): correct "
                          "the size or the bandwidth", (long long)s->bytes, alg, time / 1e12);
    s->time = lw_round_sat(time);
    return LW_OK;
}

static int64_t table_of(const struct bench_reader *r, const struct traces_bench_table *t,
                        struct bench_cell gpu, struct bench_cell algo)
{
    for (int64_t i = 0; i < r->n_tables; i++) {
        const struct traces_bench_table *x = &r->tables[i];
        if (x->op == t->op && x->dtype == t->dtype && x->n_ranks == t->n_ranks &&
            x->n_nodes == t->n_nodes && x->only_in_place == t->only_in_place &&
            bench_is(gpu, x->gpu) && bench_is(algo, x->algo))
            return i;
    }
    return -1;
}

static enum lw_status table_for(const struct csv *c, const struct bench_cell *cells,
                                struct traces_bench_table *t, int64_t *table)
{
    struct bench_cell gpu = cell(c, cells, GPU), algo = cell(c, cells, ALGO);
    enum lw_status status = LW_OK;

    *table = table_of(c->r, t, gpu, algo);
    if (*table >= 0)
        return LW_OK;
    t->gpu = bench_copy(c->r, gpu, &status);
    t->algo = bench_copy(c->r, algo, &status);
    t->source = bench_copy(c->r, cell(c, cells, SOURCE), &status);
    LW_TRY(status);
    *table = c->r->n_tables;
    return bench_add_table(c->r, t);
}

/* A CSV names what was measured; options must agree with it. */
static enum lw_status check_hint(struct bench_reader *r, const struct traces_bench_table *t)
{
    const struct traces_bench_hint *h = r->hint;
    enum lw_op_kind op = t->op;
    char asked[24], says[24];

    if (h->op)
        LW_TRY(bench_operation(r, (struct bench_cell){h->op, strlen(h->op)}, &op));
    LW_TRY(bench_agrees(r, "--op", h->op, op == t->op, lw_op_name(t->op)));
    snprintf(asked, sizeof asked, "%lld", (long long)h->n_ranks);
    snprintf(says, sizeof says, "%d", t->n_ranks);
    LW_TRY(bench_agrees(r, "--ranks", asked, h->n_ranks <= 0 || h->n_ranks == t->n_ranks, says));
    snprintf(asked, sizeof asked, "%lld", (long long)h->n_nodes);
    snprintf(says, sizeof says, "%d", t->n_nodes);
    return bench_agrees(r, "--nodes", asked, h->n_nodes <= 0 || h->n_nodes == t->n_nodes, says);
}

static enum lw_status take_row(const struct csv *c, const struct bench_cell *cells)
{
    struct traces_bench_table t = {.dtype = LW_F32};
    struct bench_stated s = {.in_place = -1, .in_algbw = -1, .in_busbw = -1};
    int64_t ranks, nodes, table;
    enum lw_status status = LW_OK;

    LW_TRY(whole(c, cells, SIZE, INT64_MAX, &s.bytes));
    LW_TRY(bench_operation(c->r, cells[c->at[OP]], &t.op));
    LW_TRY(whole(c, cells, RANKS, MOST_RANKS, &ranks));
    LW_TRY(whole(c, cells, NODES, MOST_RANKS, &nodes));
    if (nodes > ranks)
        return lw_fail_at(c->r->err, LW_EFORMAT, c->r->in->name, c->r->line,
                          "nnodes: found %lld, with %lld ranks: a node holds at least one rank",
                          (long long)nodes, (long long)ranks);
    t.n_ranks = (int32_t)ranks;
    t.n_nodes = (int32_t)nodes;
    LW_TRY(check_hint(c->r, &t));
    s.algbw = bench_decimal(cell(c, cells, ALGBW));
    s.busbw = bench_decimal(cell(c, cells, BUSBW));
    if (!bench_number(cell(c, cells, IN_PLACE), 6, &s.in_place))
        s.in_place = -1;
    LW_TRY(take_time(c, cells, &t, &s));
    if (cell(c, cells, TYPE).len > 0)
        t.dtype = bench_dtype(cells[c->at[TYPE]], c->r->err, &status);
    LW_TRY(lw_err_context(c->r->err, status, "%s:%lld", c->r->in->name, (long long)c->r->line));
    LW_TRY(table_for(c, cells, &t, &table));
    return bench_take_row(c->r, table, &s);
}

enum lw_status bench_read_csv(struct bench_reader *r)
{
    char *text = lw_arena_strndup(&r->b->arena, r->in->text, r->in->len);
    struct csv c = {.r = r};
    struct bench_cell cells[MOST_COLUMNS];
    int64_t lines;

    if (!text)
        return lw_fail_nomem(r->err);
    char *p = text, *end = text + r->in->len;
    r->line = 1;
    r->once = true;
    int n_titles = csv_record(&p, end, &lines, cells);
    LW_TRY(take_titles(&c, cells, n_titles));
    LW_TRY(take_conditions(&c, cells, n_titles));
    for (r->line += lines; p < end; r->line += lines) {
        int n = csv_record(&p, end, &lines, cells);
        if (n == 1 && cells[0].len == 0)
            continue;
        if (n != n_titles)
            return lw_fail_at(r->err, LW_EFORMAT, r->in->name, r->line, "%d cells, but %d titles",
                              n, n_titles);
        if (is_wanted(&c, cells))
            LW_TRY(take_row(&c, cells));
    }
    if (r->n_rows == 0 && c.n_conditions)
        return lw_fail_at(r->err, LW_EFORMAT, r->in->name, 0, "no row holds --where '%s'",
                          r->hint->where);
    if (r->n_rows == 0)
        return lw_fail_at(r->err, LW_EFORMAT, r->in->name, 0, "titles, but no row below them");
    return LW_OK;
}

bool bench_csv_is(const char *text, size_t len)
{
    static const char *const any[] = {"time_us", "in_place_us", "algbw", "busbw", "nranks"};
    const char *newline = memchr(text, '\n', len);
    size_t n = newline ? (size_t)(newline - text) : len;
    bool has = false;

    for (size_t k = 0; k < sizeof any / sizeof *any; k++)
        has |= memmem(text, n, any[k], strlen(any[k])) != NULL;
    return has && memmem(text, n, "size_bytes", 10);
}
