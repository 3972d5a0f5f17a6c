/* Predicted beside measured collectives: `lapwing cost --measured FILE`. */
#include "analysis/netbench/measured_costs.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "shared/base/arena.h"
#include "shared/device/device_kind.h"
#include "shared/io/input.h"
#include "shared/text/records.h"
#include "shared/text/wrap.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/cost_nccl.h"
#include "sim/cost/cost_scaled.h"

struct row {
    const struct traces_bench_table *table;
    const struct traces_bench_row *from;
    enum lw_op_kind op;
    int32_t n_ranks, n_nodes;
    int64_t bytes;
    lw_ps measured;
    struct lw_cost_answer predicted;
    double error_pct;
    char error[16]; /* for people */
};

struct rows {
    int n;
    enum lw_reducer_kind algorithm;
    struct row *row;
    double mean_abs_pct, worst_pct, bias_pct;
};

#define AT(field) offsetof(struct row, field)
static const struct lw_column columns[] = {
    {"op", "op", LW_COLUMN_WORD, AT(op), .word = lw_op_word},
    {"n_ranks", ">ranks", LW_COLUMN_INT32, AT(n_ranks)},
    {"n_nodes", ">nodes", LW_COLUMN_INT32, AT(n_nodes)},
    {"bytes", ">size", LW_COLUMN_BYTES, AT(bytes)},
    {"predicted_ns", ">predicted", LW_COLUMN_PS, AT(predicted.time)},
    {"measured_ns", ">measured", LW_COLUMN_PS, AT(measured)},
    {"error_pct", NULL, LW_COLUMN_REAL, AT(error_pct), .digits = 4},
    {NULL, ">error", LW_COLUMN_CHARS, AT(error)},
    {"model", "model", LW_COLUMN_STRING, AT(predicted.model)},
    {"algorithm", "algorithm", LW_COLUMN_STRING, AT(predicted.algorithm)},
    {"protocol", "protocol", LW_COLUMN_TEXT, AT(predicted.protocol)},
};
#undef AT

/* Nodes of the cluster on which a table's ranks lie. */
static int32_t nodes_of(const struct lw_cluster *c, const struct traces_bench_table *t)
{
    double most = 0;

    for (int32_t k = 0; k < t->n_rows; k++)
        most = fmax(most, (double)t->rows[k].bytes / (double)t->rows[k].time);
    return traces_domains(c, t->op, t->n_ranks, t->n_nodes, most * (double)LW_PS_PER_S);
}

static enum lw_status predict(const struct lw_cluster *c, const struct traces_bench *b,
                              enum lw_reducer_kind algorithm, struct rows *out, struct lw_err *err)
{
    struct lw_cluster bare = *c;

    bare.n_tables = 0;
    for (int32_t i = 0; i < b->n; i++) {
        const struct traces_bench_table *t = &b->tables[i];
        int32_t n_nodes = nodes_of(c, t);
        for (int32_t k = 0; k < t->n_rows; k++) {
            struct row *r = &out->row[out->n];
            struct lw_cost_query q = {.op = t->op, .dtype = t->dtype, .bytes = t->rows[k].bytes,
                                      .n_ranks = t->n_ranks, .n_nodes = n_nodes,
                                      .algorithm = algorithm, .alone = true};
            *r = (struct row){.table = t,
                              .from = &t->rows[k],
                              .op = t->op,
                              .n_ranks = t->n_ranks,
                              .n_nodes = n_nodes,
                              .bytes = t->rows[k].bytes,
                              .measured = t->rows[k].time};
            LW_TRY(sim_nccl_check_shape(&bare, &q, err));
            LW_TRY(lw_sim_cost_explain(&bare, &q, &r->predicted, err));
            if (r->measured <= 0)
                continue;
            r->error_pct = 100 * ((double)r->predicted.time / (double)r->measured - 1);
            snprintf(r->error, sizeof r->error, "%+.1f %%", r->error_pct);
            double a = fabs(r->error_pct);
            out->mean_abs_pct += a;
            out->bias_pct += r->error_pct;
            out->worst_pct = a > out->worst_pct ? a : out->worst_pct;
            out->n++;
        }
    }
    if (out->n > 0) {
        out->mean_abs_pct /= out->n;
        out->bias_pct /= out->n;
    }
    return LW_OK;
}

static enum lw_status put(const struct lw_cluster *c, const struct rows *r, enum lw_format format,
                          struct lw_err *err)
{
    const struct lw_records all = LW_RECORDS("rows", columns, r->row, r->n);
    struct lw_jsonout o = {.file = stdout};

    if (format == LW_FORMAT_CSV)
        return lw_records_csv(&all, stdout, err);
    if (format == LW_FORMAT_TEXT) {
        LW_TRY(lw_records_text(&all, stdout, 0, err));
        printf("%d row%s on '%s': mean error %.1f %%, worst %.1f %%, bias %+.1f %%\n", r->n,
               lw_plural(r->n), c->name, r->mean_abs_pct, r->worst_pct, r->bias_pct);
        return LW_OK;
    }
    lw_jsonout_object(&o, NULL);
    lw_jsonout_string(&o, "cluster", c->name);
    lw_records_json(&o, &all);
    LW_JSON(&o, "mean_abs_error_pct", lw_decimals(r->mean_abs_pct, 4),
            "max_abs_error_pct", lw_decimals(r->worst_pct, 4),
            "bias_pct", lw_decimals(r->bias_pct, 4));
    lw_jsonout_end(&o);
    return LW_OK;
}

/* What makes it doubtful that the table was measured on such a machine. */
static void say_doubts(const struct lw_cluster *c, const struct traces_bench *b,
                       const struct rows *r)
{
    const struct lw_link *inter = lw_cluster_link(c, LW_LINK_INTER);

    if (*b->network && !traces_same_network(c, b->network))
        lw_printf_paragraph(stdout, "note: the log's network is '%s', that of '%s' is '%s'",
                            b->network, c->name, inter ? inter->name : "none");
    for (int i = 0; i < r->n; i++) {
        const struct row *x = &r->row[i];
        const struct traces_bench_table *t = x->table;
        char buf[32];
        if (x->predicted.instead && x->from == t->rows)
            lw_printf_paragraph(stdout, "note: NCCL has no %s for %s: its own choice is shown",
                                lw_reducer_name(r->algorithm), lw_op_name(t->op));
        bool smallest = x->from == t->rows, largest = x->from == &t->rows[t->n_rows - 1];
        if (!smallest && !largest)
            continue;
        double predicted = (double)x->predicted.time;
        double ratio = predicted > 0 ? (double)x->measured / predicted : 0;
        if (largest && *t->gpu && !lw_device_has_links_of(c->device.kind, t->gpu))
            lw_printf_paragraph(stdout, "note: %s was measured on '%s', '%s' has '%s'",
                                lw_op_name(t->op), t->gpu, c->name, c->device.kind);
        if (sim_ratio_is_doubtful(ratio, !largest))
            lw_printf_paragraph(stdout,
                                "note: %s on %d rank%s of %d node%s takes %.2g times the model at "
                                "%s: was it measured on this fabric?",
                                lw_op_name(t->op), x->n_ranks, lw_plural(x->n_ranks), x->n_nodes,
                                lw_plural(x->n_nodes), ratio, lw_format_bytes(buf, x->bytes));
    }
}

static enum lw_status compare(const struct lw_cluster *c, const struct traces_bench *b,
                              enum lw_reducer_kind algorithm, enum lw_format format,
                              struct lw_err *err)
{
    struct rows r = {.algorithm = algorithm};
    size_t n = 0;

    for (int32_t i = 0; i < b->n; i++)
        n += (size_t)b->tables[i].n_rows;
    r.row = lw_calloc(n + 1, sizeof *r.row);
    if (!r.row)
        return lw_fail_nomem(err);
    enum lw_status status = predict(c, b, algorithm, &r, err);
    if (status == LW_OK)
        status = put(c, &r, format, err);
    if (status == LW_OK && format == LW_FORMAT_TEXT)
        say_doubts(c, b, &r);
    lw_free(r.row);
    return status;
}

enum lw_status lw_measured_costs_print(const struct lw_cluster *cluster, const char *file,
                                       const struct traces_bench_hint *hint,
                                       enum lw_reducer_kind algorithm, enum lw_format format,
                                       struct lw_err *err)
{
    struct lw_input in;
    struct traces_bench b = {.n = 0};

    LW_TRY(lw_input_read(file, 0, &in, err));
    enum lw_status status = LW_OK;
    if (!traces_bench_is(in.text, in.len))
        status = lw_fail(err, LW_EFORMAT,
                         "--measured %s: expected the output of nccl-tests, or a CSV with "
                         "op, nranks, nnodes, size_bytes, time_us",
                         file);
    if (status == LW_OK)
        status = traces_bench_read(&in, hint, &b, err);
    if (status == LW_OK)
        status = compare(cluster, &b, algorithm, format, err);
    traces_bench_free(&b);
    lw_input_free(&in);
    return status;
}
