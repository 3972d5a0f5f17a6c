/* Ops as every phase of a pass adds them: on the compute stream in the order in which they run,
 * with the stage and micro-batch that the writer is at. */
#include "shared/lower_ops/writer.h"

struct lw_op lw_write_op(const struct lw_writer *k, enum lw_op_kind kind, int32_t stream,
                         const char *name)
{
    struct lw_op op = lw_builder_blank(kind, stream);

    op.stage = (int16_t)k->stage;
    op.micro_batch = k->micro_batch;
    op.name = name;
    return op;
}

struct lw_op lw_write_moved(const struct lw_writer *k, enum lw_op_kind kind, struct lw_line line,
                            int64_t bytes, enum lw_dtype dtype, const char *name)
{
    struct lw_op op = lw_write_op(k, kind, line.stream, name);

    op.comm = line.comm;
    op.work_ps = -1;
    op.bytes = bytes;
    op.dtype = (uint8_t)dtype;
    return op;
}

int32_t lw_write_compute(struct lw_writer *k, struct lw_op *op, const int32_t *deps, int32_t n)
{
    op->stream = k->l->compute;
    k->last_compute = lw_builder_op(k->l->b, op, deps, n);
    if (k->after >= 0)
        lw_builder_dep(k->l->b, k->after);
    k->after = -1;
    return k->last_compute;
}

void lw_write_complete(struct lw_writer *k, const struct lw_part *d, const int32_t *params,
                       int32_t n)
{
    int32_t *to = n > 0 ? lw_builder_ready_room(k->l->b, n) : NULL;

    for (int32_t i = 0; to && i < n; i++)
        to[i] = lw_part_param(d, params[i]);
}

void lw_write_work(struct lw_writer *k, const struct lw_part *d, enum lw_op_kind kind,
                   int32_t module, int32_t work, int32_t input)
{
    struct lw_op op = lw_write_op(k, kind, k->l->compute, lw_module_name(d->w, module));

    op.name = kind == LW_OP_KERNEL ? "recompute" : op.name;
    op.work = work;
    op.module = lw_part_module(d, module);
    lw_write_compute(k, &op, &input, input >= 0);
}

void lw_write_cut_work(struct lw_writer *k, const struct lw_part *d, int32_t module, int32_t work,
                       int32_t input, int32_t bucket)
{
    struct lw_op op = lw_write_op(k, LW_OP_FORWARD, k->l->compute, lw_module_name(d->w, module));

    op.work = work;
    op.module = lw_part_module(d, module);
    op.bucket = bucket;
    lw_write_compute(k, &op, &input, input >= 0);
}

static struct lw_op activations(const struct lw_writer *k, enum lw_op_kind kind, int64_t bytes,
                                int32_t module, struct lw_line line, const char *name)
{
    struct lw_op op = lw_write_moved(k, kind, line, bytes, k->l->activation_dtype, name);

    op.module = module;
    return op;
}

/* What communication of the writer waits for; `input` -1 = nothing more. Their number. */
static int32_t waits_for(const struct lw_writer *k, int32_t input, int32_t deps[3])
{
    int32_t n = 0;

    if (k->last_compute >= 0)
        deps[n++] = k->last_compute;
    if (k->after >= 0)
        deps[n++] = k->after;
    if (input >= 0)
        deps[n++] = input;
    return n;
}

static int32_t add_activations(struct lw_writer *k, enum lw_op_kind kind, int64_t bytes,
                               int32_t module, struct lw_line line, const char *name, int32_t input)
{
    struct lw_op op = activations(k, kind, bytes, module, line, name);
    int32_t deps[3], n = waits_for(k, input, deps);

    return lw_builder_op(k->l->b, &op, deps, n);
}

void lw_write_sum(struct lw_writer *k, enum lw_op_kind kind, int64_t bytes, int32_t module,
                  int32_t input)
{
    k->after = add_activations(k, kind, bytes, module, k->l->tensor, "activations", input);
}

void lw_write_gathers(struct lw_writer *k, int64_t bytes, int32_t module, int32_t input)
{
    const int32_t n = LW_TENSOR_PIECES;

    for (int32_t i = 0; i < n; i++)
        k->gathers[i] = add_activations(k, LW_OP_ALL_GATHER, bytes * (i + 1) / n - bytes * i / n,
                                        module, k->l->tensor, "activations", input);
    k->after = k->gathers[0];
    k->n_gathered = 1;
}

void lw_write_gathered(struct lw_writer *k)
{
    k->after = k->gathers[k->n_gathered++];
}

void lw_write_keys(struct lw_writer *k, enum lw_op_kind kind, int64_t bytes, int32_t module,
                   int32_t input)
{
    k->after = add_activations(
        k, kind, bytes, module, k->l->context,
        kind == LW_OP_REDUCE_SCATTER ? "key and value gradients" : "keys and values", input);
}

int32_t lw_write_ring(struct lw_writer *k, const struct lw_part *d, int32_t module, bool backward,
                      int32_t step, int32_t input)
{
    struct lw_ring ring = lw_ring_of(d->s, lw_module_at(d->w, module));
    int64_t bytes = lw_ring_bytes(&ring, backward, step);
    int32_t deps[3], n = waits_for(k, input, deps), last = -1;
    const char *name = !backward || step == 0        ? "keys and values"
                       : step + 1 == ring.n_steps    ? "key and value gradients"
                                                     : "keys, values and gradients";

    if (step >= lw_ring_messages(&ring, backward))
        return -1;
    for (int receives = 0; receives < 2; receives++) {
        struct lw_op op = activations(k, receives ? LW_OP_RECV : LW_OP_SEND, bytes,
                                      lw_part_module(d, module), k->l->context, name);
        op.call = k->n_calls;
        op.operand = lw_lower_row(k->l, LW_ROW_RING, k->role, receives == backward ? 1 : -1,
                                  bytes);
        last = lw_builder_op(k->l->b, &op, deps, n);
    }
    k->n_calls++;
    return last;
}

static void add_tokens(struct lw_writer *k, const struct lw_part *d, enum lw_op_kind kind,
                       int64_t bytes, int32_t module, const char *name, int32_t input)
{
    if (k->l->ep > 1 && bytes > 0)
        k->after = add_activations(k, kind, bytes, lw_part_module(d, module), k->l->expert, name,
                                   input);
}

static int64_t whole_elements(const struct lw_writer *k, int64_t bytes)
{
    int64_t item = lw_dtype_size(k->l->activation_dtype);

    return (bytes + item - 1) / item * item;
}

void lw_write_routing_map(struct lw_writer *k, const struct lw_part *d, int32_t module,
                          int32_t input)
{
    int64_t own = lw_module_at(d->w, module)->routing_map_bytes;

    add_tokens(k, d, LW_OP_ALL_GATHER, whole_elements(k, own) * k->l->ep, module, "routing map",
               input);
}

void lw_write_dispatch(struct lw_writer *k, const struct lw_part *d, int32_t module, bool forward,
                       int32_t input)
{
    const struct lw_module *m = lw_module_at(d->w, module);
    int64_t beside = m->dispatch_weight_bytes + (forward ? m->dispatch_index_bytes : 0);

    add_tokens(k, d, LW_OP_ALL_TO_ALL, m->dispatch_bytes + whole_elements(k, beside), module,
               "dispatch", input);
}

void lw_write_combine(struct lw_writer *k, const struct lw_part *d, int32_t module, int32_t input)
{
    add_tokens(k, d, LW_OP_ALL_TO_ALL, lw_module_at(d->w, module)->dispatch_bytes, module,
               "combine", input);
}

int32_t lw_write_whole_message(struct lw_writer *k, int64_t bytes, int32_t module, int32_t input)
{
    struct lw_op op = activations(k, LW_OP_ALL_GATHER, bytes, module, k->l->tensor, "message");

    return lw_builder_op(k->l->b, &op, &input, 1);
}

void lw_write_again_gathered(struct lw_writer *k, int64_t bytes, int32_t module)
{
    add_activations(k, LW_OP_ALL_GATHER, bytes, module, k->l->tensor, "saved activations", -1);
}

void lw_write_gap(struct lw_writer *k, enum lw_gap gap)
{
    static const char *const names[LW_N_GAPS] = {"gap before forward", "gap before backward",
                                                 "gap before optimizer", "gap after optimizer"};
    struct lw_op op = lw_builder_blank(LW_OP_HOST, k->l->compute);

    if (k->l->w->gap_ps[gap] <= 0)
        return;
    op.work_ps = k->l->w->gap_ps[gap];
    op.name = names[gap];
    if (gap < LW_GAP_BEFORE_OPTIMIZER)
        op.micro_batch = k->micro_batch;
    lw_write_compute(k, &op, NULL, 0);
}

int32_t lw_write_copy(struct lw_writer *k, enum lw_op_kind kind, int64_t bytes, enum lw_dtype dtype,
                      int32_t bucket, int32_t dep)
{
    struct lw_op op = lw_write_moved(k, kind, (struct lw_line){-1, -1}, bytes, dtype, "");

    op.bucket = bucket;
    return lw_write_compute(k, &op, &dep, dep >= 0);
}

struct lw_op lw_write_weights(const struct lw_writer *k, const struct lw_part *d, int32_t buffer,
                              enum lw_op_kind kind, enum lw_dtype wire)
{
    const struct lw_part_buffer *f = &d->shards.buffers[buffer];
    struct lw_op op = lw_write_moved(k, kind, lw_data_line(k->l, f->expert),
                                     f->elements * lw_dtype_size(wire), wire, "weights");

    op.bucket = d->shards.first_bucket + buffer;
    return op;
}

int32_t lw_write_wait(struct lw_writer *k, const char *what, const int32_t *ops, int32_t n)
{
    struct lw_op op = lw_write_op(k, LW_OP_EVENT_WAIT, k->l->compute, what);

    return lw_write_compute(k, &op, ops, n);
}

void lw_write_root(struct lw_writer *k, struct lw_op *op, int32_t member, bool expert)
{
    bool apart = expert && k->l->ep > 1;

    if (lw_is_plain(k->l) && !apart)
        op->peer = member;
    else
        op->operand = lw_lower_row(k->l, apart ? LW_ROW_EXPERT_ROOT : LW_ROW_ROOT, k->role, member,
                                   op->bytes);
}
