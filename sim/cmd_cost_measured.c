/* lapwing cost --measured FILE: predicted beside measured collectives. */
#include "sim/cmd_cost_measured.h"

#include <math.h>
#include <stdio.h>

#include "shared/io/input.h"
#include "shared/json/jsonout.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/cost_scaled.h"

struct rows {
    int n, capacity;
    struct row {
        const struct traces_bench_table *table;
        const struct traces_bench_row *measured;
        struct lw_cost_answer predicted;
        double error_pct;
    } * row;
    double mean_abs_pct, worst_pct, bias_pct;
};

static enum lw_status predict(const struct lw_cluster *c, const struct traces_bench *b,
                              enum lw_reducer_kind algorithm, struct rows *out, struct lw_err *err)
{
    struct lw_cluster bare = *c;

    bare.n_tables = 0;
    for (int32_t i = 0; i < b->n; i++)
        for (int32_t k = 0; k < b->tables[i].n_rows; k++) {
            const struct traces_bench_table *t = &b->tables[i];
            struct row *r = &out->row[out->n];
            struct lw_cost_query q = {t->op,      t->dtype,   t->rows[k].bytes,
                                      t->n_ranks, t->n_nodes, algorithm};
            *r = (struct row){.table = t, .measured = &t->rows[k]};
            LW_TRY(lw_sim_cost_explain(&bare, &q, &r->predicted, err));
            if (r->measured->time <= 0)
                continue;
            r->error_pct = 100 * ((double)r->predicted.time / (double)r->measured->time - 1);
            double a = fabs(r->error_pct);
            out->mean_abs_pct += a;
            out->bias_pct += r->error_pct;
            out->worst_pct = a > out->worst_pct ? a : out->worst_pct;
            out->n++;
        }
    if (out->n > 0) {
        out->mean_abs_pct /= out->n;
        out->bias_pct /= out->n;
    }
    return LW_OK;
}

static void put_json(const struct lw_cluster *c, const struct rows *r)
{
    struct lw_jsonout o = {.file = stdout};

    lw_jsonout_object(&o, NULL);
    lw_jsonout_string(&o, "cluster", c->name);
    lw_jsonout_array(&o, "rows");
    for (int i = 0; i < r->n; i++) {
        const struct row *x = &r->row[i];
        lw_jsonout_line_object(&o, NULL);
        lw_jsonout_string(&o, "op", lw_op_name(x->table->op));
        lw_jsonout_int(&o, "n_ranks", x->table->n_ranks);
        lw_jsonout_int(&o, "n_nodes", x->table->n_nodes);
        lw_jsonout_int(&o, "bytes", x->measured->bytes);
        lw_jsonout_ns(&o, "predicted_ns", x->predicted.time);
        lw_jsonout_ns(&o, "measured_ns", x->measured->time);
        lw_jsonout_fixed(&o, "error_pct", x->error_pct, 4);
        lw_jsonout_string(&o, "model", x->predicted.model);
        lw_jsonout_string(&o, "algorithm", x->predicted.algorithm);
        if (x->predicted.protocol)
            lw_jsonout_string(&o, "protocol", x->predicted.protocol);
        lw_jsonout_end(&o);
    }
    lw_jsonout_end(&o);
    lw_jsonout_fixed(&o, "mean_abs_error_pct", r->mean_abs_pct, 4);
    lw_jsonout_fixed(&o, "max_abs_error_pct", r->worst_pct, 4);
    lw_jsonout_fixed(&o, "bias_pct", r->bias_pct, 4);
    lw_jsonout_end(&o);
}

static enum lw_status put_table(const struct lw_cluster *c, const struct rows *r, bool csv,
                                struct lw_err *err)
{
    static const char *const text[] = {"op",        ">ranks", ">nodes", ">size",     ">predicted",
                                       ">measured", ">error", "model",  "algorithm", "protocol"};
    static const char *const machine[] = {"op",           "n_ranks",     "n_nodes",   "bytes",
                                          "predicted_ns", "measured_ns", "error_pct", "model",
                                          "algorithm",    "protocol"};
    struct lw_table *t = lw_table_new(10, csv ? machine : text);
    char buf[32];

    if (!t)
        return lw_fail_nomem(err);
    for (int i = 0; i < r->n; i++) {
        const struct row *x = &r->row[i];
        lw_table_cell(t, "%s", lw_op_name(x->table->op));
        lw_table_cell(t, "%d", x->table->n_ranks);
        lw_table_cell(t, "%d", x->table->n_nodes);
        if (csv) {
            lw_table_cell(t, "%lld", (long long)x->measured->bytes);
            lw_table_cell(t, "%lld", (long long)lw_ps_to_ns(x->predicted.time));
            lw_table_cell(t, "%lld", (long long)lw_ps_to_ns(x->measured->time));
            lw_table_cell(t, "%.4f", x->error_pct);
        } else {
            lw_table_cell(t, "%s", lw_format_bytes(buf, x->measured->bytes));
            lw_table_cell(t, "%s", lw_format_ps(buf, x->predicted.time));
            lw_table_cell(t, "%s", lw_format_ps(buf, x->measured->time));
            lw_table_cell(t, "%+.1f %%", x->error_pct);
        }
        lw_table_cell(t, "%s", x->predicted.model);
        lw_table_cell(t, "%s", x->predicted.algorithm);
        lw_table_cell(t, "%s", x->predicted.protocol ? x->predicted.protocol : "");
    }
    enum lw_status status =
        csv ? lw_table_print_csv(t, stdout, err) : lw_table_print(t, stdout, 0, err);
    lw_table_free(t);
    if (status == LW_OK && !csv)
        printf("%d row%s on '%s': mean error %.1f %%, worst %.1f %%, bias %+.1f %%\n", r->n,
               r->n == 1 ? "" : "s", c->name, r->mean_abs_pct, r->worst_pct, r->bias_pct);
    return status;
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
        bool smallest = x->measured == t->rows, largest = x->measured == &t->rows[t->n_rows - 1];
        if (!smallest && !largest)
            continue;
        double ratio = (double)x->measured->time / (double)x->predicted.time;
        if (largest && *t->gpu && !traces_same_device(c->device.kind, t->gpu))
            lw_printf_paragraph(stdout, "note: %s was measured on '%s', '%s' has '%s'",
                                lw_op_name(t->op), t->gpu, c->name, c->device.kind);
        if (sim_ratio_is_doubtful(ratio, !largest))
            lw_printf_paragraph(stdout,
                                "note: %s on %d ranks of %d nodes takes %.2g times the model at "
                                "%s: was it measured on this fabric?",
                                lw_op_name(t->op), t->n_ranks, t->n_nodes, ratio,
                                lw_format_bytes(buf, x->measured->bytes));
    }
}

static enum lw_status compare(const struct lw_cluster *c, const struct traces_bench *b,
                              enum lw_reducer_kind algorithm, enum lw_format format,
                              struct lw_err *err)
{
    struct rows r = {.n = 0};
    size_t n = 0;

    for (int32_t i = 0; i < b->n; i++)
        n += (size_t)b->tables[i].n_rows;
    r.row = lw_calloc(n + 1, sizeof *r.row);
    if (!r.row)
        return lw_fail_nomem(err);
    enum lw_status status = predict(c, b, algorithm, &r, err);
    if (status == LW_OK && format == LW_FORMAT_JSON)
        put_json(c, &r);
    else if (status == LW_OK)
        status = put_table(c, &r, format == LW_FORMAT_CSV, err);
    if (status == LW_OK && format == LW_FORMAT_TEXT)
        say_doubts(c, b, &r);
    lw_free(r.row);
    return status;
}

enum lw_status cmd_cost_measured(const struct lw_cluster *cluster, const char *file,
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
