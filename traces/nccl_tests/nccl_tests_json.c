/* Measured collectives as nccl-tests writes them with -J FILE (NVIDIA/nccl-tests @ a0b82b2,
 * src/util.cu): one object with args, nccl_version, config (nthreads, ngpus, devices) and results,
 * a list of {size, count, type, redop, root, out_of_place, in_place}, each of those two {time,
 * alg_bw, bus_bw, nwrong}. devices has one entry for each process, so the ranks are the entries
 * times nthreads times ngpus. The operation is the program's name in args. */
#include "traces/nccl_tests/bench_rows.h"

#include <string.h>

#include "shared/json/json.h"
#include "shared/numbers/checked.h"

enum { MOST_PER_PROCESS = 1 << 10, HEAD = 1 << 20 };

struct file {
    struct bench_reader *r;
    struct lw_json *j;
    enum lw_status status; /* first error that is not of the JSON text */
    int64_t threads, gpus; /* of a process */
    struct bench_cell gpu; /* device of the first process */
};

struct half {
    lw_ps time;
    double algbw, busbw;
    int64_t n_wrong;
};

static bool next(struct file *f)
{
    return f->status == LW_OK && lw_json_next(f->j);
}

static struct bench_cell word(struct lw_json *j)
{
    struct bench_cell c;

    c.at = lw_json_view(j, &c.len);
    return c;
}

static void take_device(struct file *f)
{
    struct bench_rank v = {.device = -1};
    struct bench_cell gpu = {0};

    if (!lw_json_enter(f->j, LW_JSON_OBJECT))
        return;
    while (next(f)) {
        if (lw_json_key_is(f->j, "hostname"))
            v.host = word(f->j);
        else if (lw_json_key_is(f->j, "device"))
            v.device = lw_json_int64(f->j);
        else if (lw_json_key_is(f->j, "device_hex"))
            v.bus = word(f->j);
        else if (lw_json_key_is(f->j, "device_info"))
            gpu = word(f->j);
    }
    if (f->status == LW_OK)
        f->status = bench_take_gpu(f->r, gpu, &f->gpu);
    if (f->status == LW_OK && v.host.len > 0)
        f->status = bench_add_rank(f->r, v);
}

static int64_t count(struct lw_json *j)
{
    int64_t n = lw_json_int64(j);

    if (n < 1 || n > MOST_PER_PROCESS)
        lw_json_fail(j, "found %lld, expected 1 to %d", (long long)n, MOST_PER_PROCESS);
    return n;
}

static void take_config(struct file *f)
{
    if (!lw_json_enter(f->j, LW_JSON_OBJECT))
        return;
    while (next(f)) {
        if (lw_json_key_is(f->j, "nthreads"))
            f->threads = count(f->j);
        else if (lw_json_key_is(f->j, "ngpus"))
            f->gpus = count(f->j);
        else if (lw_json_key_is(f->j, "devices") && lw_json_enter(f->j, LW_JSON_ARRAY))
            while (next(f))
                take_device(f);
    }
}

static void take_args(struct file *f)
{
    if (!lw_json_enter(f->j, LW_JSON_ARRAY))
        return;
    while (next(f)) {
        struct bench_cell c = word(f->j);
        bench_note_test(f->r, c.at, c.len);
    }
}

static void take_time(struct lw_json *j, lw_ps *time)
{
    size_t len;
    const char *text = lw_json_number_text(j, &len);

    if (!bench_number((struct bench_cell){text, len}, 6, time))
        lw_json_fail(j, "found '%.*s', expected a time in us", (int)(len < 40 ? len : 40), text);
}

/* null: the half was not measured. */
static struct half take_half(struct file *f)
{
    struct half h = {-1, -1, -1, 0};

    if (lw_json_type(f->j) == LW_JSON_NULL || !lw_json_enter(f->j, LW_JSON_OBJECT))
        return h;
    while (next(f)) {
        if (lw_json_key_is(f->j, "time"))
            take_time(f->j, &h.time);
        else if (lw_json_key_is(f->j, "alg_bw"))
            h.algbw = lw_json_double(f->j);
        else if (lw_json_key_is(f->j, "bus_bw"))
            h.busbw = lw_json_double(f->j);
        else if (lw_json_key_is(f->j, "nwrong") && lw_json_type(f->j) == LW_JSON_NUMBER)
            h.n_wrong = lw_round_sat(lw_json_double(f->j));
        else if (lw_json_key_is(f->j, "cpu_time"))
            f->status = bench_refuses_host_time(f->r);
    }
    return h;
}

static enum lw_status begin_table(struct file *f, struct bench_cell type, bool only_in_place)
{
    struct traces_bench_table t;
    bool said;

    LW_TRY(bench_begin_table(f->r, f->r->n_ranks * f->threads * f->gpus, bench_count_nodes(f->r),
                             type, f->gpu, &t));
    LW_TRY(bench_said_operation(f->r, &t.op, &said));
    if (!said)
        return bench_asks_operation(f->r);
    t.only_in_place = only_in_place;
    return bench_add_table(f->r, &t);
}

static void take_row(struct file *f)
{
    struct bench_cell type = {0};
    struct half out = {-1, -1, -1, 0}, in = out;
    int64_t bytes = 0, table = 0;
    char why[192];

    if (!lw_json_enter(f->j, LW_JSON_OBJECT))
        return;
    while (next(f)) {
        if (lw_json_key_is(f->j, "size"))
            bytes = lw_json_int64(f->j);
        else if (lw_json_key_is(f->j, "type"))
            type = word(f->j);
        else if (lw_json_key_is(f->j, "out_of_place"))
            out = take_half(f);
        else if (lw_json_key_is(f->j, "in_place"))
            in = take_half(f);
    }
    bool only_in_place = out.time == -1;
    if (only_in_place) {
        out = in;
        in.n_wrong = 0;
    }
    if (lw_json_failed(f->j) || bytes == 0 || out.time == -1)
        return;
    if (f->status == LW_OK)
        f->status = bench_table_of(f->r, 0, type, &table);
    if (f->status == LW_OK && table == f->r->n_tables)
        f->status = begin_table(f, type, only_in_place);
    if (f->status != LW_OK)
        return;
    struct bench_stated s = {bytes,     out.time, in.time,  out.algbw,
                             out.busbw, in.algbw, in.busbw, lw_add_sat(out.n_wrong, in.n_wrong)};
    if (only_in_place != f->r->tables[table].only_in_place)
        lw_json_fail(f->j, "out_of_place is null in some rows of a table: measure all sizes in one "
                           "way");
    else if (bench_is_wrong(&f->r->tables[table], &s, why, sizeof why))
        lw_json_fail(f->j, "%s", why);
    else
        f->status = bench_add_row(f->r, table, &s);
}

static void take_file(struct file *f)
{
    if (!lw_json_enter(f->j, LW_JSON_OBJECT))
        return;
    while (next(f)) {
        if (lw_json_key_is(f->j, "args"))
            take_args(f);
        else if (lw_json_key_is(f->j, "nccl_version"))
            f->status = bench_version(f->r, lw_json_int64(f->j));
        else if (lw_json_key_is(f->j, "config"))
            take_config(f);
        else if (lw_json_key_is(f->j, "results") && lw_json_enter(f->j, LW_JSON_ARRAY))
            while (next(f))
                take_row(f);
    }
}

enum lw_status bench_read_json(struct bench_reader *r)
{
    struct file f = {.r = r, .threads = 1, .gpus = 1};

    r->b->is_nccl = true;
    r->b->time_is = "mean of the iterations";
    LW_TRY(lw_json_open(r->in->name, r->in->text, r->in->len, &f.j, r->err));
    take_file(&f);
    enum lw_status status = f.status == LW_OK ? lw_json_done(f.j, r->err) : f.status;
    lw_json_close(f.j);
    return status;
}

bool traces_bench_is_json(const char *text, size_t len)
{
    size_t n = len < HEAD ? len : HEAD;

    return n > 0 && *text == '{' && memmem(text, n, "\"nccl_version\"", 14) &&
           memmem(text, n, "\"nthreads\"", 10) && memmem(text, n, "\"results\"", 9);
}
