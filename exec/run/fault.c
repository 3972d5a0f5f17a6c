/* Faults on request: one op of one rank misbehaves in one step. Memory runs out for real: the
 * process may take no more address space than it has when the step is prepared, and its next
 * large block is refused by the system. So it stays until the run is taken down. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "exec/run/run_state.h"
#include "shared/plan/op.h"

#define MORE_BYTES ((size_t)64 << 20) /* larger than what malloc may have left over */

static const char *const fault_names[LW_N_FAULTS] = {"none", "fail", "hang", "memory",
                                                     "flip", "exit", "kill", "stop"};

static const enum exec_part_kind fault_part[LW_N_FAULTS] = {
    [LW_FAULT_FAIL] = EXEC_PART_FAIL, [LW_FAULT_HANG] = EXEC_PART_HANG,
    [LW_FAULT_FLIP] = EXEC_PART_FLIP, [LW_FAULT_EXIT] = EXEC_PART_EXIT,
    [LW_FAULT_KILL] = EXEC_PART_KILL, [LW_FAULT_STOP] = EXEC_PART_STOP,
};

const char *lw_exec_fault_name(enum lw_fault_kind kind)
{
    return fault_names[kind];
}

enum lw_status lw_exec_fault_parse(const char *text, struct lw_exec_fault *f, struct lw_err *err)
{
    char kind[16] = "";
    int rank, step, op, end = 0;

    if (sscanf(text, "%d:%d:%d:%15[a-z]%n", &rank, &step, &op, kind, &end) == 4 && !text[end] &&
        rank >= 0 && step >= 0 && op >= 0)
        for (int k = LW_FAULT_FAIL; k < LW_N_FAULTS; k++)
            if (strcmp(kind, fault_names[k]) == 0) {
                *f = (struct lw_exec_fault){(enum lw_fault_kind)k, rank, step, op};
                return LW_OK;
            }
    return lw_fail(err, LW_EINVAL,
                   "fault '%s' is not RANK:STEP:OP:KIND with KIND one of fail, hang, "
                   "memory, flip, exit, kill, stop",
                   text);
}

enum lw_status exec_refuse_fault(const struct exec_run *r, struct lw_err *err)
{
    const struct lw_exec_fault *f = &r->options->fault;
    const struct lw_plan *p = r->plan;

    if (f->kind == LW_FAULT_NONE)
        return LW_OK;
    if (f->rank >= p->n_ranks || f->op >= p->n_ops)
        return lw_fail(err, LW_EINVAL,
                       "fault in op %d of rank %d: the plan has %d ops and %d ranks", f->op,
                       f->rank, p->n_ops, p->n_ranks);
    if (f->kind == LW_FAULT_FLIP && (p->ops[f->op].kind != LW_OP_OPTIMIZER ||
                                     !(r->backend->capabilities & EXEC_IN_HOST_MEMORY)))
        return lw_fail(err, LW_ENOTSUP,
                       "fault 'flip' needs an optimizer op, on backend threads or mpi: op %d is "
                       "%s, on %s", f->op, lw_op_name(p->ops[f->op].kind), r->backend->name);
    if (f->kind >= LW_FAULT_EXIT &&
        !(r->options->process && (r->backend->capabilities & EXEC_CAN_END)))
        return lw_fail(err, LW_ENOTSUP,
                       "fault '%s' needs ranks that are processes (--spawn, mpirun)",
                       fault_names[f->kind]);
    return LW_OK;
}

/* Of the first gradient that the optimizer op reads. */
static enum lw_status add_flip(struct exec_run *r, const struct exec_place *at, struct lw_err *err)
{
    struct exec_owned own = {0};
    struct exec_part part = {.kind = EXEC_PART_FLIP, .count = 1};

    if (!exec_next_owned(&r->memory, at, &own))
        return lw_fail(err, LW_EINVAL, "rank %d updates nothing in step %d: it has no bit to flip",
                       at->rank, at->step);
    part.to_dtype = exec_gradient_dtype(r->plan, own.param);
    part.to = (char *)exec_tensors_gradient(&r->memory, at->layout, at->rank, own.param,
                                            &part.divisor) +
              own.first * lw_dtype_size(part.to_dtype);
    return exec_parts_add(&r->parts, part, err);
}

enum lw_status exec_add_fault(struct exec_run *r, const struct exec_lane *l, int32_t op,
                              const struct exec_place *at, struct lw_err *err)
{
    const struct lw_exec_fault *f = &r->options->fault;
    struct exec_parts *parts = &r->parts;

    if (f->kind == LW_FAULT_NONE || f->kind == LW_FAULT_MEMORY || f->rank != l->rank ||
        f->step != l->step || f->op != op)
        return LW_OK;
    if (f->kind == LW_FAULT_FLIP) {
        r->flipped = true;
        return add_flip(r, at, err);
    }
    if (r->rehearses)
        return LW_OK;
    LW_ROOM(parts->items, parts->capacity, parts->n + 1, err);
    parts->items[parts->n++] = (struct exec_part){
        .kind = fault_part[f->kind]};
    return LW_OK;
}

bool exec_rank_is_here(const struct exec_run *r, int32_t rank)
{
    const struct exec_facts *f = &r->memory.facts;

    return rank >= f->first_local && rank < f->first_local + f->n_local;
}

static bool runs_out_now(const struct exec_run *r)
{
    const struct lw_exec_fault *f = &r->options->fault;

    return f->kind == LW_FAULT_MEMORY && !r->rehearses && f->step >= r->n_done &&
           f->step < r->n_done + r->n_given && exec_rank_is_here(r, f->rank);
}

static int64_t address_space(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long long pages = 0;

    if (f && fscanf(f, "%lld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

enum lw_status exec_take_memory_away(struct exec_run *r, struct lw_err *err)
{
    struct rlimit limit;
    int64_t have;

    if (!runs_out_now(r))
        return LW_OK;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && (have = address_space()) > 0) {
        r->address_limit = limit.rlim_cur;
        limit.rlim_cur = (rlim_t)have;
        r->starved = setrlimit(RLIMIT_AS, &limit) == 0;
    }
    void *more = lw_alloc(MORE_BYTES);
    if (!more)
        return lw_fail(err, LW_ENOMEM, "out of memory: the system refuses %zu MiB more",
                       MORE_BYTES >> 20);
    lw_free(more);
    return lw_fail(err, LW_ENOTSUP, "fault 'memory': the system keeps no limit on address space");
}

void exec_give_memory_back(struct exec_run *r)
{
    struct rlimit limit;

    if (!r->starved || getrlimit(RLIMIT_AS, &limit) != 0)
        return;
    limit.rlim_cur = (rlim_t)r->address_limit;
    setrlimit(RLIMIT_AS, &limit);
    r->starved = false;
}
