/* Tables of measured collectives.
 *
 * nccl-tests prints a line per rank ("#  Rank  0 Group  0 Pid 371 on HOST device  0 [0x0f] NAME"), a
 * line of titles ("#  size  count  type  redop  root  time  algbw  busbw  #wrong  time ..."), then a
 * row per size: out of place first, in place after it. Titles changed with its versions (bytes and
 * N, op, no root, error, cputime, esttime), so columns are found by title. mpirun may put
 * "[1,0]<stdout>:" before each line. Which operation it was stands only in newer files ("Collective
 * test starting: all_reduce_perf") or in a command line that was kept; else it follows from the
 * columns (NVIDIA/nccl-tests src/common.cu and the six *_perf files @ 01d6761: what is printed as
 * size and count) where they leave one choice.
 * Not read: avg bus bandwidth and the like, which follow from the rows. */
#include "traces/nccl_tests/import_nccl_tests.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/input.h"
#include "traces/trace/decimal_time.h"

enum { MOST_COLUMNS = 64, MOST_TABLES = 256, MOST_RANKS = 1 << 20 };

struct cell {
    const char *at;
    size_t len;
};

struct found_row { /* before equal sizes are joined */
    struct traces_bench_row row;
    int32_t table;
};

struct columns { /* places of the titles; -1 = absent */
    int size, count, type, redop, root, time, in_place, algbw, busbw;
};

struct rank_line {
    struct cell host;
    int64_t device;
};

struct reader {
    const struct lw_input *in;
    const struct traces_bench_hint *hint;
    struct traces_bench *b;
    struct lw_err *err;
    int64_t line;
    struct columns columns;
    bool in_table;
    struct traces_bench_table *tables;
    int64_t n_tables, tables_cap;
    struct found_row *rows;
    int64_t n_rows, rows_cap;
    struct rank_line *ranks;
    int64_t n_ranks, ranks_cap;
    struct cell gpu, test; /* device of rank 0; operation of the last *_perf seen */
};

/* ---- words ---- */

static bool is(struct cell c, const char *word)
{
    return c.len == strlen(word) && memcmp(c.at, word, c.len) == 0;
}

static int split(const char *line, size_t len, struct cell *cells)
{
    const char *p = line, *end = line + len;
    int n = 0;

    while (n < MOST_COLUMNS) {
        while (p < end && (isspace((unsigned char)*p) || *p == ','))
            p++;
        if (p == end)
            break;
        cells[n].at = p;
        while (p < end && !isspace((unsigned char)*p) && *p != ',')
            p++;
        cells[n].len = (size_t)(p - cells[n].at);
        n++;
    }
    return n;
}

static char *copy(struct reader *r, struct cell c, enum lw_status *status)
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
    {"all_reduce", LW_OP_ALL_REDUCE},         {"allreduce", LW_OP_ALL_REDUCE},
    {"all_gather", LW_OP_ALL_GATHER},         {"allgather", LW_OP_ALL_GATHER},
    {"reduce_scatter", LW_OP_REDUCE_SCATTER}, {"reducescatter", LW_OP_REDUCE_SCATTER},
    {"broadcast", LW_OP_BROADCAST},           {"reduce", LW_OP_REDUCE},
    {"alltoall", LW_OP_ALL_TO_ALL},           {"all_to_all", LW_OP_ALL_TO_ALL},
    {"sendrecv", LW_OP_SEND},                 {"send", LW_OP_SEND},
};

static enum lw_status operation(struct reader *r, struct cell name, enum lw_op_kind *op)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (is(name, operations[i].test)) {
            *op = operations[i].op;
            return LW_OK;
        }
    return lw_fail_at(r->err, LW_ENOTSUP, r->in->name, r->line,
                      "operation '%.*s': all_reduce, all_gather, reduce_scatter, broadcast, reduce, "
                      "alltoall and sendrecv are known",
                      (int)(name.len < 40 ? name.len : 40), name.at);
}

/* The test whose name ("all_reduce_perf") stands anywhere in the line. */
static void note_test(struct reader *r, const char *line, size_t len)
{
    static const char *const tests[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                        "reduce",     "alltoall",   "sendrecv",       "gather",
                                        "scatter",    "hypercube"};
    const char *p = line, *end = line + len;

    while ((p = memmem(p, (size_t)(end - p), "_perf", 5)) != NULL) {
        const char *from = p;
        while (from > line && p - from < 20 && (islower((unsigned char)from[-1]) || from[-1] == '_'))
            from--;
        struct cell word = {from, (size_t)(p - from)};
        for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
            if (is(word, tests[i]))
                r->test = word;
        p += 5;
    }
}

static enum lw_dtype dtype_of(struct cell c, struct lw_err *err, enum lw_status *status)
{
    static const struct {
        const char *name;
        enum lw_dtype dtype;
    } names[] = {
        {"float", LW_F32},  {"double", LW_F64}, {"half", LW_F16},    {"bfloat16", LW_BF16},
        {"int64", LW_I64},  {"int32", LW_I32},  {"uint64", LW_I64},  {"uint32", LW_I32},
        {"int", LW_I32},    {"int8", LW_U8},    {"uint8", LW_U8},    {"char", LW_U8},
        {"f8e4m3", LW_U8},  {"f8e5m2", LW_U8},  {"fp8_e4m3", LW_U8}, {"fp8_e5m2", LW_U8},
    };
    char text[32];
    enum lw_dtype dtype = LW_F32;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is(c, names[i].name))
            return names[i].dtype;
    snprintf(text, sizeof text, "%.*s", (int)(c.len < 31 ? c.len : 31), c.at);
    *status = lw_dtype_parse(text, &dtype, err);
    return dtype;
}

static bool number(struct cell c, int power, int64_t *v)
{
    return traces_decimal(c.at, c.len, power, v);
}

static double decimal(struct cell c)
{
    int64_t v;

    return traces_decimal(c.at, c.len, 6, &v) ? (double)v / 1e6 : -1;
}

/* ---- rows and tables ---- */

static enum lw_status add_table(struct reader *r, const struct traces_bench_table *t)
{
    if (r->n_tables == MOST_TABLES)
        return lw_fail_at(r->err, LW_EFORMAT, r->in->name, r->line, "more than %d tables",
                          MOST_TABLES);
    if (lw_reserve(&r->tables, &r->tables_cap, r->n_tables + 1, sizeof *r->tables) < 0)
        return lw_fail_nomem(r->err);
    r->tables[r->n_tables++] = *t;
    return LW_OK;
}

static enum lw_status add_row(struct reader *r, int64_t table, int64_t bytes, lw_ps time,
                              lw_ps in_place)
{
    if (bytes == 0) /* nccl-tests aligns what each rank has, so small sizes become none */
        return LW_OK;
    if (bytes < 0 || time <= 0)
        return lw_fail_at(r->err, LW_EFORMAT, r->in->name, r->line,
                          "a size of %lld bytes in %.3f us: both must be above zero",
                          (long long)bytes, (double)time / 1e6);
    if (lw_reserve(&r->rows, &r->rows_cap, r->n_rows + 1, sizeof *r->rows) < 0)
        return lw_fail_nomem(r->err);
    r->rows[r->n_rows++] =
        (struct found_row){{bytes, time, in_place > 0 ? in_place : -1, r->line}, (int32_t)table};
    return LW_OK;
}

static int by_table(const void *a, const void *b)
{
    const struct found_row *x = a, *y = b;

    if (x->table != y->table)
        return x->table < y->table ? -1 : 1;
    if (x->row.bytes != y->row.bytes)
        return x->row.bytes < y->row.bytes ? -1 : 1;
    if (x->row.time != y->row.time)
        return x->row.time < y->row.time ? -1 : 1;
    return x->row.line < y->row.line ? -1 : x->row.line > y->row.line;
}

static int by_in_place(const void *a, const void *b)
{
    lw_ps x = ((const struct found_row *)a)->row.in_place,
          y = ((const struct found_row *)b)->row.in_place;

    return x < y ? -1 : x > y;
}

/* Rows of one size, sorted by time: the lower median of each column. Sorts them anew. */
static struct traces_bench_row join(struct found_row *v, int64_t n)
{
    struct traces_bench_row row = v[(n - 1) / 2].row;

    qsort(v, (size_t)n, sizeof *v, by_in_place);
    row.in_place = v[(n - 1) / 2].row.in_place;
    return row;
}

static enum lw_status fill_tables(struct reader *r)
{
    struct traces_bench *b = r->b;
    int64_t end;

    if (r->n_rows > 0)
        qsort(r->rows, (size_t)r->n_rows, sizeof *r->rows, by_table);
    b->tables = lw_arena_alloc(&b->arena, r->n_tables, sizeof *b->tables);
    if (!b->tables)
        return lw_fail_nomem(r->err);
    for (int64_t i = 0; i < r->n_rows; i = end) {
        int32_t table = r->rows[i].table;
        struct traces_bench_table *t = &b->tables[b->n];
        *t = r->tables[table];
        for (end = i; end < r->n_rows && r->rows[end].table == table; end++)
            ;
        t->rows = lw_arena_alloc(&b->arena, end - i, sizeof *t->rows);
        if (!t->rows)
            return lw_fail_nomem(r->err);
        for (int64_t k = i, next; k < end; k = next) {
            for (next = k; next < end && r->rows[next].row.bytes == r->rows[k].row.bytes; next++)
                ;
            t->rows[t->n_rows++] = join(&r->rows[k], next - k);
        }
        b->n++;
    }
    return b->n > 0 ? LW_OK
                    : lw_fail_at(r->err, LW_EFORMAT, r->in->name, 0, "no row with a size and a time");
}

/* ---- text of nccl-tests ---- */

static struct cell word_after(const char *line, size_t len, const char *word)
{
    const char *p = memmem(line, len, word, strlen(word)), *end = line + len;
    struct cell c = {0};

    if (!p)
        return c;
    for (p += strlen(word); p < end && isspace((unsigned char)*p); p++)
        ;
    for (c.at = p; p < end && !isspace((unsigned char)*p); p++)
        c.len++;
    return c;
}

/* "Rank  0 Group  0 Pid 371 on HOST device  0 [0x0f] NAME" */
static enum lw_status take_rank(struct reader *r, const char *line, size_t len)
{
    struct rank_line v = {.host = word_after(line, len, " on "), .device = -1};
    struct cell rank = word_after(line, len, "Rank "), device = word_after(line, len, " device ");
    const char *bracket = memchr(line, ']', len);
    int64_t number_of;

    if (!number(rank, 0, &number_of) || !v.host.len || !number(device, 0, &v.device))
        return LW_OK;
    if (r->in_table || number_of == 0) { /* another run begins */
        r->in_table = false;
        r->n_ranks = 0;
        r->gpu = (struct cell){0};
    }
    if (r->gpu.len == 0 && bracket) {
        for (bracket++; bracket < line + len && isspace((unsigned char)*bracket); bracket++)
            ;
        r->gpu = (struct cell){bracket, (size_t)(line + len - bracket)};
        while (r->gpu.len > 0 && isspace((unsigned char)r->gpu.at[r->gpu.len - 1]))
            r->gpu.len--;
    }
    if (r->n_ranks == MOST_RANKS)
        return lw_fail_at(r->err, LW_EFORMAT, r->in->name, r->line, "more than %d ranks",
                          MOST_RANKS);
    if (lw_reserve(&r->ranks, &r->ranks_cap, r->n_ranks + 1, sizeof *r->ranks) < 0)
        return lw_fail_nomem(r->err);
    r->ranks[r->n_ranks++] = v;
    return LW_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct rank_line *x = a, *y = b;
    size_t least = x->host.len < y->host.len ? x->host.len : y->host.len;
    int c = memcmp(x->host.at, y->host.at, least);

    if (c != 0)
        return c;
    if (x->host.len != y->host.len)
        return x->host.len < y->host.len ? -1 : 1;
    return x->device < y->device ? -1 : x->device > y->device;
}

/* A machine has each device number once, so a host name that shows one k times stands for k
 * machines (names are often cut or replaced in what is published). Sorts the lines. */
static int32_t count_nodes(struct reader *r)
{
    int32_t nodes = 0;

    if (r->n_ranks == 0)
        return 0;
    qsort(r->ranks, (size_t)r->n_ranks, sizeof *r->ranks, by_place);
    for (int64_t i = 0, end; i < r->n_ranks; i = end) {
        int32_t most = 0;
        for (end = i; end < r->n_ranks && r->ranks[end].host.len == r->ranks[i].host.len &&
                      memcmp(r->ranks[end].host.at, r->ranks[i].host.at, r->ranks[i].host.len) == 0;) {
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

static bool take_titles(struct reader *r, const struct cell *cells, int n)
{
    struct columns c = {-1, -1, -1, -1, -1, -1, -1, -1, -1};

    for (int i = 0; i < n; i++) {
        bool time = is(cells[i], "time") || is(cells[i], "cputime");
        int *at = is(cells[i], "size") || is(cells[i], "bytes") ? &c.size
                  : is(cells[i], "count") || is(cells[i], "N")  ? &c.count
                  : is(cells[i], "type")                        ? &c.type
                  : is(cells[i], "redop") || is(cells[i], "op") ? &c.redop
                  : is(cells[i], "root")                        ? &c.root
                  : time && c.time < 0                          ? &c.time
                  : time                                        ? &c.in_place
                  : is(cells[i], "algbw")                       ? &c.algbw
                  : is(cells[i], "busbw")                       ? &c.busbw
                                                                : NULL;
        if (at && *at < 0)
            *at = i;
    }
    if (c.size != 0 || c.time < 0)
        return false;
    r->columns = c;
    r->in_table = true;
    return true;
}

/* From what the columns show of the first rows; LW_EFORMAT when that leaves a choice. */
static enum lw_status infer_operation(struct reader *r, const struct cell *cells, int32_t n_ranks,
                                      enum lw_op_kind *op)
{
    const struct columns *c = &r->columns;
    bool reduces = c->redop >= 0 && !is(cells[c->redop], "none");
    int64_t root = -1, count = 0, bytes = 0;
    enum lw_status status = LW_OK;
    int64_t element = c->type >= 0 ? lw_dtype_size(dtype_of(cells[c->type], r->err, &status)) : 4;

    LW_TRY(status);
    bool rooted = c->root >= 0 && number(cells[c->root], 0, &root) && root >= 0;
    bool known = c->count >= 0 && number(cells[c->count], 0, &count) &&
                 number(cells[c->size], 0, &bytes) && count > 0;
    bool parts = known && n_ranks > 1 && bytes / element / count >= n_ranks;
    bool sees_root = c->root >= 0;
    double alg = c->algbw >= 0 ? decimal(cells[c->algbw]) : -1;
    double bus = c->busbw >= 0 ? decimal(cells[c->busbw]) : -1;
    bool twice = alg > 0 && bus / alg > 1.01;

    if (known && reduces && !rooted && parts)
        *op = LW_OP_REDUCE_SCATTER;
    else if (known && reduces && !rooted && (sees_root || twice))
        *op = LW_OP_ALL_REDUCE;
    else if (known && reduces && rooted)
        *op = LW_OP_REDUCE;
    else if (known && !reduces && rooted && !parts)
        *op = LW_OP_BROADCAST;
    else if (known && !reduces && sees_root && !rooted && !parts && n_ranks > 1)
        *op = LW_OP_SEND;
    else
        return lw_fail_at(r->err, LW_EFORMAT, r->in->name, r->line,
                          "which operation this table measures is not said: give --op (all_reduce, "
                          "all_gather, reduce_scatter, broadcast, reduce, alltoall, sendrecv)");
    return LW_OK;
}

static enum lw_status begin_table(struct reader *r, const struct cell *cells)
{
    struct traces_bench_table t = {.dtype = LW_F32};
    enum lw_status status = LW_OK;
    int64_t ranks = r->hint->n_ranks > 0 ? r->hint->n_ranks : r->n_ranks;
    int64_t nodes = r->hint->n_nodes > 0 ? r->hint->n_nodes : count_nodes(r);

    if (ranks == 0 || nodes == 0)
        return lw_fail_at(r->err, LW_EFORMAT, r->in->name, r->line,
                          "how many ranks ran is not said (the \"#  Rank\" lines are missing): give "
                          "--ranks N and --nodes N");
    if (nodes > ranks)
        return lw_fail_at(r->err, LW_EINVAL, r->in->name, r->line, "%lld ranks on %lld nodes",
                          (long long)ranks, (long long)nodes);
    t.n_ranks = (int32_t)ranks;
    t.n_nodes = (int32_t)nodes;
    if (r->columns.type >= 0)
        t.dtype = dtype_of(cells[r->columns.type], r->err, &status);
    if (status != LW_OK)
        return lw_err_context(r->err, "%s:%lld", r->in->name, (long long)r->line);
    if (r->hint->op)
        LW_TRY(operation(r, (struct cell){r->hint->op, strlen(r->hint->op)}, &t.op));
    else if (r->test.len)
        LW_TRY(operation(r, r->test, &t.op));
    else
        LW_TRY(infer_operation(r, cells, t.n_ranks, &t.op));
    t.gpu = copy(r, r->gpu, &status);
    t.source = "";
    LW_TRY(status);
    return add_table(r, &t);
}

static enum lw_status take_row(struct reader *r, const struct cell *cells, int n, bool *first)
{
    const struct columns *c = &r->columns;
    int64_t bytes;
    lw_ps time, in_place = -1;

    if (n <= c->time || !number(cells[c->size], 0, &bytes) || !isdigit((unsigned char)*cells[0].at))
        return LW_OK; /* a line of something else between the rows */
    if (!number(cells[c->time], 6, &time)) {
        if (is(cells[c->time], "N/A"))
            return LW_OK;
        return lw_fail_at(r->err, LW_EFORMAT, r->in->name, r->line,
                          "found '%.*s', expected a time in us",
                          (int)(cells[c->time].len < 40 ? cells[c->time].len : 40),
                          cells[c->time].at);
    }
    if (c->in_place >= 0 && c->in_place < n && !number(cells[c->in_place], 6, &in_place))
        in_place = -1;
    if (bytes > 0 && *first)
        LW_TRY(begin_table(r, cells));
    *first = *first && bytes <= 0;
    return add_row(r, r->n_tables - 1, bytes, time, in_place);
}

/* What stands after "[1,0]<stdout>:" of mpirun. */
static const char *skip_tag(const char *line, size_t *len)
{
    static const char tag[] = "<stdout>:";
    const char *p = *len > 0 && *line == '[' ? memmem(line, *len, tag, strlen(tag)) : NULL;

    if (p) {
        p += strlen(tag);
        *len -= (size_t)(p - line);
    }
    return p ? p : line;
}

static void take_version(struct reader *r, const char *line, size_t len, enum lw_status *status)
{
    struct cell v = word_after(line, len, "NCCL version "), code = word_after(line, len, "nccl-library=");
    size_t digits = 0;
    int64_t number_of;
    char text[32];

    if (!*r->b->version && number(code, 0, &number_of) && number_of >= 20000 && number_of < 99999) {
        snprintf(text, sizeof text, "%d.%d.%d", (int)(number_of / 10000),
                 (int)(number_of / 100 % 100), (int)(number_of % 100));
        r->b->version = copy(r, (struct cell){text, strlen(text)}, status);
    }

    while (digits < v.len && (isdigit((unsigned char)v.at[digits]) || v.at[digits] == '.'))
        digits++;
    if (digits > 0 && !*r->b->version)
        r->b->version = copy(r, (struct cell){v.at, digits}, status);
}

static enum lw_status take_line(struct reader *r, const char *line, size_t len, bool *first)
{
    struct cell cells[MOST_COLUMNS];
    enum lw_status status = LW_OK;

    line = skip_tag(line, &len);
    const char *p = line;
    while (p < line + len && (isspace((unsigned char)*p) || *p == '#'))
        p++;
    size_t left = (size_t)(line + len - p);
    note_test(r, p, left);
    take_version(r, p, left, &status);
    LW_TRY(status);
    if (left > 5 && memcmp(p, "Rank ", 5) == 0)
        return take_rank(r, p, left);
    int n = split(p, left, cells);
    if (n > 2 && take_titles(r, cells, n)) {
        *first = true;
        return LW_OK;
    }
    return r->in_table && n > 1 && memchr(line, '#', len) == NULL
               ? take_row(r, cells, n, first)
               : LW_OK;
}

static enum lw_status read_text(struct reader *r)
{
    const char *p = r->in->text, *end = p + r->in->len;
    bool first = true;

    r->b->is_nccl = true;
    for (r->line = 1; p < end; r->line++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        size_t len = (size_t)((newline ? newline : end) - p);
        LW_TRY(take_line(r, p, len, &first));
        p += len + 1;
    }
    return LW_OK;
}

/* ---- CSV with titles ---- */

enum { OP, RANKS, NODES, SIZE, TIME, IN_PLACE, TYPE, GPU, SOURCE, N_TITLES };

static const char *const titles[N_TITLES] = {
    "op", "nranks", "nnodes", "size_bytes", "time_us", "in_place_us", "dtype", "gpu", "source"};

/* The cells of one record (RFC 4180), unquoted in place; *at moves after it. */
static int csv_record(char **at, char *end, int64_t *lines, struct cell *cells)
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
            cells[n++] = (struct cell){from, (size_t)(to - from)};
        if (p >= end || *p == '\n')
            break;
        p++;
    }
    if (n > 0 && cells[n - 1].len > 0 && cells[n - 1].at[cells[n - 1].len - 1] == '\r')
        cells[n - 1].len--;
    *at = p < end ? p + 1 : end;
    return n;
}

static enum lw_status csv_titles(struct reader *r, const struct cell *cells, int n, int *at)
{
    for (int k = 0; k < N_TITLES; k++) {
        at[k] = -1;
        for (int i = 0; i < n; i++)
            if (is(cells[i], titles[k]))
                at[k] = i;
        if (k <= TIME && at[k] < 0)
            return lw_fail_at(r->err, LW_EFORMAT, r->in->name, 1,
                              "no column '%s' (needed: op, nranks, nnodes, size_bytes, time_us)",
                              titles[k]);
    }
    return LW_OK;
}

static enum lw_status csv_int(struct reader *r, const struct cell *cells, const int *at, int title,
                              int64_t most, int64_t *v)
{
    struct cell c = cells[at[title]];

    if (number(c, 0, v) && *v >= 1 && *v <= most)
        return LW_OK;
    return lw_fail_at(r->err, LW_EFORMAT, r->in->name, r->line,
                      "%s: found '%.*s', expected a whole number from 1", titles[title],
                      (int)(c.len < 40 ? c.len : 40), c.at);
}

static int64_t table_of(const struct reader *r, const struct traces_bench_table *t)
{
    for (int64_t i = 0; i < r->n_tables; i++)
        if (r->tables[i].op == t->op && r->tables[i].dtype == t->dtype &&
            r->tables[i].n_ranks == t->n_ranks && r->tables[i].n_nodes == t->n_nodes)
            return i;
    return -1;
}

static enum lw_status csv_row(struct reader *r, const struct cell *cells, const int *at)
{
    struct traces_bench_table t = {.dtype = LW_F32, .gpu = "", .source = ""};
    int64_t ranks, nodes, bytes;
    lw_ps time, in_place = -1;
    enum lw_status status = LW_OK;

    LW_TRY(operation(r, cells[at[OP]], &t.op));
    LW_TRY(csv_int(r, cells, at, RANKS, INT32_MAX, &ranks));
    LW_TRY(csv_int(r, cells, at, NODES, ranks, &nodes));
    LW_TRY(csv_int(r, cells, at, SIZE, INT64_MAX, &bytes));
    if (!number(cells[at[TIME]], 6, &time))
        return lw_fail_at(r->err, LW_EFORMAT, r->in->name, r->line,
                          "time_us: found '%.*s', expected a time in us", (int)(cells[at[TIME]].len < 40 ? cells[at[TIME]].len : 40),
                          cells[at[TIME]].at);
    if (at[IN_PLACE] >= 0 && !number(cells[at[IN_PLACE]], 6, &in_place))
        in_place = -1;
    if (at[TYPE] >= 0 && cells[at[TYPE]].len > 0)
        t.dtype = dtype_of(cells[at[TYPE]], r->err, &status);
    if (status != LW_OK)
        return lw_err_context(r->err, "%s:%lld", r->in->name, (long long)r->line);
    t.n_ranks = (int32_t)ranks;
    t.n_nodes = (int32_t)nodes;
    int64_t table = table_of(r, &t);
    if (table < 0) {
        t.gpu = at[GPU] >= 0 ? copy(r, cells[at[GPU]], &status) : "";
        t.source = at[SOURCE] >= 0 ? copy(r, cells[at[SOURCE]], &status) : "";
        LW_TRY(status);
        table = r->n_tables;
        LW_TRY(add_table(r, &t));
    }
    return add_row(r, table, bytes, time, in_place);
}

static enum lw_status read_csv(struct reader *r)
{
    char *text = lw_arena_strndup(&r->b->arena, r->in->text, r->in->len);
    struct cell cells[MOST_COLUMNS];
    int64_t lines;
    int at[N_TITLES];

    if (!text)
        return lw_fail_nomem(r->err);
    char *p = text, *end = text + r->in->len;
    r->line = 1;
    int n_titles = csv_record(&p, end, &lines, cells);
    LW_TRY(csv_titles(r, cells, n_titles, at));
    for (r->line += lines; p < end; r->line += lines) {
        int n = csv_record(&p, end, &lines, cells);
        if (n == 1 && cells[0].len == 0)
            continue;
        if (n != n_titles)
            return lw_fail_at(r->err, LW_EFORMAT, r->in->name, r->line,
                              "%d cells, but %d titles", n, n_titles);
        LW_TRY(csv_row(r, cells, at));
    }
    return LW_OK;
}

/* ---- what it is ---- */

static bool is_csv(const char *text, size_t len)
{
    const char *newline = memchr(text, '\n', len);
    size_t n = newline ? (size_t)(newline - text) : len;

    return memmem(text, n, "size_bytes", 10) && memmem(text, n, "time_us", 7);
}

bool traces_bench_is(const char *text, size_t len)
{
    const char *p = text, *end = text + len;

    if (is_csv(text, len))
        return true;
    while (p < end && (p = memmem(p, (size_t)(end - p), "algbw", 5)) != NULL) {
        const char *from = p, *to = memchr(p, '\n', (size_t)(end - p));
        while (from > text && from[-1] != '\n')
            from--;
        size_t n = (size_t)((to ? to : end) - from);
        if (memmem(from, n, "busbw", 5) && memmem(from, n, "time", 4))
            return true;
        p = to ? to : end;
    }
    return false;
}

enum lw_status traces_bench_read(const struct lw_input *in, const struct traces_bench_hint *hint,
                                 struct traces_bench *out, struct lw_err *err)
{
    struct traces_bench b = {.file = in->name, .version = ""};
    struct reader r = {.in = in, .hint = hint, .b = &b, .err = err};
    enum lw_status status = is_csv(in->text, in->len) ? read_csv(&r) : read_text(&r);

    if (status == LW_OK)
        status = fill_tables(&r);
    lw_free(r.tables);
    lw_free(r.rows);
    lw_free(r.ranks);
    if (status != LW_OK)
        traces_bench_free(&b);
    else
        *out = b;
    return status;
}

void traces_bench_free(struct traces_bench *b)
{
    lw_arena_free(&b->arena);
    *b = (struct traces_bench){0};
}
