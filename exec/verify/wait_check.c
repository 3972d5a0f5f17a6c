/* Does every op wait for what it uses? Ops of a stream follow each other, and an op follows its
 * dependencies; all else runs when it likes. A clock per op and stream says how far each stream
 * must have come before the op begins (vector clocks: Fidge, ACSC 1988; Mattern 1989). Walking a
 * program in the order of its list, two uses of one thing, of which one changes it, must be ordered
 * by the clocks.
 *
 * Things are gradients, buckets (flat buffers of weights among them) and messages between stages. An
 * op reads its module's weights; that is looked at where the program gives them up (ZeRO-3).
 * Passes do not overlap, so each program is judged alone. Not modelled: order that comes from other
 * ranks. */
#include <string.h>

#include "exec/verify/plan_audit.h"
#include "shared/plan/op.h"

struct walk {
    const struct exec_tensors *m;
    const struct lw_plan *p;
    const struct exec_layout *l;
    struct lw_program g;
    int32_t rank, n_streams;
    int32_t
        *clock;    /* [n_ops * n_streams] ops of the stream that are over: those below this index */
    int32_t *last; /* [n_streams] the stream's last op; -1 = none yet */
    int32_t *writer; /* [things] op that changed it last; -1 = none */
    int32_t *reader; /* [things * n_streams] that used it last since; -1 = none */
};

static const struct lw_op *op_at(const struct walk *w, int32_t i)
{
    return &w->p->ops[w->g.first_op + i];
}

static void follow(struct walk *w, int32_t i, int32_t before)
{
    int32_t *to = w->clock + (int64_t)i * w->n_streams;
    const int32_t *from = w->clock + (int64_t)before * w->n_streams;

    for (int32_t s = 0; s < w->n_streams; s++)
        to[s] = from[s] > to[s] ? from[s] : to[s];
    int32_t s = op_at(w, before)->stream;
    to[s] = before + 1 > to[s] ? before + 1 : to[s];
}

/* Ops of one group call on a stream wait for what any of them waits for. */
static int32_t call_begin(const struct walk *w, int32_t i)
{
    int32_t call = op_at(w, i)->call;

    while (call >= 0 && i > 0 && op_at(w, i - 1)->call == call)
        i--;
    return i;
}

static void set_clock(struct walk *w, int32_t i)
{
    const struct lw_op *op = op_at(w, i);
    int32_t call = op->call;

    if (w->last[op->stream] >= 0)
        follow(w, i, w->last[op->stream]);
    w->last[op->stream] = i;
    for (int32_t k = call_begin(w, i); k < w->g.n_ops; k++) {
        const struct lw_op *with = op_at(w, k);
        if (k != i && (call < 0 || with->call != call)) {
            if (k > i)
                break;
            continue;
        }
        for (int32_t d = 0; with->stream == op->stream && d < with->n_deps; d++)
            if (w->p->deps[with->first_dep + d] < w->g.first_op + i)
                follow(w, i, w->p->deps[with->first_dep + d] - w->g.first_op);
    }
}

static bool is_before(const struct walk *w, int32_t a, int32_t b)
{
    return w->clock[(int64_t)b * w->n_streams + op_at(w, a)->stream] > a;
}

static enum lw_status no_wait(const struct walk *w, int32_t before, int32_t i, struct lw_err *err)
{
    char a[EXEC_OP_TEXT], b[EXEC_OP_TEXT];

    return lw_fail(err, LW_ENO, "rank %d: %s uses what %s leaves, without waiting for it", w->rank,
                   exec_op_text(w->p, w->g.first_op + i, a),
                   exec_op_text(w->p, w->g.first_op + before, b));
}

/* --- uses ---------------------------------------------------------------------------------------
 */

static enum lw_status use(struct walk *w, int32_t i, int64_t thing, bool changes,
                          struct lw_err *err)
{
    int32_t *readers = w->reader + thing * w->n_streams;

    if (w->writer[thing] >= 0 && w->writer[thing] != i && !is_before(w, w->writer[thing], i))
        return no_wait(w, w->writer[thing], i, err);
    if (!changes) {
        readers[op_at(w, i)->stream] = i;
        return LW_OK;
    }
    for (int32_t s = 0; s < w->n_streams; s++) {
        if (readers[s] >= 0 && readers[s] != i && !is_before(w, readers[s], i))
            return no_wait(w, readers[s], i, err);
        readers[s] = -1;
    }
    w->writer[thing] = i;
    return LW_OK;
}

static int64_t bucket_thing(const struct walk *w, int32_t bucket)
{
    return (int64_t)w->p->n_params + bucket;
}

/* Where a backward leaves a gradient. */
static int64_t local_thing(const struct walk *w, int32_t param)
{
    int32_t b = w->l->bucket_of[param];
    return b >= 0 && !w->l->copied_in[param] ? bucket_thing(w, b) : param;
}

/* Where the optimizer reads it. */
static int64_t average_thing(const struct walk *w, int32_t param)
{
    int32_t b = w->l->bucket_of[param];
    return b >= 0 && !w->l->copied_out[b] ? bucket_thing(w, b) : param;
}

static enum lw_status use_ready(struct walk *w, int32_t i, struct lw_err *err)
{
    const struct lw_op *op = op_at(w, i);

    for (int32_t k = 0; k < op->n_ready; k++) {
        int32_t a = w->p->ready[op->first_ready + k], b = w->l->bucket_of[a];
        if (!exec_param_is_here(w->p, a, w->rank))
            continue;
        if (op->kind != LW_OP_COPY_IN) {
            LW_TRY(use(w, i, local_thing(w, a), true, err));
            continue;
        }
        LW_TRY(use(w, i, a, false, err));
        if (b >= 0)
            LW_TRY(use(w, i, bucket_thing(w, b), true, err));
    }
    return LW_OK;
}

/* Squares are taken of what the optimizer will read, and scaling changes it. */
static enum lw_status use_norm(struct walk *w, int32_t i, struct lw_err *err)
{
    const struct lw_op *op = op_at(w, i);
    bool scales = op->kind == LW_OP_COPY_OUT;

    LW_TRY(use(w, i, bucket_thing(w, op->bucket), !scales, err));
    for (int32_t a = 0; op->comm < 0 && a < w->p->n_params; a++)
        if (exec_param_is_here(w->p, a, w->rank))
            LW_TRY(use(w, i, average_thing(w, a), scales, err));
    return LW_OK;
}

static enum lw_status use_bucket(struct walk *w, int32_t i, struct lw_err *err)
{
    const struct lw_op *op = op_at(w, i);
    const struct lw_bucket *k = &w->p->buckets[op->bucket];
    bool out = op->kind == LW_OP_COPY_OUT;

    if (lw_plan_is_tied(w->p, op->bucket))
        return use(w, i, average_thing(w, w->p->slots[k->first_slot]), true, err);
    if (lw_plan_is_norm(w->p, op->bucket))
        return use_norm(w, i, err);
    LW_TRY(use(w, i, bucket_thing(w, op->bucket), !out, err));
    for (int32_t s = 0; out && s < k->n_slots; s++)
        LW_TRY(use(w, i, w->p->slots[k->first_slot + s], true, err));
    return LW_OK;
}

static bool holds_weights_of(const struct lw_plan *p, int32_t bucket, int32_t module)
{
    const struct lw_bucket *k = &p->buckets[bucket];

    for (int32_t s = 0; s < k->n_slots; s++)
        if (p->params[p->slots[k->first_slot + s]].module == module)
            return true;
    return false;
}

/* Flat buffers that the program gives up: whoever computes with their weights reads them, and to give
 * them up changes them. */
static enum lw_status use_units(struct walk *w, int32_t i, struct lw_err *err)
{
    const struct lw_op *op = op_at(w, i);

    if (op->kind == LW_OP_FREE && op->bucket >= 0 && w->l->units_comm[op->bucket] >= 0)
        return use(w, i, bucket_thing(w, op->bucket), true, err);
    for (int32_t b = 0; lw_op_uses_weights(op) && b < w->p->n_buckets; b++)
        if (w->l->units_comm[b] >= 0 && holds_weights_of(w->p, b, op->module))
            LW_TRY(use(w, i, bucket_thing(w, b), false, err));
    return LW_OK;
}

static enum lw_status use_all(struct walk *w, int32_t i, struct lw_err *err)
{
    for (int32_t a = 0; a < w->p->n_params; a++)
        if (exec_param_is_here(w->p, a, w->rank))
            LW_TRY(use(w, i, average_thing(w, a), false, err));
    for (int32_t b = 0; b < w->p->n_buckets; b++)
        if (w->m->weights_bucket_at[b] >= 0 && w->p->buckets[b].n_slots > 0 &&
            exec_param_is_here(w->p, w->p->slots[w->p->buckets[b].first_slot], w->rank))
            LW_TRY(use(w, i, bucket_thing(w, b), true, err));
    return LW_OK;
}

static enum lw_status use_op(struct walk *w, int32_t i, struct lw_err *err)
{
    const struct lw_op *op = op_at(w, i);

    LW_TRY(use_ready(w, i, err));
    LW_TRY(use_units(w, i, err));
    if (op->kind == LW_OP_OPTIMIZER)
        return use_all(w, i, err);
    bool moves = lw_op_class(op->kind) == LW_CLASS_COPY || op->comm >= 0;
    return op->bucket >= 0 && moves ? use_bucket(w, i, err) : LW_OK;
}

/* --- messages -----------------------------------------------------------------------------------
 */

static enum lw_status check_message(const struct walk *w, int32_t i, struct lw_err *err)
{
    int32_t end = w->l->flow.end_of[i];

    if (end < 0)
        return LW_OK;
    if (op_at(w, i)->kind == LW_OP_SEND)
        return is_before(w, end, i) ? LW_OK : no_wait(w, end, i, err);
    return is_before(w, i, end) ? LW_OK : no_wait(w, i, end, err);
}

static enum lw_status walk_program(struct walk *w, struct lw_err *err)
{
    for (int32_t i = 0; i < w->g.n_ops; i++) {
        set_clock(w, i);
        LW_TRY(use_op(w, i, err));
    }
    for (int32_t i = 0; i < w->g.n_ops; i++)
        LW_TRY(check_message(w, i, err));
    return LW_OK;
}

enum lw_status exec_waits_check(const struct exec_tensors *m, int32_t variant, int32_t rank,
                                struct lw_err *err)
{
    struct walk w = {.m = m,
                     .p = m->plan,
                     .l = exec_tensors_layout(m, variant, rank),
                     .g = lw_plan_program(m->plan, variant, rank),
                     .rank = rank,
                     .n_streams = m->plan->n_streams};
    struct lw_arena arena = {0};
    int64_t things = (int64_t)w.p->n_params + w.p->n_buckets;

    w.clock = lw_arena_alloc(&arena, (int64_t)w.g.n_ops * w.n_streams, sizeof *w.clock);
    w.last = lw_arena_alloc(&arena, w.n_streams, sizeof *w.last);
    w.writer = lw_arena_alloc(&arena, things, sizeof *w.writer);
    w.reader = lw_arena_alloc(&arena, things * w.n_streams, sizeof *w.reader);
    enum lw_status s = LW_OK;
    if (!w.clock || !w.last || !w.writer || !w.reader) {
        s = lw_fail_nomem(err);
    } else {
        memset(w.last, -1, (size_t)w.n_streams * sizeof *w.last);
        memset(w.writer, -1, (size_t)things * sizeof *w.writer);
        memset(w.reader, -1, (size_t)(things * w.n_streams) * sizeof *w.reader);
        s = walk_program(&w, err);
    }
    lw_arena_free(&arena);
    return s;
}
