/* Measured collectives as a cluster file: its tables and nothing else, so whatever they do not hold
 * (links, rates of the device) stays unknown and is refused where a plan needs it. Sizes mean the
 * same in nccl-tests as here: the whole buffer, also of an all-gather and a reduce-scatter. A
 * sendrecv test sends to the next rank while receiving from the one before: its rows are kept under
 * the number of ranks that ran, not as a message between two idle ranks. */
#include <stdio.h>
#include <string.h>

#include "shared/cluster/measured.h"
#include "traces/nccl_tests/import_nccl_tests.h"
#include "shared/base/shown_text.h"

static enum lw_status check_devices(const struct traces_bench *b, int n, const char **gpu,
                                    struct lw_err *err)
{
    const char *from = "";

    *gpu = "";
    for (int i = 0; i < n; i++)
        for (int32_t k = 0; k < b[i].n; k++) {
            const char *here = b[i].tables[k].gpu;
            if (!*here)
                continue;
            if (**gpu && strcmp(*gpu, here) != 0)
                return lw_fail(err, LW_EINVAL,
                               "%s was measured on '%s', %s on '%s': a cluster has one kind of "
                               "device; import them apart, or choose rows of a CSV with "
                               "--where gpu=...",
                               from, *gpu, b[i].file, here);
            *gpu = here;
            from = b[i].file;
        }
    return LW_OK;
}

static enum lw_status check_once(const struct lw_cluster *c, const char *file,
                                 const struct traces_bench_table *t, struct lw_err *err)
{
    for (int32_t i = 0; i < c->n_tables; i++)
        if (c->tables[i].op == t->op && c->tables[i].dtype == t->dtype &&
            c->tables[i].n_ranks == t->n_ranks && c->tables[i].n_nodes == t->n_nodes)
            return lw_fail(err, LW_EINVAL,
                           "%s: a second table of %s of %s on %d ranks and %d nodes: which one is "
                           "valid? Import them separately, or choose rows of a CSV with --where",
                           file, lw_op_name(t->op), lw_dtype_name(t->dtype), t->n_ranks,
                           t->n_nodes);
    return LW_OK;
}

static enum lw_status fill_table(struct lw_cluster *c, const struct traces_bench *b,
                                 const struct traces_bench_table *t, bool in_place,
                                 struct lw_err *err)
{
    const char *source;
    int64_t *bytes;
    lw_ps *time;

    LW_TAKE(&c->arena, bytes, t->n_rows, err);
    LW_TAKE(&c->arena, time, t->n_rows, err);
    LW_TRY(check_once(c, b->file, t, err));
    for (int32_t i = 0; i < t->n_rows; i++) {
        const struct traces_bench_row *row = &t->rows[i];
        bytes[i] = row->bytes;
        time[i] = in_place ? row->in_place : row->time;
        if (time[i] <= 0)
            return lw_fail_at(err, LW_EINVAL, b->file, row->line,
                              "%lld bytes were not measured in place",
                              (long long)row->bytes);
    }
    LW_PRINT(&c->arena, source, err, "%.120s%s%.200s, %s%s%s", lw_base_name(b->file),
             *t->source ? ": " : "", t->source,
             in_place || t->only_in_place ? "in place" : "out of place",
             b->time_is ? ", " : "", b->time_is ? b->time_is : "");
    c->tables[c->n_tables++] = (struct lw_cost_table){
        .op = t->op, .dtype = t->dtype, .n_ranks = t->n_ranks, .n_nodes = t->n_nodes,
        .n_in_flight = 1, .n_rows = t->n_rows, .bytes = bytes, .time_ps = time, .source = source};
    return LW_OK;
}

/* rccl-tests prints what nccl-tests does; the devices tell them apart. */
static bool is_amd(const char *gpu)
{
    static const char *const words[] = {"AMD", "Instinct", "Radeon", "Vega", "MI2", "MI3", "gfx"};
    size_t i = 0;

    while (i < sizeof words / sizeof *words && !strstr(gpu, words[i]))
        i++;
    return i < sizeof words / sizeof *words;
}

static enum lw_status fill(struct lw_cluster *c, const struct traces_bench *b, int n, bool in_place,
                           struct lw_err *err)
{
    const char *gpu;
    int64_t n_tables = 0;

    LW_TRY(check_devices(b, n, &gpu, err));
    for (int i = 0; i < n; i++)
        n_tables += b[i].n;
    LW_PRINT(&c->arena, c->name, err, "%s", lw_base_name(b[0].file));
    LW_PRINT(&c->arena, c->about, err,
             "measured collectives of %d file%s: tables alone, no links and no device rates", n,
             lw_plural(n));
    LW_PRINT(&c->arena, c->device.kind, err, "%s", *gpu ? gpu : "unknown");
    LW_PRINT(&c->arena, c->library_version, err, "%s", b[0].version);
    c->library = !b[0].is_nccl ? "" : is_amd(gpu) ? "rccl" : "nccl";
    LW_TAKE(&c->arena, c->tables, n_tables, err);
    for (int i = 0; i < n; i++)
        for (int32_t k = 0; k < b[i].n; k++) {
            const struct traces_bench_table *t = &b[i].tables[k];
            int32_t per_node = (t->n_ranks + t->n_nodes - 1) / t->n_nodes;
            LW_TRY(fill_table(c, &b[i], t, in_place, err));
            c->n_nodes = t->n_nodes > c->n_nodes ? t->n_nodes : c->n_nodes;
            c->devices_per_node = per_node > c->devices_per_node ? per_node : c->devices_per_node;
        }
    return lw_cluster_check(c, err);
}

enum lw_status lw_cluster_from_bench(const struct traces_bench *b, int n, bool in_place,
                                     struct lw_cluster *out, struct lw_err *err)
{
    struct lw_cluster c = {0};
    enum lw_status status = fill(&c, b, n, in_place, err);

    LW_GIVE(status, out, c, lw_arena_free(&c.arena));
}
