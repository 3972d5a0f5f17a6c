/* Readings of the machine's speed while no step runs, and how many steps there are between two of
 * them. See docs/design/machine_speed.md. */
#include "exec/run/run_state.h"

#define PROBE_EVERY_NS INT64_C(500000000) /* of the plan's compute */
enum { STEPS_LEAST = 4, PIPELINE_LEAST = 10 };

static bool probes(const struct exec_run *r)
{
    return r->options->compute == EXEC_COMPUTE_GEMM && r->backend->time_product;
}

enum lw_status exec_probe_speed(struct exec_run *r, struct lw_exec_result *out, struct lw_err *err)
{
    const struct exec_facts *f = &r->memory.facts;

    if (!probes(r) || r->rehearses)
        return LW_OK;
    if (!r->product_times)
        LW_TAKE(&r->arena, r->product_times, f->n_local, err);
    LW_TRY(r->backend->time_product(r->world, r->product_times, err));
    LW_ROOM(out->probes, r->probe_capacity, out->n_probes + f->n_local, err);
    for (int32_t k = 0; k < f->n_local; k++)
        out->probes[out->n_probes++] = (struct lw_exec_probe){
            r->n_done, f->first_local + k, r->product_times[k].now_ns,
            r->product_times[k].set_ns};
    return LW_OK;
}

static lw_ps program_ps(const struct lw_plan *p, int32_t variant, int32_t role)
{
    const struct lw_program *g = &p->programs[(int64_t)variant * p->n_roles + role];
    lw_ps sum = 0;

    for (int32_t i = g->first_op; i < g->first_op + g->n_ops; i++)
        if (lw_op_class(p->ops[i].kind) == LW_CLASS_COMPUTE && lw_plan_work_ps(p, &p->ops[i]) > 0)
            sum += lw_plan_work_ps(p, &p->ops[i]);
    return sum;
}

/* The compute of the first step, on the rank that has most. */
static lw_ps step_ps(const struct lw_plan *p)
{
    lw_ps most = 0;

    for (int32_t role = 0; role < p->n_roles; role++) {
        lw_ps sum = 0;
        bool ends = false;
        for (int32_t pass = 0; pass <= p->n_passes && !ends; pass++) {
            int32_t v = lw_plan_variant_of_pass(p, pass);
            sum += program_ps(p, v, role);
            ends = p->variants[v].ends_step;
        }
        most = sum > most ? sum : most;
    }
    return most;
}

/* Decided by the plan alone: where ranks are processes, all of them have the same batches. */
int64_t exec_steps_between_probes(const struct exec_run *r)
{
    int64_t least = r->plan->n_stages > 1 ? PIPELINE_LEAST : STEPS_LEAST;
    lw_ps step = probes(r) ? step_ps(r->plan) : 0;

    if (step == 0)
        return INT64_MAX;
    int64_t n = (lw_ns_to_ps(PROBE_EVERY_NS) + step - 1) / step;
    return n > least ? n : least;
}
