/* Walking the programs. A step is given to the backend as a whole, held back until everything is
 * handed over, and released on all ranks at once; then only poll waits. Ops of one stream run in the
 * order given; a dependency on another stream is an event recorded behind the one op and waited for
 * before the other. When the step is over, each rank's ready events are fed, in the order of the
 * times at which they really happened, to the reducer that made the plan: it must ask for the
 * collectives in the order in which they ran.
 *
 * Invariants: stamps of a step are zeroed before it is given and complete when poll says done; parts
 * and tasks live until then. A failed step leaves the timeline as it was after the step before. */
#include "exec/run.h"

#include <stdio.h>
#include <string.h>

#include "exec/audit.h"
#include "exec/consolidate.h"
#include "exec/launch_order.h"
#include "exec/stages.h"
#include "exec/tensors.h"
#include "exec/verify.h"
#include "shared/arena.h"
#include "shared/op.h"

#define OPENING_NS INT64_C(10000000000)
#define LOOK_NS INT64_C(100000000) /* how soon a signal is seen */

struct lane { /* one pass of the step on one rank */
    int32_t rank, pass, variant;
    struct lw_program program;
    int64_t first_stamp;
};

struct run {
    const struct lw_plan *plan;
    const struct lw_exec_options *options;
    const struct exec_backend *backend;
    struct exec_world *world;
    struct exec_tensors memory;
    struct lw_arena arena;
    struct exec_stream **streams; /* [n_ranks * n_streams], NULL until used */
    struct exec_event **events;   /* [n_ranks * largest program] */
    struct exec_event **pass_ends; /* [n_ranks * n_streams] what a stream did in a pass is done */
    struct exec_comm **comms;     /* [n_comms * n_groups] */
    bool *needs_event;            /* [n_ops] another stream waits for it */
    bool *filled;                 /* [n_ranks * n_params] */
    int32_t longest_program, micro_batches;
    struct exec_parts parts;
    struct exec_mismatch *found;  /* of the step's parts that compare */
    int64_t found_capacity;
    struct lw_err mismatch;       /* the first in a step; code LW_OK = none: the run goes on */
    int64_t *first_part;          /* [stamps] parts of an op: first_part[i] .. first_part[i + 1] */
    int64_t first_part_capacity;
    struct exec_stamp *stamps;
    struct lane *lanes;
    int64_t stamp_capacity, lane_capacity, n_stamps, n_lanes;
    int64_t next_pass;            /* of the plan */
    int64_t origin_ns, released_ns; /* first step's start; this step's */
    int32_t n_done;               /* steps */
    int64_t n_checked, n_checked_messages, n_consolidated, over_ns;
    float *consolidated;          /* on the rank that was asked for it */
    bool blamed;                  /* the message says where the step stopped */
    struct exec_stamp fault_stamp; /* of a fault before a communication op */
};

struct lw_exec_options lw_exec_options_default(void)
{
    return (struct lw_exec_options){.backend = &exec_backend_threads, .n_steps = 10, .n_warmup = 2,
                                    .timeout_ns = INT64_C(30) * 1000000000, .verify = true,
                                    .pin = true, .consolidate = -1,
                                    .optimizer = exec_optimizer_of(EXEC_SGD)};
}

/* --- set-up ------------------------------------------------------------------------------------- */

static const char *const fault_names[LW_N_FAULTS] = {"none", "fail", "hang", "memory",
                                                     "exit", "kill", "stop"};

static const enum exec_part_kind fault_part[LW_N_FAULTS] = {
    [LW_FAULT_FAIL] = EXEC_PART_FAIL, [LW_FAULT_HANG] = EXEC_PART_HANG,
    [LW_FAULT_EXIT] = EXEC_PART_EXIT, [LW_FAULT_KILL] = EXEC_PART_KILL,
    [LW_FAULT_STOP] = EXEC_PART_STOP,
};

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
    return lw_fail(err, LW_EINVAL, "fault '%s' is not RANK:STEP:OP:KIND with KIND one of fail, hang, "
                                   "memory, exit, kill, stop", text);
}

static enum lw_status refuse_fault(const struct run *r, struct lw_err *err)
{
    const struct lw_exec_fault *f = &r->options->fault;
    const struct lw_plan *p = r->plan;

    if (f->kind == LW_FAULT_NONE)
        return LW_OK;
    if (f->rank >= p->n_ranks || f->op >= p->n_ops)
        return lw_fail(err, LW_EINVAL, "fault in op %d of rank %d: the plan has %d ops and %d ranks",
                       f->op, f->rank, p->n_ops, p->n_ranks);
    if (f->kind >= LW_FAULT_EXIT &&
        !(r->options->process && (r->backend->capabilities & EXEC_CAN_END)))
        return lw_fail(err, LW_ENOTSUP, "fault '%s' needs ranks that are processes (--spawn, mpirun)",
                       fault_names[f->kind]);
    return LW_OK;
}

static enum lw_status refuse(const struct run *r, struct lw_err *err)
{
    static const struct {
        enum lw_op_kind op;
        uint32_t bit;
    } needs[] = {
        {LW_OP_ALL_REDUCE, EXEC_CAN_ALL_REDUCE}, {LW_OP_REDUCE, EXEC_CAN_REDUCE},
        {LW_OP_REDUCE_SCATTER, EXEC_CAN_REDUCE_SCATTER}, {LW_OP_ALL_GATHER, EXEC_CAN_ALL_GATHER},
        {LW_OP_BROADCAST, EXEC_CAN_BROADCAST}, {LW_OP_ALL_TO_ALL, EXEC_CAN_ALL_TO_ALL},
        {LW_OP_BARRIER, EXEC_CAN_BARRIER}, {LW_OP_SEND, EXEC_CAN_SEND_RECV},
        {LW_OP_RECV, EXEC_CAN_SEND_RECV},
    };
    const struct lw_plan *p = r->plan;

    if (p->strategy.clip > 0)
        return lw_fail(err, LW_ENOTSUP, "the plan clips gradients at norm %g: exec takes no norm and "
                                        "scales nothing (sim predicts it)", p->strategy.clip);
    if (p->n_passes == 0 || p->n_ops == 0)
        return lw_fail(err, LW_EPLAN, "the plan has nothing to run");
    for (int32_t i = 0; i < p->n_ops; i++) {
        const struct lw_op *op = &p->ops[i];
        for (size_t k = 0; k < sizeof needs / sizeof *needs; k++)
            if (op->kind == needs[k].op && !(r->backend->capabilities & needs[k].bit))
                return lw_fail(err, LW_ENOTSUP, "op %d: backend '%s' has no %s", i,
                               r->backend->name, lw_op_name(op->kind));
        if (lw_op_class(op->kind) == LW_CLASS_COMPUTE && lw_plan_work_ps(p, op) < 0)
            return lw_fail(err, LW_ENOTSUP, "op %d (%s %s) has no time of its own: exec cannot "
                                            "derive one from a cluster", i, lw_op_name(op->kind),
                           op->name ? op->name : "");
    }
    return refuse_fault(r, err);
}

static void note_events(struct run *r)
{
    const struct lw_plan *p = r->plan;

    for (int32_t i = 0; i < p->n_ops; i++)
        for (int32_t d = 0; d < p->ops[i].n_deps; d++) {
            int32_t before = p->deps[p->ops[i].first_dep + d];
            if (p->ops[before].stream != p->ops[i].stream)
                r->needs_event[before] = true;
        }
    for (int32_t v = 0; v < p->n_variants * p->n_roles; v++)
        if (p->programs[v].n_ops > r->longest_program)
            r->longest_program = p->programs[v].n_ops;
}

static bool uses_stream(const struct lw_plan *p, int32_t role, int32_t stream)
{
    for (int32_t v = 0; v < p->n_variants; v++) {
        const struct lw_program *g = &p->programs[(int64_t)v * p->n_roles + role];
        for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++)
            if (p->ops[i].stream == stream)
                return true;
    }
    return false;
}

static enum lw_status create_streams(struct run *r, struct lw_err *err)
{
    const struct lw_plan *p = r->plan;
    const struct exec_facts *f = &r->memory.facts;

    for (int32_t rank = f->first_local; rank < f->first_local + f->n_local; rank++)
        for (int32_t s = 0; s < p->n_streams; s++) {
            if (!uses_stream(p, p->role_of[rank], s))
                continue;
            int32_t priority = p->streams[s].class_ == LW_STREAM_COMM ? 1 : 0;
            if (p->streams[s].priority > priority)
                priority = p->streams[s].priority;
            LW_TRY(r->backend->stream_create(r->world, rank, p->streams[s].name, priority,
                                             &r->streams[(int64_t)rank * p->n_streams + s], err));
        }
    return LW_OK;
}

/* What the plan asks for is done or refused; a library that is named after itself is asked for. */
static enum lw_status choose_reducer(struct run *r, struct exec_comm *comm,
                                     enum lw_reducer_kind reducer, struct lw_err *err)
{
    const char *name = lw_reducer_name(reducer);

    if (reducer == LW_REDUCER_AUTO || strcmp(name, r->backend->name) == 0)
        return LW_OK;
    if (r->backend->comm_reducer)
        return r->backend->comm_reducer(r->world, comm, reducer, err);
    return lw_fail(err, LW_ENOTSUP, "the plan asks for the reducer '%s', but backend '%s' chooses "
                                    "its algorithms itself (--reducer auto)", name,
                   r->backend->name);
}

static enum lw_status create_comms(struct run *r, struct lw_err *err)
{
    const struct lw_plan *p = r->plan;

    for (int32_t c = 0; c < p->n_comms; c++)
        for (int32_t rank = 0; rank < p->n_ranks; rank++) {
            int32_t g = p->comm_group[(int64_t)c * p->n_ranks + rank];
            if (g < 0 || r->comms[(int64_t)c * p->n_groups + g])
                continue;
            struct exec_comm **comm = &r->comms[(int64_t)c * p->n_groups + g];
            LW_TRY(r->backend->comm_create(r->world, p->members + p->groups[g].first_member,
                                           p->groups[g].n_members, comm, err));
            LW_TRY(choose_reducer(r, *comm, p->comms[c].reducer, err));
        }
    return LW_OK;
}

int64_t exec_opening_limit(int64_t timeout_ns)
{
    return timeout_ns > OPENING_NS ? timeout_ns : OPENING_NS;
}

static enum lw_status set_up(struct run *r, struct lw_err *err)
{
    const struct lw_plan *p = r->plan;
    const struct lw_exec_options *o = r->options;
    struct exec_open how = {.n_ranks = p->n_ranks, .compute = o->compute, .pin = o->pin,
                            .ranks_per_node = o->ranks_per_node,
                            .link_bytes_per_s = o->link_bytes_per_s,
                            .link_latency_ns = o->link_latency_ns, .timeout_ns = exec_opening_limit(o->timeout_ns),
                            .loop = o->loop, .process = o->process};

    LW_TRY(exec_plan_is_safe(p, err));
    LW_TRY(refuse(r, err));
    if (o->link_bytes_per_s > 0 && !(r->backend->capabilities & EXEC_CAN_PACE))
        return lw_fail(err, LW_ENOTSUP, "backend '%s' cannot pace links", r->backend->name);
    if (o->loop && !(r->backend->capabilities & EXEC_CAN_LOOP))
        return lw_fail(err, LW_ENOTSUP, "backend '%s' has no loop transport", r->backend->name);
    if (o->process && !(r->backend->capabilities & EXEC_CAN_PROCESS))
        return lw_fail(err, LW_ENOTSUP, "backend '%s' has all ranks in one process; this is rank %d "
                                        "of several", r->backend->name, o->process->rank);
    LW_TRY(r->backend->open(&how, &r->world, err));
    r->memory = (struct exec_tensors){.plan = p, .backend = r->backend, .world = r->world,
                                     .keep_scratch_apart = o->verify,
                                     .optimizer = o->optimizer};
    r->backend->facts(r->world, &r->memory.facts);
    r->needs_event = lw_arena_alloc(&r->arena, p->n_ops, sizeof *r->needs_event);
    r->streams = lw_arena_alloc(&r->arena, (int64_t)p->n_ranks * p->n_streams, sizeof *r->streams);
    r->comms = lw_arena_alloc(&r->arena, (int64_t)p->n_comms * p->n_groups, sizeof *r->comms);
    r->filled = lw_arena_alloc(&r->arena, (int64_t)p->n_ranks * p->n_params, sizeof *r->filled);
    if (!r->needs_event || !r->streams || !r->comms || !r->filled)
        return lw_fail_nomem(err);
    note_events(r);
    r->pass_ends = lw_arena_alloc(&r->arena, (int64_t)p->n_ranks * p->n_streams,
                                  sizeof *r->pass_ends);
    r->events = lw_arena_alloc(&r->arena, (int64_t)p->n_ranks * r->longest_program,
                               sizeof *r->events);
    if (!r->events || !r->pass_ends)
        return lw_fail_nomem(err);
    LW_TRY(exec_tensors_init(&r->memory, err));
    LW_TRY(create_streams(r, err));
    return create_comms(r, err);
}

/* --- giving a step ------------------------------------------------------------------------------ */

static struct exec_stream *stream_of(const struct run *r, int32_t rank, int32_t stream)
{
    return r->streams[(int64_t)rank * r->plan->n_streams + stream];
}

static enum lw_status event_of(struct run *r, const struct lane *l, int32_t op,
                               struct exec_event **event, struct lw_err *err)
{
    struct exec_event **e =
        &r->events[(int64_t)l->rank * r->longest_program + op - l->program.first_op];

    if (!*e)
        LW_TRY(r->backend->event_create(r->world, l->rank, e, err));
    *event = *e;
    return LW_OK;
}

/* The lanes and stamps of the next step; its last pass says where gradients lie. */
static enum lw_status list_lanes(struct run *r, int32_t *last_variant, struct lw_err *err)
{
    const struct lw_plan *p = r->plan;
    const struct exec_facts *f = &r->memory.facts;
    bool ends = false;

    r->n_lanes = r->n_stamps = 0;
    for (int32_t pass = 0; !ends; pass++) {
        int32_t v = lw_plan_variant_of_pass(p, r->next_pass++);
        if (lw_reserve(&r->lanes, &r->lane_capacity, r->n_lanes + f->n_local, sizeof *r->lanes))
            return lw_fail_nomem(err);
        for (int32_t k = 0; k < f->n_local; k++) {
            int32_t rank = f->first_local + k;
            struct lw_program g = lw_plan_program(p, v, rank);
            r->lanes[r->n_lanes++] = (struct lane){rank, pass, v, g, r->n_stamps};
            r->n_stamps += g.n_ops;
        }
        *last_variant = v;
        ends = p->variants[v].ends_step;
        if (!ends && pass >= p->n_passes)
            return lw_fail(err, LW_EPLAN, "no pass of the plan ends a step");
    }
    if (lw_reserve(&r->stamps, &r->stamp_capacity, r->n_stamps + 1, sizeof *r->stamps) ||
        lw_reserve(&r->first_part, &r->first_part_capacity, r->n_stamps + 1,
                   sizeof *r->first_part))
        return lw_fail_nomem(err);
    memset(r->stamps, 0, (size_t)r->n_stamps * sizeof *r->stamps);
    return LW_OK;
}

static enum lw_status add_fault(struct run *r, const struct lane *l, int32_t op,
                                struct lw_err *err)
{
    const struct lw_exec_fault *f = &r->options->fault;
    struct exec_parts *parts = &r->parts;

    if (f->kind == LW_FAULT_NONE || f->kind == LW_FAULT_MEMORY || f->rank != l->rank || f->step != r->n_done || f->op != op)
        return LW_OK;
    if (lw_reserve(&parts->items, &parts->capacity, parts->n + 1, sizeof *parts->items))
        return lw_fail_nomem(err);
    parts->items[parts->n++] = (struct exec_part){
        .kind = fault_part[f->kind]};
    return LW_OK;
}

/* Of the i-th op of a lane, which is no communication. */
static enum lw_status op_parts(struct run *r, const struct lane *l, int32_t i,
                               const struct exec_place *at, struct lw_err *err)
{
    const struct lw_op *op = &r->plan->ops[l->program.first_op + i];
    const struct exec_layout *own = exec_tensors_layout(&r->memory, l->variant, l->rank);

    LW_TRY(exec_unit_parts(&r->memory, op, own, l->rank, &r->parts, err));
    LW_TRY(exec_taken_parts(&r->memory, l->variant, i, at, &r->parts, err));
    LW_TRY(exec_tensors_parts(&r->memory, op, at, &r->parts, err));
    return exec_made_parts(&r->memory, l->variant, i, at, &r->parts, err);
}

static enum lw_status give_room_to_compare(struct run *r, struct lw_err *err)
{
    int64_t n = 0;

    for (int64_t i = 0; i < r->parts.n; i++)
        n += r->parts.items[i].kind == EXEC_PART_EXPECT;
    if (lw_reserve(&r->found, &r->found_capacity, n, sizeof *r->found))
        return lw_fail_nomem(err);
    n = 0;
    for (int64_t i = 0; i < r->parts.n; i++)
        if (r->parts.items[i].kind == EXEC_PART_EXPECT) {
            r->found[n] = (struct exec_mismatch){0};
            r->parts.items[i].found = &r->found[n++];
        }
    return LW_OK;
}

static struct exec_place place_in(const struct run *r, const struct lane *l, int32_t last_variant)
{
    return (struct exec_place){r->n_done, l->pass, l->rank,
                               exec_tensors_layout(&r->memory, last_variant, l->rank),
                               r->filled + (int64_t)l->rank * r->plan->n_params,
                               r->micro_batches};
}

/* All parts of the step first: the list moves while it grows. */
static enum lw_status list_parts(struct run *r, int32_t last_variant, struct lw_err *err)
{
    const struct lw_plan *p = r->plan;

    r->parts.n = 0;
    memset(r->filled, 0, (size_t)p->n_ranks * (size_t)p->n_params * sizeof *r->filled);
    for (int64_t k = 0; k < r->n_lanes; k++) {
        const struct lane *l = &r->lanes[k];
        struct exec_place at = place_in(r, l, last_variant);
        for (int32_t i = 0; i < l->program.n_ops; i++) {
            r->first_part[l->first_stamp + i] = r->parts.n;
            LW_TRY(add_fault(r, l, l->program.first_op + i, err));
            if (p->ops[l->program.first_op + i].comm < 0)
                LW_TRY(op_parts(r, l, i, &at, err));
        }
    }
    r->first_part[r->n_stamps] = r->parts.n;
    return give_room_to_compare(r, err);
}

static enum lw_status give_compute(struct run *r, const struct lane *l, int32_t i,
                                   struct lw_err *err)
{
    const struct lw_op *op = &r->plan->ops[l->program.first_op + i];
    int64_t at = l->first_stamp + i;
    lw_ps work = lw_plan_work_ps(r->plan, op);
    struct exec_task task = {
        .work_ns = work > 0 ? lw_ps_to_ns(work) : 0,
        .n_parts = (int32_t)(r->first_part[at + 1] - r->first_part[at]),
        .parts = r->parts.items + r->first_part[at],
        .idle = lw_op_class(op->kind) == LW_CLASS_HOST,
    };
    return r->backend->compute(stream_of(r, l->rank, op->stream), &task, &r->stamps[at], err);
}

static exec_comm_fn *comm_function(const struct exec_backend *b, enum lw_op_kind kind)
{
    switch (kind) {
    case LW_OP_ALL_REDUCE: return b->all_reduce;
    case LW_OP_REDUCE: return b->reduce;
    case LW_OP_REDUCE_SCATTER: return b->reduce_scatter;
    case LW_OP_ALL_GATHER: return b->all_gather;
    case LW_OP_BROADCAST: return b->broadcast;
    case LW_OP_ALL_TO_ALL: return b->all_to_all;
    case LW_OP_SEND: return b->send;
    case LW_OP_RECV: return b->recv;
    default: return b->barrier;
    }
}

static enum lw_status give_comm(struct run *r, const struct lane *l, int32_t i,
                                const struct exec_layout *step_layout, struct lw_err *err)
{
    const struct lw_plan *p = r->plan;
    const struct lw_op *op = &p->ops[l->program.first_op + i];
    int32_t g = p->comm_group[(int64_t)op->comm * p->n_ranks + l->rank];
    int64_t at = l->first_stamp + i;
    struct exec_task fault = {.n_parts = (int32_t)(r->first_part[at + 1] - r->first_part[at]),
                              .parts = r->parts.items + r->first_part[at]};
    struct exec_message m = exec_tensors_message(&r->memory, op, l->variant, l->rank, step_layout);

    if (g < 0)
        return lw_fail(err, LW_EPLAN, "op %d (%s): rank %d is no member of '%s'",
                       l->program.first_op + i, lw_op_name(op->kind), l->rank,
                       p->comms[op->comm].name);
    if (fault.n_parts > 0)
        LW_TRY(r->backend->compute(stream_of(r, l->rank, op->stream), &fault, &r->fault_stamp, err));
    return comm_function(r->backend, op->kind)(stream_of(r, l->rank, op->stream),
                                               r->comms[(int64_t)op->comm * p->n_groups + g], &m,
                                               &r->stamps[l->first_stamp + i], err);
}

static enum lw_status give_waits(struct run *r, const struct lane *l, int32_t i,
                                 struct lw_err *err)
{
    const struct lw_plan *p = r->plan;
    const struct lw_op *op = &p->ops[l->program.first_op + i];

    for (int32_t d = 0; d < op->n_deps; d++) {
        int32_t before = p->deps[op->first_dep + d];
        struct exec_event *event;
        if (p->ops[before].stream == op->stream)
            continue;
        LW_TRY(event_of(r, l, before, &event, err));
        LW_TRY(r->backend->event_wait(stream_of(r, l->rank, op->stream), event, err));
    }
    return LW_OK;
}

static enum lw_status give_record(struct run *r, const struct lane *l, int32_t i,
                                  struct lw_err *err)
{
    const struct lw_op *op = &r->plan->ops[l->program.first_op + i];
    struct exec_event *event;

    if (!r->needs_event[l->program.first_op + i])
        return LW_OK;
    LW_TRY(event_of(r, l, l->program.first_op + i, &event, err));
    return r->backend->event_record(stream_of(r, l->rank, op->stream), event, err);
}

static bool in_call(const struct run *r, const struct lane *l, int32_t i, int32_t call)
{
    return i >= 0 && i < l->program.n_ops && r->plan->ops[l->program.first_op + i].call == call;
}

/* Of a call's ops i .. end - 1, those on the stream of op `first`: one group. */
static enum lw_status give_group(struct run *r, const struct lane *l, int32_t i, int32_t end,
                                 int32_t first, const struct exec_layout *layout,
                                 struct lw_err *err)
{
    const struct lw_op *ops = r->plan->ops + l->program.first_op;
    struct exec_stream *s = stream_of(r, l->rank, ops[first].stream);

    LW_TRY(r->backend->group_begin(s, err));
    for (int32_t k = i; k < end; k++)
        if (ops[k].stream == ops[first].stream)
            LW_TRY(give_comm(r, l, k, layout, err));
    return r->backend->group_end(s, err);
}

/* Sends and receives of one call, numbered i .. end - 1: everything they wait for first. Streams do not
 * wait for each other within it. */
static enum lw_status give_call(struct run *r, const struct lane *l, int32_t i, int32_t end,
                                const struct exec_layout *layout, struct lw_err *err)
{
    const struct lw_op *ops = r->plan->ops + l->program.first_op;

    for (int32_t k = i; k < end; k++)
        LW_TRY(give_waits(r, l, k, err));
    for (int32_t k = i; k < end; k++) {
        int32_t first = i;
        while (ops[first].stream != ops[k].stream)
            first++;
        if (first == k)
            LW_TRY(give_group(r, l, i, end, k, layout, err));
    }
    for (int32_t k = i; k < end; k++)
        LW_TRY(give_record(r, l, k, err));
    return LW_OK;
}

/* A rank begins a pass when its ops of the pass before have ended, on all of its streams. */
static enum lw_status end_pass_before(struct run *r, int32_t rank, struct lw_err *err)
{
    int32_t n = r->plan->n_streams;
    struct exec_stream **s = r->streams + (int64_t)rank * n;
    struct exec_event **e = r->pass_ends + (int64_t)rank * n;

    for (int32_t i = 0; i < n; i++) {
        if (!s[i])
            continue;
        if (!e[i])
            LW_TRY(r->backend->event_create(r->world, rank, &e[i], err));
        LW_TRY(r->backend->event_record(s[i], e[i], err));
    }
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; s[i] && k < n; k++)
            if (k != i && e[k])
                LW_TRY(r->backend->event_wait(s[i], e[k], err));
    return LW_OK;
}

static enum lw_status give_lane(struct run *r, const struct lane *l, int32_t last_variant,
                                struct lw_err *err)
{
    const struct lw_plan *p = r->plan;
    const struct exec_layout *layout = exec_tensors_layout(&r->memory, last_variant, l->rank);

    if (l->pass > 0)
        LW_TRY(end_pass_before(r, l->rank, err));
    for (int32_t i = 0; i < l->program.n_ops; i++) {
        const struct lw_op *op = &p->ops[l->program.first_op + i];
        if (lw_op_class(op->kind) == LW_CLASS_P2P && op->call >= 0) {
            int32_t end = i + 1;
            while (in_call(r, l, end, op->call))
                end++;
            LW_TRY(give_call(r, l, i, end, layout, err));
            i = end - 1;
            continue;
        }
        LW_TRY(give_waits(r, l, i, err));
        LW_TRY(op->comm >= 0 ? give_comm(r, l, i, layout, err) : give_compute(r, l, i, err));
        LW_TRY(give_record(r, l, i, err));
    }
    return LW_OK;
}

static enum lw_status give_step(struct run *r, struct lw_err *err)
{
    int32_t last_variant = 0;

    enum lw_status listed = list_lanes(r, &last_variant, err);
    if (listed != LW_OK) {
        r->n_lanes = 0; /* there are no stamps to look at */
        return listed;
    }
    LW_TRY(list_parts(r, last_variant, err));
    for (int64_t k = 0; r->options->verify && k < r->n_lanes; k += r->memory.facts.n_local)
        LW_TRY(exec_scratch_set(&r->memory, r->lanes[k].variant, r->n_done, err));
    r->backend->hold(r->world);
    for (int64_t k = 0; k < r->n_lanes; k++)
        LW_TRY(give_lane(r, &r->lanes[k], last_variant, err));
    return LW_OK;
}

/* --- after a step ------------------------------------------------------------------------------- */

static lw_ps on_timeline(const struct run *r, int64_t ns)
{
    return lw_ns_to_ps(ns - r->origin_ns);
}

/* An op counts as handed to its stream when its dependencies are done, or, where the plan has one, when
 * its launch is: everything was given to the backend before the step. */
static struct lw_span span_of(const struct run *r, const struct lane *l, int32_t i)
{
    const struct lw_plan *p = r->plan;
    const struct exec_stamp *s = &r->stamps[l->first_stamp + i];
    const struct lw_op *op = &p->ops[l->program.first_op + i];
    int64_t ready = r->released_ns, launched = -1;

    for (int32_t d = 0; d < op->n_deps; d++) {
        int32_t before = p->deps[op->first_dep + d];
        int64_t end = r->stamps[l->first_stamp + before - l->program.first_op].end_ns;
        ready = end > ready ? end : ready;
        if (p->ops[before].kind == LW_OP_LAUNCH && end > launched)
            launched = end;
    }
    ready = ready < s->start_ns ? ready : s->start_ns;
    return (struct lw_span){
        .step = r->n_done, .pass = l->pass, .rank = l->rank, .stream = op->stream,
        .comm = op->comm, .op = l->program.first_op + i, .kind = op->kind,
        .ready = on_timeline(r, ready),
        .issue = on_timeline(r, launched < 0 ? ready : launched),
        .start = on_timeline(r, s->start_ns),
        .all_in = op->comm >= 0 && s->all_in_ns >= 0 ? on_timeline(r, s->all_in_ns) : -1,
        .end = on_timeline(r, s->end_ns),
    };
}

static enum lw_status keep_spans(struct run *r, struct lw_timeline *t, struct lw_err *err)
{
    for (int64_t k = 0; k < r->n_lanes; k++)
        for (int32_t i = 0; i < r->lanes[k].program.n_ops; i++) {
            struct lw_span span = span_of(r, &r->lanes[k], i);
            LW_TRY(lw_timeline_add(t, &span, err));
            if (r->n_done >= r->options->n_warmup)
                r->over_ns += r->stamps[r->lanes[k].first_stamp + i].over_ns;
        }
    return LW_OK;
}

static enum lw_status check_launches(const struct run *r, struct lw_err *err)
{
    for (int64_t k = 0; k < r->n_lanes; k++) {
        const struct lane *l = &r->lanes[k];
        LW_TRY(exec_launch_order_check(r->plan, exec_tensors_layout(&r->memory, l->variant, l->rank),
                                   l->variant, l->rank, r->stamps + l->first_stamp, err));
    }
    return LW_OK;
}

/* What did not stop the step: kept for the end of the run, when all ranks are there to hear of it. */
static enum lw_status keep_mismatch(struct run *r, enum lw_status s, const struct lw_err *why,
                                    struct lw_err *err)
{
    if (s == LW_ENO && r->mismatch.code == LW_OK)
        r->mismatch = *why;
    if (s != LW_OK && s != LW_ENO && err)
        *err = *why;
    return s == LW_ENO ? LW_OK : s;
}

/* What ops took from other stages; those of the earliest op in a program come first. */
static enum lw_status check_values(struct run *r, struct lw_err *err)
{
    for (int64_t k = 0; k < r->n_lanes; k++) {
        const struct lane *l = &r->lanes[k];
        struct exec_place at = place_in(r, l, l->variant);
        for (int32_t i = 0; i < l->program.n_ops; i++)
            for (int64_t n = r->first_part[l->first_stamp + i];
                 n < r->first_part[l->first_stamp + i + 1]; n++) {
                const struct exec_part *part = &r->parts.items[n];
                struct lw_err why = {0};
                if (part->kind != EXEC_PART_EXPECT)
                    continue;
                r->n_checked_messages += part->count * lw_dtype_size(part->from_dtype);
                if (part->found->place > 0)
                    LW_TRY(keep_mismatch(r, exec_mismatch_tell(&r->memory, l->variant, i, &at, part,
                                                               &why), &why, err));
            }
    }
    return LW_OK;
}

/* A variant that ran twice in the step has sent what it had received: only the others are checked. */
static enum lw_status check_messages(struct run *r, struct lw_err *err)
{
    int32_t n_local = r->memory.facts.n_local;

    for (int64_t k = 0; r->options->verify && k < r->n_lanes; k += n_local) {
        int32_t v = r->lanes[k].variant, times = 0;
        for (int64_t j = 0; j < r->n_lanes; j += n_local)
            times += r->lanes[j].variant == v;
        struct lw_err why = {0};
        if (times == 1)
            LW_TRY(keep_mismatch(r, exec_scratch_check(&r->memory, v, r->n_done,
                                                       &r->n_checked_messages, &why), &why, err));
    }
    return LW_OK;
}

/* --- a step that did not finish ----------------------------------------------------------------- */

/* What is waited for: the op that failed; else one that began, a compute op rather than a communication op,
 * which may just wait for others; of those the first. Where none began, the first in the program. */
static bool more_to_blame(const struct lw_op *a, const struct exec_stamp *sa,
                          const struct lw_op *b, const struct exec_stamp *sb)
{
    if ((sa->end_ns < 0) != (sb->end_ns < 0))
        return sa->end_ns < 0;
    if ((sa->start_ns > 0) != (sb->start_ns > 0))
        return sa->start_ns > 0;
    if (sa->start_ns > 0 && (a->comm < 0) != (b->comm < 0))
        return a->comm < 0;
    return sa->start_ns > 0 && sa->start_ns < sb->start_ns;
}

static void describe_op(const struct run *r, const struct lane *l, int32_t i, char *text, size_t room)
{
    const struct lw_op *op = &r->plan->ops[l->program.first_op + i];
    const char *name = op->name ? op->name : "";
    char what[48] = "";

    if (op->bucket >= 0)
        snprintf(what, sizeof what, " of bucket %d", op->bucket);
    snprintf(text, room, "op %d (%s%s%.40s%s) of rank %d", l->program.first_op + i,
             lw_op_name(op->kind), *name ? " " : "", name, what, l->rank);
}

/* Of one rank: what ended last, and what is most to blame among what did not. */
static struct lw_exec_place place_of(const struct run *r, int32_t rank)
{
    struct lw_exec_place place = {.rank = rank, .step = r->n_done, .last_op = -1, .open_op = -1,
                                  .known = true};
    const struct exec_stamp *last = NULL, *open = NULL;

    for (int64_t k = 0; k < r->n_lanes; k++) {
        const struct lane *l = &r->lanes[k];
        for (int32_t i = 0; l->rank == rank && i < l->program.n_ops; i++) {
            const struct exec_stamp *s = &r->stamps[l->first_stamp + i];
            int32_t op = l->program.first_op + i;
            if (s->end_ns > 0 && (!last || s->end_ns > last->end_ns)) {
                last = s;
                place.last_op = op;
            } else if (s->end_ns <= 0 && (!open || more_to_blame(&r->plan->ops[op], s,
                                                                 &r->plan->ops[place.open_op], open))) {
                open = s;
                place.open_op = op;
            }
        }
    }
    return place;
}

/* Without memory for it the message alone says where. */
static void keep_places(const struct run *r, struct lw_exec_result *out)
{
    const struct exec_facts *f = &r->memory.facts;

    out->places = lw_calloc((size_t)f->n_local, sizeof *out->places);
    for (int32_t k = 0; out->places && k < f->n_local; k++)
        out->places[out->n_places++] = place_of(r, f->first_local + k);
}

static enum lw_status blame(const struct run *r, enum lw_status code, const char *why,
                            struct lw_err *err)
{
    const struct lane *last = NULL, *open = NULL;
    int32_t last_i = 0, open_i = 0;
    char done[128] = "none", undone[128] = "none";

    for (int64_t k = 0; k < r->n_lanes; k++) {
        const struct lane *l = &r->lanes[k];
        for (int32_t i = 0; i < l->program.n_ops; i++) {
            const struct exec_stamp *s = &r->stamps[l->first_stamp + i];
            const struct lw_op *op = &r->plan->ops[l->program.first_op + i];
            if (s->end_ns > 0 &&
                (!last || s->end_ns > r->stamps[last->first_stamp + last_i].end_ns)) {
                last = l;
                last_i = i;
            } else if (s->end_ns <= 0 &&
                       (!open || more_to_blame(op, s, &r->plan->ops[open->program.first_op + open_i],
                                               &r->stamps[open->first_stamp + open_i]))) {
                open = l;
                open_i = i;
            }
        }
    }
    if (last)
        describe_op(r, last, last_i, done, sizeof done);
    if (open)
        describe_op(r, open, open_i, undone, sizeof undone);
    return lw_fail(err, code, "step %d: %.160s; last finished: %s; first unfinished: %s", r->n_done,
                   why, done, undone);
}

/* As backend->poll, but looks for a signal now and then. */
static enum exec_state poll_step(struct run *r, int64_t deadline_ns, struct lw_err *why)
{
    const volatile sig_atomic_t *signal = r->options->signal;
    enum exec_state state = EXEC_RUNNING;

    while (state == EXEC_RUNNING && r->backend->now_ns(r->world) < deadline_ns) {
        int64_t until = r->backend->now_ns(r->world) + LOOK_NS;
        if (signal && *signal) {
            lw_fail(why, LW_EFAILED, "stopped by signal %d", (int)*signal);
            return EXEC_FAILED;
        }
        state = r->backend->poll(r->world, signal && until < deadline_ns ? until : deadline_ns, why);
    }
    return state;
}

static enum lw_status wait_step(struct run *r, struct lw_exec_result *out, struct lw_err *err)
{
    struct lw_err why = {0};
    char limit[96];
    int64_t deadline = r->backend->now_ns(r->world) + r->options->timeout_ns;
    enum exec_state state = poll_step(r, deadline, &why);

    if (state == EXEC_DONE)
        return LW_OK;
    snprintf(limit, sizeof limit, "not done after %.3g s (--timeout)",
             (double)r->options->timeout_ns * 1e-9);
    r->backend->abort(r->world, state == EXEC_FAILED ? why.msg : limit);
    r->backend->close(r->world);
    r->world = NULL;
    keep_places(r, out);
    r->blamed = true;
    return state == EXEC_FAILED ? blame(r, why.code == LW_ENO ? LW_ENO : LW_EFAILED, why.msg, err)
                                : blame(r, LW_ETIMEOUT, limit, err);
}

/* --- the whole ---------------------------------------------------------------------------------- */

static bool is_here(const struct run *r, int32_t rank)
{
    const struct exec_facts *f = &r->memory.facts;

    return rank >= f->first_local && rank < f->first_local + f->n_local;
}

static bool memory_runs_out(const struct run *r)
{
    const struct lw_exec_fault *f = &r->options->fault;

    return f->kind == LW_FAULT_MEMORY && f->step == r->n_done && is_here(r, f->rank);
}

static enum lw_status run_step(struct run *r, struct lw_exec_result *out, struct lw_err *err)
{
    if (memory_runs_out(r))
        return lw_fail_nomem(err);
    LW_TRY(give_step(r, err));
    r->released_ns = r->backend->now_ns(r->world);
    if (r->n_done == 0)
        r->origin_ns = r->released_ns;
    LW_TRY(r->backend->release(r->world, err));
    LW_TRY(wait_step(r, out, err));
    LW_TRY(check_launches(r, err));
    LW_TRY(check_values(r, err));
    LW_TRY(check_messages(r, err));
    return keep_spans(r, &out->timeline, err);
}

static void tell_others(const struct run *r, const char *why)
{
    const struct exec_process *p = r->options->process;
    char words[320];

    if (!p)
        return;
    snprintf(words, sizeof words, "rank %d gave up: %.280s", p->rank, why);
    p->stop(p->context, words);
}

/* A step that could not even be given, or that the others stopped meanwhile, is a run that failed, too;
 * so is one that had no memory left. */
static enum lw_status step_failed(struct run *r, enum lw_status s, struct lw_exec_result *out,
                                  struct lw_err *err)
{
    struct lw_err why = {0};

    if (r->blamed || (s != LW_EFAILED && s != LW_ETIMEOUT && s != LW_ENOMEM && s != LW_EIO))
        return s;
    if (err)
        why = *err;
    tell_others(r, why.msg);
    keep_places(r, out);
    return blame(r, s == LW_ETIMEOUT ? s : LW_EFAILED, why.msg, err);
}

static enum lw_status run_steps(struct run *r, struct lw_exec_result *out, struct lw_err *err)
{
    int32_t total = r->options->n_warmup + r->options->n_steps;
    const struct lw_exec_fault *f = &r->options->fault;

    for (; r->n_done < total; r->n_done++) {
        lw_progress_report(r->options->progress, "executing", (double)r->n_done / total);
        enum lw_status s = run_step(r, out, err);
        if (s != LW_OK)
            return step_failed(r, s, out, err);
    }
    if (f->kind != LW_FAULT_NONE && is_here(r, f->rank))
        return lw_fail(err, LW_EINVAL, "rank %d did not meet op %d in step %d: the fault was not made",
                       f->rank, f->op, f->step);
    return LW_OK;
}

/* What went astray in a step is nearer to the fault than the weights that came of it. */
static enum lw_status verify(struct run *r, struct lw_err *err)
{
    if (r->mismatch.code != LW_OK) {
        if (err)
            *err = r->mismatch;
        return LW_ENO;
    }
    LW_TRY(exec_verify(&r->memory, r->n_done, &r->n_checked, err));
    return r->consolidated ? exec_verify_consolidated(&r->memory, r->n_done, r->options->consolidate,
                                                      r->consolidated, err)
                           : LW_OK;
}

/* The communicator of a rank's data group; NULL = it is alone. */
static struct exec_comm *data_comm(const struct run *r, int32_t rank, int32_t *stream)
{
    const struct lw_plan *p = r->plan;

    for (int32_t c = 0; c < p->n_comms; c++) {
        int32_t g = p->comm_group[(int64_t)c * p->n_ranks + rank];
        *stream = p->comms[c].stream;
        if (p->comms[c].purpose == LW_COMM_DATA && g >= 0)
            return r->comms[(int64_t)c * p->n_groups + g];
    }
    return NULL;
}

/* After the last step, before anything is judged: all processes are still there. */
static enum lw_status consolidate(struct run *r, struct lw_err *err)
{
    int32_t rank = r->options->consolidate, n = r->plan->n_ranks, stream = 0;

    if (rank < 0)
        return LW_OK;
    struct exec_stream **streams = lw_arena_alloc(&r->arena, n, sizeof *streams);
    struct exec_meeting meeting = {.comm = data_comm(r, rank, &stream), .streams = streams,
                                   .timeout_ns = r->options->timeout_ns};
    if (!streams)
        return lw_fail_nomem(err);
    for (int32_t k = 0; meeting.comm && k < n; k++)
        streams[k] = stream_of(r, k, stream);
    LW_TRY(exec_consolidate(&r->memory, &meeting, rank, &r->consolidated, err));
    for (int32_t a = 0; r->consolidated && a < r->plan->n_params; a++)
        if (exec_param_is_here(r->plan, a, rank))
            r->n_consolidated += exec_state_arrays(&r->memory) * r->plan->params[a].numel * 4;
    return LW_OK;
}

static enum lw_status refuse_consolidation(const struct run *r, struct lw_err *err)
{
    const struct lw_exec_options *o = r->options;

    if (o->consolidate >= r->plan->n_ranks)
        return lw_fail(err, LW_EINVAL, "--consolidate %d: the plan has ranks 0 to %d", o->consolidate,
                       r->plan->n_ranks - 1);
    if (o->consolidate >= 0 && exec_optimizer_states(o->optimizer.kind) == 0)
        return lw_fail(err, LW_EINVAL, "--consolidate %d: %s keeps no state (--optimizer momentum, "
                                       "adam)", o->consolidate, exec_optimizer_name(o->optimizer.kind));
    if (o->consolidate >= 0 && !(r->backend->capabilities & EXEC_CAN_BROADCAST))
        return lw_fail(err, LW_ENOTSUP, "--consolidate %d: backend '%s' has no broadcast",
                       o->consolidate, r->backend->name);
    return LW_OK;
}

static void tear_down(struct run *r)
{
    if (r->world) {
        r->backend->abort(r->world, "closed"); /* parts may still be given but not run */
        r->backend->close(r->world);
    }
    exec_tensors_free(&r->memory);
    lw_free(r->parts.items);
    lw_free(r->found);
    lw_free(r->consolidated);
    lw_free(r->first_part);
    lw_free(r->stamps);
    lw_free(r->lanes);
    lw_arena_free(&r->arena);
}

static void report(const struct run *r, int64_t began_ns, struct lw_exec_result *out)
{
    const struct exec_facts *f = &r->memory.facts;
    int32_t measured = r->n_done - r->options->n_warmup;

    out->n_warmup = measured < 0 ? r->n_done : r->options->n_warmup;
    out->n_steps = measured < 0 ? 0 : measured;
    out->n_checked_bytes = r->n_checked;
    out->n_consolidated_bytes = r->n_consolidated;
    out->n_checked_message_bytes = r->n_checked_messages;
    if (measured > 0)
        out->over = lw_ns_to_ps(r->over_ns / measured / r->plan->n_ranks);
    if (!r->world)
        return;
    out->honesty = f->honesty;
    out->oversubscribed = f->oversubscribed;
    out->n_cores = f->n_cores;
    out->unit_ns = f->unit_ns;
    out->unit_flops = f->unit_flops;
    out->memory_bytes = f->memory_bytes;
    out->comm_on_compute_core = f->comm_on_compute_core;
    out->stamp_ns = f->stamp_ns;
    snprintf(out->device, sizeof out->device, "%s", f->device);
    out->origin_ns = r->origin_ns;
    snprintf(out->compute, sizeof out->compute, "%s", f->compute);
    snprintf(out->about, sizeof out->about, "%s", f->about);
    out->wall_s = (double)(r->backend->now_ns(r->world) - began_ns) * 1e-9;
}

enum lw_status lw_exec_run(const struct lw_plan *plan, const struct lw_exec_options *options,
                           struct lw_exec_result *out, struct lw_err *err)
{
    struct run r = {.plan = plan, .options = options, .backend = options->backend,
                    .micro_batches = exec_plan_micro_batches(plan)};
    struct lw_exec_result made = {0};
    enum lw_status s = refuse_consolidation(&r, err);

    if (s == LW_OK)
        s = set_up(&r, err);

    if (s == LW_OK) {
        int64_t began = r.backend->now_ns(r.world);
        if (options->process)
            options->process->limit(options->process->context, options->timeout_ns);
        report(&r, began, &made);
        s = options->verify ? exec_audit(&r.memory, err) : LW_OK;
        if (s == LW_OK)
            s = run_steps(&r, &made, err);
        if (s == LW_OK)
            s = consolidate(&r, err);
        if (s == LW_OK && options->verify) {
            s = verify(&r, err);
            made.verified = s == LW_OK ? LW_EXEC_VERIFIED : LW_EXEC_MISMATCH;
        } else if (s == LW_ENO) {
            made.verified = LW_EXEC_MISMATCH;
        }
        report(&r, began, &made);
        if (s == LW_OK || s == LW_ENO || s == LW_EFAILED || s == LW_ETIMEOUT) {
            enum lw_status sorted = lw_timeline_sort(&made.timeline, s == LW_OK ? err : NULL);
            s = sorted == LW_OK || s != LW_OK ? s : sorted;
        }
    }
    tear_down(&r);
    if (s != LW_OK && s != LW_ENO && s != LW_EFAILED && s != LW_ETIMEOUT)
        lw_exec_result_free(&made);
    else
        *out = made;
    return s;
}

void lw_exec_result_free(struct lw_exec_result *r)
{
    lw_timeline_free(&r->timeline);
    lw_free(r->places);
    *r = (struct lw_exec_result){0};
}
