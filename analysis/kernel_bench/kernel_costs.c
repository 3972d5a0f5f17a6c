/* Predicted beside measured kernels, per device: `lapwing cost --measured FILE`.
 *
 * The tables are those of AIConfigurator's measurements (one row per device, type and size; see
 * docs/design/device.md). Products and attention of 16 bits are judged by the median of frameworks
 * (latency_ms), smaller products by the fastest (min_ms): their frameworks differ by up to 30.
 * Every shape is predicted by figures that were fitted without it (lw_burst_without). A framework's
 * time of attention that is shorter than its products at the peak is left out of the median.
 * Collectives are of one node; on some of them the latencies and rates of one node were fitted that
 * the calibrated model takes (sim/nccl/nccl_tuning.c): they are predicted and listed, and not
 * counted. */
#include "analysis/kernel_bench/kernel_costs.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/numbers/median.h"
#include "shared/device/burst_experts.h"
#include "shared/device/burst_time.h"
#include "shared/device/device_kind.h"
#include "shared/files/files.h"
#include "shared/io/csv_rows.h"
#include "shared/numbers/checked.h"
#include "shared/text/wrap.h"
#include "sim/cost/cost_model.h"

enum { MOST_DEVICES = 16, MOST_GROUPS = 256, LARGEST = 1 << 24 };

/* Devices as the tables name them. */
static const struct {
    const char *device, *cluster;
} known[] = {
    {"a100_sxm", "dgx-a100"}, {"h100_sxm", "dgx-h100"}, {"h200_sxm", "dgx-h200"},
    {"b200_sxm", "dgx-b200"}, {"gb200", "gb200"},       {"b300_sxm", "dgx-b300"},
    {"gb300", "gb300"},       {"l40s", "l40s"},         {"rtx_pro_6000_server", "rtx-pro-6000"},
};

enum kind { PRODUCTS, ATTENTION, EXPERTS, COLLECTIVES, N_KINDS };

static const struct {
    const char *word, *titles;
} kinds[N_KINDS] = {
    {"gemm", "device dtype m n k latency_ms min_ms"},
    {"attention", "device causal dtype batch seq heads kv_heads head_dim latency_ms"},
    {"experts", "device dtype num_tokens hidden inter topk experts tp ep distribution latency_ms "
                "min_ms"},
    {"collective", "device op dtype nranks size_bytes time_us"},
};

struct row {
    const char *device, *dtype;
    char shape[64];
    lw_ps measured, predicted;
    double error_pct;
    bool fitted;
    const char *algorithm, *protocol; /* of a collective */
    int group;
};

struct group {
    const char *device, *cluster, *kind, *dtype;
    int32_t n_rows, n_fitted;
    double median_pct, p90_pct, bias_pct;
};

struct table {
    const struct lw_kernel_question *q;
    enum kind kind;
    struct lw_rows rows;
    int n_clusters;
    const char *device[MOST_DEVICES];
    struct lw_cluster cluster[MOST_DEVICES];
    int n, n_groups, n_skipped, n_no_device;
    struct row *row;
    struct group group[MOST_GROUPS];
};

#define AT(field) offsetof(struct row, field)
static const struct lw_column row_columns[] = {
    {"device", "device", LW_COLUMN_STRING, AT(device)},
    {"dtype", "type", LW_COLUMN_STRING, AT(dtype)},
    {"shape", "shape", LW_COLUMN_CHARS, AT(shape)},
    {"predicted_ns", ">predicted", LW_COLUMN_PS, AT(predicted)},
    {"measured_ns", ">measured", LW_COLUMN_PS, AT(measured)},
    {"error_pct", ">error", LW_COLUMN_CHANGE_PCT, AT(error_pct)},
    {"fitted", "fitted", LW_COLUMN_FLAG, AT(fitted)},
    {"algorithm", "algorithm", LW_COLUMN_TEXT, AT(algorithm)},
    {"protocol", "protocol", LW_COLUMN_TEXT, AT(protocol)},
};
#undef AT
#define AT(field) offsetof(struct group, field)
static const struct lw_column group_columns[] = {
    {"device", "device", LW_COLUMN_STRING, AT(device)},
    {"cluster", "cluster", LW_COLUMN_STRING, AT(cluster)},
    {"kind", "kind", LW_COLUMN_STRING, AT(kind)},
    {"dtype", "type", LW_COLUMN_STRING, AT(dtype)},
    {"n_rows", ">rows", LW_COLUMN_INT32, AT(n_rows)},
    {"n_fitted", ">fitted", LW_COLUMN_INT32, AT(n_fitted)},
    {"median_error_pct", ">median %", LW_COLUMN_REAL, AT(median_pct), .digits = 1},
    {"p90_error_pct", ">p90 %", LW_COLUMN_REAL, AT(p90_pct), .digits = 1},
    {"bias_pct", ">bias %", LW_COLUMN_REAL, AT(bias_pct), .digits = 1},
};
#undef AT

static int kind_of(const struct lw_input *in)
{
    for (int k = 0; k < N_KINDS; k++)
        if (lw_rows_have(in, kinds[k].titles) && !lw_rows_have(in, "nnodes"))
            return k;
    return -1;
}

/* "'op', 'size_bytes'": the columns of a kind that the titles lack; returns how many. */
static int missing_of(const struct lw_input *in, int kind, char *list, size_t size)
{
    const char *p = kinds[kind].titles;
    size_t used = 0;
    int n = 0;

    list[0] = '\0';
    while (*p) {
        char title[32];
        snprintf(title, sizeof title, "%.*s", (int)strcspn(p, " "), p);
        if (!lw_rows_have(in, title)) {
            used += (size_t)snprintf(list + used, used < size ? size - used : 0, "%s'%s'",
                                     n ? ", " : "", title);
            n++;
        }
        p += strcspn(p, " ");
        p += *p == ' ';
    }
    return n;
}

enum lw_status lw_kernel_table_known(const char *file, struct lw_err *err)
{
    char missing[200], least[200] = "";
    struct lw_input in;
    int nearest = 0, n_least = 100;

    LW_TRY(lw_input_read(file, 0, &in, err));
    bool of_devices = lw_rows_have(&in, "device") && kind_of(&in) < 0 &&
                      !lw_rows_have(&in, "nnodes");
    for (int k = 0; of_devices && k < N_KINDS; k++) {
        int n = missing_of(&in, k, missing, sizeof missing);
        if (n >= n_least)
            continue;
        n_least = n;
        nearest = k;
        snprintf(least, sizeof least, "%s", missing);
    }
    lw_input_free(&in);
    if (!of_devices)
        return LW_OK;
    if (n_least > 2)
        return lw_fail_at(err, LW_EFORMAT, file, 1,
                          "a table of devices of no known kind: found a 'device' column, expected "
                          "also those of products, attention, experts or collectives, which "
                          "`lapwing help cost` names");
    return lw_fail_at(err, LW_EFORMAT, file, 1, "nearly a table of %s (columns %s): it has no %s",
                      kinds[nearest].word, kinds[nearest].titles, least);
}

bool lw_kernel_table_is(const char *file)
{
    struct lw_input in;
    struct lw_err err;

    if (strcmp(file, "-") == 0 || lw_input_read(file, 0, &in, &err) != LW_OK)
        return false;
    bool is = kind_of(&in) >= 0;
    lw_input_free(&in);
    return is;
}

/* --where, whose form is checked: "device=gb200;dtype=bf16". */
static enum lw_status is_wanted(const struct table *t, int32_t i, bool *yes, struct lw_err *err)
{
    const char *p = t->q->where ? t->q->where : "";
    char title[64];

    *yes = true;
    while (*p) {
        size_t len = strcspn(p, ";"), name = strcspn(p, "=");
        snprintf(title, sizeof title, "%.*s", (int)(name < 63 ? name : 63), p);
        if (lw_rows_column(&t->rows, title) < 0)
            return lw_fail_at(err, LW_EINVAL, t->rows.file, 1, "--where: no column '%s'", title);
        const char *cell = lw_rows_cell(&t->rows, i, title);
        *yes = *yes && strlen(cell) == len - name - 1 &&
               strncmp(cell, p + name + 1, len - name - 1) == 0;
        p += len + (p[len] == ';');
    }
    return LW_OK;
}

/* The cluster of a row's device; NULL: none is known, or --cluster has another one. */
static enum lw_status cluster_of(struct table *t, const char *device,
                                 const struct lw_cluster **out, struct lw_err *err)
{
    const char *name = NULL;

    *out = NULL;
    for (int i = 0; i < t->n_clusters; i++)
        if (strcmp(t->device[i], device) == 0) {
            *out = &t->cluster[i];
            return LW_OK;
        }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].device, device) == 0)
            name = known[i].cluster;
    if (!name || t->n_clusters == MOST_DEVICES)
        return LW_OK;
    struct lw_cluster *c = &t->cluster[t->n_clusters];
    LW_TRY(lw_cluster_find(name, c, err));
    if (t->q->cluster) {
        struct lw_cluster given;
        enum lw_status status = lw_cluster_find(t->q->cluster, &given, err);
        if (status == LW_OK && !lw_device_same_kind(given.device.kind, c->device.kind)) {
            lw_cluster_free(&given);
            lw_cluster_free(c);
            return LW_OK;
        }
        lw_cluster_free(c);
        LW_TRY(status);
        *c = given;
    }
    t->device[t->n_clusters++] = device;
    *out = c;
    return LW_OK;
}

static enum lw_status number(const struct table *t, int32_t i, const char *title, int64_t *v,
                             struct lw_err *err)
{
    return lw_rows_int(&t->rows, i, title, 0, LARGEST, v, err);
}

static enum lw_status time_of(const struct table *t, int32_t i, const char *title, double seconds,
                              struct row *r, struct lw_err *err)
{
    double v;

    LW_TRY(lw_rows_real(&t->rows, i, title, 0, &v, err));
    r->measured = lw_ps_from_seconds(v * seconds);
    return LW_OK;
}

/* At the sustained clock; 0: the device has no figures for it. */
static lw_ps sustained(const struct lw_device *d, struct lw_product p, int o)
{
    p.fp8 = o != LW_OPERANDS_BF16;
    p.fp4 = o == LW_OPERANDS_NVFP4;
    bool can = o >= 0 && lw_device_by_shape(d, LW_BF16) &&
               (!p.fp8 || !lw_device_lacks_narrow(d, LW_BF16, p.fp4));
    return can ? lw_product_time(d, &p) : 0;
}

/* Those that were fitted without the shape. */
static const struct lw_burst *figures(const struct lw_cluster *c, const int64_t *sizes, int n)
{
    return lw_burst_without(c->device.kind, lw_burst_fold(sizes, n));
}

static enum lw_status product(const struct table *t, int32_t i, const struct lw_cluster *c,
                              struct row *r, struct lw_err *err)
{
    struct lw_product p = {.batch = 1, .dtype = LW_BF16, .out_size = 2};
    int o = lw_operands_parse(r->dtype);

    LW_TRY(number(t, i, "m", &p.m, err));
    LW_TRY(number(t, i, "n", &p.n, err));
    LW_TRY(number(t, i, "k", &p.k, err));
    LW_TRY(time_of(t, i, o == LW_OPERANDS_BF16 ? "latency_ms" : "min_ms", 1e-3, r, err));
    snprintf(r->shape, sizeof r->shape, "%" PRId64 " x %" PRId64 " x %" PRId64, p.m, p.n, p.k);
    const struct lw_burst *b = figures(c, (int64_t[]){p.m, p.n, p.k}, 3);
    if (t->q->sustained)
        r->predicted = sustained(&c->device, p, o);
    else if (o >= 0 && b)
        r->predicted = lw_burst_product(&c->device, b, &p, (enum lw_operands)o).time;
    return LW_OK;
}

/* The frameworks that measured a row. */
struct measured {
    unsigned servers;            /* bits of enum lw_server; 0: the table does not say, or none */
    int n_impossible;            /* of them that are left out */
    lw_ps median;                /* of the others */
};

/* A framework whose time is shorter than `least` did something else: kernels with a window are in
 * such a table (docs/design/device.md). */
static enum lw_status measured_by(const struct table *t, int32_t i, lw_ps least,
                                  struct measured *out, struct lw_err *err)
{
    static const char *const titles[LW_N_SERVERS] = {"trtllm_ms", "sglang_ms", "vllm_ms"};
    int64_t times[LW_N_SERVERS];
    int n = 0;

    *out = (struct measured){0};
    for (int k = 0; k < LW_N_SERVERS; k++) {
        const char *cell = lw_rows_cell(&t->rows, i, titles[k]);
        double ms;
        if (!cell || !*cell)
            continue;
        LW_TRY(lw_rows_real(&t->rows, i, titles[k], 0, &ms, err));
        times[n] = lw_ps_from_seconds(ms * 1e-3);
        if (times[n] < least) {
            out->n_impossible++;
            continue;
        }
        n++;
        out->servers |= 1u << k;
    }
    out->median = lw_median(times, n);
    return LW_OK;
}

/* The products of attention at the peak of its operands. */
static lw_ps at_the_peak(const struct lw_device *d, const struct lw_attention *a, bool fp8)
{
    double peak = lw_burst_peak(d, fp8 ? LW_OPERANDS_FP8 : LW_OPERANDS_BF16);
    double flops = (a->causal ? 2.0 : 4.0) * (double)a->batch * (double)a->heads *
                   (double)a->seq_q * (double)a->seq_k * (double)a->qk_width;

    return peak > 0 ? lw_ps_from_seconds(flops / peak) : 0;
}

static enum lw_status attention(const struct table *t, int32_t i, const struct lw_cluster *c,
                                struct row *r, struct lw_err *err)
{
    static const char *const titles[] = {"causal", "batch", "seq", "heads", "kv_heads",
                                         "head_dim"};
    int64_t v[6];

    for (int k = 0; k < 6; k++)
        LW_TRY(number(t, i, titles[k], &v[k], err));
    const struct lw_burst *b = figures(c, v, 6);
    LW_TRY(time_of(t, i, "latency_ms", 1e-3, r, err));
    const struct lw_attention a = {.causal = v[0] == 1, .batch = v[1], .seq_q = v[2],
                                   .seq_k = v[2], .heads = v[3], .kv_heads = v[4],
                                   .qk_width = v[5], .v_width = v[5], .dtype = LW_BF16};
    bool fp8 = strcmp(r->dtype, "fp8") == 0;
    struct measured m;
    snprintf(r->shape, sizeof r->shape, "%s%" PRId64 " x %" PRId64 ", %" PRId64 "/%" PRId64
             " heads of %" PRId64, a.causal ? "" : "full ", v[1], v[2], v[3], v[4], v[5]);
    LW_TRY(measured_by(t, i, at_the_peak(&c->device, &a, fp8), &m, err));
    if (m.n_impossible > 0)
        r->measured = m.median;
    if (t->q->sustained)
        r->predicted = lw_device_by_shape(&c->device, LW_BF16)
                           ? lw_attention_time(&c->device, &a) : 0;
    else if (b)
        r->predicted = lw_burst_attention_time(&c->device, b, &a, fp8, m.servers);
    return LW_OK;
}

/* One product of all experts, m rows each, at the sustained clock. */
static lw_ps grouped(const struct lw_cluster *c, struct lw_product p, int o)
{
    p.grouped = true;
    return sustained(&c->device, p, o);
}

/* A product to 2 inter / tp columns, the gate between, a product back, and tokens moved to their
 * experts and added up. */
static lw_ps sustained_experts(const struct lw_cluster *c, const struct lw_expert_layer *e, int o)
{
    struct lw_expert_share s = lw_expert_share_of(e);
    lw_ps a = grouped(c, s.to, o), z = grouped(c, s.back, o);
    int64_t gate = lw_mul_sat(6 * s.rows, s.inter);
    int64_t move = lw_mul_sat(2 * (s.rows + e->tokens), e->hidden); /* each of twice */

    if (a <= 0 || z <= 0)
        return 0;
    return lw_add_sat(lw_add_sat(a, z),
                      lw_add_sat(lw_traffic_time(&c->device, gate),
                                 lw_mul_sat(2, lw_traffic_time(&c->device, move))));
}

/* The gated experts of one rank with an even load. Other loads are not timed. */
static enum lw_status experts(const struct table *t, int32_t i, const struct lw_cluster *c,
                              struct row *r, struct lw_err *err)
{
    static const char *const titles[] = {"num_tokens", "hidden", "inter", "topk", "experts", "tp",
                                         "ep"};
    enum { TOKENS, HIDDEN, INTER, TOPK, N_EXPERTS, TP, EP, N };
    int o = lw_operands_parse(r->dtype);
    int64_t v[N];

    for (int k = 0; k < N; k++)
        LW_TRY(lw_rows_int(&t->rows, i, titles[k], 1, LARGEST, &v[k], err));
    LW_TRY(time_of(t, i, o == LW_OPERANDS_BF16 ? "latency_ms" : "min_ms", 1e-3, r, err));
    const struct lw_expert_layer e = {v[TOKENS],    v[HIDDEN], v[INTER], v[TOPK],
                                      v[N_EXPERTS], v[TP],     v[EP]};
    struct lw_expert_share s = lw_expert_share_of(&e);
    snprintf(r->shape, sizeof r->shape,
             "%" PRId64 " tokens, %" PRId64 " of %" PRId64 ", %" PRId64 " x %" PRId64, e.tokens,
             e.topk, (e.n_experts + e.ep - 1) / e.ep, e.hidden, s.inter);
    if (o < 0 || s.used < 1 || strcmp(lw_rows_cell(&t->rows, i, "distribution"), "balanced") != 0)
        return LW_OK;
    const struct lw_burst *b = figures(c, v, N);
    struct measured m;
    LW_TRY(measured_by(t, i, 0, &m, err));
    if (t->q->sustained)
        r->predicted = sustained_experts(c, &e, o);
    else if (b)
        r->predicted = lw_burst_experts_time(&c->device, b, &e, (enum lw_operands)o, m.servers);
    return LW_OK;
}

/* By operation, ranks and size, as the shapes of kernels. */
static bool is_fitted(enum lw_op_kind op, int64_t n_ranks, int64_t bytes)
{
    static const enum lw_op_kind ops[] = {LW_OP_ALL_GATHER, LW_OP_ALL_REDUCE, LW_OP_REDUCE_SCATTER,
                                          LW_OP_ALL_TO_ALL};

    for (int k = 0; k < 4; k++)
        if (ops[k] == op)
            return lw_burst_fold((int64_t[]){k + 1, n_ranks, bytes}, 3) % 2 == 0;
    return false;
}

static enum lw_status collective(const struct table *t, int32_t i, const struct lw_cluster *c,
                                 struct row *r, struct lw_err *err)
{
    struct lw_cluster bare = *c;
    struct lw_cost_query q = {.dtype = LW_F16, .n_nodes = 1, .alone = true,
                              .algorithm = t->q->algorithm};
    struct lw_cost_answer answer = {.time = 0};
    const char *op = lw_rows_cell(&t->rows, i, "op");
    int64_t n;
    int k = 0;

    while (k < LW_N_OP_KINDS && strcmp(lw_op_name((enum lw_op_kind)k), op) != 0)
        k++;
    LW_TRY(lw_rows_int(&t->rows, i, "nranks", 1, LARGEST, &n, err));
    LW_TRY(lw_rows_int(&t->rows, i, "size_bytes", 1, INT64_MAX, &q.bytes, err));
    LW_TRY(time_of(t, i, "time_us", 1e-6, r, err));
    snprintf(r->shape, sizeof r->shape, "%s, %" PRId64 " ranks, %" PRId64, op, n, q.bytes);
    if (k == LW_N_OP_KINDS)
        return LW_OK;
    if (strcmp(r->dtype, "int8") == 0)
        q.dtype = LW_U8;
    q.op = (enum lw_op_kind)k;
    q.n_ranks = (int32_t)n;
    bare.n_tables = 0;
    if (n > c->devices_per_node)
        return LW_OK;
    LW_TRY(lw_sim_cost_explain(&bare, &q, &answer, err));
    if (strcmp(answer.model, "nccl+cal") == 0)
        r->fitted = is_fitted(q.op, n, q.bytes);
    r->predicted = answer.time;
    r->algorithm = answer.algorithm;
    r->protocol = answer.protocol;
    return LW_OK;
}

static int group_of(struct table *t, const struct lw_cluster *c, const struct row *r,
                    const char *kind)
{
    for (int g = 0; g < t->n_groups; g++)
        if (strcmp(t->group[g].device, r->device) == 0 && strcmp(t->group[g].kind, kind) == 0 &&
            strcmp(t->group[g].dtype, r->dtype) == 0)
            return g;
    if (t->n_groups == MOST_GROUPS)
        return -1;
    t->group[t->n_groups] = (struct group){.device = r->device, .cluster = c->name, .kind = kind,
                                           .dtype = r->dtype};
    return t->n_groups++;
}

static enum lw_status predict(struct table *t, struct lw_err *err)
{
    for (int32_t i = 0; i < t->rows.n_rows; i++) {
        struct row *r = &t->row[t->n];
        const struct lw_cluster *c;
        bool wanted;
        LW_TRY(is_wanted(t, i, &wanted, err));
        if (!wanted)
            continue;
        *r = (struct row){.device = lw_rows_cell(&t->rows, i, "device"),
                          .dtype = lw_rows_cell(&t->rows, i, "dtype")};
        LW_TRY(cluster_of(t, r->device, &c, err));
        if (!c) {
            t->n_no_device++;
            continue;
        }
        LW_TRY(t->kind == PRODUCTS    ? product(t, i, c, r, err)
               : t->kind == ATTENTION ? attention(t, i, c, r, err)
               : t->kind == EXPERTS   ? experts(t, i, c, r, err)
                                      : collective(t, i, c, r, err));
        bool timed = r->measured > 0 && r->predicted > 0;
        r->group = timed ? group_of(t, c, r, kinds[t->kind].word) : -1;
        if (r->group < 0) {
            t->n_skipped++;
            continue;
        }
        r->error_pct = 100 * ((double)r->predicted / (double)r->measured - 1);
        t->n++;
    }
    return LW_OK;
}

/* Of the rows that were not fitted. */
static enum lw_status judge(struct table *t, struct lw_err *err)
{
    double *error = lw_calloc((size_t)t->n + 1, 2 * sizeof *error), *size = error + t->n;

    if (!error)
        return lw_fail_nomem(err);
    for (int g = 0; g < t->n_groups; g++) {
        struct group *x = &t->group[g];
        int32_t n = 0;
        for (int i = 0; i < t->n; i++) {
            if (t->row[i].group != g)
                continue;
            x->n_fitted += t->row[i].fitted;
            x->n_rows++;
            if (t->row[i].fitted)
                continue;
            error[n] = t->row[i].error_pct;
            size[n++] = fabs(t->row[i].error_pct);
        }
        lw_sort(error, n, lw_compare_double);
        lw_sort(size, n, lw_compare_double);
        x->median_pct = n ? size[n / 2] : 0;
        x->p90_pct = n ? size[n * 9 / 10] : 0;
        x->bias_pct = n ? error[n / 2] : 0;
    }
    lw_free(error);
    return LW_OK;
}

static enum lw_status put(const struct table *t, struct lw_err *err)
{
    const struct lw_records rows = LW_RECORDS("rows", row_columns, t->row, t->n);
    const struct lw_records groups = LW_RECORDS("devices", group_columns, t->group, t->n_groups);
    struct lw_jsonout o = {.file = stdout};

    if (t->q->format == LW_FORMAT_CSV)
        return lw_records_csv(&rows, stdout, err);
    if (t->q->format == LW_FORMAT_TEXT) {
        LW_TRY(lw_records_text(&groups, stdout, 0, err));
        lw_printf_paragraph(stdout, "error of the time %s; --format csv lists the rows",
                            t->kind == COLLECTIVES ? "that the library's model gives, over the "
                                                     "rows that no figure was fitted on"
                            : t->q->sustained      ? "at the sustained clock"
                                                   : "in a burst, each shape by figures that were "
                                                     "fitted without it");
        if (t->n_skipped || t->n_no_device)
            lw_printf_paragraph(stdout, "note: left out: %d row%s of devices that have no known "
                                        "cluster or are not the cluster's, %d that the model does "
                                        "not time", t->n_no_device, lw_plural(t->n_no_device),
                                t->n_skipped);
        return LW_OK;
    }
    lw_jsonout_object(&o, NULL);
    lw_records_json(&o, &groups);
    lw_records_json(&o, &rows);
    LW_JSON(&o, "n_left_out", t->n_skipped + t->n_no_device);
    lw_jsonout_end(&o);
    return LW_OK;
}

/* Options that the kind of table does not take. */
static enum lw_status check(const struct table *t, struct lw_err *err)
{
    const struct lw_kernel_question *q = t->q;

    if (t->kind != COLLECTIVES && q->algorithm != LW_REDUCER_AUTO)
        return lw_fail(err, LW_EINVAL, "--measured %s is of kernels (%s), which have no collective "
                                       "algorithm: leave out --algorithm", q->file,
                       kinds[t->kind].word);
    if (t->kind == COLLECTIVES && q->clock)
        return lw_fail(err, LW_EINVAL, "--measured %s is of collectives, whose time depends on no "
                                       "clock of products: leave out --%s", q->file,
                       q->sustained ? "sustained" : "burst");
    return LW_OK;
}

static enum lw_status compare(struct table *t, struct lw_err *err)
{
    LW_TRY(check(t, err));
    t->row = lw_calloc((size_t)t->rows.n_rows + 1, sizeof *t->row);
    if (!t->row)
        return lw_fail_nomem(err);
    LW_TRY(predict(t, err));
    if (t->n == 0)
        return lw_fail(err, LW_EINVAL,
                       "--measured %s: no row can be timed (%d of devices that have no known "
                       "cluster, %d that the model does not time); choose others with --where or "
                       "--cluster", t->q->file, t->n_no_device, t->n_skipped);
    LW_TRY(judge(t, err));
    return put(t, err);
}

enum lw_status lw_kernel_costs_print(const struct lw_kernel_question *q, struct lw_err *err)
{
    struct table *t = lw_calloc(1, sizeof *t);
    struct lw_input in;

    if (!t)
        return lw_fail_nomem(err);
    t->q = q;
    enum lw_status status = lw_input_read(q->file, 0, &in, err);
    if (status != LW_OK) {
        lw_free(t);
        return status;
    }
    t->kind = (enum kind)kind_of(&in);
    status = lw_rows_read(&in, &t->rows, err);
    if (status == LW_OK)
        status = compare(t, err);
    for (int i = 0; i < t->n_clusters; i++)
        lw_cluster_free(&t->cluster[i]);
    lw_free(t->row);
    lw_rows_free(&t->rows);
    lw_free(t);
    lw_input_free(&in);
    return status;
}
