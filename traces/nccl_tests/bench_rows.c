/* What the readers of measured collectives share: words, operations, checks, tables.
 *
 * A row is refused when it cannot be: a time under 0.1 us (a launch alone takes more), a bandwidth
 * that is not bytes over time, a bus bandwidth that is not the operation's share of it. Bandwidths
 * are printed with two decimals, so 3 % and 0.06 GB/s are allowed. nccl-tests repeats sizes when it
 * runs several cycles: the lower median counts. A CSV table has each size once. */
#include "shared/base/nearest.h"
#include "traces/nccl_tests/bench_rows.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "traces/trace/decimal_time.h"
#include "shared/numbers/order.h"

enum { MOST_TABLES = 256, MOST_RANKS = 1 << 20 };

#define LEAST_TIME ((lw_ps)100000) /* 0.1 us */

/* ---- words ---- */

bool bench_is(struct bench_cell c, const char *word)
{
    return c.len == strlen(word) && memcmp(c.at, word, c.len) == 0;
}
char *bench_copy(struct bench_reader *r, struct bench_cell c, enum lw_status *status)
{
    char *text = lw_arena_strndup(&r->b->arena, c.at ? c.at : "", c.len);

    if (!text)
        *status = lw_fail_nomem(r->err);
    return text;
}
static const struct {
    const char *test; /* without "_perf"; also as other tools and CSV files write it */
    enum lw_op_kind op;
} operations[] = {
    {"all_reduce", LW_OP_ALL_REDUCE},
    {"allreduce", LW_OP_ALL_REDUCE},
    {"all_gather", LW_OP_ALL_GATHER},
    {"allgather", LW_OP_ALL_GATHER},
    {"reduce_scatter", LW_OP_REDUCE_SCATTER},
    {"reducescatter", LW_OP_REDUCE_SCATTER},
    {"broadcast", LW_OP_BROADCAST},
    {"reduce", LW_OP_REDUCE},
    {"alltoall", LW_OP_ALL_TO_ALL},
    {"all_to_all", LW_OP_ALL_TO_ALL},
    {"sendrecv", LW_OP_SEND},
    {"send_recv", LW_OP_SEND},
    {"send", LW_OP_SEND},
};

enum lw_status traces_bench_op_check(const char *op, struct lw_err *err)
{
    enum { N = sizeof operations / sizeof *operations };
    const char *names[N + 1] = {NULL};

    for (size_t i = 0; i < N; i++) {
        names[i] = operations[i].test;
        if (bench_is((struct bench_cell){op, strlen(op)}, operations[i].test))
            return LW_OK;
    }
    return lw_fail_word(err, "op", op, names);
}

enum lw_status bench_operation(struct bench_reader *r, struct bench_cell name, enum lw_op_kind *op)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (bench_is(name, operations[i].test)) {
            *op = operations[i].op;
            return LW_OK;
        }
    return lw_fail_at(
        r->err, LW_ENOTSUP, r->in->name, r->line,
        "operation '%.*s': all_reduce, all_gather, reduce_scatter, broadcast, reduce, "
        "alltoall and sendrecv are known",
        (int)(name.len < 40 ? name.len : 40), name.at);
}

void bench_note_test(struct bench_reader *r, const char *line, size_t len)
{
    static const char *const tests[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                        "reduce",     "alltoall",   "sendrecv",       "gather",
                                        "scatter",    "hypercube"};
    const char *p = line, *end = line + len;

    while ((p = memmem(p, (size_t)(end - p), "_perf", 5)) != NULL) {
        const char *from = p;
        while (from > line && p - from < 20 &&
               (islower((unsigned char)from[-1]) || from[-1] == '_'))
            from--;
        struct bench_cell word = {from, (size_t)(p - from)};
        for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
            if (bench_is(word, tests[i]))
                r->test = word;
        p += 5;
    }
}
enum lw_dtype bench_dtype(struct bench_cell c, struct lw_err *err, enum lw_status *status)
{
    static const struct {
        const char *name;
        enum lw_dtype dtype;
    } names[] = {
        {"float", LW_F32}, {"double", LW_F64}, {"half", LW_F16},    {"bfloat16", LW_BF16},
        {"int64", LW_I64}, {"int32", LW_I32},  {"uint64", LW_I64},  {"uint32", LW_I32},
        {"int", LW_I32},   {"int8", LW_U8},    {"uint8", LW_U8},    {"char", LW_U8},
        {"f8e4m3", LW_U8}, {"f8e5m2", LW_U8},  {"fp8_e4m3", LW_U8}, {"fp8_e5m2", LW_U8},
    };
    char text[32];
    enum lw_dtype dtype = LW_F32;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (bench_is(c, names[i].name))
            return names[i].dtype;
    snprintf(text, sizeof text, "%.*s", (int)(c.len < 31 ? c.len : 31), c.at);
    *status = lw_dtype_parse(text, &dtype, err);
    return dtype;
}
bool bench_number(struct bench_cell c, int power, int64_t *v)
{
    return traces_decimal(c.at, c.len, power, v);
}

double bench_decimal(struct bench_cell c)
{
    int64_t v;

    return traces_decimal(c.at, c.len, 6, &v) ? (double)v / 1e6 : -1;
}
enum lw_status bench_version(struct bench_reader *r, int64_t code)
{
    enum lw_status status = LW_OK;
    char text[32];

    if (*r->b->version || code < 20000 || code > 99999)
        return LW_OK;
    int n = snprintf(text, sizeof text, "%d.%d.%d", (int)(code / 10000), (int)(code / 100 % 100),
                     (int)(code % 100));
    char *version = bench_copy(r, (struct bench_cell){text, (size_t)n}, &status);
    if (version)
        r->b->version = version;
    return status;
}

/* ---- ranks ---- */

enum lw_status bench_add_rank(struct bench_reader *r, struct bench_rank rank)
{
    if (r->n_ranks == MOST_RANKS)
        return lw_fail_at(r->err, LW_EFORMAT, r->in->name, r->line, "more than %d ranks",
                          MOST_RANKS);
    if (lw_reserve(&r->ranks, &r->ranks_cap, r->n_ranks + 1, sizeof *r->ranks) < 0)
        return lw_fail_nomem(r->err);
    r->ranks[r->n_ranks++] = rank;
    return LW_OK;
}

static int by_text(struct bench_cell x, struct bench_cell y)
{
    size_t least = x.len < y.len ? x.len : y.len;
    int c = least > 0 ? memcmp(x.at, y.at, least) : 0;

    return c != 0 ? c : (x.len > y.len) - (x.len < y.len);
}

static int by_place(const void *a, const void *b)
{
    const struct bench_rank *x = a, *y = b;
    int c = by_text(x->host, y->host);

    if (c == 0)
        c = (x->device > y->device) - (x->device < y->device);
    return c != 0 ? c : by_text(x->bus, y->bus);
}

int32_t bench_count_nodes(struct bench_reader *r)
{
    int32_t nodes = 0;

    if (r->n_ranks == 0)
        return 0;
    lw_sort(r->ranks, r->n_ranks, by_place);
    for (int64_t i = 0, end; i < r->n_ranks; i = end) {
        int32_t most = 0;
        for (end = i;
             end < r->n_ranks && by_text(r->ranks[end].host, r->ranks[i].host) == 0;) {
            int32_t same = 0;
            int64_t k = end;
            for (; end < r->n_ranks && by_place(&r->ranks[k], &r->ranks[end]) == 0; end++)
                same++;
            most = same > most ? same : most;
        }
        nodes += most;
    }
    return nodes;
}

/* ---- rows and tables ---- */

/* Ranks count from 0, so the highest number says how many lines there were. */
static enum lw_status check_ranks(const struct bench_reader *r)
{
    if ((r->hint->n_ranks > 0 && r->hint->n_nodes > 0) || r->last_rank < 0 ||
        r->last_rank == r->n_ranks - 1)
        return LW_OK;
    return lw_fail_at(r->err, LW_EFORMAT, r->in->name, r->line,
                      "%lld \"#  Rank\" line%s, the highest rank is %lld: lines are missing or "
                      "repeated: give --ranks N and --nodes N",
                      (long long)r->n_ranks, lw_plural(r->n_ranks), (long long)r->last_rank);
}

enum lw_status bench_begin_table(struct bench_reader *r, int64_t ranks, int64_t nodes,
                                 struct bench_cell type, struct bench_cell gpu,
                                 struct traces_bench_table *t)
{
    enum lw_status status = LW_OK;

    LW_TRY(check_ranks(r));
    ranks = r->hint->n_ranks > 0 ? r->hint->n_ranks : ranks;
    nodes = r->hint->n_nodes > 0 ? r->hint->n_nodes : nodes;
    if (ranks == 0 || nodes == 0)
        return lw_fail_at(
            r->err, LW_EFORMAT, r->in->name, r->line,
            "the number of ranks is unknown (no \"#  Rank\" lines): give --ranks N and "
            "--nodes N");
    if (nodes > ranks)
        return lw_fail_at(r->err, LW_EINVAL, r->in->name, r->line, "%lld ranks on %lld nodes",
                          (long long)ranks, (long long)nodes);
    *t = (struct traces_bench_table){.dtype = LW_F32,
                                     .n_ranks = (int32_t)ranks,
                                     .n_nodes = (int32_t)nodes,
                                     .source = "",
                                     .algo = ""};
    if (type.len > 0)
        t->dtype = bench_dtype(type, r->err, &status);
    LW_TRY(lw_err_context(r->err, status, "%s:%lld", r->in->name, (long long)r->line));
    t->gpu = bench_copy(r, gpu, &status);
    return status;
}

enum lw_status bench_table_of(struct bench_reader *r, int64_t from, struct bench_cell type,
                              int64_t *table)
{
    enum lw_status status = LW_OK;
    enum lw_dtype dtype = LW_F32;

    *table = r->n_tables;
    if (from == r->n_tables)
        return LW_OK;
    if (type.len > 0)
        dtype = bench_dtype(type, r->err, &status);
    LW_TRY(lw_err_context(r->err, status, "%s:%lld", r->in->name, (long long)r->line));
    for (int64_t i = from; i < r->n_tables; i++)
        if (r->tables[i].dtype == dtype)
            *table = i;
    return LW_OK;
}

enum lw_status bench_take_gpu(const struct bench_reader *r, struct bench_cell here,
                              struct bench_cell *gpu)
{
    if (gpu->len == 0)
        *gpu = here;
    if (here.len == 0 || (here.len == gpu->len && memcmp(here.at, gpu->at, here.len) == 0))
        return LW_OK;
    return lw_fail_at(r->err, LW_EFORMAT, r->in->name, r->line,
                      "ranks on '%.*s' and on '%.*s': a cluster has one kind of device",
                      (int)(gpu->len < 64 ? gpu->len : 64), gpu->at,
                      (int)(here.len < 64 ? here.len : 64), here.at);
}

enum lw_status bench_said_operation(struct bench_reader *r, enum lw_op_kind *op, bool *said)
{
    struct bench_cell name = r->test;

    if (r->hint->op)
        name = (struct bench_cell){r->hint->op, strlen(r->hint->op)};
    *said = name.len > 0;
    if (*said)
        LW_TRY(bench_operation(r, name, op));
    if (!r->hint->op || r->test.len == 0)
        return LW_OK;
    enum lw_op_kind tested;
    LW_TRY(bench_operation(r, r->test, &tested));
    return bench_agrees(r, "--op", r->hint->op, tested == *op, lw_op_name(tested));
}

enum lw_status bench_agrees(const struct bench_reader *r, const char *option, const char *asked,
                            bool agrees, const char *says)
{
    if (agrees)
        return LW_OK;
    return lw_fail_at(r->err, LW_EINVAL, r->in->name, r->line,
                      "%s %s: the file says %s: leave %s out", option, asked, says, option);
}

enum lw_status bench_asks_operation(const struct bench_reader *r)
{
    return lw_fail_at(r->err, LW_EFORMAT, r->in->name, r->line,
                      "the operation of this table is unknown: give --op (all_reduce, "
                      "all_gather, reduce_scatter, broadcast, reduce, alltoall, sendrecv)");
}

enum lw_status bench_refuses_host_time(const struct bench_reader *r)
{
    return lw_fail_at(r->err, LW_ENOTSUP, r->in->name, r->line,
                      "cputime is the host's time to launch, not the collective's: run nccl-tests "
                      "without -C");
}

enum lw_status bench_add_table(struct bench_reader *r, const struct traces_bench_table *t)
{
    if (r->n_tables == MOST_TABLES)
        return lw_fail_at(r->err, LW_EFORMAT, r->in->name, r->line, "more than %d tables",
                          MOST_TABLES);
    if (lw_reserve(&r->tables, &r->tables_cap, r->n_tables + 1, sizeof *r->tables) < 0)
        return lw_fail_nomem(r->err);
    r->tables[r->n_tables++] = *t;
    return LW_OK;
}
double bench_bus_factor(enum lw_op_kind op, int32_t n_ranks)
{
    double n = n_ranks, part = n > 1 ? (n - 1) / n : 1;

    return op == LW_OP_ALL_REDUCE ? 2 * part
           : op == LW_OP_ALL_GATHER || op == LW_OP_REDUCE_SCATTER || op == LW_OP_ALL_TO_ALL ? part
                                                                                            : 1;
}

static bool differs(double stated, double expected)
{
    double off = stated - expected;

    return stated >= 0 && (off < 0 ? -off : off) > .03 * expected + .06;
}

/* The bandwidths stated beside one of a row's times. */
static bool wrong_bandwidth(const struct traces_bench_table *t, int64_t bytes, lw_ps time,
                            double algbw, double busbw, char *text, size_t size)
{
    double alg = 1e3 * (double)bytes / (double)time,
           bus = alg * bench_bus_factor(t->op, t->n_ranks);
    bool of_bus = !differs(algbw, alg);

    if (of_bus && (!differs(busbw, bus) || t->n_ranks < 2))
        return false;
    snprintf(text, size,
             "%s of %.2f GB/s, but %lld bytes in %.3f us are %.2f GB/s%s%s: correct the row%s",
             of_bus ? "busbw" : "algbw", of_bus ? busbw : algbw, (long long)bytes,
             (double)time / 1e6, of_bus ? bus : alg, of_bus ? " for " : "",
             of_bus ? lw_op_name(t->op) : "", of_bus ? ", the operation or the ranks" : "");
    return true;
}

bool bench_is_wrong(const struct traces_bench_table *t, const struct bench_stated *s, char *text,
                    size_t size)
{
    lw_ps least = s->in_place > 0 && s->in_place < s->time ? s->in_place : s->time;

    if (s->bytes == 0)
        return false;
    if (s->n_wrong > 0)
        snprintf(text, size,
                 "%lld wrong values in the result of %lld bytes: such a run measures nothing: "
                 "repair the machine, or remove the row",
                 (long long)s->n_wrong, (long long)s->bytes);
    else if (s->bytes < 0 || s->time <= 0)
        snprintf(text, size, "a size of %lld bytes in %.3f us: both must be above zero",
                 (long long)s->bytes, (double)s->time / 1e6);
    else if (least < LEAST_TIME)
        snprintf(text, size,
                 "%lld bytes in %.6g us: a launch alone takes more than 0.1 us; times are in us",
                 (long long)s->bytes, (double)least / 1e6);
    else
        return wrong_bandwidth(t, s->bytes, s->time, s->algbw, s->busbw, text, size) ||
               (s->in_place > 0 &&
                wrong_bandwidth(t, s->bytes, s->in_place, s->in_algbw, s->in_busbw, text, size));
    return true;
}

enum lw_status bench_add_row(struct bench_reader *r, int64_t table, const struct bench_stated *s)
{
    if (s->bytes == 0)
        return LW_OK;
    if (lw_reserve(&r->rows, &r->rows_cap, r->n_rows + 1, sizeof *r->rows) < 0)
        return lw_fail_nomem(r->err);
    r->rows[r->n_rows++] = (struct bench_found){
        {s->bytes, s->time, s->in_place > 0 ? s->in_place : -1, r->line}, (int32_t)table};
    return LW_OK;
}

enum lw_status bench_take_row(struct bench_reader *r, int64_t table, const struct bench_stated *s)
{
    char why[192];

    if (table >= 0 && bench_is_wrong(&r->tables[table], s, why, sizeof why))
        return lw_fail_at(r->err, LW_EFORMAT, r->in->name, r->line, "%s", why);
    return bench_add_row(r, table, s);
}

LW_COMPARATOR(by_table, struct bench_found, a->table, b->table, a->row.bytes, b->row.bytes,
              a->row.time, b->row.time, a->row.line, b->row.line)
LW_COMPARATOR(by_in_place, struct bench_found, a->row.in_place, b->row.in_place)

/* Rows of one size, sorted by time: the lower median of each column. Sorts them again. */
static struct traces_bench_row join(struct bench_found *v, int64_t n)
{
    struct traces_bench_row row = v[(n - 1) / 2].row;

    lw_sort(v, n, by_in_place);
    row.in_place = v[(n - 1) / 2].row.in_place;
    return row;
}
/* Rows of one size stand together: where each may come once, a second one contradicts the first. */
static enum lw_status check_once(const struct bench_reader *r, const struct bench_found *v,
                                 int64_t n)
{
    if (!r->once || n < 2)
        return LW_OK;
    int64_t a = v[0].row.line, b = v[1].row.line;
    return lw_fail_at(r->err, LW_EFORMAT, r->in->name, a > b ? a : b,
                      "%lld bytes of %s on %d ranks are already in line %lld: a table has each "
                      "size once",
                      (long long)v[0].row.bytes, lw_op_name(r->tables[v[0].table].op),
                      r->tables[v[0].table].n_ranks, (long long)(a < b ? a : b));
}

enum lw_status bench_fill_tables(struct bench_reader *r)
{
    struct traces_bench *b = r->b;
    int64_t end;

    lw_sort(r->rows, r->n_rows, by_table);
    LW_TAKE(&b->arena, b->tables, r->n_tables, r->err);
    for (int64_t i = 0; i < r->n_rows; i = end) {
        int32_t table = r->rows[i].table;
        struct traces_bench_table *t = &b->tables[b->n];
        *t = r->tables[table];
        for (end = i; end < r->n_rows && r->rows[end].table == table; end++)
            ;
        LW_TAKE(&b->arena, t->rows, end - i, r->err);
        for (int64_t k = i, next; k < end; k = next) {
            for (next = k; next < end && r->rows[next].row.bytes == r->rows[k].row.bytes; next++)
                ;
            LW_TRY(check_once(r, &r->rows[k], next - k));
            t->rows[t->n_rows++] = join(&r->rows[k], next - k);
        }
        b->n++;
    }
    return b->n > 0
               ? LW_OK
               : lw_fail_at(r->err, LW_EFORMAT, r->in->name, 0,
                            "no row with a size and a time: expected the titles of nccl-tests "
                            "(size, count, type, redop, root, time, algbw, busbw) and their rows");
}
