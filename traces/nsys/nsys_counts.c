/* Counts of a report by the names of its tables, as `inspect --format json` gives them: rows of
 * each, how many kernels have their launch in the file (same process, same correlation), the union
 * and the sum of the kernels' times over all devices, the first start and the last end. */
#include "traces/nsys/nsys_counts.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "traces/trace/kernel_launches.h"

enum { MOST_STREAMS = 4096 };

/* CUPTI's correlations have 32 bits, and what is above a thread's 24 bits of a process id has 40:
 * of these the 31 that tell processes of one machine apart are kept. */
static uint64_t id_of(int64_t process, int64_t correlation)
{
    if (correlation <= 0 || correlation > UINT32_MAX)
        return 0;
    return ((uint64_t)process & 0x7fffffff) << 32 | (uint64_t)correlation;
}

enum lw_status nsys_count_kernel(struct nsys_counts *c, int64_t start, int64_t end, int64_t process,
                                 int64_t correlation, int64_t stream, struct lw_err *err)
{
    c->unordered |= c->n_kernels > 0 && start < c->last_start_ns;
    c->last_start_ns = start;
    if (c->n_kernels == 0) {
        c->first_ns = start;
        c->last_ns = start;
    }
    c->first_ns = start < c->first_ns ? start : c->first_ns;
    if (end > c->last_ns) { /* rows in order of start: what is new of the union */
        c->busy_ns += end - (start > c->last_ns ? start : c->last_ns);
        c->last_ns = end;
    }
    c->n_kernels++;
    if (c->several) {
        LW_ROOM(c->kernel_ids, c->kernel_cap, c->n_kernel_ids + 1, err);
        c->kernel_ids[c->n_kernel_ids++] = id_of(process, correlation);
    }
    if (__builtin_add_overflow(c->sum_ns, end - start, &c->sum_ns))
        c->sum_ns = INT64_MAX;
    for (int64_t i = c->n_streams - 1; i >= 0; i--)
        if (c->streams[i] == stream)
            return LW_OK;
    if (c->n_streams >= MOST_STREAMS)
        return lw_fail(err, LW_EFORMAT, "kernels on more than %d streams", MOST_STREAMS);
    LW_ROOM(c->streams, c->stream_cap, c->n_streams + 1, err);
    c->streams[c->n_streams++] = stream;
    return LW_OK;
}

enum lw_status nsys_count_launch(struct nsys_counts *c, int64_t process, int64_t correlation,
                                 struct lw_err *err)
{
    uint64_t id = id_of(process, correlation);

    if (!c->several || id == 0)
        return LW_OK;
    LW_ROOM(c->launch_ids, c->launch_cap, c->n_launch_ids + 1, err);
    c->launch_ids[c->n_launch_ids++] = id;
    return LW_OK;
}

LW_COMPARATOR(by_id, uint64_t, *a, *b)
LW_COMPARATOR(by_number, int64_t, *a, *b)

/* The exporter writes in order of time, and correlations mostly grow with it. */
static void sort_ids(uint64_t *v, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (v[i] < v[i - 1]) {
            lw_sort(v, n, by_id);
            return;
        }
}

static int64_t count_ids(struct nsys_counts *c)
{
    int64_t n = 0, k = 0;

    sort_ids(c->launch_ids, c->n_launch_ids);
    sort_ids(c->kernel_ids, c->n_kernel_ids);
    for (int64_t i = 0; i < c->n_kernel_ids; i++) {
        while (k < c->n_launch_ids && c->launch_ids[k] < c->kernel_ids[i])
            k++;
        n += c->kernel_ids[i] != 0 && k < c->n_launch_ids && c->launch_ids[k] == c->kernel_ids[i];
    }
    return n;
}

static void add(struct lw_trace *t, const char *key, int64_t value)
{
    t->counts[t->n_counts++] = (struct lw_trace_count){.key = key, .value = value};
}

/* The union once more, in order of start. */
static enum lw_status count_again(struct nsys_counts *c, const struct nsys_database *d,
                                  struct lw_err *err)
{
    static const char *const columns[] = {"start", "end", NULL};
    struct nsys_rows r;
    int64_t start, end, last = INT64_MIN;
    bool more;

    LW_TRY(nsys_rows_open(d, "CUPTI_ACTIVITY_KIND_KERNEL", columns, " ORDER BY start", &r, err));
    enum lw_status status = nsys_rows_next(&r, &more, err);
    c->busy_ns = 0;
    while (status == LW_OK && more) {
        status = nsys_rows_int(&r, 0, &start, err);
        if (status == LW_OK)
            status = nsys_rows_int(&r, 1, &end, err);
        if (status == LW_OK && end > start && end > last) {
            c->busy_ns += end - (start > last ? start : last);
            last = end;
        }
        if (status == LW_OK)
            status = nsys_rows_next(&r, &more, err);
    }
    nsys_rows_close(&r);
    return status;
}

enum lw_status nsys_counts_give(struct nsys_counts *c, const struct nsys_database *d,
                                struct lw_trace *t, struct lw_err *err)
{
    static const char query[] = "SELECT count(*) FROM sqlite_master WHERE type = 'table'";
    bool any = c->n_kernels > 0, has = nsys_database_has(d, "CUPTI_ACTIVITY_KIND_KERNEL");
    struct lw_trace_count streams = {.key = "streams", .n = c->n_streams};
    int64_t n_tables;

    if (c->unordered)
        LW_TRY(count_again(c, d, err));
    LW_TRY(nsys_database_number(d, query, &n_tables, err));
    LW_TAKE(&t->arena, t->counts, 14, err);
    LW_TAKE(&t->arena, streams.values, c->n_streams + 1, err);
    add(t, "tables", n_tables);
    add(t, "CUPTI_ACTIVITY_KIND_KERNEL", has ? c->n_kernels : -1);
    add(t, "CUPTI_ACTIVITY_KIND_MEMCPY", c->n_memcpy);
    add(t, "CUPTI_ACTIVITY_KIND_MEMSET", c->n_memset);
    add(t, "CUPTI_ACTIVITY_KIND_RUNTIME", c->n_runtime);
    add(t, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", c->n_sync);
    add(t, "CUPTI_ACTIVITY_KIND_CUDA_EVENT", c->n_events);
    add(t, "NVTX_EVENTS", c->n_nvtx);
    add(t, "kernel_busy_ns", any ? c->busy_ns : -1);
    add(t, "kernel_sum_ns", any ? c->sum_ns : -1);
    add(t, "first_kernel_ns", any ? c->first_ns : -1);
    add(t, "last_kernel_end_ns", any ? c->last_ns : -1);
    lw_sort(c->streams, c->n_streams, by_number);
    if (c->n_streams > 0)
        memcpy(streams.values, c->streams, (size_t)c->n_streams * sizeof *c->streams);
    t->counts[t->n_counts++] = streams;
    return LW_OK;
}

enum lw_status nsys_counts_resolve(struct nsys_counts *c, struct lw_trace *t, struct lw_err *err)
{
    struct lw_arena scratch = {0};
    struct traces_launches l = {0};
    int64_t n = 0;
    enum lw_status status = LW_OK;

    if (c->several) {
        n = count_ids(c);
    } else {
        status = traces_launches_build(t, &scratch, &l, err);
        for (int64_t i = 0; status == LW_OK && i < l.n; i++)
            n += t->class[l.row[i]] == LW_ROW_KERNEL && l.launch[i] >= 0;
    }
    lw_arena_free(&scratch);
    if (status == LW_OK)
        add(t, "launches_resolved", t->counts[1].value >= 0 ? n : -1);
    return status;
}

void nsys_counts_free(struct nsys_counts *c)
{
    lw_free(c->kernel_ids);
    lw_free(c->launch_ids);
    lw_free(c->streams);
    *c = (struct nsys_counts){0};
}
