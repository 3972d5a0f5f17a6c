/* Micro-batches repeat each other: what a forward or a backward writes is copied from an earlier
 * one of its part, also in an earlier pass, with the numbers of ops moved along.
 *
 * A copy is what would be written because nothing but these enters into it: the kind, the part and
 * its rank, the micro-batch's number, and three ops before it, which what it writes may wait for
 * (the last compute, what the next compute waits for too, the op that brings the input). They must
 * be there or not, and the same op or not, as they were for the one that is copied. Not copied is
 * what also depends on the micro-batches before it: reductions, weights that are gathered and
 * freed, room for gradients, activations at the host, numbers of group calls. */
#include "shared/lower_ops/writer.h"

static bool same_pattern(const int32_t *a, const int32_t *b)
{
    bool same = true;

    for (int i = 0; i < LW_N_TAKEN; i++) {
        same &= (a[i] < 0) == (b[i] < 0);
        for (int j = 0; j < i; j++)
            same &= (a[i] == a[j]) == (b[i] == b[j]);
    }
    return same;
}

static bool keeps_state(const struct lw_writer *k, const struct lw_writer_part *x)
{
    bool has_room = false; /* also of a gradient that a module of another part adds to */

    for (int32_t i = 0; i < k->n_parts; i++)
        has_room |= k->parts[i].room_at != NULL;
    return has_room || x->unit_there || x->n_elsewhere > 0 || x->gathered_by ||
           k->l->s->offload == LW_OFFLOAD_ACTIVATIONS;
}

struct lw_written lw_write_begin_repeat(const struct lw_writer *k, int32_t input)
{
    return (struct lw_written){.first = lw_builder_n_ops(k->l->b), .role = k->role,
                               .micro_batch = k->micro_batch, .n_calls = k->n_calls,
                               .taken = {k->last_compute, k->after, input}};
}

/* Dependencies are ops of the action or those that it was given. */
static bool is_closed(const struct lw_writer *k, const struct lw_written *x)
{
    for (int32_t i = 0; i < x->n; i++) {
        const struct lw_op op = lw_builder_op_at(k->l->b, x->first + i);
        const int32_t *deps = lw_builder_deps_of(k->l->b, x->first + i);
        for (int32_t d = 0; d < op.n_deps; d++)
            if (deps[d] < x->first && deps[d] != x->taken[0] && deps[d] != x->taken[1] &&
                deps[d] != x->taken[2])
                return false;
    }
    return true;
}

void lw_write_end_repeat(struct lw_writer *k, struct lw_writer_part *x, enum lw_op_kind kind,
                         const struct lw_written *begun, int32_t output)
{
    struct lw_written made = *begun;

    made.n = lw_builder_n_ops(k->l->b) - made.first;
    made.left[0] = k->last_compute;
    made.left[1] = k->after;
    made.left[2] = output;
    if (made.n > 0 && made.n_calls == k->n_calls && !keeps_state(k, x) && is_closed(k, &made))
        x->written[kind] = made;
}

/* The op that stands for one of the action that is copied, or of what that was given. */
static int32_t moved(const struct lw_written *from, const struct lw_written *to, int32_t op)
{
    if (op >= from->first)
        return op - from->first + to->first;
    for (int i = 0; i < LW_N_TAKEN; i++)
        if (op >= 0 && op == from->taken[i])
            return to->taken[i];
    return op;
}

bool lw_write_repeat(struct lw_writer *k, struct lw_writer_part *x, enum lw_op_kind kind,
                     int32_t input, int32_t *output)
{
    const struct lw_written *from = &x->written[kind];
    struct lw_written to = lw_write_begin_repeat(k, input);

    if (from->n == 0 || from->role != to.role || !same_pattern(from->taken, to.taken))
        return false;
    lw_builder_repeat(k->l->b, &(struct lw_op_range){from->first, from->n, from->taken, to.taken,
                                                     LW_N_TAKEN, from->micro_batch,
                                                     to.micro_batch});
    k->last_compute = moved(from, &to, from->left[0]);
    k->after = moved(from, &to, from->left[1]);
    *output = moved(from, &to, from->left[2]);
    return true;
}
