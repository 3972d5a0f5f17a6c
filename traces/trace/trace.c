/* The neutral tables of a recorded trace. Columns grow together: capacities are raised for all of
 * them before a row is written, so a failed allocation leaves n rows intact in every column. */
#include "traces/trace/trace.h"

#include <string.h>

void lw_trace_init(struct lw_trace *t)
{
    *t = (struct lw_trace){.rank = -1, .world_size = -1, .device = -1, .backend = -1,
                           .damage = -1, .joined = -1};
}

void lw_trace_free(struct lw_trace *t)
{
    traces_strings_free(&t->strings);
    lw_free(t->start_ns);
    lw_free(t->dur_ns);
    lw_free(t->link);
    lw_free(t->name);
    lw_free(t->track);
    lw_free(t->detail);
    lw_free(t->class);
    lw_free(t->record);
    lw_free(t->details);
    lw_arena_free(&t->arena);
    *t = (struct lw_trace){0};
}

static bool reserve_columns(struct lw_trace *t, int64_t n)
{
    int64_t *cap = t->cap;

    return lw_reserve(&t->start_ns, &cap[0], n, sizeof *t->start_ns) == 0 &&
           lw_reserve(&t->dur_ns, &cap[1], n, sizeof *t->dur_ns) == 0 &&
           lw_reserve(&t->link, &cap[2], n, sizeof *t->link) == 0 &&
           lw_reserve(&t->name, &cap[3], n, sizeof *t->name) == 0 &&
           lw_reserve(&t->track, &cap[4], n, sizeof *t->track) == 0 &&
           lw_reserve(&t->detail, &cap[5], n, sizeof *t->detail) == 0 &&
           lw_reserve(&t->record, &cap[8], n, sizeof *t->record) == 0 &&
           lw_reserve(&t->class, &cap[6], n, sizeof *t->class) == 0;
}

enum lw_status lw_trace_add(struct lw_trace *t, const struct lw_row *row,
                            const struct lw_row_detail *detail, struct lw_err *err)
{
    int64_t i = t->n;

    if (i >= t->cap[6] && !reserve_columns(t, i + 1))
        return lw_fail_nomem(err);
    if (detail) {
        if (lw_reserve(&t->details, &t->cap[7], t->n_details + 1, sizeof *t->details) < 0)
            return lw_fail_nomem(err);
        t->details[t->n_details] = *detail;
    }
    t->start_ns[i] = row->start_ns;
    t->dur_ns[i] = row->dur_ns;
    t->link[i] = row->link;
    t->name[i] = row->name;
    t->track[i] = row->track;
    t->class[i] = (uint8_t)row->class;
    t->record[i] = row->record;
    t->detail[i] = detail ? (int32_t)t->n_details++ : -1;
    t->n++;
    return LW_OK;
}

enum lw_status lw_trace_set_detail(struct lw_trace *t, int64_t row,
                                   const struct lw_row_detail *detail, struct lw_err *err)
{
    if (t->detail[row] < 0) {
        if (t->n_details >= INT32_MAX ||
            lw_reserve(&t->details, &t->cap[7], t->n_details + 1, sizeof *t->details) < 0)
            return lw_fail_nomem(err);
        t->detail[row] = (int32_t)t->n_details++;
    }
    t->details[t->detail[row]] = *detail;
    return LW_OK;
}

void lw_trace_move(struct lw_trace *t, int64_t to, int64_t from)
{
    t->start_ns[to] = t->start_ns[from];
    t->dur_ns[to] = t->dur_ns[from];
    t->link[to] = t->link[from];
    t->name[to] = t->name[from];
    t->track[to] = t->track[from];
    t->detail[to] = t->detail[from];
    t->class[to] = t->class[from];
    t->record[to] = t->record[from];
}

enum lw_status lw_trace_check_span(const char *name, const struct lw_trace *t, struct lw_err *err)
{
    const int64_t most = INT64_MAX / 4000;
    int64_t first = INT64_MAX, last = INT64_MIN;

    for (int64_t i = 0; i < t->n; i++) {
        first = t->start_ns[i] < first ? t->start_ns[i] : first;
        last = lw_trace_end_ns(t, i) > last ? lw_trace_end_ns(t, i) : last;
    }
    if (t->n > 0 && last - first > most)
        return lw_fail_at(err, LW_EFORMAT, name, 0,
                          "events span %.0f days, from %.6f s to %.6f s; allowed: 26",
                          (double)(last - first) / 86400e9, (double)first / 1e9,
                          (double)last / 1e9);
    return LW_OK;
}

/* By start, then the longer row, then the order of the file. */
static inline bool is_after(const struct lw_trace *t, uint32_t a, uint32_t b)
{
    if (t->start_ns[a] != t->start_ns[b])
        return t->start_ns[a] > t->start_ns[b];
    return t->dur_ns[a] != t->dur_ns[b] ? t->dur_ns[a] < t->dur_ns[b] : a > b;
}

/* The first row from `i` on that is not in order with the one before it, or n. */
static int64_t end_of_run(const struct lw_trace *t, int64_t i)
{
    for (i++; i < t->n && !is_after(t, (uint32_t)(i - 1), (uint32_t)i); i++)
        ;
    return i < t->n ? i : t->n;
}

/* Each two neighbouring runs of `from` become one of `to`. Run r begins at begin[r]; begin[*n] is
 * t->n. */
static void merge_runs(const struct lw_trace *t, const uint32_t *from, uint32_t *to,
                       int64_t *begin, int64_t *n)
{
    int64_t runs = 0;

    for (int64_t r = 0; r < *n; r += 2, runs++) {
        int64_t a = begin[r], middle = begin[r + 1], b = middle;
        int64_t end = r + 1 < *n ? begin[r + 2] : middle;
        begin[runs] = a;
        while (a < middle && b < end)
            *to++ = is_after(t, from[a], from[b]) ? from[b++] : from[a++];
        memcpy(to, from + a, (size_t)(middle - a) * sizeof *to);
        to += middle - a;
        memcpy(to, from + b, (size_t)(end - b) * sizeof *to);
        to += end - b;
    }
    begin[runs] = t->n;
    *n = runs;
}

/* Where the runs of the rows begin, and t->n; NULL without memory. */
static int64_t *find_runs(const struct lw_trace *t, int64_t *n)
{
    int64_t *begin = NULL, cap = 0;

    *n = 0;
    for (int64_t i = 0;; i = end_of_run(t, i)) {
        if (lw_reserve(&begin, &cap, *n + 1, sizeof *begin) < 0) {
            lw_free(begin);
            return NULL;
        }
        begin[*n] = i;
        if (i == t->n)
            return begin;
        ++*n;
    }
}

/* The rows in order; NULL without memory. Recorders write rows in order by table, by thread or by
 * stream: runs are merged until one is left. */
static uint32_t *sorted_rows(const struct lw_trace *t)
{
    size_t bytes = (size_t)t->n * sizeof(uint32_t);
    int64_t n, *begin = find_runs(t, &n);
    uint32_t *row = begin ? lw_alloc(bytes) : NULL, *other = row ? lw_alloc(bytes) : NULL;

    for (int64_t i = 0; other && i < t->n; i++)
        row[i] = (uint32_t)i;
    while (other && n > 1) {
        merge_runs(t, row, other, begin, &n);
        uint32_t *sorted = other;
        other = row;
        row = sorted;
    }
    if (!other) {
        lw_free(row);
        row = NULL;
    }
    lw_free(other);
    lw_free(begin);
    return row;
}

/* Rows before `from` stay. */
#define PERMUTE(column, t, row, from, scratch)                                                 \
    do {                                                                                       \
        __typeof__(column) to_ = (scratch);                                                    \
        for (int64_t i_ = from; i_ < (t)->n; i_++)                                             \
            to_[i_] = (column)[(row)[i_]];                                                     \
        memcpy((column) + (from), to_ + (from), (size_t)((t)->n - (from)) * sizeof *(column)); \
    } while (0)

static void permute_columns(struct lw_trace *t, const uint32_t *row, void *scratch)
{
    int64_t from = 0;

    while (from < t->n && row[from] == from)
        from++;
    PERMUTE(t->start_ns, t, row, from, scratch);
    PERMUTE(t->dur_ns, t, row, from, scratch);
    PERMUTE(t->link, t, row, from, scratch);
    PERMUTE(t->name, t, row, from, scratch);
    PERMUTE(t->track, t, row, from, scratch);
    PERMUTE(t->detail, t, row, from, scratch);
    PERMUTE(t->class, t, row, from, scratch);
    PERMUTE(t->record, t, row, from, scratch);
}

enum lw_status lw_trace_sort(struct lw_trace *t, struct lw_err *err)
{
    if (t->n == 0 || end_of_run(t, 0) == t->n)
        return LW_OK;
    if (t->n > UINT32_MAX)
        return lw_fail(err, LW_EFORMAT, "%lld rows; at most %u can be sorted", (long long)t->n,
                       UINT32_MAX);
    uint32_t *row = sorted_rows(t);
    void *scratch = row ? lw_alloc((size_t)t->n * sizeof *t->start_ns) : NULL;
    if (scratch)
        permute_columns(t, row, scratch);
    lw_free(row);
    lw_free(scratch);
    return scratch ? LW_OK : lw_fail_nomem(err);
}

bool lw_trace_dtype(const struct lw_trace *t, int32_t string, enum lw_dtype *dtype)
{
    return lw_trace_dtype_named(lw_trace_text(t, string), dtype);
}

bool lw_trace_dtype_named(const char *name, enum lw_dtype *dtype)
{
    if (strcmp(name, "long int") == 0 || strcmp(name, "long") == 0)
        name = "i64";
    else if (strcmp(name, "unsigned char") == 0)
        name = "u8";
    else if (strncmp(name, "c10::", 5) == 0)
        name += 5;
    return lw_dtype_parse(name, dtype, NULL) == LW_OK;
}

const struct lw_row_detail *lw_trace_detail(const struct lw_trace *t, int64_t row)
{
    static const struct lw_row_detail none = {.op = -1, .dtype = -1, .group = -1,
                                              .wait_stream = -1, .wait_record = -1, .in_numel = -1,
                                              .out_numel = -1, .shape_type = -1,
                                              .shape_numel = -1};

    return t->detail[row] >= 0 ? &t->details[t->detail[row]] : &none;
}

int64_t lw_trace_shape_bytes(const struct lw_trace *t, int64_t row, enum lw_dtype *dtype)
{
    const struct lw_row_detail *d = lw_trace_detail(t, row);
    int64_t bytes;

    if (d->shape_numel < 0 || !lw_trace_dtype(t, d->shape_type, dtype) ||
        __builtin_mul_overflow(d->shape_numel, lw_dtype_size(*dtype), &bytes))
        return -1;
    return bytes;
}

int64_t lw_items_upto(const void *items, int64_t n, size_t size, int64_t x)
{
    int64_t low = 0, high = n, at;

    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        memcpy(&at, (const char *)items + (size_t)mid * size, sizeof at);
        if (at <= x)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

int64_t lw_values_upto(const int64_t *v, int64_t n, int64_t x)
{
    return lw_items_upto(v, n, sizeof *v, x);
}

int64_t lw_values_below(const int64_t *v, int64_t n, int64_t x)
{
    return x == INT64_MIN ? 0 : lw_values_upto(v, n, x - 1);
}

int64_t lw_trace_row_at(const struct lw_trace *t, int64_t ns)
{
    return lw_values_below(t->start_ns, t->n, ns);
}

int64_t lw_trace_rows_upto(const struct lw_trace *t, const int64_t *rows, int64_t n, int64_t ns)
{
    return lw_values_below(rows, n, lw_values_upto(t->start_ns, t->n, ns));
}

enum lw_status lw_trace_pick(const struct lw_trace *t, int64_t from, int64_t to,
                             bool (*is)(const struct lw_trace *t, int64_t row),
                             struct lw_arena *arena, int64_t **rows, int64_t *n,
                             struct lw_err *err)
{
    int64_t *found = NULL, cap = 0, k = 0;
    enum lw_status status =
        lw_reserve(&found, &cap, 1, sizeof *found) == 0 ? LW_OK : lw_fail_nomem(err);

    for (int64_t i = from; i < to && status == LW_OK; i++) {
        if (!is(t, i))
            continue;
        if (k == cap && lw_reserve(&found, &cap, k + 1, sizeof *found) < 0)
            status = lw_fail_nomem(err);
        if (status == LW_OK)
            found[k++] = i;
    }
    if (status == LW_OK && lw_arena_adopt(arena, found) < 0)
        status = lw_fail_nomem(err);
    if (status != LW_OK) {
        lw_free(found);
        return status;
    }
    *rows = found;
    *n = k;
    return LW_OK;
}
