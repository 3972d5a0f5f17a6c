/* Walking the programs: a batch of steps is given as a whole (step_submit.c), released on all
 * ranks at once; then only poll waits (step_wait.c); what ended is judged and kept
 * (step_finish.c). Nothing is drained between the steps of a batch.
 *
 * A verified run rehearses all steps first, one to a batch, without compute time: everything that
 * is compared step by step is compared there. Then memory is as it was, and the same steps are
 * measured: they do what they do in a run that is not verified. */
#include "exec/run/run.h"

#include <stdio.h>

#include "exec/backend/contract.h"
#include "exec/run/batch_gaps.h"
#include "exec/run/machine_load.h"
#include "exec/run/op_text.h"
#include "exec/run/run_state.h"
#include "exec/tensors/flops_compute.h"
#include "exec/verify/consolidate.h"
#include "exec/verify/plan_audit.h"
#include "shared/plan/many_passes.h"
#include "shared/plan/op_bound.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/sparse.h"

#define OPENING_NS INT64_C(10000000000)

/* Stamps and parts of a batch are in memory at once: as many steps as about that many ops take. */
enum { BATCH_OPS = 1 << 20, BATCH_LEAST = 4 };

/* Graphs that are made before the first of them runs. */
enum { BATCH_GRAPHS = 32 };

struct lw_exec_options lw_exec_options_default(void)
{
    return (struct lw_exec_options){.backend = &exec_backend_threads, .n_steps = 10, .n_warmup = 2,
                                    .timeout_ns = INT64_C(30) * 1000000000, .verify = true,
                                    .pin = true, .consolidate = -1,
                                    .optimizer = exec_optimizer_of(EXEC_SGD)};
}

/* --- set-up ----------------------------------------------------------------------------------- */

/* A compute op without a time of its own is one product, if that can be. */
static enum lw_status refuse_untimed(const struct exec_run *r, int32_t i, struct lw_err *err)
{
    const struct lw_op *op = &r->plan->ops[i];
    char text[EXEC_OP_TEXT];
    int32_t side = exec_product_side(r->plan, op);

    if (lw_op_class(op->kind) != LW_CLASS_COMPUTE || lw_plan_work_ps(r->plan, op) >= 0)
        return LW_OK;
    exec_op_text(r->plan, i, text);
    if (lw_op_is_host_update(r->plan, op))
        return lw_fail(err, LW_ENOTSUP, "%s: --offload update is predicted and not executed; plan "
                                        "with --offload optimizer, or none", text);
    if (side == 0)
        return lw_fail(err, LW_ENOTSUP, "%s has no time of its own, nor FLOPs: exec cannot derive "
                                        "one from a cluster", text);
    if (side > EXEC_MAX_SIDE)
        return lw_fail(err, LW_ENOTSUP, "%s has no time of its own, and its %lld FLOPs are more "
                                        "than one product of %d rows", text,
                       (long long)lw_work_at(r->plan, op->work)->flops, EXEC_MAX_SIDE);
    if (r->options->compute != EXEC_COMPUTE_GEMM)
        return lw_fail(err, LW_ENOTSUP, "%s has no time of its own: its FLOPs are computed with "
                                        "--compute gemm alone", text);
    return LW_OK;
}

static enum lw_status refuse_sparse(const struct exec_run *r, struct lw_err *err)
{
    const struct lw_plan *p = r->plan;

    for (int32_t b = 0; b < p->n_buckets; b++) {
        const struct lw_sparse *x = lw_plan_sparse(p, b);
        if (x && r->options->optimizer.kind == EXEC_ADAM)
            return lw_fail(err, LW_ENOTSUP,
                           "parameter %d '%s' has a sparse gradient, which torch.optim.Adam "
                           "does not take (--optimizer sgd, momentum)",
                           x->param, p->params[x->param].name);
    }
    return LW_OK;
}

/* Even without compute time an op takes some microseconds. */
static enum lw_status refuse_many_passes(struct exec_run *r, struct lw_err *err)
{
    const struct lw_exec_options *o = r->options;
    int32_t unused;

    return lw_plan_check_passes(
        r->plan,
        &(struct lw_many_passes){.n_steps = (int64_t)o->n_steps + o->n_warmup,
                                 .n_warmup = o->n_warmup,
                                 .of_a_rank = true,
                                 .most = 1 << 26,
                                 .each = 5 * LW_PS_PER_US,
                                 .what = "run by a rank"},
        &r->arena, &unused, err);
}

static enum lw_status refuse(struct exec_run *r, struct lw_err *err)
{
    const struct lw_plan *p = r->plan;

    if (p->n_passes == 0 || p->n_ops == 0)
        return lw_fail(err, LW_EPLAN, "the plan has no op to run");
    LW_TRY(refuse_many_passes(r, err));
    for (int32_t i = 0; i < p->n_ops; i++) {
        const struct lw_op *op = &p->ops[i];
        bool talks = lw_op_class(op->kind) == LW_CLASS_COLLECTIVE ||
                     lw_op_class(op->kind) == LW_CLASS_P2P;
        if (talks && !exec_backend_can(r->backend, op->kind))
            return lw_fail(err, LW_ENOTSUP, "op %d: backend '%s' does not support %s", i,
                           r->backend->name, lw_op_name(op->kind));
        LW_TRY(refuse_untimed(r, i, err));
    }
    LW_TRY(refuse_sparse(r, err));
    return exec_refuse_fault(r, err);
}

static void note_events(struct exec_run *r)
{
    const struct lw_plan *p = r->plan;

    for (int32_t i = 0; i < p->n_ops; i++)
        for (int32_t d = 0; d < p->ops[i].n_deps; d++) {
            int32_t before = p->deps[p->ops[i].first_dep + d];
            if (p->ops[before].stream != p->ops[i].stream)
                r->needs_event[before] = true;
        }
    r->longest_program = lw_plan_longest_program(p);
}

/* A plan's compute has the type of its parameters. */
static void note_types(struct exec_run *r)
{
    const struct lw_plan *p = r->plan;

    for (int32_t i = 0; i <= p->n_modules; i++)
        r->types[i] = p->n_params > 0 ? p->params[0].dtype : LW_F32;
    for (int32_t a = 0; a < p->n_params; a++)
        if (p->params[a].module >= 0)
            r->types[1 + p->params[a].module] = p->params[a].dtype;
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

static enum lw_status create_streams(struct exec_run *r, struct lw_err *err)
{
    const struct lw_plan *p = r->plan;
    const struct exec_facts *f = &r->memory.facts;

    for (int32_t rank = f->first_local; rank < f->first_local + f->n_local; rank++)
        for (int32_t s = 0; s < p->n_streams; s++) {
            if (!uses_stream(p, lw_plan_role_of(p, rank), s))
                continue;
            int32_t priority = p->streams[s].class_ == LW_STREAM_COMM ? 1 : 0;
            if (p->streams[s].priority > priority)
                priority = p->streams[s].priority;
            LW_TRY(r->backend->stream_create(r->world, rank, p->streams[s].name, priority,
                                             &r->streams[(int64_t)rank * p->n_streams + s], err));
        }
    return LW_OK;
}

int64_t exec_opening_limit(int64_t timeout_ns)
{
    return timeout_ns > OPENING_NS ? timeout_ns : OPENING_NS;
}

/* Steps that are given at once, at most; no step of the plan has more ops than that. */
static int32_t largest_batch(const struct exec_run *r)
{
    const struct lw_plan *p = r->plan;
    int64_t n_ops = (int64_t)r->longest_program * r->memory.facts.n_local * p->n_passes + 1;
    int64_t n = BATCH_OPS / n_ops, all = (int64_t)r->options->n_warmup + r->options->n_steps;

    n = n > BATCH_LEAST ? n : BATCH_LEAST;
    n = n < exec_steps_between_probes(r) ? n : exec_steps_between_probes(r);
    return (int32_t)(n < all ? n : all);
}

/* Averages of averages round in another order than one average does, but for powers of two. */
static enum lw_status refuse_averages(const struct exec_run *r, struct lw_err *err)
{
    const struct lw_strategy *s = r->plan->strategy;
    int64_t n = s->dp * s->cp;

    if (!r->options->verify || !s->sync_each || s->zero > 0 || (n & (n - 1)) == 0)
        return LW_OK;
    return lw_fail(err, LW_ENOTSUP,
                   "--sync-each-micro-batch on with %lld data-parallel ranks: averages of averages "
                   "cannot be verified bit by bit unless their number is a power of two; choose "
                   "another --dp, or run with --no-verify", (long long)n);
}

static enum lw_status refuse_options(const struct exec_run *r, struct lw_err *err)
{
    const struct lw_exec_options *o = r->options;

    LW_TRY(refuse_averages(r, err));
    if (o->link_bytes_per_s > 0 && !(r->backend->capabilities & EXEC_CAN_PACE))
        return lw_fail(err, LW_ENOTSUP, "backend '%s' cannot pace links", r->backend->name);
    if (o->loop && !(r->backend->capabilities & EXEC_CAN_LOOP))
        return lw_fail(err, LW_ENOTSUP, "backend '%s' has no loop transport", r->backend->name);
    if (o->registered && (o->loop || !(r->backend->capabilities & EXEC_CAN_REGISTER)))
        return lw_fail(err, LW_ENOTSUP, "--nccl-register: %s '%s' communicates without NCCL",
                       o->loop ? "a loop of backend" : "backend", r->backend->name);
    if (o->graph && !(r->backend->capabilities & EXEC_CAN_GRAPH))
        return lw_fail(err, LW_ENOTSUP,
                       "--graph: backend '%s' submits nothing to a GPU (nccl does)",
                       r->backend->name);
    if (o->graph && o->fault.kind != LW_FAULT_NONE)
        return lw_fail(err, LW_EUSAGE,
                       "--graph with --fault: an op that waits for the host cannot be part of a "
                       "graph (leave one of them out)");
    if (o->process && !(r->backend->capabilities & EXEC_CAN_PROCESS))
        return lw_fail(err, LW_ENOTSUP,
                       "backend '%s' has all ranks in one process; this is rank %d "
                       "of several",
                       r->backend->name, o->process->rank);
    return LW_OK;
}

static enum lw_status set_up(struct exec_run *r, struct lw_err *err)
{
    const struct lw_plan *p = r->plan;
    const struct lw_exec_options *o = r->options;
    struct exec_open how = {.n_ranks = p->n_ranks,
                            .compute = o->compute,
                            .pin = o->pin,
                            .ranks_per_node = o->ranks_per_node,
                            .link_bytes_per_s = o->link_bytes_per_s,
                            .link_latency_ns = o->link_latency_ns,
                            .timeout_ns = exec_opening_limit(o->timeout_ns),
                            .loop = o->loop,
                            .registered = o->registered,
                            .process = o->process};

    LW_TRY(exec_plan_is_safe(p, err));
    r->micro_batches = exec_plan_micro_batches(p);
    LW_TRY(refuse(r, err));
    LW_TRY(refuse_options(r, err));
    LW_TRY(r->backend->open(&how, &r->world, err));
    r->memory = (struct exec_tensors){.plan = p, .backend = r->backend, .world = r->world,
                                     .compares = o->verify,
                                     .optimizer = o->optimizer};
    r->backend->facts(r->world, &r->memory.facts);
    LW_TAKE(&r->arena, r->needs_event, p->n_ops, err);
    LW_TAKE(&r->arena, r->streams, (int64_t)p->n_ranks * p->n_streams, err);
    LW_TAKE(&r->arena, r->comms, (int64_t)p->n_comms * p->n_groups, err);
    LW_TAKE(&r->arena, r->filled, (int64_t)p->n_ranks * p->n_params, err);
    LW_TAKE(&r->arena, r->copied, (int64_t)p->n_ranks * p->n_params, err);
    LW_TAKE(&r->arena, r->types, 1 + p->n_modules, err);
    note_events(r);
    note_types(r);
    r->memory.batch_steps = largest_batch(r);
    LW_TAKE(&r->arena, r->rank_end_ns, p->n_ranks, err);
    LW_TAKE(&r->arena, r->pass_ends, (int64_t)p->n_ranks * p->n_streams, err);
    LW_TAKE(&r->arena, r->events, (int64_t)p->n_ranks * r->longest_program, err);
    LW_TRY(exec_tensors_init(&r->memory, err));
    LW_TRY(create_streams(r, err));
    return exec_create_comms(r, err);
}

/* --- the whole -------------------------------------------------------------------------------- */

/* The host's time in calls that submitted the batch. */
static void note_submission(struct exec_run *r, int32_t n_steps, int64_t before_ns)
{
    struct exec_facts now = {0};

    r->backend->facts(r->world, &now);
    r->submit_ns[r->graphs] += now.submit_ns - before_ns;
    r->n_submitted[r->graphs] += n_steps;
}

static enum lw_status run_batch(struct exec_run *r, int32_t n_steps, struct lw_exec_result *out,
                                struct lw_err *err)
{
    struct exec_facts before = {0};

    LW_TRY(exec_probe_speed(r, out, err));
    r->backend->facts(r->world, &before);
    LW_TRY(exec_give_batch(r, n_steps, err));
    r->released_ns = r->backend->now_ns(r->world);
    if (r->n_done == 0)
        r->origin_ns = r->released_ns;
    LW_TRY(r->backend->release(r->world, err));
    LW_TRY(exec_wait_batch(r, out, err));
    if (r->rehearses)
        return exec_rehearsed(r, err);
    note_submission(r, n_steps, before.submit_ns);
    return exec_batch_done(r, &out->timeline, err);
}

/* All steps are one batch, if it is not too large: then batches of nearly equal size. */
static int32_t next_batch(struct exec_run *r)
{
    int32_t plain = r->options->graph ? r->options->n_warmup - 1 : 0;
    int32_t rest = r->options->n_warmup + r->options->n_steps - r->n_done;
    int32_t most = r->memory.batch_steps;

    if (r->rehearses)
        return 1;
    if (r->n_done < plain) { /* measures submission op by op; one more step leads in the graphs */
        rest = plain - r->n_done;
    } else if (r->options->graph) {
        r->graphs = true;
        most = most < BATCH_GRAPHS ? most : BATCH_GRAPHS;
    }
    int32_t n = (rest + most - 1) / most;
    return (rest + n - 1) / n;
}

/* A batch that could not even be given, or that the others stopped meanwhile, is a run that
 * failed, too; so is one that had no memory left. */
static enum lw_status batch_failed(struct exec_run *r, enum lw_status s, struct lw_exec_result *out,
                                  struct lw_err *err)
{
    struct lw_err why = {0};

    if (r->blamed || (s != LW_EFAILED && s != LW_ETIMEOUT && s != LW_ENOMEM && s != LW_EIO))
        return s;
    if (err)
        why = *err;
    exec_tell_others(r->options->process, why.msg);
    exec_keep_places(r, out);
    return exec_blame(r, s == LW_ETIMEOUT ? s : LW_EFAILED, why.msg, err);
}

static enum lw_status note_batch(struct exec_run *r, struct lw_exec_result *out, struct lw_err *err)
{
    if (r->rehearses)
        return LW_OK;
    LW_ROOM(out->first_of_batch, r->batch_capacity, out->n_batches + 1, err);
    out->first_of_batch[out->n_batches++] = r->n_done;
    return LW_OK;
}

static enum lw_status run_batches(struct exec_run *r, struct lw_exec_result *out,
                                  struct lw_err *err)
{
    int32_t total = r->options->n_warmup + r->options->n_steps;

    while (r->n_done < total) {
        lw_progress_report(r->options->progress, r->rehearses ? "verifying" : "executing",
                           (double)r->n_done / total);
        LW_TRY(note_batch(r, out, err));
        enum lw_status s = run_batch(r, next_batch(r), out, err);
        if (s != LW_OK)
            return batch_failed(r, s, out, err);
    }
    enum lw_status s = exec_probe_speed(r, out, err);
    return s == LW_OK ? s : batch_failed(r, s, out, err);
}

/* All steps, then everything is as before the first again. */
static enum lw_status rehearse(struct exec_run *r, struct lw_exec_result *out, struct lw_err *err)
{
    r->rehearses = true;
    enum lw_status s = run_batches(r, out, err);
    r->rehearses = false;
    r->n_rehearsed = r->n_done;
    r->n_done = 0;
    r->next_pass = 0;
    if (s == LW_OK)
        return exec_tensors_restart(&r->memory, err);
    return s == LW_EFAILED || s == LW_ETIMEOUT ? lw_err_context(err, s, "rehearsal") : s;
}

static enum lw_status measure(struct exec_run *r, struct lw_exec_result *out, struct lw_err *err)
{
    const struct lw_exec_fault *f = &r->options->fault;
    enum lw_status s = run_batches(r, out, err);

    if (s != LW_OK) {
        (void)exec_keep_ended(r, &out->timeline, NULL); /* why it stopped is what to say */
        return s;
    }
    if (f->kind != LW_FAULT_NONE && exec_rank_is_here(r, f->rank) && !r->flipped)
        return lw_fail(err, LW_EINVAL,
                       "rank %d did not meet op %d in step %d: the fault was not made", f->rank,
                       f->op, f->step);
    return LW_OK;
}

/* What went astray in a step is nearer to the fault than the weights that came of it. */
static enum lw_status verify(struct exec_run *r, struct lw_err *err)
{
    if (r->mismatch.code != LW_OK) {
        if (err)
            *err = r->mismatch;
        return LW_ENO;
    }
    LW_TRY(exec_verify(&r->memory, r->n_done, &r->sums, &r->n_checked, err));
    return r->consolidated ? exec_verify_consolidated(&r->memory, r->n_done,
                                                      r->options->consolidate, r->consolidated, err)
                           : LW_OK;
}

/* The communicator of a rank's data group; NULL = it is alone. */
static struct exec_comm *data_comm(const struct exec_run *r, int32_t rank, int32_t *stream)
{
    const struct lw_plan *p = r->plan;

    for (int32_t c = 0; c < p->n_comms; c++) {
        int32_t g = lw_plan_group_of(p, c, rank);
        *stream = p->comms[c].stream;
        if (p->comms[c].purpose == LW_COMM_DATA && g >= 0)
            return r->comms[(int64_t)c * p->n_groups + g];
    }
    return NULL;
}

/* After the last step, before anything is judged: all processes are still there. */
static enum lw_status consolidate(struct exec_run *r, struct lw_err *err)
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
        streams[k] = exec_run_stream(r, k, stream);
    LW_TRY(exec_consolidate(&r->memory, &meeting, rank, &r->consolidated, err));
    for (int32_t a = 0; r->consolidated && a < r->plan->n_params; a++)
        if (exec_param_is_here(r->plan, a, rank))
            r->n_consolidated += exec_state_arrays(&r->memory) * r->plan->params[a].numel * 4;
    return LW_OK;
}

static enum lw_status refuse_consolidation(const struct exec_run *r, struct lw_err *err)
{
    const struct lw_exec_options *o = r->options;

    if (o->consolidate >= r->plan->n_ranks)
        return lw_fail(err, LW_EINVAL, "--consolidate %d: the plan has ranks 0 to %d",
                       o->consolidate, r->plan->n_ranks - 1);
    if (o->consolidate >= 0 && exec_optimizer_states(o->optimizer.kind) == 0)
        return lw_fail(err, LW_EUSAGE,
                       "--consolidate %d: %s keeps no state (--optimizer momentum, "
                       "adam)",
                       o->consolidate, exec_optimizer_name(o->optimizer.kind));
    if (o->consolidate >= 0 && !(r->backend->capabilities & EXEC_CAN_BROADCAST))
        return lw_fail(err, LW_ENOTSUP, "--consolidate %d: backend '%s' has no broadcast",
                       o->consolidate, r->backend->name);
    if (o->consolidate >= 0 && r->plan->strategy->ep > 1)
        return lw_fail(err, LW_ENOTSUP,
                       "--consolidate %d: experts are not in one data group (--ep %d)",
                       o->consolidate, (int)r->plan->strategy->ep);
    return LW_OK;
}

/* A run that failed is aborted, also where the fault was found between two batches (another process
 * does not answer): nothing that is closed may wait for the others then. */
static void tear_down(struct exec_run *r, bool failed)
{
    exec_give_memory_back(r);
    if (r->world && failed)
        r->backend->abort(r->world, "the run failed");
    if (r->world)
        r->backend->close(r->world);
    exec_sums_free(&r->sums);
    exec_tensors_free(&r->memory);
    lw_free(r->parts.items);
    lw_free(r->found);
    lw_free(r->consolidated);
    lw_free(r->first_part);
    lw_free(r->stamps);
    lw_free(r->lanes);
    lw_arena_free(&r->arena);
}

/* Compute by the clock is marked on every backend, and real compute of ranks that share a core. */
static enum exec_honesty honesty_of(const struct exec_facts *f, enum exec_compute compute)
{
    enum exec_honesty own = compute == EXEC_COMPUTE_SPIN    ? EXEC_SPUN
                            : compute == EXEC_COMPUTE_SLEEP ? EXEC_SLEPT
                            : f->oversubscribed             ? EXEC_EMULATED
                                                            : EXEC_REAL;
    return f->honesty > own ? f->honesty : own;
}

static void report(const struct exec_run *r, int64_t began_ns, struct lw_exec_result *out)
{
    const struct exec_facts *f = &r->memory.facts;
    int32_t measured = r->n_done - r->options->n_warmup;

    out->n_warmup = measured < 0 ? r->n_done : r->options->n_warmup;
    out->n_steps = measured < 0 ? 0 : measured;
    out->n_compared_steps = r->n_rehearsed;
    out->n_checked_bytes = r->n_checked;
    out->n_consolidated_bytes = r->n_consolidated;
    out->n_checked_message_bytes = r->n_checked_messages;
    if (r->n_submitted[0] > 0)
        out->submit_ns = (double)r->submit_ns[0] / r->n_submitted[0];
    if (r->n_submitted[1] > 0)
        out->graph_submit_ns = (double)r->submit_ns[1] / r->n_submitted[1];
    if (measured > 0)
        out->over = lw_ns_to_ps(r->over_ns / measured / r->plan->n_ranks);
    if (!r->world)
        return;
    out->honesty = honesty_of(f, r->options->compute);
    out->oversubscribed = f->oversubscribed;
    out->n_cores = f->n_cores;
    out->unit_ns = f->unit_ns;
    out->unit_flops = f->unit_flops;
    out->memory_bytes = f->memory_bytes;
    out->free_bytes = f->free_bytes;
    out->comm_on_compute_core = f->comm_on_compute_core;
    out->stamp_ns = f->stamp_ns;
    snprintf(out->device, sizeof out->device, "%s", f->device);
    out->origin_ns = r->origin_ns;
    snprintf(out->compute, sizeof out->compute, "%s", f->compute);
    snprintf(out->about, sizeof out->about, "%s", f->about);
    snprintf(out->settings, sizeof out->settings, "%s", f->settings ? f->settings : "");
    struct exec_facts now = {0};
    r->backend->facts(r->world, &now);
    out->state = now.state;
    out->wall_s = (double)(r->backend->now_ns(r->world) - began_ns) * 1e-9;
}

enum lw_status lw_exec_run(const struct lw_plan *plan, const struct lw_exec_options *options,
                           struct lw_exec_result *out, struct lw_err *err)
{
    struct exec_run r = {.plan = plan, .options = options, .backend = options->backend};
    struct lw_exec_result made = {.others_share = -1};
    struct exec_machine_load before = exec_machine_load_now();
    enum lw_status s = refuse_consolidation(&r, err);

    if (s == LW_OK)
        s = set_up(&r, err);
    if (s == LW_OK)
        s = exec_ask_estimates(&r, &made, err);

    if (s == LW_OK) {
        int64_t began = r.backend->now_ns(r.world);
        if (options->process)
            options->process->limit(options->process->context, options->timeout_ns);
        report(&r, began, &made);
        s = options->verify ? exec_audit(&r.memory, err) : LW_OK;
        if (s == LW_OK && options->verify)
            s = rehearse(&r, &made, err);
        if (s == LW_OK)
            s = measure(&r, &made, err);
        struct exec_machine_load after = exec_machine_load_now();
        if (!options->process)
            made.others_share = exec_machine_load_others(&before, &after);
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
            if (!options->process)
                exec_close_gaps(&made);
        }
    }
    tear_down(&r, s == LW_EFAILED || s == LW_ETIMEOUT);
    if (s != LW_OK && s != LW_ENO && s != LW_EFAILED && s != LW_ETIMEOUT)
        lw_exec_result_free(&made);
    else
        *out = made;
    return s;
}

void lw_exec_result_free(struct lw_exec_result *r)
{
    lw_timeline_free(&r->timeline);
    lw_free(r->first_of_batch);
    lw_free(r->places);
    lw_free(r->calls);
    lw_free(r->probes);
    lw_free(r->compute_speed);
    lw_free(r->states);
    *r = (struct lw_exec_result){0};
}
