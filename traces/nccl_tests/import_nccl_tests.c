/* Tables of measured collectives, and of them the text that nccl-tests prints.
 *
 * nccl-tests prints a line per rank ("#  Rank  0 Group  0 Pid 371 on HOST device  0 [0x0f] NAME"),
 * a line of titles ("#  size  count  type  redop  root  time  algbw  busbw  #wrong  time ..."),
 * then a row per size: out of place first, in place after it. Titles changed with its versions
 * (bytes and N, op, no root, error, esttime), so columns are found by title. Launchers and loggers
 * may put a tag before each line: known ones that may touch the line, and as many words as stand
 * before the '#' of the titles. Which operation it was stands only in newer files ("Collective
 * test starting: all_reduce_perf") or in a command line that was kept; else it follows from the
 * columns (NVIDIA/nccl-tests src/common.cu and the six *_perf files @ 01d6761: what is printed as
 * size and count) where they leave one choice. cputime (-C) is the host's time and refused. Not
 * read: avg bus bandwidth and the like, which follow from the rows. */
#include "traces/nccl_tests/bench_rows.h"

#include <ctype.h>
#include <string.h>

#include "shared/numbers/checked.h"
#include "traces/nccl_tests/log_text.h"

enum { MOST_COLUMNS = 64 };

struct columns { /* places of the titles; -1 = absent */
    int size, count, type, redop, root, time, in_place, algbw, busbw, in_algbw, in_busbw, wrong,
        in_wrong;
    bool host_time; /* cputime */
};

struct log {
    struct bench_reader *r;
    struct columns columns;
    bool in_table, only_in_place; /* the line above the titles names the in-place half alone */
    bool last;             /* the line ends without a line end, with the file */
    int n_cells;           /* of the row before, at least with a time */
    int n_tag;             /* words before the '#' of the titles: of a tag, and before each row */
    int64_t from, table;   /* first table of the run, and the row's */
    struct bench_cell gpu; /* device of the ranks */
};

static int split(const char *line, size_t len, struct bench_cell *cells)
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

static struct bench_cell word_after(const char *line, size_t len, const char *word)
{
    const char *p = memmem(line, len, word, strlen(word)), *end = line + len;
    struct bench_cell c = {0};

    if (!p)
        return c;
    for (p += strlen(word); p < end && isspace((unsigned char)*p); p++)
        ;
    for (c.at = p; p < end && !isspace((unsigned char)*p); p++)
        c.len++;
    return c;
}

/* "Rank  0 Group  0 Pid 371 on HOST device  0 [0x0f] NAME" */
static enum lw_status take_rank(struct log *g, const char *line, size_t len)
{
    struct bench_rank v = {.host = word_after(line, len, " on "), .device = -1};
    struct bench_cell rank = word_after(line, len, "Rank "),
                      group = word_after(line, len, " Group "),
                      device = word_after(line, len, " device ");
    const char *open = memchr(line, '[', len), *bracket = memchr(line, ']', len);
    struct bench_cell gpu = {0};
    int64_t number, n_group;

    if (!bench_number(rank, 0, &number) || !v.host.len || !bench_number(device, 0, &v.device))
        return LW_OK;
    if (g->in_table || number == 0) { /* another run begins */
        g->in_table = false;
        g->r->n_ranks = 0;
        g->r->last_rank = -1;
        g->gpu = (struct bench_cell){0};
    }
    if (bench_number(group, 0, &n_group) && n_group > 0)
        return lw_fail_at(g->r->err, LW_ENOTSUP, g->r->in->name, g->r->line,
                          "rank %lld is of group %lld: collectives of several groups at once are "
                          "not read: measure without NCCL_TESTS_SPLIT",
                          (long long)number, (long long)n_group);
    g->r->last_rank = number > g->r->last_rank ? number : g->r->last_rank;
    if (open && bracket && open < bracket)
        v.bus = (struct bench_cell){open + 1, (size_t)(bracket - open - 1)};
    if (bracket) {
        for (bracket++; bracket < line + len && isspace((unsigned char)*bracket); bracket++)
            ;
        gpu = (struct bench_cell){bracket, (size_t)(line + len - bracket)};
        while (gpu.len > 0 && isspace((unsigned char)gpu.at[gpu.len - 1]))
            gpu.len--;
    }
    LW_TRY(bench_take_gpu(g->r, gpu, &g->gpu));
    return bench_add_rank(g->r, v);
}

/* Titles of both halves; the second time, algbw and busbw are those in place. */
static bool take_titles(struct log *g, const struct bench_cell *cells, int n)
{
    struct columns c = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, false};
    const struct {
        const char *title;
        int *first, *second;
    } all[] = {
        {"size", &c.size, NULL},          {"bytes", &c.size, NULL},
        {"count", &c.count, NULL},        {"N", &c.count, NULL},
        {"type", &c.type, NULL},          {"redop", &c.redop, NULL},
        {"op", &c.redop, NULL},           {"root", &c.root, NULL},
        {"time", &c.time, &c.in_place},   {"cputime", &c.time, &c.in_place},
        {"algbw", &c.algbw, &c.in_algbw}, {"busbw", &c.busbw, &c.in_busbw},
        {"#wrong", &c.wrong, &c.in_wrong},
    };

    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
            if (!bench_is(cells[i], all[k].title))
                continue;
            int *at = *all[k].first < 0 ? all[k].first : all[k].second;
            if (at && *at < 0)
                *at = i;
            c.host_time = c.host_time || bench_is(cells[i], "cputime");
        }
    if (c.size != 0 || c.time < 0)
        return false;
    g->columns = c;
    g->in_table = true;
    g->n_cells = c.time + 1;
    return true;
}

static double decimal_at(const struct bench_cell *cells, int n, int at)
{
    return at >= 0 && at < n ? bench_decimal(cells[at]) : -1;
}

/* From what the columns show of the first rows; LW_EFORMAT when that leaves a choice. */
static enum lw_status infer_operation(const struct log *g, const struct bench_cell *cells, int n,
                                      int32_t n_ranks, enum lw_op_kind *op)
{
    const struct columns *c = &g->columns;
    bool reduces = c->redop >= 0 && !bench_is(cells[c->redop], "none");
    int64_t root = -1, count = 0, bytes = 0;
    enum lw_status status = LW_OK;
    int64_t element =
        c->type >= 0 ? lw_dtype_size(bench_dtype(cells[c->type], g->r->err, &status)) : 4;

    LW_TRY(status);
    bool rooted = c->root >= 0 && bench_number(cells[c->root], 0, &root) && root >= 0;
    bool known = c->count >= 0 && bench_number(cells[c->count], 0, &count) &&
                 bench_number(cells[c->size], 0, &bytes) && count > 0;
    bool parts = known && n_ranks > 1 && bytes / element / count >= n_ranks;
    bool sees_root = c->root >= 0;
    double alg = decimal_at(cells, n, c->algbw), bus = decimal_at(cells, n, c->busbw);
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
        return bench_asks_operation(g->r);
    return LW_OK;
}

static int64_t count_at(const struct bench_cell *cells, int n, int at)
{
    int64_t v;

    return at >= 0 && at < n && bench_number(cells[at], 0, &v) ? v : 0;
}

static enum lw_status begin_table(struct log *g, const struct bench_cell *cells, int n,
                                  struct bench_cell type)
{
    struct bench_reader *r = g->r;
    struct traces_bench_table t;
    bool said;

    if (g->columns.host_time)
        return bench_refuses_host_time(r);
    LW_TRY(bench_begin_table(r, r->n_ranks, bench_count_nodes(r), type, g->gpu, &t));
    LW_TRY(bench_said_operation(r, &t.op, &said));
    if (!said)
        LW_TRY(infer_operation(g, cells, n, t.n_ranks, &t.op));
    t.only_in_place = g->only_in_place;
    return bench_add_table(r, &t);
}

/* busbw over algbw is a function of the ranks; both have two decimals. It shows that "#  Rank"
 * lines are missing after the last one. */
static enum lw_status check_factor(const struct log *g, double algbw, double busbw)
{
    const struct bench_reader *r = g->r;
    const struct traces_bench_table *t = &r->tables[g->table];
    double factor = bench_bus_factor(t->op, t->n_ranks), twice = t->op == LW_OP_ALL_REDUCE ? 2 : 1;
    double off = busbw - algbw * factor, part = 1 - busbw / algbw / twice;
    const char *who = r->hint->n_ranks > 0 ? "--ranks is" : "the \"#  Rank\" lines say";

    if (algbw < 1 || busbw <= 0 || factor == 1 || t->n_ranks < 2 ||
        (off < 0 ? -off : off) <= .0052 * (1 + factor))
        return LW_OK;
    return lw_fail_at(r->err, LW_EFORMAT, r->in->name, r->line,
                      "busbw %.2f over algbw %.2f is %s on %.0f ranks, %s %d: give --ranks N and "
                      "--nodes N",
                      busbw, algbw, lw_op_name(t->op), part > 1e-6 ? 1 / part : 0, who,
                      t->n_ranks);
}

static enum lw_status take_row(struct log *g, const struct bench_cell *cells, int n, bool *first)
{
    const struct columns *c = &g->columns;
    struct bench_stated s = {.in_place = -1};
    struct bench_cell type = {0};

    if (!bench_number(cells[c->size], 0, &s.bytes) || !isdigit((unsigned char)*cells[0].at))
        return LW_OK; /* a line of something else between the rows */
    if (g->last && n < g->n_cells)
        return lw_fail_at(g->r->err, LW_EFORMAT, g->r->in->name, g->r->line,
                          "the last row ends after %d of %d columns: the file is cut off: remove "
                          "the row",
                          n, g->n_cells);
    if (n <= c->time || n <= c->type)
        return LW_OK;
    g->n_cells = n;
    if (!bench_number(cells[c->time], 6, &s.time)) {
        if (bench_is(cells[c->time], "N/A"))
            return LW_OK;
        return lw_fail_at(g->r->err, LW_EFORMAT, g->r->in->name, g->r->line,
                          "found '%.*s', expected a time in us",
                          (int)(cells[c->time].len < 40 ? cells[c->time].len : 40),
                          cells[c->time].at);
    }
    if (c->in_place >= 0 && c->in_place < n && !bench_number(cells[c->in_place], 6, &s.in_place))
        s.in_place = -1;
    if (g->only_in_place)
        s.in_place = s.time;
    s.algbw = decimal_at(cells, n, c->algbw);
    s.busbw = decimal_at(cells, n, c->busbw);
    s.in_algbw = decimal_at(cells, n, c->in_algbw);
    s.in_busbw = decimal_at(cells, n, c->in_busbw);
    s.n_wrong = lw_add_sat(count_at(cells, n, c->wrong), count_at(cells, n, c->in_wrong));
    if (s.bytes == 0)
        return LW_OK;
    if (*first)
        g->from = g->r->n_tables;
    *first = false;
    if (c->type >= 0)
        type = cells[c->type];
    LW_TRY(bench_table_of(g->r, g->from, type, &g->table));
    if (g->table == g->r->n_tables)
        LW_TRY(begin_table(g, cells, n, type));
    LW_TRY(bench_take_row(g->r, g->table, &s));
    return check_factor(g, s.algbw, s.busbw);
}

static enum lw_status take_version(struct bench_reader *r, const char *line, size_t len)
{
    struct bench_cell v = word_after(line, len, "NCCL version "),
                      code = word_after(line, len, "nccl-library=");
    enum lw_status status = LW_OK;
    size_t digits = 0;
    int64_t number;

    if (bench_number(code, 0, &number))
        LW_TRY(bench_version(r, number));
    while (digits < v.len && (isdigit((unsigned char)v.at[digits]) || v.at[digits] == '.'))
        digits++;
    if (digits > 0 && !*r->b->version) {
        char *version = bench_copy(r, (struct bench_cell){v.at, digits}, &status);
        if (version)
            r->b->version = version;
    }
    return status;
}

/* "NCCL INFO Using network AWS Libfabric"; before NCCL 2.6 only "NET/OFI Selected Provider". */
static enum lw_status take_network(struct bench_reader *r, const char *line, size_t len)
{
    static const char *const before[] = {"Using network ", "NET/OFI Selected Provider is "};
    enum lw_status status = LW_OK;

    for (size_t k = 0; k < sizeof before / sizeof *before && !*r->b->network; k++) {
        const char *at = memmem(line, len, before[k], strlen(before[k]));
        if (!at)
            continue;
        at = k == 0 ? at + strlen(before[k]) : at + strlen("NET/");
        struct bench_cell c = {at, k == 0 ? (size_t)(line + len - at) : strlen("OFI")};
        while (c.len > 0 && isspace((unsigned char)c.at[c.len - 1]))
            c.len--;
        char *network = bench_copy(r, c, &status);
        if (network)
            r->b->network = network;
    }
    return status;
}

static bool is_rank(const char *p, size_t len)
{
    return len > 5 && memcmp(p, "Rank ", 5) == 0;
}

/* Titles, also after words of a tag and '#': "[pod/a/b] #  size", "a | #  size", "host1:# size". */
static bool finds_titles(struct log *g, const struct bench_cell *cells, int n, const char *tagged,
                         size_t len)
{
    struct bench_cell after[MOST_COLUMNS];
    int n_tag = 0;

    if (n > 2 && take_titles(g, cells, n)) {
        g->n_tag = 0;
        return true;
    }
    int n_after = split(tagged, len, after);
    while (n_tag < n && !memchr(cells[n_tag].at, '#', cells[n_tag].len))
        n_tag++;
    n_tag += n_tag < n && *cells[n_tag].at != '#';
    if (len == 0 || n_after < 3 || !take_titles(g, after, n_after))
        return false;
    g->n_tag = n_tag;
    return true;
}

static const char *skip_marks(const char *p, const char *end)
{
    while (p < end && (isspace((unsigned char)*p) || *p == '#'))
        p++;
    return p;
}

static enum lw_status take_line(struct log *g, const char *line, size_t len, bool *first)
{
    struct bench_cell cells[MOST_COLUMNS];

    line = bench_skip_tags(line, &len);
    const char *end = line + len, *p = skip_marks(line, end);
    size_t left = (size_t)(end - p);
    const char *hash = memchr(p, '#', left), *tagged = hash ? skip_marks(hash, end) : end;
    bench_note_test(g->r, p, left);
    LW_TRY(take_version(g->r, p, left));
    LW_TRY(take_network(g->r, p, left));
    if (is_rank(p, left))
        return take_rank(g, p, left);
    if (is_rank(tagged, (size_t)(end - tagged)))
        return take_rank(g, tagged, (size_t)(end - tagged));
    if (memmem(p, left, "in-place", 8))
        g->only_in_place = !memmem(p, left, "out-of-place", 12);
    int n = split(p, left, cells);
    if (finds_titles(g, cells, n, tagged, (size_t)(end - tagged))) {
        *first = true;
        return LW_OK;
    }
    if (!g->in_table || n <= g->n_tag || memchr(line, '#', len) != NULL)
        return LW_OK;
    return take_row(g, cells + g->n_tag, n - g->n_tag, first);
}

static enum lw_status read_text(struct bench_reader *r)
{
    const char *p = r->in->text, *end = p + r->in->len;
    struct log g = {.r = r};
    bool first = true;

    r->b->is_nccl = true;
    r->b->time_is = "mean of the iterations";
    for (r->line = 1; p < end; r->line++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        size_t len = (size_t)((newline ? newline : end) - p);
        g.last = !newline;
        LW_TRY(take_line(&g, p, len, &first));
        p += len + 1;
    }
    return LW_OK;
}

/* ---- what it is ---- */

static bool text_is(const char *text, size_t len)
{
    const char *p = text, *end = text + len;

    while (p < end && (p = memmem(p, (size_t)(end - p), "algbw", 5)) != NULL) {
        const char *from = p, *to = memchr(p, '\n', (size_t)(end - p));
        while (from > text && from[-1] != '\n')
            from--;
        size_t n = (size_t)((to ? to : end) - from);
        bool titles = memmem(from, n, "time", 4) || memmem(from, n, "size", 4);
        if (titles && memmem(from, n, "busbw", 5))
            return true;
        p = to ? to : end;
    }
    return false;
}

bool traces_bench_is(const char *text, size_t len)
{
    return traces_bench_is_json(text, len) || bench_csv_is(text, len) ||
           traces_bench_is_link_times(text, len) || text_is(text, len);
}

enum lw_status traces_bench_read(const struct lw_input *in, const struct traces_bench_hint *hint,
                                 struct traces_bench *out, struct lw_err *err)
{
    struct traces_bench b = {.file = in->name, .version = "", .network = ""};
    struct lw_input plain;
    struct bench_reader r = {.in = &plain, .hint = hint, .b = &b, .err = err, .last_rank = -1};
    bool csv = bench_csv_is(in->text, in->len);
    enum lw_status status = bench_plain_text(&b.arena, in, &plain, err);

    if (status == LW_OK && hint->where && !csv)
        status = lw_fail(err, LW_EINVAL, "--where selects rows of a CSV with titles, which %s is "
                                         "not; leave out --where", in->name);
    if (status == LW_OK)
        status = traces_bench_is_json(plain.text, plain.len) ? bench_read_json(&r)
                 : csv                                       ? bench_read_csv(&r)
                 : plain.len > 0 && *plain.text == '{'       ? bench_read_link_times(&r)
                                                             : read_text(&r);
    if (status == LW_OK)
        status = bench_fill_tables(&r);
    lw_free(r.tables);
    lw_free(r.rows);
    lw_free(r.ranks);
    LW_GIVE(status, out, b, traces_bench_free(&b));
}

LW_FREE_BY_ARENA(traces_bench_free, struct traces_bench)
