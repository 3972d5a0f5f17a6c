/* `lapwing inspect --format csv`: one table for all files, so that a spreadsheet or a script reads
 * it in one go. The column `row` says what a line is, and cells that such a line has not are empty:
 *
 *   whole       first device start to last device end
 *   by_time     device work that runs inside the step named `in`
 *   by_launch   device work launched inside it; the window is its span
 *   comm        a communication kernel of by_launch
 *   step        a step as the host ran it
 *   collective  a collective that the host itself ran
 *   measured    a size of a table of collectives
 */
#include <stdio.h>
#include <string.h>

#include "shared/text/table.h"
#include "traces/inspect/inspect_print.h"

enum column {
    FILE_, FORMAT, RANK, ROW, IN, WINDOW, COMPUTE, COMM, MEM, EXPOSED_COMM, EXPOSED_MEM, IDLE,
    N_GPU_OPS, N_COMM, OP, KERNEL, STREAM, LAUNCH, START, DUR, DTYPE, BYTES, GROUP, ZERO_GRAD,
    FORWARD, BACKWARD, OPTIMIZER, N_GRADIENTS, IN_PLACE, N_COLUMNS
};

static const char *const titles[N_COLUMNS] = {
    "file", "format", "rank", "row", "in", "window_ns", "compute_busy_ns", "comm_busy_ns",
    "mem_busy_ns", "exposed_comm_ns", "exposed_mem_ns", "idle_ns", "n_gpu_ops", "n_comm", "op",
    "kernel", "stream", "launch_ns", "start_ns", "dur_ns", "dtype", "bytes", "group_size",
    "zero_grad_ns", "forward_ns", "backward_ns", "optimizer_ns", "n_gradients", "in_place_ns"};

struct line { /* texts are borrowed; numbers -1 and texts NULL are empty cells */
    const char *text[N_COLUMNS];
    int64_t number[N_COLUMNS];
};

static struct line new_line(const struct traces_report_file *f, const char *row, const char *in)
{
    struct line l;

    for (int i = 0; i < N_COLUMNS; i++) {
        l.text[i] = NULL;
        l.number[i] = -1;
    }
    l.text[FILE_] = f->name;
    l.text[FORMAT] = f->importer->name;
    l.text[ROW] = row;
    l.text[IN] = in;
    l.number[RANK] = f->importer->timeline ? f->trace.rank : -1;
    return l;
}

static void put_line(struct lw_table *t, const struct line *l)
{
    for (int i = 0; i < N_COLUMNS; i++) {
        if (l->text[i])
            lw_table_text(t, l->text[i]);
        else
            lw_table_maybe(t, lw_known(l->number[i]));
    }
}

static void put_busy(struct lw_table *t, struct line l, const struct lw_busy *b, int64_t n_gpu_ops,
                     int64_t n_comm)
{
    l.number[WINDOW] = b->window_ns;
    l.number[COMPUTE] = b->compute_busy_ns;
    l.number[COMM] = b->comm_busy_ns;
    l.number[MEM] = b->mem_busy_ns;
    l.number[EXPOSED_COMM] = b->exposed_comm_ns;
    l.number[EXPOSED_MEM] = b->exposed_mem_ns;
    l.number[IDLE] = b->idle_ns;
    l.number[N_GPU_OPS] = n_gpu_ops;
    l.number[N_COMM] = n_comm;
    put_line(t, &l);
}

static void put_comm(struct lw_table *t, struct line l, const struct lw_comm_op *c)
{
    l.text[OP] = c->op;
    l.text[KERNEL] = c->kernel;
    l.number[STREAM] = c->stream;
    l.number[LAUNCH] = c->launch_ns;
    l.number[START] = c->start_ns;
    l.number[DUR] = c->dur_ns;
    l.text[DTYPE] = c->dtype;
    l.number[BYTES] = c->bytes;
    l.number[GROUP] = c->group_size;
    put_line(t, &l);
}

static void put_device(struct lw_table *t, const struct traces_report_file *f)
{
    const struct lw_inspection *d = &f->device;

    if (d->has_device)
        put_busy(t, new_line(f, "whole", NULL), &d->whole, d->n_device_rows, -1);
    for (int64_t i = 0; i < d->n_iterations; i++) {
        const struct lw_iteration *it = &d->iterations[i];
        put_busy(t, new_line(f, "by_time", it->name), &it->by_time, -1, -1);
        if (it->n_gpu_ops > 0)
            put_busy(t, new_line(f, "by_launch", it->name), &it->by_launch, it->n_gpu_ops,
                     it->n_comm);
        for (int64_t k = 0; k < it->n_comm; k++)
            put_comm(t, new_line(f, "comm", it->name), &it->comm[k]);
    }
}

static void put_step(struct lw_table *t, const struct traces_report_file *f,
                     const struct lw_step *s)
{
    struct line l = new_line(f, "step", s->name);

    l.number[WINDOW] = s->end_ns - s->start_ns;
    for (int p = 0; p < LW_N_PHASES; p++)
        if (s->phase[p].found)
            l.number[ZERO_GRAD + p] = s->phase[p].end_ns - s->phase[p].start_ns;
    l.number[N_GRADIENTS] = s->n_gradients;
    put_line(t, &l);
    for (int64_t i = 0; i < s->n_collectives; i++) {
        int64_t row = s->collectives[i];
        int32_t d = f->trace.detail[row];
        l = new_line(f, "collective", s->name);
        l.text[OP] = lw_trace_name(&f->trace, row) + strlen("gloo:");
        l.number[START] = f->trace.start_ns[row] - s->start_ns;
        l.number[DUR] = f->trace.dur_ns[row];
        if (d >= 0 && f->trace.details[d].shape_type >= 0)
            l.text[DTYPE] = lw_trace_text(&f->trace, f->trace.details[d].shape_type);
        l.number[BYTES] = traces_host_bytes(&f->trace, row);
        put_line(t, &l);
    }
}

static void put_measured(struct lw_table *t, const struct traces_report_file *f)
{
    struct traces_measured_row row;

    for (int64_t k = 0; f->importer->measured && f->importer->measured(f->facts, k, &row); k++) {
        struct line l = new_line(f, "measured", NULL);
        l.text[OP] = row.op;
        l.text[DTYPE] = row.dtype;
        l.number[GROUP] = row.n_ranks;
        l.number[BYTES] = row.bytes;
        l.number[DUR] = row.time_ns;
        l.number[IN_PLACE] = row.in_place_ns;
        put_line(t, &l);
    }
}

enum lw_status traces_report_csv(const struct traces_report *r, FILE *f, struct lw_err *err)
{
    struct lw_table *t = lw_table_new(N_COLUMNS, titles);

    for (int64_t i = 0; i < r->n; i++) {
        const struct traces_report_file *file = &r->files[i];
        if (!file->importer->timeline) {
            put_measured(t, file);
            continue;
        }
        put_device(t, file);
        for (int64_t k = 0; k < file->steps.n; k++)
            put_step(t, file, &file->steps.steps[k]);
    }
    return lw_table_end(t, f, LW_TABLE_CSV, err);
}
