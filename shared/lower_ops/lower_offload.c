/* --offload activations: what a module keeps for its backward goes to the host after its forward,
 * on a copy stream, and its room is free when it is there. It comes back while the backward of the
 * module after it runs, as TransformerEngine reloads a group ahead
 * (NVIDIA/TransformerEngine@99df8810, transformer_engine/pytorch/cpu_offload.py). */
#include "shared/lower_ops/writer.h"

static int32_t add(struct lw_writer *k, const struct lw_part *d, int32_t module,
                   enum lw_op_kind kind, int32_t dep)
{
    struct lw_op op = lw_write_op(k, kind, k->l->host_link, "activations");

    op.module = lw_part_module(d, module);
    op.dtype = LW_U8;
    op.bytes = lw_part_offloaded_bytes(d, module);
    op.work_ps = lw_op_class(kind) == LW_CLASS_COPY ? -1 : 0;
    return lw_builder_op(k->l->b, &op, &dep, dep >= 0);
}

void lw_write_store_activations(struct lw_writer *k, const struct lw_part *d, int32_t module)
{
    if (lw_part_offloaded_bytes(d, module) > 0)
        add(k, d, module, LW_OP_FREE, add(k, d, module, LW_OP_STORE, k->last_compute));
}

/* Room, and what was stored, from the end of the compute so far on. */
static void bring(struct lw_writer *k, const struct lw_part *d, int32_t module)
{
    k->back = add(k, d, module, LW_OP_LOAD, add(k, d, module, LW_OP_ALLOC, k->last_compute));
    k->back_of = module;
}

void lw_write_load_activations(struct lw_writer *k, const struct lw_part *d, int32_t module)
{
    bool away = lw_part_offloaded_bytes(d, module) > 0;

    if (away && k->back_of != module)
        bring(k, d, module);
    k->needed = away ? k->back : -1;
    k->back_of = -1;
    if (module > 0 && lw_part_offloaded_bytes(d, module - 1) > 0)
        bring(k, d, module - 1);
}

void lw_write_need_activations(struct lw_writer *k)
{
    if (k->needed >= 0)
        lw_builder_dep(k->l->b, k->needed);
    k->needed = -1;
}
