/* Submits a batch of steps. The backend gets the whole batch and begins when all of it is
 * submitted. Ops of one stream run in the order given; a dependency on another stream is an event
 * recorded after the one op and waited for before the other. A rank begins a pass, also of the next
 * step, when its ops of the pass before have ended: nothing else holds it back, so ranks enter the
 * next step of a batch as early as training would let them.
 *
 * Invariants: stamps of a batch are zeroed before it is given and complete when poll says done;
 * parts and tasks live until then. */
#include <string.h>

#include "exec/tensors/payload_check.h"
#include "exec/tensors/flops_compute.h"
#include "exec/run/run_state.h"
#include "exec/tensors/stage_values.h"
#include "shared/plan/op.h"

struct exec_stream *exec_run_stream(const struct exec_run *r, int32_t rank, int32_t stream)
{
    return r->streams[(int64_t)rank * r->plan->n_streams + stream];
}

static enum lw_status event_of(struct exec_run *r, const struct exec_lane *l, int32_t op,
                               struct exec_event **event, struct lw_err *err)
{
    struct exec_event **e =
        &r->events[(int64_t)l->rank * r->longest_program + op - l->program.first_op];

    if (!*e)
        LW_TRY(r->backend->event_create(r->world, l->rank, e, err));
    *event = *e;
    return LW_OK;
}

/* The lanes of one step; its last pass says where gradients lie. */
static enum lw_status list_step(struct exec_run *r, int32_t step, struct lw_err *err)
{
    const struct lw_plan *p = r->plan;
    const struct exec_facts *f = &r->memory.facts;
    int64_t first = r->n_lanes;
    int32_t last_variant = 0;
    bool ends = false;

    for (int32_t pass = 0; !ends; pass++) {
        int32_t v = lw_plan_variant_of_pass(p, r->next_pass++);
        LW_ROOM(r->lanes, r->lane_capacity, r->n_lanes + f->n_local, err);
        for (int32_t k = 0; k < f->n_local; k++) {
            int32_t rank = f->first_local + k;
            struct lw_program g = lw_plan_program(p, v, rank);
            r->lanes[r->n_lanes++] = (struct exec_lane){rank, pass, v, g, r->n_stamps, step, 0};
            r->n_stamps += g.n_ops;
        }
        last_variant = v;
        ends = p->variants[v].ends_step;
        if (!ends && pass >= p->n_passes)
            return lw_fail(err, LW_EPLAN, "no pass of the plan ends a step");
    }
    for (int64_t k = first; k < r->n_lanes; k++)
        r->lanes[k].last_variant = last_variant;
    return LW_OK;
}

/* The lanes and stamps of the batch. */
static enum lw_status list_lanes(struct exec_run *r, struct lw_err *err)
{
    r->n_lanes = r->n_stamps = 0;
    for (int32_t k = 0; k < r->n_given; k++)
        LW_TRY(list_step(r, r->n_done + k, err));
    if (lw_reserve(&r->stamps, &r->stamp_capacity, r->n_stamps + 1, sizeof *r->stamps) ||
        lw_reserve(&r->first_part, &r->first_part_capacity, r->n_stamps + 1,
                   sizeof *r->first_part))
        return lw_fail_nomem(err);
    memset(r->stamps, 0, (size_t)r->n_stamps * sizeof *r->stamps);
    return LW_OK;
}

/* Of the i-th op of a lane, which is not a communication. */
static enum lw_status op_parts(struct exec_run *r, const struct exec_lane *l, int32_t i,
                               const struct exec_place *at, struct lw_err *err)
{
    const struct lw_op *op = &r->plan->ops[l->program.first_op + i];
    const struct exec_layout *own = exec_tensors_layout(&r->memory, l->variant, l->rank);

    LW_TRY(exec_unit_parts(&r->memory, op, own, l->rank, &r->parts, err));
    LW_TRY(exec_value_parts(&r->memory, l->variant, i, false, at, &r->parts, err));
    LW_TRY(exec_payload_parts(&r->memory, l->variant, i, false, at, &r->parts, err));
    LW_TRY(exec_tensors_parts(&r->memory, op, at, &r->parts, err));
    if (!r->rehearses)
        LW_TRY(exec_product_parts(&r->memory, op, l->rank, &r->parts, err));
    LW_TRY(exec_payload_parts(&r->memory, l->variant, i, true, at, &r->parts, err));
    return exec_value_parts(&r->memory, l->variant, i, true, at, &r->parts, err);
}

static enum lw_status give_room_to_compare(struct exec_run *r, struct lw_err *err)
{
    int64_t n = 0;

    for (int64_t i = 0; i < r->parts.n; i++)
        n += r->parts.items[i].kind == EXEC_PART_EXPECT;
    LW_ROOM(r->found, r->found_capacity, n, err);
    n = 0;
    for (int64_t i = 0; i < r->parts.n; i++)
        if (r->parts.items[i].kind == EXEC_PART_EXPECT) {
            r->found[n] = (struct exec_mismatch){0};
            r->parts.items[i].found = &r->found[n++];
        }
    return LW_OK;
}

struct exec_place exec_lane_place(const struct exec_run *r, const struct exec_lane *l,
                                  int32_t last_variant)
{
    return (struct exec_place){l->step, l->pass, l->rank,
                               exec_tensors_layout(&r->memory, last_variant, l->rank),
                               r->filled + (int64_t)l->rank * r->plan->n_params,
                               r->micro_batches, l->step - r->n_done, NULL,
                               r->copied + (int64_t)l->rank * r->plan->n_params};
}

static void begin_gradients(struct exec_run *r)
{
    size_t n = (size_t)r->plan->n_ranks * (size_t)r->plan->n_params;

    memset(r->filled, 0, n * sizeof *r->filled);
    memset(r->copied, 0, n * sizeof *r->copied);
}

/* All parts of the batch first: the list moves while it grows. */
static enum lw_status list_parts(struct exec_run *r, struct lw_err *err)
{
    const struct lw_plan *p = r->plan;

    r->parts.n = 0;
    for (int64_t k = 0; k < r->n_lanes; k++) {
        const struct exec_lane *l = &r->lanes[k];
        struct exec_place at = exec_lane_place(r, l, l->last_variant);
        at.sums = r->rehearses ? &r->sums : NULL;
        if (k == 0 || l->step != l[-1].step)
            begin_gradients(r);
        for (int32_t i = 0; i < l->program.n_ops; i++) {
            r->first_part[l->first_stamp + i] = r->parts.n;
            LW_TRY(exec_add_fault(r, l, l->program.first_op + i, &at, err));
            if (p->ops[l->program.first_op + i].comm < 0)
                LW_TRY(op_parts(r, l, i, &at, err));
        }
    }
    r->first_part[r->n_stamps] = r->parts.n;
    return give_room_to_compare(r, err);
}

static enum lw_status give_compute(struct exec_run *r, const struct exec_lane *l, int32_t i,
                                   struct lw_err *err)
{
    const struct lw_op *op = &r->plan->ops[l->program.first_op + i];
    int64_t at = l->first_stamp + i;
    lw_ps work = r->rehearses ? 0 : lw_plan_work_ps(r->plan, op);
    const struct lw_work *known = op->work >= 0 ? lw_work_at(r->plan, op->work) : NULL;
    struct exec_task task = {
        .work_ns = work > 0 ? lw_ps_to_ns(work) : 0,
        .n_parts = (int32_t)(r->first_part[at + 1] - r->first_part[at]),
        .parts = r->parts.items + r->first_part[at],
        .idle = lw_op_class(op->kind) == LW_CLASS_HOST,
        .dtype = (enum lw_dtype)(op->module < 0 ? r->types[0] : r->types[1 + op->module]),
        .flops = known ? known->flops : -1,
        .bytes = known ? known->bytes : -1,
        .table = r->plan->products,
        .n_table = r->plan->n_products,
        .products = known ? r->plan->work_products + known->first_product : NULL,
        .n_products = known ? known->n_products : 0,
    };
    return r->backend->compute(exec_run_stream(r, l->rank, op->stream), &task, &r->stamps[at], err);
}

static enum lw_status comm_failed(const struct exec_lane *l, const struct lw_plan *p, int32_t op,
                                  enum lw_status status, struct lw_err *err)
{
    return lw_err_context(err, status, "op %d (%s) of rank %d", op, lw_op_name(p->ops[op].kind),
                          l->rank);
}

/* What the i-th op of the lane gives to its communicator; a fault before it is given. */
static enum lw_status prepare(struct exec_run *r, const struct exec_lane *l, int32_t i,
                              const struct exec_layout *step_layout, struct exec_transfer *x,
                              struct exec_comm **comm, struct lw_err *err)
{
    const struct lw_plan *p = r->plan;
    const struct lw_op *op = &p->ops[l->program.first_op + i];
    int32_t g = lw_plan_group_of(p, op->comm, l->rank);
    int64_t at = l->first_stamp + i;
    struct exec_task fault = {.n_parts = (int32_t)(r->first_part[at + 1] - r->first_part[at]),
                              .parts = r->parts.items + r->first_part[at]};

    if (g < 0)
        return lw_plan_op_fail(p, l->program.first_op + i, err,
                               ": rank %d is not a member of '%s'", l->rank,
                               p->comms[op->comm].name);
    *x = (struct exec_transfer){
        op->kind, exec_tensors_message(&r->memory, op, l->variant, l->rank, step_layout),
        &r->stamps[at]};
    *comm = r->comms[(int64_t)op->comm * p->n_groups + g];
    return fault.n_parts > 0 ? r->backend->compute(exec_run_stream(r, l->rank, op->stream), &fault,
                                                   &r->fault_stamp, err)
                             : LW_OK;
}

/* Of the ops i .. end - 1, those on the stream of op `first`: a collective, or messages that
 * complete together. */
static enum lw_status give_comms(struct exec_run *r, const struct exec_lane *l, int32_t i,
                                 int32_t end, int32_t first, const struct exec_layout *layout,
                                 struct lw_err *err)
{
    const struct lw_op *ops = r->plan->ops + l->program.first_op;
    struct exec_transfer x[EXEC_MOST_TRANSFERS];
    struct exec_comm *comm = NULL;
    int32_t n = 0;

    for (int32_t k = i; k < end; k++) {
        if (ops[k].stream != ops[first].stream)
            continue;
        if (n == EXEC_MOST_TRANSFERS || ops[k].comm != ops[first].comm) {
            lw_fail(err, LW_ENOTSUP, "a group of sends and receives holds %d of one communicator",
                    EXEC_MOST_TRANSFERS);
            return comm_failed(l, r->plan, l->program.first_op + k, LW_ENOTSUP, err);
        }
        LW_TRY(prepare(r, l, k, layout, &x[n++], &comm, err));
    }
    enum lw_status s =
        r->backend->communicate(exec_run_stream(r, l->rank, ops[first].stream), comm, x, n, err);
    return comm_failed(l, r->plan, l->program.first_op + first, s, err);
}

static enum lw_status give_waits(struct exec_run *r, const struct exec_lane *l, int32_t i,
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
        LW_TRY(r->backend->event_wait(exec_run_stream(r, l->rank, op->stream), event, err));
    }
    return LW_OK;
}

static enum lw_status give_record(struct exec_run *r, const struct exec_lane *l, int32_t i,
                                  struct lw_err *err)
{
    const struct lw_op *op = &r->plan->ops[l->program.first_op + i];
    struct exec_event *event;

    if (!r->needs_event[l->program.first_op + i])
        return LW_OK;
    LW_TRY(event_of(r, l, l->program.first_op + i, &event, err));
    return r->backend->event_record(exec_run_stream(r, l->rank, op->stream), event, err);
}

/* Only sends and receives make one call, as in lw_plan_check. */
static bool in_call(const struct exec_run *r, const struct exec_lane *l, int32_t i, int32_t call)
{
    if (i < 0 || i >= l->program.n_ops)
        return false;
    const struct lw_op *op = &r->plan->ops[l->program.first_op + i];
    return op->call == call && lw_op_class(op->kind) == LW_CLASS_P2P;
}

/* Sends and receives of one call, numbered i .. end - 1: everything they wait for first. Streams
 * do not wait for each other within it. */
static enum lw_status give_call(struct exec_run *r, const struct exec_lane *l, int32_t i,
                                int32_t end, const struct exec_layout *layout, struct lw_err *err)
{
    const struct lw_op *ops = r->plan->ops + l->program.first_op;

    for (int32_t k = i; k < end; k++)
        LW_TRY(give_waits(r, l, k, err));
    for (int32_t k = i; k < end; k++) {
        int32_t first = i;
        while (ops[first].stream != ops[k].stream)
            first++;
        if (first == k)
            LW_TRY(give_comms(r, l, i, end, k, layout, err));
    }
    for (int32_t k = i; k < end; k++)
        LW_TRY(give_record(r, l, k, err));
    return LW_OK;
}

/* A rank begins a pass when its ops of the pass before have ended, on all of its streams. */
static enum lw_status end_pass_before(struct exec_run *r, int32_t rank, struct lw_err *err)
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

static enum lw_status give_lane(struct exec_run *r, const struct exec_lane *l, struct lw_err *err)
{
    const struct lw_plan *p = r->plan;
    const struct exec_layout *layout = exec_tensors_layout(&r->memory, l->last_variant, l->rank);

    if (l->pass > 0 || l->step > r->n_done)
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
        LW_TRY(op->comm >= 0 ? give_comms(r, l, i, i + 1, i, layout, err)
                             : give_compute(r, l, i, err));
        LW_TRY(give_record(r, l, i, err));
    }
    return LW_OK;
}

/* What the host sets and compares beside the ops is of one step: a rehearsed step is a batch. */
static enum lw_status set_payloads(const struct exec_run *r, struct lw_err *err)
{
    for (int64_t k = 0; r->rehearses && k < r->n_lanes; k += r->memory.facts.n_local)
        LW_TRY(exec_payloads_set(&r->memory, r->lanes[k].variant, r->n_done, err));
    return LW_OK;
}

enum lw_status exec_give_batch(struct exec_run *r, int32_t n_steps, struct lw_err *err)
{
    r->n_given = n_steps;
    enum lw_status listed = list_lanes(r, err);
    if (listed != LW_OK) {
        r->n_lanes = 0; /* no timestamps are kept */
        return listed;
    }
    LW_TRY(list_parts(r, err));
    LW_TRY(exec_take_memory_away(r, err));
    LW_TRY(set_payloads(r, err));
    r->backend->hold(r->world);
    for (int64_t k = 0; k < r->n_lanes; k++) {
        LW_TRY(give_lane(r, &r->lanes[k], err));
        bool ends_step = k + 1 == r->n_lanes || r->lanes[k + 1].step != r->lanes[k].step;
        if (r->graphs && ends_step)
            LW_TRY(r->backend->step_graph(r->world, err));
    }
    return LW_OK;
}
