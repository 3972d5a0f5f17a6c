/* What `inspect` shows of files, as one list of rows: CSV prints all of them as one table, so that
 * a spreadsheet or a script reads it in one go; a table of text the rows of some kinds. */
#include "traces/inspect/inspect_rows.h"

#include <string.h>

#include "shared/base/arena.h"

static const char *kind_name(int kind)
{
    static const char *const names[] = {"whole", "by_time", "by_launch", "comm",
                                        "step",  "collective", "measured"};

    return names[kind];
}

static const char *window_name(int kind)
{
    return kind == INSPECT_WHOLE ? "all" : kind == INSPECT_BY_TIME ? "by time" : "by launch";
}

#define AT(field) offsetof(struct inspect_row, field)
static const struct lw_column head[] = {
    {"file", NULL, LW_COLUMN_STRING, AT(file)},
    {"format", NULL, LW_COLUMN_STRING, AT(format)},
    {"rank", NULL, LW_COLUMN_INT32, AT(rank), .lacking = ""},
    {"row", NULL, LW_COLUMN_WORD, AT(kind), .word = kind_name},
    {"in", NULL, LW_COLUMN_STRING, AT(in)},
};
static const struct lw_column busy[] = {
    {NULL, "device", LW_COLUMN_STRING, AT(in), .lacking = "whole file"},
    {NULL, "window", LW_COLUMN_WORD, AT(kind), .word = window_name},
    {"window_ns", ">length", LW_COLUMN_NS, AT(busy.window_ns)},
    {"compute_busy_ns", ">compute", LW_COLUMN_NS, AT(busy.compute_busy_ns)},
    {"comm_busy_ns", ">comm", LW_COLUMN_NS, AT(busy.comm_busy_ns)},
    {"mem_busy_ns", NULL, LW_COLUMN_NS, AT(busy.mem_busy_ns)},
    {"exposed_comm_ns", ">exposed comm", LW_COLUMN_NS, AT(busy.exposed_comm_ns)},
    {"exposed_mem_ns", ">exposed copies", LW_COLUMN_NS, AT(busy.exposed_mem_ns)},
    {"idle_ns", ">idle", LW_COLUMN_NS, AT(busy.idle_ns)},
    {"barrier_ns", NULL, LW_COLUMN_NS, AT(busy.barrier_ns)},
};
enum { FIRST_BUSY = 2 };
static const struct lw_column counts[] = {
    {"n_gpu_ops", NULL, LW_COLUMN_INT, AT(n_gpu_ops), .lacking = ""},
    {"n_comm", NULL, LW_COLUMN_INT, AT(n_comm), .lacking = ""},
};
static const struct lw_column comm[] = {
    {"op", NULL, LW_COLUMN_STRING, AT(comm.op)},
    {"kernel", NULL, LW_COLUMN_STRING, AT(comm.kernel)},
    {"stream", NULL, LW_COLUMN_INT32, AT(comm.stream), .lacking = ""},
    {"launch_ns", NULL, LW_COLUMN_NS, AT(comm.launch_ns)},
    {"start_ns", NULL, LW_COLUMN_NS, AT(comm.start_ns)},
    {"dur_ns", NULL, LW_COLUMN_NS, AT(comm.dur_ns)},
    {"dtype", NULL, LW_COLUMN_STRING, AT(comm.dtype)},
    {"bytes", NULL, LW_COLUMN_INT, AT(comm.bytes), .lacking = ""},
    {"group_size", NULL, LW_COLUMN_INT32, AT(comm.group_size), .lacking = ""},
};
#define PHASE(key, title, p) {key, title, LW_COLUMN_NS, AT(phase_ns[p]), .lacking = "-"}
static const struct lw_column step[] = {
    {NULL, "host", LW_COLUMN_STRING, AT(in)},
    {NULL, ">step", LW_COLUMN_NS, AT(busy.window_ns)},
    PHASE("zero_grad_ns", ">zero_grad", 0),
    PHASE("forward_ns", ">forward", 1),
    PHASE("backward_ns", ">backward", 2),
    PHASE("optimizer_ns", ">optimizer", 3),
    {"n_gradients", ">gradients", LW_COLUMN_INT, AT(n_gradients), .lacking = ""},
};
static const struct lw_column tail[] = {
    {"in_place_ns", NULL, LW_COLUMN_NS, AT(in_place_ns)},
};
static const struct lw_column comm_text[] = {
    {NULL, "communication in", LW_COLUMN_STRING, AT(in)},
    {NULL, "op", LW_COLUMN_STRING, AT(shown), .lacking = "-"},
    {NULL, ">bytes", LW_COLUMN_INT, AT(comm.bytes), .lacking = "-"},
    {NULL, "dtype", LW_COLUMN_STRING, AT(comm.dtype), .lacking = "-"},
    {NULL, ">group", LW_COLUMN_INT32, AT(comm.group_size), .lacking = "-"},
    {NULL, ">stream", LW_COLUMN_INT32, AT(comm.stream), .lacking = "-"},
    {NULL, ">launch", LW_COLUMN_NS, AT(comm.launch_ns)},
    {NULL, ">start", LW_COLUMN_NS, AT(comm.start_ns)},
    {NULL, ">length", LW_COLUMN_NS, AT(comm.dur_ns)},
};
static const struct lw_column collective_text[] = {
    {NULL, "host collective in", LW_COLUMN_STRING, AT(in)},
    {NULL, "op", LW_COLUMN_STRING, AT(comm.op)},
    {NULL, ">elements", LW_COLUMN_INT, AT(numel), .lacking = "-"},
    {NULL, ">bytes", LW_COLUMN_INT, AT(comm.bytes), .lacking = "-"},
    {NULL, ">start", LW_COLUMN_NS, AT(comm.start_ns)},
    {NULL, ">length", LW_COLUMN_NS, AT(comm.dur_ns)},
};

/* --- the rows --------------------------------------------------------------------------------- */

static const struct inspect_row no_figures = {
    .rank = -1, .busy = {-1, -1, -1, -1, -1, -1, -1}, .n_gpu_ops = -1, .n_comm = -1,
    .comm = {NULL, NULL, NULL, -1, -1, -1, -1, -1, -1}, .numel = -1,
    .phase_ns = {-1, -1, -1, -1}, .n_gradients = -1, .in_place_ns = -1};

static struct inspect_row new_row(enum inspect_kind kind, const char *in)
{
    struct inspect_row r = no_figures;

    r.kind = kind;
    r.in = in;
    return r;
}

static struct inspect_row busy_row(enum inspect_kind kind, const char *in, const struct lw_busy *b)
{
    struct inspect_row r = new_row(kind, in);

    r.busy = *b;
    return r;
}

static struct inspect_row step_row(const struct lw_step *s)
{
    struct inspect_row r = new_row(INSPECT_STEP, s->name);

    r.busy.window_ns = s->end_ns - s->start_ns;
    for (int p = 0; p < LW_N_PHASES; p++)
        if (s->phase[p].found)
            r.phase_ns[p] = s->phase[p].end_ns - s->phase[p].start_ns;
    r.n_gradients = s->n_gradients;
    return r;
}

static struct inspect_row collective_row(const struct lw_trace *t, const struct lw_step *s,
                                         int64_t row)
{
    struct inspect_row r = new_row(INSPECT_COLLECTIVE, s->name);
    const struct lw_row_detail *d = lw_trace_detail(t, row);
    enum lw_dtype dtype;

    r.comm.op = lw_trace_name(t, row) + strlen("gloo:");
    r.comm.start_ns = t->start_ns[row] - s->start_ns;
    r.comm.dur_ns = t->dur_ns[row];
    r.comm.dtype = d->shape_type >= 0 ? lw_trace_text(t, d->shape_type) : NULL;
    r.comm.bytes = lw_trace_shape_bytes(t, row, &dtype);
    r.numel = d->shape_numel;
    return r;
}

static enum lw_status add(struct inspect_rows *rows, const struct traces_report_file *f,
                          struct inspect_row r, struct lw_err *err)
{
    LW_ROOM(rows->v, rows->capacity, rows->n + 1, err);
    r.file = f->name;
    r.format = f->importer->name;
    r.rank = f->importer->timeline ? f->trace.rank : -1;
    rows->v[rows->n++] = r;
    return LW_OK;
}

static enum lw_status add_device(struct inspect_rows *rows, const struct traces_report_file *f,
                                 struct lw_err *err)
{
    const struct lw_inspection *d = &f->device;
    struct inspect_row r = busy_row(INSPECT_WHOLE, NULL, &d->whole);

    r.n_gpu_ops = d->n_device_rows;
    if (d->has_device)
        LW_TRY(add(rows, f, r, err));
    for (int64_t i = 0; i < d->n_iterations; i++) {
        const struct lw_iteration *it = &d->iterations[i];
        LW_TRY(add(rows, f, busy_row(INSPECT_BY_TIME, it->name, &it->by_time), err));
        r = busy_row(INSPECT_BY_LAUNCH, it->name, &it->by_launch);
        r.n_gpu_ops = it->n_gpu_ops;
        r.n_comm = it->n_comm;
        if (it->n_gpu_ops > 0)
            LW_TRY(add(rows, f, r, err));
        for (int64_t k = 0; k < it->n_comm; k++) {
            r = new_row(INSPECT_COMM, it->name);
            r.comm = it->comm[k];
            r.shown = r.comm.op ? r.comm.op : r.comm.kernel;
            LW_TRY(add(rows, f, r, err));
        }
    }
    return LW_OK;
}

static enum lw_status add_measured(struct inspect_rows *rows, const struct traces_report_file *f,
                                   struct lw_err *err)
{
    struct traces_measured_row x;

    for (int64_t k = 0; f->importer->measured && f->importer->measured(f->facts, k, &x); k++) {
        struct inspect_row r = new_row(INSPECT_MEASURED, NULL);
        r.comm.op = x.op;
        r.comm.dtype = x.dtype;
        r.comm.group_size = x.n_ranks;
        r.comm.bytes = x.bytes;
        r.comm.dur_ns = x.time_ns;
        r.in_place_ns = x.in_place_ns;
        LW_TRY(add(rows, f, r, err));
    }
    return LW_OK;
}

enum lw_status inspect_rows_add(struct inspect_rows *rows, const struct traces_report_file *f,
                                struct lw_err *err)
{
    if (!f->importer->timeline)
        return add_measured(rows, f, err);
    LW_TRY(add_device(rows, f, err));
    for (int64_t i = 0; i < f->steps.n; i++) {
        const struct lw_step *s = &f->steps.steps[i];
        LW_TRY(add(rows, f, step_row(s), err));
        for (int64_t k = 0; k < s->n_collectives; k++)
            LW_TRY(add(rows, f, collective_row(&f->trace, s, s->collectives[k]), err));
    }
    return LW_OK;
}

/* --- csv, json -------------------------------------------------------------------------------- */

enum lw_status inspect_rows_csv(const struct inspect_rows *rows, FILE *f, struct lw_err *err)
{
    static const struct {
        const struct lw_column *v;
        int n;
    } parts[] = {{head, LW_N_COLUMNS(head)}, {busy, LW_N_COLUMNS(busy)},
                 {counts, LW_N_COLUMNS(counts)}, {comm, LW_N_COLUMNS(comm)},
                 {step, LW_N_COLUMNS(step)}, {tail, LW_N_COLUMNS(tail)}};
    struct lw_column all[64];
    int n = 0;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; n += parts[i++].n)
        memcpy(all + n, parts[i].v, (size_t)parts[i].n * sizeof *all);
    struct lw_records r = LW_RECORDS(NULL, all, rows->v, rows->n);
    r.n_columns = n;
    return lw_records_csv(&r, f, err);
}

void inspect_json_busy(struct lw_jsonout *o, const struct lw_busy *b, bool with_window)
{
    struct inspect_row r = busy_row(INSPECT_WHOLE, NULL, b);

    if (with_window)
        lw_record_json(o, busy, LW_N_COLUMNS(busy), &r);
    else /* without the first and the last */
        lw_record_json(o, busy + FIRST_BUSY + 1, LW_N_COLUMNS(busy) - FIRST_BUSY - 2, &r);
}

void inspect_json_comm(struct lw_jsonout *o, const struct lw_comm_op *c)
{
    struct inspect_row r = {.comm = *c};

    lw_record_json(o, comm, LW_N_COLUMNS(comm), &r);
}

void inspect_json_step(struct lw_jsonout *o, const struct lw_step *s)
{
    struct inspect_row r = step_row(s);

    lw_record_json(o, step, LW_N_COLUMNS(step), &r);
}

void inspect_json_collective(struct lw_jsonout *o, const struct lw_trace *t,
                             const struct lw_step *s, int64_t row)
{
    struct inspect_row r = collective_row(t, s, row);

    LW_JSON_ROW(o, NULL, "op", r.comm.op, "start_ns", r.comm.start_ns, "dur_ns", r.comm.dur_ns,
                "dtype", r.comm.dtype, "numel", lw_known(r.numel), "bytes", lw_known(r.comm.bytes));
}

/* --- text ------------------------------------------------------------------------------------- */

void inspect_left_out(const struct lw_records *r, const char *what, FILE *f)
{
    if (r->most > 0 && r->n > r->most)
        fprintf(f, "  the %lld longest of %lld %s; --all prints every one\n",
                (long long)r->most, (long long)r->n, what);
}

/* The rows of kinds [from, to] as a table, of a long one those that take longest. */
static enum lw_status put_table(const struct inspect_rows *rows, enum inspect_kind from,
                                enum inspect_kind to, struct lw_records r, const char *what,
                                FILE *f, struct lw_err *err)
{
    struct inspect_row *of_kind;

    LW_NEW(of_kind, rows->n, err);
    r.rows = of_kind;
    for (int64_t i = 0; i < rows->n; i++)
        if (rows->v[i].kind >= from && rows->v[i].kind <= to)
            of_kind[r.n++] = rows->v[i];
    enum lw_status s = r.n > 0 ? lw_records_text(&r, f, 2, err) : LW_OK;
    lw_free(of_kind);
    if (s == LW_OK)
        inspect_left_out(&r, what, f);
    return s;
}

enum lw_status inspect_rows_text(const struct inspect_rows *rows, bool all, FILE *f,
                                 struct lw_err *err)
{
    static const struct {
        enum inspect_kind from, to;
        const char *what;
        size_t largest;
        struct lw_records r;
    } tables[] = {
        {INSPECT_WHOLE, INSPECT_BY_LAUNCH, "windows", offsetof(struct inspect_row, busy.window_ns),
         {.columns = busy, .n_columns = LW_N_COLUMNS(busy), .most = 2 * INSPECT_STEPS_SHOWN + 1}},
        {INSPECT_COMM, INSPECT_COMM, "collectives", offsetof(struct inspect_row, comm.dur_ns),
         {.columns = comm_text, .n_columns = LW_N_COLUMNS(comm_text), .most = INSPECT_SHOWN}},
        {INSPECT_STEP, INSPECT_STEP, "steps", offsetof(struct inspect_row, busy.window_ns),
         {.columns = step, .n_columns = LW_N_COLUMNS(step), .most = INSPECT_STEPS_SHOWN}},
        {INSPECT_COLLECTIVE, INSPECT_COLLECTIVE, "collectives",
         offsetof(struct inspect_row, comm.dur_ns),
         {.columns = collective_text, .n_columns = LW_N_COLUMNS(collective_text),
          .most = INSPECT_SHOWN}},
    };

    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        struct lw_records r = tables[i].r;
        r.size = sizeof *rows->v;
        r.largest = tables[i].largest;
        r.most = all ? 0 : r.most;
        LW_TRY(put_table(rows, tables[i].from, tables[i].to, r, tables[i].what, f, err));
    }
    return LW_OK;
}
