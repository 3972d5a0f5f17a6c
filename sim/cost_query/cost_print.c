/* What communication costs, as text, JSON or CSV: one row per size, each with the model or table
 * that gives it and where its figures come from. */
#include "sim/cost_query/cost_print.h"

#include <string.h>

#include "shared/text/wrap.h"
#include "sim/cost/cost_library.h"
#include "sim/cost/cost_nccl.h"
#include "sim/cost/cost_scaled.h"
#include "sim/cost/hfreduce.h"
#include "sim/nccl/nccl_constants.h"

/* Where hfreduce is requested: the rate at which each of its resources would let it run. */
static bool ceilings_of(const struct lw_cluster *c, const struct sim_cost_answers *a,
                        struct sim_hfreduce *h)
{
    const struct lw_cost_query *q = &a->query[0];

    return strcmp(a->answer[0].algorithm, "hfreduce") == 0 && q->n_ranks % q->n_nodes == 0 &&
           sim_hfreduce_of(c, q->n_ranks / q->n_nodes, q->n_nodes, h, NULL) == LW_OK;
}

static enum lw_status print_ceilings(const struct lw_cluster *c, const struct sim_cost_answers *a,
                                     FILE *f, struct lw_err *err)
{
    struct lw_paragraph line;
    struct sim_hfreduce h;

    if (!ceilings_of(c, a, &h))
        return LW_OK;
    f = lw_paragraph_open(&line, f, NULL);
    fprintf(f, "hfreduce reduces at the least of");
    for (int k = 0; k < SIM_N_CEILINGS; k++)
        if (h.bytes_per_s[k] > 0)
            fprintf(f, "%s %s %.3f GB/s", k ? "," : "", sim_ceiling_name((enum sim_ceiling)k),
                   h.bytes_per_s[k] / 1e9);
    fprintf(f, " (%d touches of host memory per byte), and what filling its pipeline costs",
            h.touches);
    return lw_paragraph_close(&line, err);
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
            LW_JSON(o, keys[k], lw_decimals(h.bytes_per_s[k], 0));
    LW_JSON(o, "least", lw_decimals(h.bytes_per_s[h.least], 0));
    lw_jsonout_end(o);
}

enum { MOST_REMARKS = 8, REMARK = 280 };

static int32_t fewest_nodes(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    return (q->n_ranks + c->devices_per_node - 1) / c->devices_per_node;
}

/* Where not all nodes are full: ": 8, 8, 1 ranks", or of more than four nodes ": 16 nodes of 8
 * ranks, 1 of 1"; else "". */
static const char *layout_of(const struct lw_cluster *c, const struct lw_cost_query *q, char *buf,
                             size_t size)
{
    int32_t least = sim_fewest_on_a_node(c, q), nodes = q->n_nodes;
    bool filled = (int64_t)(nodes - 1) * c->devices_per_node + least == q->n_ranks;
    int32_t most = filled ? c->devices_per_node : least + 1;
    int32_t n_most = filled ? nodes - 1 : q->n_ranks % nodes;
    size_t at = 0;

    buf[0] = '\0';
    if (nodes == 1 || (int64_t)nodes * c->devices_per_node == q->n_ranks)
        return buf;
    if (nodes > 4 && n_most == 0)
        snprintf(buf, size, ": %d rank%s each", least, lw_plural(least));
    else if (nodes > 4)
        snprintf(buf, size, ": %d node%s of %d ranks, %d of %d", n_most, lw_plural(n_most), most,
                 nodes - n_most, least);
    for (int32_t i = 0; nodes <= 4 && i < nodes; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%d%s", i ? ", " : ": ",
                               i < n_most ? most : least, i < nodes - 1 ? "" : " ranks");
    return buf;
}

/* As many nodes are requested as the ranks have hosts, where several hosts are one node. */
static bool hosts_share_a_node(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    struct lw_figure host = c->nccl.devices_per_host;

    return lw_figure_is_set(host) && q->n_nodes > fewest_nodes(c, q) &&
           (double)q->n_nodes * host.value == q->n_ranks;
}

/* What is to be said beside the figures. */
static int remarks_of(const struct lw_cluster *c, const struct sim_cost_answers *a,
                      char remarks[MOST_REMARKS][REMARK])
{
    const struct lw_cost_query *q = &a->query[0];
    int n = 0, instead = 0;
    int64_t bytes;
    double ratio;
    char buf[32];

    while (instead < a->n && !a->answer[instead].instead)
        instead++;
    if (q->op == LW_OP_BARRIER)
        snprintf(remarks[n++], REMARK,
                 "a barrier carries no bytes: its time is the same at every size, and it has no "
                 "bandwidth");
    if (instead < a->n)
        snprintf(remarks[n++], REMARK, "NCCL has no %s for %s: its own choice is shown",
                 lw_reducer_name(q->algorithm), lw_op_name(q->op));
    if (strstr(a->answer[0].model, "nccl") &&
        sim_nccl_say_newer(c->library_version, remarks[n], REMARK))
        n++;
    if (sim_say_other_shape(c, q, &a->answer[0], remarks[n], REMARK))
        n++;
    if (sim_say_not_modelled(c, q, &a->answer[0], remarks[n], REMARK))
        n++;
    if (hosts_share_a_node(c, q))
        snprintf(remarks[n++], REMARK,
                 "a node of '%s' is an NVLink domain of %d devices: these are %d domains; --nodes "
                 "%d takes as few as hold the ranks",
                 c->name, c->devices_per_node, q->n_nodes, fewest_nodes(c, q));
    /* A table that is far from what the links carry may be of another fabric. */
    if (sim_table_is_doubtful(c, q, &ratio, &bytes))
        snprintf(remarks[n++], REMARK,
                 "at %s the table takes %.2g times NCCL's model on the links of '%s': was it "
                 "measured on this fabric?",
                 lw_format_bytes(buf, bytes), ratio, c->name);
    return n;
}

/* A table's source, or an assumption's, does not say which constants the model has. */
static bool has_other_source(const struct lw_cost_answer *a)
{
    return strncmp(a->model, "table+", 6) == 0 && a->constants;
}

/* Each model's source once: they are long, and mostly the same for all sizes. */
static void print_sources(const struct sim_cost_answers *a, FILE *f)
{
    for (int i = 0; i < a->n; i++) {
        int k = 0;
        while (strcmp(a->answer[k].source, a->answer[i].source) != 0)
            k++;
        if (k == i && *a->answer[i].source)
            lw_printf_paragraph(f, "%s: %s%s%s", a->answer[i].model, a->answer[i].source,
                                has_other_source(&a->answer[i]) ? ", scaled by NCCL's model, " : "",
                                has_other_source(&a->answer[i]) ? a->answer[i].constants : "");
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

/* One size and its answer. */
struct row {
    struct lw_cost_answer x;
    int64_t bytes;
    double algbw, busbw, algbw_gb, busbw_gb, gb_per_s;
    char how[96]; /* the detail and the steps */
    struct sim_nccl_fabrics fabrics; /* n 0: none */
    char range[48];
};

#define AT(field) offsetof(struct row, field)
static const struct lw_column columns[] = {
    {"bytes", ">size", LW_COLUMN_BYTES, AT(bytes)},
    {"time_ns", ">time", LW_COLUMN_PS, AT(x.time)},
    {"algbw_bytes_per_s", NULL, LW_COLUMN_REAL, AT(algbw), .lacking = ""},
    {"busbw_bytes_per_s", NULL, LW_COLUMN_REAL, AT(busbw), .lacking = ""},
    {NULL, ">algbw GB/s", LW_COLUMN_REAL, AT(algbw_gb), .digits = 3, .lacking = ""},
    {NULL, ">busbw GB/s", LW_COLUMN_REAL, AT(busbw_gb), .digits = 3, .lacking = ""},
    {"model", "model", LW_COLUMN_STRING, AT(x.model)},
    {"how", NULL, LW_COLUMN_STRING, AT(x.detail)},
    {NULL, "how", LW_COLUMN_CHARS, AT(how)},
    {"algorithm", "algo", LW_COLUMN_STRING, AT(x.algorithm)},
    {"source", NULL, LW_COLUMN_STRING, AT(x.source)},
    /* of NCCL's model */
    {"protocol", "proto", LW_COLUMN_TEXT, AT(x.protocol)},
    {"constants", NULL, LW_COLUMN_TEXT, AT(x.constants)},
    {"n_channels", ">channels", LW_COLUMN_INT32, AT(x.n_channels), .lacking = ""},
    {"latency_ns", ">latency", LW_COLUMN_PS, AT(x.latency), .lacking = ""},
    {"bytes_per_s", NULL, LW_COLUMN_REAL, AT(x.bytes_per_s), .lacking = ""},
    {NULL, ">rate GB/s", LW_COLUMN_REAL, AT(gb_per_s), .digits = 3, .lacking = ""},
    {"p10_ns", NULL, LW_COLUMN_PS, AT(fabrics.p10), .lacking = ""},
    {"p90_ns", NULL, LW_COLUMN_PS, AT(fabrics.p90), .lacking = ""},
    {"n_fabrics", NULL, LW_COLUMN_INT32, AT(fabrics.n)},
    {NULL, ">p10-p90", LW_COLUMN_CHARS, AT(range)},
};
#undef AT
enum {
    N_COLUMNS = sizeof columns / sizeof *columns,
    N_OF_NCCL = 10,
    N_BASE = N_COLUMNS - N_OF_NCCL
};

static void add_fabrics(const struct lw_cluster *c, const struct lw_cost_query *q, struct row *r)
{
    char p10[32], p90[32];

    if (!sim_nccl_fabrics_of(c, q, &r->x, &r->fabrics)) {
        r->fabrics = (struct sim_nccl_fabrics){.p10 = -1, .p90 = -1};
        return;
    }
    snprintf(r->range, sizeof r->range, "%s-%s", lw_format_ps(p10, r->fabrics.p10),
             lw_format_ps(p90, r->fabrics.p90));
}

static void make_rows(const struct lw_cluster *c, const struct sim_cost_answers *a,
                      struct row *rows)
{
    for (int i = 0; i < a->n; i++) {
        struct row r = {.x = a->answer[i], .bytes = a->query[i].bytes};
        r.algbw = lw_sim_algbw(&a->query[i], r.x.time);
        r.busbw = lw_sim_busbw(&a->query[i], r.x.time);
        if (a->query[i].op == LW_OP_BARRIER)
            r.algbw = r.busbw = r.x.bytes_per_s = -1;
        r.algbw_gb = r.algbw * 1e-9;
        r.busbw_gb = r.busbw * 1e-9;
        r.gb_per_s = r.x.bytes_per_s * 1e-9;
        if (!r.x.protocol) {
            r.x.n_channels = -1;
            r.x.latency = -1;
            r.x.bytes_per_s = r.gb_per_s = -1;
        }
        if (r.x.n_steps > 0)
            snprintf(r.how, sizeof r.how, "%s, %lld steps of %d pieces", r.x.detail,
                     (long long)r.x.n_steps, r.x.n_pieces);
        else
            snprintf(r.how, sizeof r.how, "%s", r.x.detail);
        add_fabrics(c, &a->query[i], &r);
        rows[i] = r;
    }
}

static void print_json(const struct lw_cluster *c, const struct sim_cost_answers *a,
                       const struct row *rows, FILE *f)
{
    struct lw_jsonout o = {.file = f};
    char remarks[MOST_REMARKS][REMARK];
    int n = remarks_of(c, a, remarks);

    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "cluster", c->name, "op", lw_op_name(a->query[0].op),
            "dtype", lw_dtype_name(a->query[0].dtype), "n_ranks", a->query[0].n_ranks,
            "n_nodes", a->query[0].n_nodes);
    put_ceilings(&o, c, a);
    lw_jsonout_array(&o, "remarks");
    for (int i = 0; i < n; i++)
        lw_jsonout_string(&o, NULL, remarks[i]);
    lw_jsonout_end(&o);
    lw_jsonout_array(&o, "rows");
    for (int i = 0; i < a->n; i++) {
        const struct lw_cost_answer *x = &a->answer[i];
        lw_jsonout_line_object(&o, NULL);
        lw_record_json(&o, columns, N_BASE, &rows[i]);
        if (x->n_steps > 0) {
            LW_JSON(&o, "n_steps", x->n_steps, "n_pieces", x->n_pieces);
        }
        if (x->protocol) {
            lw_record_json(&o, columns + N_BASE, N_OF_NCCL, &rows[i]);
            lw_jsonout_bool(&o, "instead", x->instead);
        }
        lw_jsonout_end(&o);
    }
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
}

/* Of how many fabrics p10 and p90 are. */
static void print_fabrics(const struct row *rows, int n, FILE *f)
{
    int least = 0, most = 0;
    const char *kind = NULL;

    for (int i = 0; i < n; i++) {
        const struct sim_nccl_fabrics *x = &rows[i].fabrics;
        least = x->n > 0 && (!kind || x->n < least) ? x->n : least;
        most = x->n > most ? x->n : most;
        kind = x->n > 0 ? x->kind : kind;
    }
    if (!kind)
        return;
    if (least < most)
        lw_printf_paragraph(f, "p10-p90: of %d to %d measured fabrics of %s, around the calibrated "
                               "time (nccl+cal)", least, most, kind);
    else
        lw_printf_paragraph(f, "p10-p90: of %d measured fabric%s of %s, around the calibrated time "
                               "(nccl+cal)", most, lw_plural(most), kind);
}

enum lw_status sim_cost_print(const struct lw_cluster *c, const struct sim_cost_answers *a,
                              enum lw_format format, FILE *f, struct lw_err *err)
{
    const struct lw_cost_query *q = &a->query[0];
    struct row rows[SIM_COST_MAX_ROWS];
    char remarks[MOST_REMARKS][REMARK], layout[80];
    const struct lw_records r = {"rows", columns, has_protocols(a) ? N_COLUMNS : N_BASE,
                                 rows,   a->n,    sizeof *rows};

    make_rows(c, a, rows);
    if (format == LW_FORMAT_CSV)
        return lw_records_csv(&r, f, err);
    if (format == LW_FORMAT_JSON) {
        print_json(c, a, rows, f);
        return LW_OK;
    }
    fprintf(f, "%s of %s on %d rank%s, %s%d node%s of '%s'%s\n", lw_op_name(q->op),
            lw_dtype_name(q->dtype), q->n_ranks, lw_plural(q->n_ranks),
            a->all_devices ? "all devices of " : "", q->n_nodes, lw_plural(q->n_nodes), c->name,
            layout_of(c, q, layout, sizeof layout));
    LW_TRY(lw_records_text(&r, f, 0, err));
    print_fabrics(rows, a->n, f);
    print_sources(a, f);
    LW_TRY(print_ceilings(c, a, f, err));
    for (int i = 0, n = remarks_of(c, a, remarks); i < n; i++)
        lw_printf_paragraph(f, "note: %s", remarks[i]);
    return LW_OK;
}
