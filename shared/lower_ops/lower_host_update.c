/* --offload update: the optimizer's state lies in the host's memory and stays there. What was
 * reduced goes to the host, whose processors update, and new weights come back: ZeRO-Offload
 * (deepspeedai/DeepSpeed@edaa7221, deepspeed/runtime/zero/stage3.py: gradients of the shard and the
 * optimizer's groups are of the host's memory, DeepSpeedCPUAdam steps), Megatron-LM's
 * --optimizer-cpu-offload. The device waits for the whole of it, as DeepSpeed's step does. Not
 * modelled: gradients that go while the backward runs, and groups of parameters that overlap
 * (Twin-Flow, SuperOffload). */
#include "shared/lower_ops/writer.h"

#include "shared/plan/op_bound.h"

static struct lw_op link_copy(const struct lw_writer *k, enum lw_op_kind kind, enum lw_dtype dtype,
                              const char *name)
{
    struct lw_op op = lw_write_op(k, kind, k->l->host_link, name);

    op.dtype = dtype;
    op.bytes = k->l->host_updates[k->role] * lw_dtype_size(dtype);
    op.work_ps = -1;
    return op;
}

int32_t lw_write_host_update(struct lw_writer *k)
{
    enum lw_dtype weights = k->l->activation_dtype;
    struct lw_op store = link_copy(k, LW_OP_STORE, lw_strategy_grad_dtype(k->l->s, weights),
                                   "gradients");
    struct lw_op update = lw_write_op(k, LW_OP_OPTIMIZER, k->l->compute, "on the host");
    struct lw_op load = link_copy(k, LW_OP_LOAD, weights, "weights");

    update.dtype = LW_F32;
    int64_t of_one = lw_host_update_bytes(lw_own_states(k->l->w->state_bytes, k->l->s),
                                          k->l->w->step_traffic.host);
    update.bytes = of_one * k->l->host_updates[k->role];
    update.work_ps = -1;
    int32_t gone = lw_builder_op(k->l->b, &store, k->deps, k->n_deps);
    int32_t updated = lw_write_compute(k, &update, &gone, 1);
    int32_t back = lw_builder_op(k->l->b, &load, &updated, 1);
    return lw_write_wait(k, "weights", &back, 1);
}
