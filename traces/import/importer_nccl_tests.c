/* Tables of measured collectives: nccl-tests' output, or CSV. */
#include <ctype.h>

#include "shared/base/arena.h"
#include "shared/io/input.h"
#include "shared/json/jsonout.h"
#include "shared/text/table.h"
#include "traces/import/convert.h"
#include "traces/nccl_tests/import_nccl_tests.h"

/* '[' begins a JSON array (refused here), mpirun's tag "[1,0]<stdout>:" or a time. */
static bool is(const struct lw_input *in, const char *text, size_t len)
{
    if (len > 0 && *text == '{')
        return traces_bench_is_json(in->text, in->len) ||
               traces_bench_is_link_times(in->text, in->len);
    if (len > 1 && *text == '[' && !isalnum((unsigned char)text[1]))
        return false;
    return traces_bench_is(in->text, in->len);
}

static enum lw_status convert(const struct traces_file *f, int n, const struct traces_wanted *want,
                              struct traces_converted *out, struct lw_err *err)
{
    struct traces_bench *b;
    enum lw_status status = LW_OK;
    int n_read = 0;

    LW_NEW(b, n, err);
    for (; status == LW_OK && n_read < n; n_read += status == LW_OK)
        status = traces_bench_read(&f[n_read].in, &want->bench, &b[n_read], err);
    if (status == LW_OK)
        status = lw_cluster_from_bench(b, n, want->in_place, &out->cluster, err);
    for (int i = 0; status == LW_OK && i < n && !out->network; i++)
        if (*b[i].network && !(out->network = lw_arena_strdup(&out->cluster.arena, b[i].network)))
            status = lw_fail_nomem(err);
    out->has_cluster = status == LW_OK;
    while (n_read > 0)
        traces_bench_free(&b[--n_read]);
    lw_free(b);
    return status;
}

static enum lw_status look(const struct lw_input *in, const struct traces_bench_hint *hint,
                           void *facts, struct lw_err *err)
{
    return traces_bench_read(in, hint, facts, err);
}

static void forget(void *facts)
{
    traces_bench_free(facts);
}

static enum lw_status json(const void *facts, struct lw_jsonout *o, struct lw_err *err)
{
    const struct traces_bench *b = facts;

    (void)err;
    lw_jsonout_array(o, "tables");
    for (int32_t i = 0; i < b->n; i++) {
        const struct traces_bench_table *t = &b->tables[i];
        lw_jsonout_object(o, NULL);
        LW_JSON(o, "op", lw_op_name(t->op), "dtype", lw_dtype_name(t->dtype), "n_ranks", t->n_ranks,
                "n_nodes", t->n_nodes, "device", *t->gpu ? t->gpu : NULL);
        lw_jsonout_array(o, "rows");
        for (int32_t k = 0; k < t->n_rows; k++) {
            lw_ps in_place = t->rows[k].in_place;
            LW_JSON_ROW(o, NULL, "bytes", t->rows[k].bytes, "time_ns", lw_ps_to_ns(t->rows[k].time),
                        "in_place_ns", lw_known_if(in_place > 0, lw_ps_to_ns(in_place)));
        }
        lw_jsonout_end(o);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
    return LW_OK;
}

static enum lw_status text(const void *facts, const char *name, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"op", "dtype", ">ranks", ">nodes", "device", ">size",
                                         ">out of place", ">in place", ">algbw GB/s"};
    struct lw_table *t = lw_table_new(9, titles);
    const struct traces_bench *b = facts;

    fprintf(f, "%s: measured collectives, %d table%s%s%s\n", name, b->n,
            lw_plural(b->n), *b->version ? ", NCCL " : "",
            b->version);
    for (int32_t i = 0; i < b->n; i++)
        for (int32_t k = 0; k < b->tables[i].n_rows; k++) {
            const struct traces_bench_table *x = &b->tables[i];
            const struct traces_bench_row *row = &x->rows[k];
            LW_CELLS(t, lw_op_name(x->op), lw_dtype_name(x->dtype), x->n_ranks, x->n_nodes,
                     *x->gpu ? x->gpu : NULL, LW_BYTES(row->bytes),
                     x->only_in_place ? LW_COUNT(-1) : LW_PS(row->time),
                     row->in_place > 0 ? LW_PS(row->in_place) : LW_COUNT(-1),
                     lw_decimals((double)row->bytes / ((double)row->time / 1e3), 3));
        }
    return lw_table_end(t, f, 2, err);
}

/* The k-th row over all tables. */
static bool measured(const void *facts, int64_t k, struct traces_measured_row *row)
{
    const struct traces_bench *b = facts;

    for (int32_t i = 0; i < b->n; k -= b->tables[i++].n_rows)
        if (k < b->tables[i].n_rows) {
            const struct traces_bench_table *t = &b->tables[i];
            const struct traces_bench_row *x = &t->rows[k];
            *row = (struct traces_measured_row){
                lw_op_name(t->op), lw_dtype_name(t->dtype), t->n_ranks, x->bytes,
                lw_ps_to_ns(x->time), x->in_place > 0 ? lw_ps_to_ns(x->in_place) : -1};
            return true;
        }
    return false;
}

const struct lw_importer lw_importer_nccl_tests = {
    .name = "nccl-tests",
    .reads = "nccl-tests output and tables of collectives as CSV (op, nranks, nnodes, size_bytes, "
             "time_us) or JSON (ops)",
    .marks = "hold sizes and times",
    .import_help = "nccl-tests output and CSV tables of collectives (op, nranks, nnodes, "
                   "size_bytes, time_us) give a cluster.",
    .inspect_help = "Tables of collectives (nccl-tests, CSV): their rows.",
    .gives = LW_GIVES_CLUSTER,
    .takes = " op ranks nodes in-place where ",
    .instead = "--cluster-out writes its tables",
    .is = is,
    .convert = convert,
    .facts_size = sizeof(struct traces_bench),
    .look = look,
    .text = text,
    .json = json,
    .measured = measured,
    .free = forget,
};
