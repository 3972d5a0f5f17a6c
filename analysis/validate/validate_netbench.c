/* Published nccl-tests tables (CSV: op, algo, nranks, nnodes, gpu, intra, inter, size_bytes,
 * time_us, ...) against NCCL's cost model on the machine that the words describe.
 *
 * Two families share the cases: netbench-raw, the model alone, and netbench, the model times the
 * stored curve (sim/nccl/nccl_curves.c) without the table that has the same rows: a table is never
 * predicted from itself, whatever its file is called. A series is one table in one class of sizes.
 * Tables whose source says that the fabric is not what its parts say, or the library not NCCL,
 * stand in netbench-apart, or are only named; they are not fitted. */
#include "analysis/validate/validate_kinds.h"

#include <stdio.h>
#include <string.h>

#include "analysis/netbench/netbench_fabric.h"
#include "analysis/netbench/netbench_fit.h"
#include "shared/base/shown_text.h"
#include "shared/io/csv_rows.h"
#include "shared/numbers/checked.h"
#include "sim/cost/cost_nccl.h"
#include "sim/nccl/nccl_curves.h"

enum { N_CLASSES = 3 };

static const char *const classes[N_CLASSES] = {"< 1 MiB", "1-64 MiB", "> 64 MiB"};

static int class_of(int64_t bytes)
{
    return bytes < 1 << 20 ? 0 : bytes <= 64 << 20 ? 1 : 2;
}

static enum lw_status op_of(const char *word, enum lw_op_kind *op, struct lw_err *err)
{
    if (strcmp(word, "sendrecv") == 0) {
        *op = LW_OP_SEND;
        return LW_OK;
    }
    if (strcmp(word, "alltoall") == 0) {
        *op = LW_OP_ALL_TO_ALL;
        return LW_OK;
    }
    return lw_op_parse(word, op, err);
}

/* "Ring", "NVLS (...)": that algorithm; "auto" or other words: NCCL's choice. */
static enum lw_reducer_kind reducer_of(const char *algo)
{
    char name[32] = "nccl:";
    size_t n = strcspn(algo, " (,");
    enum lw_reducer_kind k = LW_REDUCER_NCCL;

    for (size_t i = 0; i < n && i + 6 < sizeof name; i++)
        name[5 + i] = (char)(algo[i] >= 'A' && algo[i] <= 'Z' ? algo[i] + 32 : algo[i]);
    return lw_reducer_parse(name, &k, NULL) == LW_OK ? k : LW_REDUCER_NCCL;
}

static enum lw_status read_head(const struct lw_rows *r, struct netbench_table *t,
                                struct lw_err *err)
{
    int64_t ranks, nodes;

    lw_file_stem(t->name, sizeof t->name, r->file);
    LW_TRY(lw_rows_int(r, 0, "nranks", 1, INT32_MAX, &ranks, err));
    LW_TRY(lw_rows_int(r, 0, "nnodes", 1, ranks, &nodes, err));
    t->source = lw_rows_cell(r, 0, "source");
    t->fabric = (struct netbench_fabric){lw_rows_cell(r, 0, "gpu"), lw_rows_cell(r, 0, "intra"),
                                         lw_rows_cell(r, 0, "inter"), (int32_t)ranks,
                                         (int32_t)nodes, t->source};
    t->host_us = netbench_host_us(t->source);
    t->apart = netbench_apart(&t->fabric, lw_rows_cell(r, 0, "algo"), &t->can_predict);
    t->algorithm = reducer_of(lw_rows_cell(r, 0, "algo"));
    if (op_of(lw_rows_cell(r, 0, "op"), &t->op, err) != LW_OK)
        return lw_fail_at(err, LW_EFORMAT, r->file, r->line[0],
                          "op: found '%s', expected all_reduce, "
                          "all_gather, ..., alltoall or sendrecv",
                          lw_rows_cell(r, 0, "op"));
    return LW_OK;
}

static enum lw_status read_rows(const struct lw_rows *r, struct netbench_table *t,
                                struct lw_err *err)
{
    LW_TAKE(&t->arena, t->bytes, r->n_rows, err);
    LW_TAKE(&t->arena, t->measured_us, r->n_rows, err);
    LW_TAKE(&t->arena, t->raw_us, r->n_rows, err);
    LW_TAKE(&t->arena, t->beyond_us, r->n_rows, err);
    LW_TAKE(&t->arena, t->marks, r->n_rows, err);
    for (int32_t i = 0; i < r->n_rows; i++) {
        LW_TRY(lw_rows_int(r, i, "size_bytes", 1, INT64_C(1) << 50, &t->bytes[i], err));
        LW_TRY(lw_rows_real(r, i, "time_us", 0, &t->measured_us[i], err));
        t->marks[i] = sim_nccl_row_mark(t->op, t->fabric.n_ranks, t->fabric.n_nodes, t->bytes[i],
                                        lw_round_sat(t->measured_us[i] * 1e3));
    }
    t->n = r->n_rows;
    return LW_OK;
}

static enum lw_status predict(struct netbench_table *t, struct lw_err *err)
{
    struct lw_link links[2];
    struct lw_cluster c;
    struct lw_cost_answer a;
    struct lw_cost_query q = {.op = t->op, .dtype = LW_F32, .n_ranks = t->fabric.n_ranks,
                              .algorithm = t->algorithm, .alone = true};
    struct sim_nccl_comm comm;

    LW_TRY(netbench_cluster(&t->fabric, links, &c, &q.n_nodes, err));
    if (t->op == LW_OP_SEND) /* each rank to the next: the slowest such pair */
        q = sim_of_pair(&q);
    LW_TRY(sim_nccl_comm_of(&c, &q, &comm, err));
    t->place = sim_nccl_place_of(&comm);
    t->arch = comm.arch;
    for (int32_t i = 0; i < t->n; i++) {
        q.bytes = t->bytes[i];
        LW_TRY(sim_nccl_answer(&c, &q, &a, err));
        t->raw_us[i] = (double)a.time / 1e6;
        t->beyond_us[i] = (double)a.beyond / 1e6;
    }
    return LW_OK;
}

/* A machine whose words are not known stands apart: the other tables go on. */
static enum lw_status predict_or_say(struct netbench_table *t, struct lw_err *err)
{
    struct lw_err why = {0};
    enum lw_status s = predict(t, &why);

    if (s == LW_OK)
        return LW_OK;
    if (s != LW_ENOTSUP)
        return lw_fail(err, s, "%s: %s", t->rows.file, why.msg);
    t->can_predict = false;
    if (!t->apart)
        t->apart = lw_arena_strdup(&t->arena, why.msg);
    return t->apart ? LW_OK : lw_fail_nomem(err);
}

enum lw_status netbench_read(const struct lw_input *in, struct netbench_table *t,
                             struct lw_err *err)
{
    enum lw_status s = lw_rows_read(in, &t->rows, err);

    if (s == LW_OK)
        s = read_head(&t->rows, t, err);
    if (s == LW_OK)
        s = read_rows(&t->rows, t, err);
    if (s == LW_OK && t->can_predict)
        s = predict_or_say(t, err);
    if (s != LW_OK)
        netbench_free(t);
    return s;
}

void netbench_free(struct netbench_table *t)
{
    lw_rows_free(&t->rows);
    lw_arena_free(&t->arena);
    *t = (struct netbench_table){0};
}

struct sim_nccl_spot netbench_spot(const struct netbench_table *t, int32_t i)
{
    return (struct sim_nccl_spot){t->place,
                                  sim_nccl_share(t->op, t->bytes[i], t->fabric.n_ranks)};
}

int netbench_stored(const struct netbench_table *t)
{
    int n;
    const struct sim_nccl_measured *tables = sim_nccl_measured_rows(&n);

    return sim_nccl_same_table(tables, n, t->marks, t->n);
}

double netbench_raw_us(const struct netbench_table *t, int32_t i)
{
    return t->host_us + t->raw_us[i];
}

double netbench_left_out_us(const struct netbench_table *t, int32_t i, double times)
{
    int n, n_used, same = netbench_stored(t);
    const struct sim_nccl_measured *tables = sim_nccl_measured_rows(&n);
    struct sim_nccl_spot at = netbench_spot(t, i);

    if (!sim_nccl_has_curve(tables, n, same, t->place, t->arch))
        return t->host_us + t->raw_us[i] * times;
    return t->host_us + (t->raw_us[i] + t->beyond_us[i]) *
                            sim_nccl_factor(tables, n, same, &at, &n_used) * times;
}

/* --- cases --- */

static enum lw_status add_cases(const struct netbench_table *t, struct lw_validation *v,
                                int32_t family, bool calibrated, struct lw_err *err)
{
    int32_t series[N_CLASSES] = {-1, -1, -1};
    char text[160];

    for (int32_t i = 0; i < t->n; i++) {
        int k = class_of(t->bytes[i]);
        if (series[k] < 0) {
            snprintf(text, sizeof text, "%s, %s", t->name, classes[k]);
            LW_TRY(lw_validation_series(v, family, text, 5, &series[k], err));
        }
        double us = calibrated ? netbench_left_out_us(t, i, 1) : netbench_raw_us(t, i);
        snprintf(text, sizeof text, "%s:%d", t->name, i + 1);
        struct lw_case c = {.id = text,
                            .unit = "ns",
                            .family = family,
                            .series = series[k],
                            .predicted = us * 1e3,
                            .measured = t->measured_us[i] * 1e3,
                            .remark = t->apart ? t->apart : ""};
        LW_TRY(lw_validation_case(v, &c, err));
    }
    return LW_OK;
}

#define MEAN_BAR 15 /* per cent, of all tables together and of each */

/* Mean error of a family's cases in one class of sizes, of all its tables or of one. */
static double mean_of(const struct lw_validation *v, int32_t family, int k, const char *table,
                      int *n)
{
    double sum = 0;

    *n = 0;
    for (int32_t i = 0; i < v->n_cases; i++) {
        const struct lw_case *c = &v->cases[i];
        if (c->family != family || c->measured <= 0)
            continue;
        const char *series = v->series[c->series].name, *comma = strchr(series, ',');
        if ((k >= 0 && strcmp(comma + 2, classes[k]) != 0) ||
            (table && (strncmp(series, table, strlen(table)) != 0 || series[strlen(table)] != ',')))
            continue;
        sum += c->error_pct < 0 ? -c->error_pct : c->error_pct;
        ++*n;
    }
    return *n ? sum / *n : 0;
}

/* Rows of a table between p10 and p90 of the fabrics that are left when it is left out. */
static int n_inside(const struct netbench_table *t)
{
    int n_tables, n_used, n = 0, same = netbench_stored(t);
    const struct sim_nccl_measured *tables = sim_nccl_measured_rows(&n_tables);

    for (int32_t i = 0; i < t->n; i++) {
        struct sim_nccl_spot at = netbench_spot(t, i);
        double wide =
            sim_nccl_p90_over_p50(sim_nccl_spread(tables, n_tables, same, &at, &n_used));
        double least = netbench_left_out_us(t, i, 1 / wide);
        double most = netbench_left_out_us(t, i, wide);
        n += t->measured_us[i] >= least && t->measured_us[i] <= most;
    }
    return n;
}

/* One line for a table, or for all: raw and calibrated error, over all sizes and by class. */
static void say(const struct lw_validation *v, int32_t raw, int32_t calibrated, const char *table,
                char *text, size_t size)
{
    int n;
    size_t at = 0;

    for (int k = -1; k < N_CLASSES; k++) {
        double r = mean_of(v, raw, k, table, &n), c = mean_of(v, calibrated, k, table, &n);
        if (n > 0 && at < size)
            at += (size_t)snprintf(text + at, size - at, "%s%s: raw %.1f %%, calibrated %.1f %%%s",
                                   at ? "; " : "",
                                   k < 0 ? (table ? table : "all tables") : classes[k], r, c,
                                   k < 0 && c > MEAN_BAR ? " (over the bar)"
                                   : c > r               ? " (worse)"
                                                         : "");
    }
}

static enum lw_status add_notes(struct lw_validation *v, int32_t raw, int32_t calibrated,
                                const char *table, struct lw_err *err)
{
    char text[512];

    say(v, raw, calibrated, table, text, sizeof text);
    LW_TRY(lw_validation_note(v, calibrated, table, text, err));
    say(v, raw, calibrated, NULL, text, sizeof text);
    LW_TRY(lw_validation_note(v, calibrated, "all tables", text, err));
    for (int32_t i = 0; i < v->n_notes; i++) /* of the files so far: rewritten with each */
        if (v->notes[i].family == calibrated && strcmp(v->notes[i].about, "all tables") == 0)
            v->notes[i].text = lw_arena_strdup(&v->arena, text);
    for (int32_t i = 0; i < v->n_notes; i++)
        if (!v->notes[i].text)
            return lw_fail_nomem(err);
    return LW_OK;
}

static void count_fitted(struct lw_family *f)
{
    int n;
    const struct sim_nccl_measured *tables = sim_nccl_measured_rows(&n);

    f->n_fitted = 4; /* the width and the weights of sim/nccl/nccl_curves.c, and
                      * LL_BLOCK_US of sim/nccl/nccl_tuning.c */
    f->fit_rows = 0;
    for (int i = 0; i < n; i++) {
        f->n_fitted += tables[i].n_knots;
        f->fit_rows += tables[i].n_knots;
    }
}

static enum lw_status add_table(const struct netbench_table *t, struct lw_validation *v,
                                struct lw_err *err)
{
    const struct lw_bars none = {0}, bars = {.mean_pct = MEAN_BAR};
    int32_t raw, calibrated, apart;
    char text[320];

    if (t->apart) {
        LW_TRY(lw_validation_family(v, "netbench-apart", none, false, &apart, err));
        snprintf(text, sizeof text, "%s: %s%s", t->name, t->apart,
                 t->can_predict ? "" : ": not predicted");
        LW_TRY(lw_validation_note(v, apart, t->name, text, err));
        return t->can_predict ? add_cases(t, v, apart, false, err) : LW_OK;
    }
    LW_TRY(lw_validation_family(v, "netbench-raw", none, false, &raw, err));
    LW_TRY(lw_validation_family(v, "netbench", bars, false, &calibrated, err));
    count_fitted(&v->families[calibrated]);
    struct lw_family *f = &v->families[calibrated];
    f->table_bar_pct = MEAN_BAR;
    f->has_base = true;
    f->base = raw;
    f->base_bar = "calibrated";
    LW_TRY(add_cases(t, v, raw, false, err));
    LW_TRY(add_cases(t, v, calibrated, true, err));
    char about[96]; /* of its own: a note about the table alone is that of its errors */
    snprintf(about, sizeof about, "%.60s, p10 to p90", t->name);
    snprintf(text, sizeof text, "%s: %d of %d rows between p10 and p90 of the other fabrics",
             t->name, n_inside(t), t->n);
    LW_TRY(lw_validation_note(v, calibrated, about, text, err));
    if (t->host_us > 0) {
        snprintf(text, sizeof text,
                 "%s: %g us are added to every time, raw and calibrated: its source times the "
                 "host's call too (docs/design/nccl.md)", t->name, t->host_us);
        LW_TRY(lw_validation_note(v, raw, t->name, text, err));
    }
    return add_notes(v, raw, calibrated, t->name, err);
}

enum lw_status lw_validate_netbench(const struct lw_input *in, struct lw_validation *v,
                                    struct lw_err *err)
{
    struct netbench_table t = {.n = 0};

    LW_TRY(netbench_read(in, &t, err));
    enum lw_status status = add_table(&t, v, err);
    netbench_free(&t);
    return status;
}
