/* Collectives as processes were asked for them: PyTorch's Flight Recorder, NCCL's log. `inspect`
 * lists them by operation, and where ranks disagree. */
#include <string.h>

#include "shared/base/arena.h"
#include "shared/io/input.h"
#include "shared/json/jsonout.h"
#include "shared/text/records.h"
#include "shared/text/wrap.h"
#include "traces/collectives/coll_log.h"
#include "traces/import/convert.h"

static bool is_recorder(const struct lw_input *in, const char *text, size_t len)
{
    (void)text;
    (void)len;
    return coll_log_is_recorder(in);
}

static bool is_nccl(const struct lw_input *in, const char *text, size_t len)
{
    (void)text;
    (void)len;
    return coll_log_is_nccl(in);
}

static enum lw_status look_recorder(const struct lw_input *in,
                                    const struct traces_bench_hint *hint, void *facts,
                                    struct lw_err *err)
{
    (void)hint;
    return coll_log_read_recorder(in, facts, err);
}

static enum lw_status look_nccl(const struct lw_input *in, const struct traces_bench_hint *hint,
                                void *facts, struct lw_err *err)
{
    (void)hint;
    return coll_log_read_nccl(in, facts, err);
}

struct op_row {
    const char *source, *group, *op, *dtype;
    int32_t rank;
    int64_t numel, n, n_done;
};

#define AT(field) offsetof(struct op_row, field)
static const struct lw_column columns[] = {
    {"source", NULL, LW_COLUMN_STRING, AT(source)},
    {"rank", ">rank", LW_COLUMN_INT32, AT(rank), .lacking = "-"},
    {"group", "group", LW_COLUMN_STRING, AT(group)},
    {"op", "op", LW_COLUMN_STRING, AT(op)},
    {"dtype", "dtype", LW_COLUMN_STRING, AT(dtype)},
    {"numel", ">elements", LW_COLUMN_INT, AT(numel), .lacking = "-"},
    {"n", ">calls", LW_COLUMN_INT, AT(n)},
    {"n_done", ">known to have ended", LW_COLUMN_INT, AT(n_done)},
};
#undef AT

static bool same(const struct op_row *a, const struct op_row *b)
{
    return strcmp(a->group, b->group) == 0 && strcmp(a->op, b->op) == 0 &&
           strcmp(a->dtype, b->dtype) == 0 && a->numel == b->numel;
}

static enum lw_status collect(const struct coll_log *l, struct op_row **out, int64_t *n,
                              int64_t *n_calls, struct lw_err *err)
{
    int64_t all = 0;

    for (int32_t s = 0; s < l->n; s++)
        all += l->sources[s].n;
    *n = 0;
    *n_calls = all;
    LW_NEW(*out, all + 1, err);
    for (int32_t s = 0; s < l->n; s++) {
        int64_t first = *n;
        for (int64_t i = 0; i < l->sources[s].n; i++) {
            const struct coll_call *c = &l->sources[s].calls[i];
            struct op_row x = {l->sources[s].name, c->group, c->op, c->dtype, l->sources[s].rank,
                               c->numel, 1, c->done};
            int64_t k = *n - 1; /* a step repeats a few kinds: the last ones are looked at first */
            for (int tries = 0; k >= first && tries < 256 && !same(&(*out)[k], &x); k--, tries++)
                ;
            if (k >= first && same(&(*out)[k], &x)) {
                (*out)[k].n++;
                (*out)[k].n_done += x.n_done;
            } else {
                (*out)[(*n)++] = x;
            }
        }
    }
    return LW_OK;
}

static enum lw_status text(const void *facts, const char *name, FILE *f, struct lw_err *err)
{
    const struct coll_log *l = facts;
    struct op_row *rows;
    int64_t n, n_calls;

    LW_TRY(collect(l, &rows, &n, &n_calls, err));
    lw_printf_paragraph(f, "%s: %s, %lld calls of %d process%s", name, l->format,
                        (long long)n_calls, l->n, l->n > 1 ? "es" : "");
    enum lw_status status = lw_records_text(&LW_RECORDS("calls", columns, rows, n), f, 2, err);
    lw_free(rows);
    if (status == LW_OK && l->n > 1)
        status = coll_mismatches_text(&l, 1, f, err);
    return status;
}

static enum lw_status json(const void *facts, struct lw_jsonout *o, struct lw_err *err)
{
    const struct coll_log *l = facts;
    struct op_row *rows;
    int64_t n, n_calls;

    LW_TRY(collect(l, &rows, &n, &n_calls, err));
    LW_JSON(o, "n_calls", n_calls, "n_processes", l->n);
    lw_records_json(o, &LW_RECORDS("calls", columns, rows, n));
    lw_free(rows);
    return l->n > 1 ? coll_mismatches_json(&l, 1, o, err) : LW_OK;
}

static enum lw_status compare_text(const void *const *facts, int n, FILE *f, struct lw_err *err)
{
    return coll_mismatches_text((const struct coll_log *const *)facts, n, f, err);
}

static enum lw_status compare_json(const void *const *facts, int n, struct lw_jsonout *o,
                                   struct lw_err *err)
{
    return coll_mismatches_json((const struct coll_log *const *)facts, n, o, err);
}

static void forget(void *facts)
{
    coll_log_free(facts);
}

const struct lw_importer lw_importer_flight_recorder = {
    .name = "flight-recorder",
    .reads = "dumps of PyTorch's Flight Recorder (JSON, pickle)",
    .marks = "hold \"collective_seq_id\"",
    .import_help = "Dumps of the Flight Recorder give nothing to import.",
    .inspect_help = "Dumps of PyTorch's Flight Recorder: collectives with sizes, groups and "
                    "states, and where ranks disagree.",
    .instead = "'lapwing inspect' lists its collectives",
    .is = is_recorder,
    .convert = traces_convert_nothing,
    .facts_size = sizeof(struct coll_log),
    .look = look_recorder,
    .text = text,
    .json = json,
    .compare_text = compare_text,
    .compare_json = compare_json,
    .free = forget,
};

const struct lw_importer lw_importer_nccl_log = {
    .name = "nccl-log",
    .reads = "logs of NCCL's collectives",
    .marks = "hold 'NCCL INFO' and 'opCount'",
    .import_help = "Logs of NCCL's collectives give nothing to import.",
    .inspect_help = "Logs of NCCL (NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,COLL): the same.",
    .instead = "'lapwing inspect' lists its collectives",
    .is = is_nccl,
    .convert = traces_convert_nothing,
    .facts_size = sizeof(struct coll_log),
    .look = look_nccl,
    .text = text,
    .json = json,
    .compare_text = compare_text,
    .compare_json = compare_json,
    .free = forget,
};
