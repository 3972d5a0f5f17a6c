/* Calls of NCCL and MPI by a preloaded recorder. `inspect` shows a row for each op, type, size and
 * number of ranks, and the period in which the calls repeat. */
#include <stdlib.h>

#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/order.h"
#include "shared/io/input.h"
#include "shared/json/jsonout.h"
#include "shared/text/records.h"
#include "shared/text/wrap.h"
#include "shared/numbers/units.h"
#include "traces/calls/import_calls.h"
#include "traces/import/convert.h"

static bool is(const struct lw_input *in, const char *text, size_t len)
{
    (void)in;
    return traces_recorded_is(text, len);
}

static enum lw_status convert(const struct traces_file *f, int n, const struct traces_wanted *want,
                              struct traces_converted *out, struct lw_err *err)
{
    struct traces_recorded *c;
    struct traces_bench b = {0};
    enum lw_status status = LW_OK;
    int n_read = 0;

    (void)want;
    LW_NEW(c, n, err);
    for (; status == LW_OK && n_read < n; n_read += status == LW_OK)
        status = traces_recorded_read(&f[n_read].in, &c[n_read], err);
    if (status == LW_OK)
        status = traces_recorded_tables(c, n, &b, err);
    if (status == LW_OK)
        status = lw_cluster_from_bench(&b, 1, false, &out->cluster, err);
    out->has_cluster = status == LW_OK;
    traces_bench_free(&b);
    while (n_read > 0)
        traces_recorded_free(&c[--n_read]);
    lw_free(c);
    return status;
}

static enum lw_status look(const struct lw_input *in, const struct traces_bench_hint *hint,
                           void *facts, struct lw_err *err)
{
    (void)hint;
    return traces_recorded_read(in, facts, err);
}

static void forget(void *facts)
{
    traces_recorded_free(facts);
}

struct call_row {
    int32_t op;
    const char *dtype;
    int64_t bytes, n, n_in_period, n_spans, span_ns, host_ns; /* sums of the two times */
    int64_t mean_span_ns, mean_host_ns; /* the first -1: no span */
    int32_t n_ranks;
};

#define AT(field) offsetof(struct call_row, field)
static const struct lw_column columns[] = {
    {"op", "op", LW_COLUMN_WORD, AT(op), .word = traces_call_name},
    {"dtype", "dtype", LW_COLUMN_STRING, AT(dtype)},
    {"bytes", ">size", LW_COLUMN_BYTES, AT(bytes), .lacking = "-"},
    {"n_ranks", ">ranks", LW_COLUMN_INT32, AT(n_ranks), .lacking = "-1"},
    {"n_calls", ">calls", LW_COLUMN_INT, AT(n)},
    {"n_calls_per_period", ">per period", LW_COLUMN_INT, AT(n_in_period)},
    {"mean_span_ns", ">mean time", LW_COLUMN_NS, AT(mean_span_ns), .lacking = "-"},
    {"mean_host_ns", ">mean time on the host", LW_COLUMN_NS, AT(mean_host_ns)},
};
#undef AT

struct call_rows {
    struct call_row *rows;
    int64_t n, n_calls, n_periods, period_ns; /* n_calls: of one period */
};

static bool same_row(const struct call_row *a, const struct call_row *b)
{
    return a->op == b->op && a->dtype == b->dtype && a->bytes == b->bytes &&
           a->n_ranks == b->n_ranks;
}

/* Communication that takes longest first; then by op and size. */
LW_COMPARATOR(by_weight, struct call_row, b->span_ns, a->span_ns, a->op, b->op, b->bytes, a->bytes,
              b->n_ranks, a->n_ranks)

LW_COMPARATOR(by_kind, struct call_row, a->op, b->op, a->dtype, b->dtype, a->bytes, b->bytes,
              a->n_ranks, b->n_ranks)

static enum lw_status collect(const struct traces_recorded *c, struct call_rows *out,
                              struct lw_err *err)
{
    struct call_rows r = {0};
    int64_t n = 0;

    LW_TRY(traces_recorded_period(c, &r.n_calls, &r.n_periods, &r.period_ns, err));
    LW_NEW(r.rows, (size_t)c->n + 1, err);
    for (int64_t i = 0; i < c->n; i++) {
        const struct traces_recorded_call *k = &c->calls[i];
        r.rows[i] = (struct call_row){
            .op = k->op, .dtype = k->dtype_known ? lw_dtype_name(k->dtype) : "?",
            .bytes = traces_recorded_bytes(c, k), .n = 1, .n_in_period = i >= c->n - r.n_calls,
            .n_spans = k->start_ns >= 0, .span_ns = k->start_ns >= 0 ? k->end_ns - k->start_ns : 0,
            .host_ns = k->host_ns, .n_ranks = c->comms[k->comm].n_ranks};
    }
    lw_sort(r.rows, c->n, by_kind);
    for (int64_t i = 0; i < c->n; i++) {
        struct call_row *last = n > 0 ? &r.rows[n - 1] : NULL, *x = &r.rows[i];
        if (!last || !same_row(last, x)) {
            r.rows[n++] = *x;
            continue;
        }
        last->n += x->n;
        last->n_in_period += x->n_in_period;
        last->n_spans += x->n_spans;
        last->span_ns = lw_add_sat(last->span_ns, x->span_ns);
        last->host_ns = lw_add_sat(last->host_ns, x->host_ns);
    }
    for (int64_t i = 0; i < n; i++) {
        struct call_row *x = &r.rows[i];
        x->mean_span_ns = x->n_spans > 0 ? x->span_ns / x->n_spans : -1;
        x->mean_host_ns = x->host_ns / x->n;
    }
    r.n = n;
    lw_sort(r.rows, n, by_weight);
    *out = r;
    return LW_OK;
}

static enum lw_status json(const void *facts, struct lw_jsonout *o, struct lw_err *err)
{
    const struct traces_recorded *c = facts;
    struct call_rows r;

    LW_TRY(collect(c, &r, err));
    LW_JSON(o, "library", c->library, "host", c->host, "n_calls", c->n,
            "not_recorded", c->lost, "n_communicators", c->n_comms, "n_calls_per_period", r.n_calls,
            "n_periods", r.n_periods, "period_ns", lw_known_if(r.n_calls > 0, r.period_ns));
    lw_records_json(o, &LW_RECORDS("calls", columns, r.rows, r.n));
    lw_free(r.rows);
    return LW_OK;
}

static enum lw_status text(const void *facts, const char *name, FILE *f, struct lw_err *err)
{
    const struct traces_recorded *c = facts;
    struct call_rows r;
    char buf[32];

    LW_TRY(collect(c, &r, err));
    fprintf(f, "%s: %lld recorded calls of %s on %d communicator%s of this process\n", name,
            (long long)c->n, c->library, c->n_comms, lw_plural(c->n_comms));
    if (*c->lost)
        lw_printf_paragraph(f, "not recorded: calls of %s", c->lost);
    if (r.n_calls > 0)
        fprintf(f, "%lld calls repeat %lld times at the end, every %s (median)\n",
                (long long)r.n_calls, (long long)r.n_periods,
                lw_format_ns(buf, r.period_ns));
    else
        fputs("no sequence of calls repeats at least three times at the end\n", f);
    enum lw_status status =
        lw_records_text(&LW_RECORDS("calls", columns, r.rows, r.n), f, 0, err);
    lw_free(r.rows);
    return status;
}

const struct lw_importer lw_importer_calls = {
    .name = "calls",
    .reads = "recorded calls of NCCL and MPI",
    .marks = "begin with '# lapwing-calls'",
    .import_help = "Recorded calls of NCCL and MPI give a cluster.",
    .inspect_help = "Recorded calls of NCCL and MPI: sums by operation and size.",
    .gives = LW_GIVES_CLUSTER,
    .instead = "--cluster-out writes the measured collectives",
    .is = is,
    .convert = convert,
    .facts_size = sizeof(struct traces_recorded),
    .look = look,
    .text = text,
    .json = json,
    .free = forget,
};
