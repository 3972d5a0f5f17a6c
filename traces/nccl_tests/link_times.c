/* Measured links as a JSON object: {"ops": {"all_reduce": [{"bytes": N, "median": SECONDS, ...},
 * ...], "all_gather": [...], ...}, ...}, as a benchmark of torch.distributed on two processes
 * writes it. Sizes are the whole buffer, of send_recv the message. It does not say on how many
 * ranks it ran: --ranks and --nodes do. Other keys are not read. */
#include "traces/nccl_tests/bench_rows.h"

#include <string.h>

#include "shared/json/json.h"
#include "shared/numbers/checked.h"

enum { MOST = 16 << 20 };
static const double MOST_SECONDS = 1e5;

struct file {
    struct bench_reader *r;
    struct lw_json *j;
    enum lw_status status; /* first error that is not of the JSON text */
};

static bool next(struct file *f)
{
    return f->status == LW_OK && lw_json_next(f->j);
}

static void take_row(struct file *f, int64_t table)
{
    struct bench_stated s = {.time = -1, .in_place = -1, .algbw = -1, .busbw = -1, .in_algbw = -1,
                             .in_busbw = -1};
    char why[192];

    if (!lw_json_enter(f->j, LW_JSON_OBJECT))
        return;
    while (next(f)) {
        if (lw_json_key_is(f->j, "bytes")) {
            s.bytes = lw_json_int64(f->j);
        } else if (lw_json_key_is(f->j, "median")) {
            double seconds = lw_json_double(f->j);
            if (!lw_json_failed(f->j) && !(seconds > 0 && seconds <= MOST_SECONDS))
                lw_json_fail(f->j, "found %g, allowed: seconds above 0, at most %g", seconds,
                             MOST_SECONDS);
            else
                s.time = lw_ps_from_seconds(seconds);
        }
    }
    if (lw_json_failed(f->j) || f->status != LW_OK)
        return;
    if (s.bytes < 1 || s.time < 0)
        lw_json_fail(f->j, "a row needs \"bytes\" of 1 or more and \"median\" in seconds");
    else if (bench_is_wrong(&f->r->tables[table], &s, why, sizeof why))
        lw_json_fail(f->j, "%s", why);
    else
        f->status = bench_add_row(f->r, table, &s);
}

static void take_operation(struct file *f)
{
    struct traces_bench_table t;
    struct bench_cell none = {"", 0};
    enum lw_op_kind op;
    size_t len;
    const char *name = lw_json_key_view(f->j, &len);

    f->status = bench_operation(f->r, (struct bench_cell){name, len}, &op);
    if (f->status == LW_OK)
        f->status = bench_begin_table(f->r, 0, 0, none, none, &t);
    if (f->status != LW_OK)
        return;
    t.op = op;
    f->status = bench_add_table(f->r, &t);
    int64_t table = f->r->n_tables - 1;
    if (f->status == LW_OK && lw_json_enter(f->j, LW_JSON_ARRAY))
        while (next(f))
            take_row(f, table);
}

enum lw_status bench_read_link_times(struct bench_reader *r)
{
    struct file f = {.r = r};

    r->b->time_is = "median";
    LW_TRY(lw_json_open(r->in->name, r->in->text, r->in->len, &f.j, r->err));
    if (lw_json_enter(f.j, LW_JSON_OBJECT))
        while (next(&f))
            if (lw_json_key_is(f.j, "ops") && lw_json_enter(f.j, LW_JSON_OBJECT))
                while (next(&f))
                    take_operation(&f);
    enum lw_status status = f.status == LW_OK ? lw_json_done(f.j, r->err) : f.status;
    lw_json_close(f.j);
    return status;
}

/* The first key of "ops" is a list whose first row has bytes. */
bool traces_bench_is_link_times(const char *text, size_t len)
{
    struct lw_json *j;
    bool found = false;

    if (len == 0 || *text != '{' || len > MOST || !memmem(text, len, "\"ops\"", 5) ||
        !memmem(text, len, "\"median\"", 8) || lw_json_open("", text, len, &j, NULL) != LW_OK)
        return false;
    bool goes_on = lw_json_enter(j, LW_JSON_OBJECT);
    while (goes_on && !found && lw_json_next(j)) {
        if (!lw_json_key_is(j, "ops"))
            continue;
        goes_on = false;
        if (lw_json_type(j) == LW_JSON_OBJECT && lw_json_enter(j, LW_JSON_OBJECT) &&
            lw_json_next(j) && lw_json_type(j) == LW_JSON_ARRAY &&
            lw_json_enter(j, LW_JSON_ARRAY) && lw_json_next(j) &&
            lw_json_type(j) == LW_JSON_OBJECT && lw_json_enter(j, LW_JSON_OBJECT))
            while (!found && lw_json_next(j))
                found = lw_json_key_is(j, "bytes");
    }
    lw_json_close(j);
    return found;
}
