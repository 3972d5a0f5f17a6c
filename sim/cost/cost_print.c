/* What communication costs, as text, JSON or CSV: one row per size, each with the model or table
 * that gives it and where its figures come from. */
#include "sim/cost/cost_print.h"

#include <string.h>

#include "shared/json/jsonout.h"
#include "shared/text/table.h"
#include "sim/cost/cost_scaled.h"
#include "sim/cost/hfreduce.h"
#include "sim/cost/nccl_constants.h"

/* Where hfreduce is asked for: the rate at which each of its resources would let it run. */
static bool ceilings_of(const struct lw_cluster *c, const struct sim_cost_answers *a,
                        struct sim_hfreduce *h)
{
    const struct lw_cost_query *q = &a->query[0];

    return strcmp(a->answer[0].algorithm, "hfreduce") == 0 && q->n_ranks % q->n_nodes == 0 &&
           sim_hfreduce_of(c, q->n_ranks / q->n_nodes, q->n_nodes, h, NULL) == LW_OK;
}

static void print_ceilings(const struct lw_cluster *c, const struct sim_cost_answers *a, FILE *f)
{
    struct sim_hfreduce h;

    if (!ceilings_of(c, a, &h))
        return;
    fprintf(f, "hfreduce reduces at the least of");
    for (int k = 0; k < SIM_N_CEILINGS; k++)
        if (h.bytes_per_s[k] > 0)
            fprintf(f, "%s %s %.3f GB/s", k ? "," : "", sim_ceiling_name((enum sim_ceiling)k),
                   h.bytes_per_s[k] / 1e9);
    fprintf(f, " (%d touches of host memory per byte), and what filling its pipeline costs\n",
            h.touches);
}

static void put_ceilings(struct lw_jsonout *o, const struct lw_cluster *c,
                         const struct sim_cost_answers *a)
{
    static const char *const keys[] = {"memory", "pcie", "bridge", "nic"};
    struct sim_hfreduce h;

    if (!ceilings_of(c, a, &h))
        return;
    lw_jsonout_object(o, "ceilings_bytes_per_s");
    for (int k = 0; k < SIM_N_CEILINGS; k++)
        if (h.bytes_per_s[k] > 0)
            lw_jsonout_fixed(o, keys[k], h.bytes_per_s[k], 0);
    lw_jsonout_fixed(o, "least", h.bytes_per_s[h.least], 0);
    lw_jsonout_end(o);
}

/* A table that is far from what the links carry may be of another fabric. */
static void print_doubt(const struct lw_cluster *c, const struct sim_cost_answers *a, FILE *f)
{
    int64_t bytes;
    double ratio = sim_table_over_model(c, &a->query[0], &bytes);
    char buf[32];

    if (ratio > 0 && (ratio > 2 || ratio < .5))
        fprintf(f,
                "note: at %s the table takes %.2g times NCCL's model on the links of '%s': was it "
                "measured on this fabric?\n",
                lw_format_bytes(buf, bytes), ratio, c->name);
}

static void print_remarks(const struct lw_cluster *c, const struct sim_cost_answers *a, FILE *f)
{
    const struct lw_cost_query *q = &a->query[0];
    const char *newest = sim_nccl_newest(c->library_version);

    for (int i = 0; i < a->n; i++)
        if (a->answer[i].instead) {
            fprintf(f, "note: NCCL has no %s for %s: its own choice is shown\n",
                    lw_reducer_name(q->algorithm), lw_op_name(q->op));
            break;
        }
    if (newest && strstr(a->answer[0].model, "nccl"))
        fprintf(f, "note: NCCL %s is newer than the newest constants known: those of %s count\n",
                c->library_version, newest);
    print_doubt(c, a, f);
}

/* Each model's source once: they are long, and mostly the same for all sizes. */
static void print_sources(const struct sim_cost_answers *a, FILE *f)
{
    for (int i = 0; i < a->n; i++) {
        int k = 0;
        while (strcmp(a->answer[k].source, a->answer[i].source) != 0)
            k++;
        if (k == i && *a->answer[i].source)
            fprintf(f, "%s: %s\n", a->answer[i].model, a->answer[i].source);
    }
}

/* Columns of NCCL's model, where any answer is its. */
static bool has_protocols(const struct sim_cost_answers *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->answer[i].protocol)
            return true;
    return false;
}

static void put_protocol_cells(struct lw_table *t, const struct lw_cost_answer *x, bool csv)
{
    char buf[32];

    if (!x->protocol) {
        for (int k = 0; k < 4; k++)
            lw_table_cell(t, "%s", "");
        return;
    }
    lw_table_cell(t, "%s", x->protocol);
    lw_table_cell(t, "%d", x->n_channels);
    if (csv) {
        lw_table_cell(t, "%lld", (long long)lw_ps_to_ns(x->latency));
        lw_table_cell(t, "%.0f", x->bytes_per_s);
    } else {
        lw_table_cell(t, "%s", lw_format_ps(buf, x->latency));
        lw_table_cell(t, "%.3f", x->bytes_per_s / 1e9);
    }
}

static enum lw_status print_table(const struct sim_cost_answers *a, bool csv, FILE *f,
                                  struct lw_err *err)
{
    static const char *const text[] = {">size", ">time", ">algbw GB/s", ">busbw GB/s", "model",
                                       "how", "algorithm", "protocol", ">channels", ">latency",
                                       ">bandwidth GB/s"};
    static const char *const machine[] = {"bytes", "time_ns", "algbw_bytes_per_s",
                                          "busbw_bytes_per_s", "model", "how", "algorithm",
                                          "source", "protocol", "n_channels", "latency_ns",
                                          "bytes_per_s"};
    bool protocols = has_protocols(a);
    struct lw_table *t = lw_table_new((csv ? 8 : 7) + (protocols ? 4 : 0), csv ? machine : text);
    char buf[32];

    if (!t)
        return lw_fail_nomem(err);
    for (int i = 0; i < a->n; i++) {
        const struct lw_cost_query *q = &a->query[i];
        const struct lw_cost_answer *x = &a->answer[i];
        double algbw = lw_sim_algbw(q, x->time), busbw = lw_sim_busbw(q, x->time);
        if (csv) {
            lw_table_cell(t, "%lld", (long long)q->bytes);
            lw_table_cell(t, "%lld", (long long)lw_ps_to_ns(x->time));
            lw_table_cell(t, "%.0f", algbw);
            lw_table_cell(t, "%.0f", busbw);
        } else {
            lw_table_cell(t, "%s", lw_format_bytes(buf, q->bytes));
            lw_table_cell(t, "%s", lw_format_ps(buf, x->time));
            lw_table_cell(t, "%.3f", algbw / 1e9);
            lw_table_cell(t, "%.3f", busbw / 1e9);
        }
        lw_table_cell(t, "%s", x->model);
        if (!csv && x->n_steps > 0)
            lw_table_cell(t, "%s, %lld steps of %d pieces", x->detail, (long long)x->n_steps,
                          x->n_pieces);
        else
            lw_table_cell(t, "%s", x->detail);
        lw_table_cell(t, "%s", x->algorithm);
        if (csv)
            lw_table_cell(t, "%s", x->source);
        if (protocols)
            put_protocol_cells(t, x, csv);
    }
    enum lw_status status = csv ? lw_table_print_csv(t, f, err)
                                : lw_table_print(t, f, 0, err);
    lw_table_free(t);
    if (status == LW_OK && !csv)
        print_sources(a, f);
    return status;
}

static void print_json(const struct lw_cluster *c, const struct sim_cost_answers *a, FILE *f)
{
    struct lw_jsonout o = {.file = f};

    lw_jsonout_object(&o, NULL);
    lw_jsonout_string(&o, "cluster", c->name);
    lw_jsonout_string(&o, "op", lw_op_name(a->query[0].op));
    lw_jsonout_string(&o, "dtype", lw_dtype_name(a->query[0].dtype));
    lw_jsonout_int(&o, "n_ranks", a->query[0].n_ranks);
    lw_jsonout_int(&o, "n_nodes", a->query[0].n_nodes);
    put_ceilings(&o, c, a);
    lw_jsonout_array(&o, "rows");
    for (int i = 0; i < a->n; i++) {
        const struct lw_cost_answer *x = &a->answer[i];
        lw_jsonout_line_object(&o, NULL);
        lw_jsonout_int(&o, "bytes", a->query[i].bytes);
        lw_jsonout_ns(&o, "time_ns", x->time);
        lw_jsonout_fixed(&o, "algbw_bytes_per_s", lw_sim_algbw(&a->query[i], x->time), 0);
        lw_jsonout_fixed(&o, "busbw_bytes_per_s", lw_sim_busbw(&a->query[i], x->time), 0);
        lw_jsonout_string(&o, "model", x->model);
        lw_jsonout_string(&o, "source", x->source);
        lw_jsonout_string(&o, "how", x->detail);
        lw_jsonout_string(&o, "algorithm", x->algorithm);
        if (x->n_steps > 0) {
            lw_jsonout_int(&o, "n_steps", x->n_steps);
            lw_jsonout_int(&o, "n_pieces", x->n_pieces);
        }
        if (x->protocol) {
            lw_jsonout_string(&o, "protocol", x->protocol);
            lw_jsonout_int(&o, "n_channels", x->n_channels);
            lw_jsonout_ns(&o, "latency_ns", x->latency);
            lw_jsonout_fixed(&o, "bytes_per_s", x->bytes_per_s, 0);
            lw_jsonout_bool(&o, "instead", x->instead);
        }
        lw_jsonout_end(&o);
    }
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
}

enum lw_status sim_cost_print(const struct lw_cluster *c, const struct sim_cost_answers *a,
                              enum lw_format format, FILE *f, struct lw_err *err)
{
    const struct lw_cost_query *q = &a->query[0];

    if (format == LW_FORMAT_JSON) {
        print_json(c, a, f);
        return LW_OK;
    }
    if (format == LW_FORMAT_CSV)
        return print_table(a, true, f, err);
    fprintf(f, "%s of %s on %d ranks, %d node%s of '%s'\n", lw_op_name(q->op),
            lw_dtype_name(q->dtype), q->n_ranks, q->n_nodes, q->n_nodes == 1 ? "" : "s", c->name);
    LW_TRY(print_table(a, false, f, err));
    print_ceilings(c, a, f);
    print_remarks(c, a, f);
    return LW_OK;
}
