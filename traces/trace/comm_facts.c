/* Facts of a collective: sizes and group on the kernel (torch 2.2 and later), else on the host's
 * record of it around the launch (record_param_comms, or nccl:all_reduce with recorded shapes),
 * else only what the kernel's name says. A kernel that holds no sizes may hold a group and vice
 * versa. A barrier is told by its kernel or by the host's range around its launch. */
#include "traces/trace/comm_facts.h"

#include <string.h>

/* Kernels that only wait for other ranks: barriers on a stream of NVSHMEM (src/host/stream/coll/
 * barrier/barrier.cu: barrier_on_stream_kernel_threadgroup, barrier_all_on_stream_kernel_warp),
 * DeepEP (csrc/kernels/intranode.cu: namespace intranode, barrier), torch's symmetric memory
 * (torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemory.cu: barrier_kernel). */
static const char *const barrier_kernels[] = {"barrier_on_stream_kernel",
                                              "barrier_all_on_stream_kernel", "intranode::barrier",
                                              "barrier_kernel(unsigned int**"};

/* Host ranges of barriers: torch runs NCCL's as an all-reduce of one element in "nccl:
 * all_reduce_barrier" (pytorch #140785, torch 2.6; before that in c10d::barrier alone), those of
 * gloo, UCC and MPI as "gloo:barrier", "ucc:barrier", "mpi:barrier" (ProcessGroup*.cpp). */
static const char *const barrier_ranges[] = {"nccl:all_reduce_barrier", "nccl:barrier",
                                             "c10d::barrier", "gloo:barrier", "ucc:barrier",
                                             "mpi:barrier"};

static bool is_barrier_range(const struct lw_trace *t, int64_t row)
{
    if (!lw_trace_on_host(t, row))
        return false;
    for (size_t i = 0; i < sizeof barrier_ranges / sizeof *barrier_ranges; i++)
        if (lw_trace_name_begins(t, row, barrier_ranges[i]))
            return true;
    return false;
}

/* Shapes of activations are not messages. */
static bool is_noted(const struct lw_trace *t, int64_t row)
{
    return t->detail[row] >= 0 && lw_trace_on_host(t, row) &&
           !lw_trace_name_begins(t, row, "aten::");
}

enum lw_status traces_comm_index_build(const struct lw_trace *t, struct lw_arena *arena,
                                       struct traces_comm_index *out, struct lw_err *err)
{
    LW_TRY(lw_trace_pick(t, 0, t->n, is_barrier_range, arena, &out->barriers, &out->n_barriers,
                         err));
    return lw_trace_pick(t, 0, t->n, is_noted, arena, &out->noted, &out->n, err);
}

static bool is_barrier(const struct lw_trace *t, const struct traces_comm_index *x, int64_t kernel,
                       int64_t launch)
{
    for (size_t i = 0; i < sizeof barrier_kernels / sizeof *barrier_kernels; i++)
        if (strstr(lw_trace_name(t, kernel), barrier_kernels[i]))
            return true;
    int64_t at = launch >= 0 ? t->start_ns[launch] : 0, tries = 0;
    int64_t i = launch >= 0 ? lw_trace_rows_upto(t, x->barriers, x->n_barriers, at) - 1 : -1;
    for (; i >= 0 && tries < 4; i--, tries++)
        if (t->track[x->barriers[i]] == t->track[launch] &&
            lw_trace_end_ns(t, x->barriers[i]) >= at)
            return true;
    return false;
}

enum lw_status traces_kernel_classes(const struct lw_trace *t, const struct lw_kernel_table *table,
                                     struct lw_arena *arena, uint8_t **class_of,
                                     struct lw_err *err)
{
    bool *seen;

    LW_TAKE(arena, seen, t->strings.n, err);
    LW_TAKE(arena, *class_of, t->strings.n, err);
    for (int64_t i = 0; i < t->n; i++) {
        int32_t name = t->name[i];
        if (t->class[i] != LW_ROW_KERNEL || seen[name])
            continue;
        seen[name] = true;
        (*class_of)[name] = (uint8_t)lw_kernel_class_of(table, t->strings.text[name]);
    }
    return LW_OK;
}

/* The host's own record of the collective that this call launched: of the few ranges around it that
 * carry sizes the one with a message size (record_param_comms), else the innermost
 * (nccl:all_reduce, where shapes were recorded). -1 = none. */
static int64_t host_record(const struct lw_trace *t, const struct traces_comm_index *x,
                           int64_t launch)
{
    int64_t at = t->start_ns[launch], best = -1;
    int64_t i = lw_trace_rows_upto(t, x->noted, x->n, at) - 1;

    for (int64_t tries = 0; i >= 0 && tries < 8; i--, tries++) {
        int64_t row = x->noted[i];
        if (t->track[row] != t->track[launch] || lw_trace_end_ns(t, row) < at)
            continue;
        if (lw_trace_detail(t, row)->in_numel >= 0 || lw_trace_detail(t, row)->message_bytes > 0)
            return row;
        best = best >= 0 ? best : row;
    }
    return best;
}

static const char *op_of_kernel(const char *kernel)
{
    static const struct {
        const char *mark, *op;
    } names[] = {{"AllReduce", "allreduce"}, {"ReduceScatter", "reduce_scatter"},
                 {"AllGather", "allgather"}, {"Broadcast", "broadcast"},
                 {"SendRecv", "sendrecv"},   {"_Reduce_", "reduce"},
                 {"cross_device_reduce", "allreduce"}, {"all_reduce", "allreduce"},
                 {"allreduce", "allreduce"}, {"all_gather", "allgather"},
                 {"reduce_scatter", "reduce_scatter"}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(kernel, names[i].mark))
            return names[i].op;
    return NULL;
}

/* "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)", "..._RING_LL_Sum_float(...)": what is summed.
 * NCCL moves bytes where nothing is, whatever they are: the name then tells nothing. */
static const char *dtype_of_kernel(const char *kernel)
{
    static const struct {
        const char *mark, *dtype;
    } names[] = {{"_bf16", "bf16"},  {"_bfloat16", "bf16"}, {"_f16", "f16"},  {"_half", "f16"},
                 {"_f32", "f32"},    {"_float", "f32"},     {"_f64", "f64"},  {"_double", "f64"},
                 {"_i32", "i32"},    {"_u32", "i32"},       {"_i64", "i64"},  {"_u64", "i64"}};

    if (!strstr(kernel, "Reduce"))
        return NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(kernel, names[i].mark))
            return names[i].dtype;
    return NULL;
}

static int64_t bytes_of(const struct lw_trace *t, int64_t numel, int32_t dtype)
{
    enum lw_dtype type;
    int64_t bytes;

    if (numel < 0 || !lw_trace_dtype(t, dtype, &type) ||
        __builtin_mul_overflow(numel, lw_dtype_size(type), &bytes))
        return -1;
    return bytes;
}

static void set_size(struct traces_comm_fact *f, const struct lw_trace *t, int64_t numel,
                     int64_t out_numel, int32_t dtype)
{
    f->dtype = dtype >= 0 ? lw_trace_text(t, dtype) : NULL;
    f->bytes = bytes_of(t, numel, dtype);
    f->out_bytes = bytes_of(t, out_numel, dtype);
}

static struct traces_comm_fact recorded_fact(const struct lw_trace *t,
                                             const struct traces_comm_index *index, int64_t kernel,
                                             int64_t launch)
{
    int64_t from = t->detail[kernel] >= 0 ? kernel
                   : launch >= 0          ? host_record(t, index, launch)
                                          : -1;
    struct traces_comm_fact f = {.op = op_of_kernel(lw_trace_name(t, kernel)), .bytes = -1,
                                 .out_bytes = -1, .group_size = -1};

    if (from < 0)
        return f;
    const struct lw_row_detail *d = lw_trace_detail(t, from);
    f.group = d->group >= 0 ? lw_trace_text(t, d->group) : NULL;
    if (d->in_numel >= 0) {
        f.op = d->op >= 0 ? lw_trace_text(t, d->op) : f.op;
        f.group_size = d->group_size > 0 ? d->group_size : -1;
        set_size(&f, t, d->in_numel, d->out_numel, d->dtype);
    } else if (d->message_bytes > 0) { /* as NCCL counts it */
        f.op = lw_trace_name_begins(t, from, "nccl:") ? lw_trace_name(t, from) + strlen("nccl:")
                                                      : f.op;
        f.group_size = d->group_size > 0 ? d->group_size : -1;
        f.dtype = dtype_of_kernel(lw_trace_name(t, kernel));
        f.bytes = d->message_bytes;
    } else if (d->shape_numel >= 0) {
        if (lw_trace_name_begins(t, from, "nccl:")) /* the kernel may only say SendRecv */
            f.op = lw_trace_name(t, from) + strlen("nccl:");
        set_size(&f, t, d->shape_numel, -1, d->shape_type);
    }
    return f;
}

struct traces_comm_fact traces_comm_fact_of(const struct lw_trace *t,
                                            const struct traces_comm_index *index, int64_t kernel,
                                            int64_t launch)
{
    struct traces_comm_fact f = recorded_fact(t, index, kernel, launch);

    if (is_barrier(t, index, kernel, launch) || traces_comm_kind(f.op) == LW_OP_BARRIER) {
        f.op = "barrier";
        f.bytes = f.out_bytes = -1;
    }
    return f;
}

enum lw_op_kind traces_comm_kind(const char *op)
{
    static const struct {
        const char *mark;
        enum lw_op_kind kind;
    } kinds[] = {
        {"barrier", LW_OP_BARRIER}, /* "all_reduce_barrier" too */
        {"allreduce", LW_OP_ALL_REDUCE},
        {"all_reduce", LW_OP_ALL_REDUCE},
        {"reduce_scatter", LW_OP_REDUCE_SCATTER},
        {"reducescatter", LW_OP_REDUCE_SCATTER},
        {"allgather", LW_OP_ALL_GATHER},
        {"all_gather", LW_OP_ALL_GATHER},
        {"broadcast", LW_OP_BROADCAST},
        {"reduce", LW_OP_REDUCE},
    };

    for (size_t i = 0; op && i < sizeof kinds / sizeof *kinds; i++)
        if (strcasestr(op, kinds[i].mark))
            return kinds[i].kind;
    return LW_OP_ALL_TO_ALL;
}
