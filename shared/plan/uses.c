/* What an op touches: shared/plan/uses.h. A gradient lies in its slot of a bucket, or outside where
 * the program copies it in or out; which holds follows from the program as a whole, so that part is
 * computed once per program. */
#include "shared/plan/uses.h"

#include <string.h>

#include "shared/plan/op.h"

struct walk {
    const struct lw_uses *u;
    const struct lw_op *op;
    int32_t index, rank;
    lw_use_fn *visit;
    void *ctx;
    struct lw_err *err;
};

/* Buckets of weights by the modules whose parameters they hold: their own, or tied to one there. */
static enum lw_status index_modules(struct lw_uses *u, bool has_tied, struct lw_err *err)
{
    const struct lw_plan *p = u->p;
    int32_t *next = NULL;

    if (has_tied) {
        LW_TAKE(&u->room, next, p->n_params, err);
        lw_plan_link_tied(p, next);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t b = 0; b < p->n_buckets; b++)
            for (int32_t i = 0; lw_plan_is_weights(p, b) && i < p->buckets[b].n_slots; i++)
                for (int32_t a = p->slots[p->buckets[b].first_slot + i]; a >= 0;
                     a = next ? next[a] : -1) {
                    int32_t m = p->params[a].module;
                    if (pass == 0)
                        u->module_first[m + 2]++;
                    else
                        u->module_weights[u->module_first[m + 1]++] = b;
                }
        if (pass == 1)
            break;
        for (int32_t m = 0; m <= p->n_modules; m++)
            u->module_first[m + 1] += u->module_first[m];
        LW_TAKE(&u->room, u->module_weights, u->module_first[p->n_modules + 1], err);
    }
    return LW_OK;
}

/* Parameters with gradients that are tied to another of their stage, by module. */
static enum lw_status index_tied(struct lw_uses *u, bool has_tied, struct lw_err *err)
{
    const struct lw_plan *p = u->p;

    LW_TAKE(&u->room, u->module_tied, p->n_modules, err);
    memset(u->module_tied, -1, (size_t)p->n_modules * sizeof *u->module_tied);
    if (!has_tied)
        return LW_OK;
    LW_TAKE(&u->room, u->next_tied, p->n_params, err);
    for (int32_t i = p->n_params - 1; i >= 0; i--) {
        const struct lw_plan_param *a = &p->params[i];
        if (lw_plan_holds(p, i) || !a->trainable || !a->used || a->ignored)
            continue;
        u->next_tied[i] = u->module_tied[a->module];
        u->module_tied[a->module] = i;
    }
    return LW_OK;
}

bool lw_plan_temporary_weights(const struct lw_plan *p, bool *temporary)
{
    bool any = false;

    for (int32_t i = 0; i < p->n_ops; i++)
        if (lw_op_at(p, i).kind == LW_OP_FREE && lw_op_at(p, i).bucket >= 0 &&
            lw_plan_is_weights(p, lw_op_at(p, i).bucket))
            any = temporary[lw_op_at(p, i).bucket] = true;
    return any;
}

static bool note_ahead(const struct lw_plan *p, struct lw_program g, bool *ahead)
{
    bool any = false;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *op = LW_OP(p, i);
        if (op->kind == LW_OP_OPTIMIZER)
            break;
        if (op->kind == LW_OP_ALL_GATHER && op->bucket >= 0 && lw_plan_is_weights(p, op->bucket))
            any = ahead[op->bucket] = true;
    }
    return any;
}

bool lw_plan_weights_ahead(const struct lw_plan *p, bool *ahead)
{
    bool any = false;

    for (int64_t i = 0; i < (int64_t)p->n_variants * p->n_roles; i++)
        any = note_ahead(p, p->programs[i], ahead) || any;
    for (int32_t i = 0; any && i < p->n_ops; i++)
        if (lw_op_class((enum lw_op_kind)lw_op_at(p, i).kind) == LW_CLASS_MEMORY &&
            lw_op_at(p, i).bucket >= 0)
            ahead[lw_op_at(p, i).bucket] = false;
    any = false;
    for (int32_t b = 0; b < p->n_buckets; b++)
        any = any || ahead[b];
    return any;
}

enum lw_status lw_uses_init(struct lw_uses *u, const struct lw_plan *p, struct lw_err *err)
{
    *u = (struct lw_uses){.p = p, .variant = -1, .role = -1, .here_stage = -1};
    LW_TAKE_ROOM(&u->room, u->bucket_of, p->n_params, err);
    LW_TAKE_ROOM(&u->room, u->copied_in, p->n_params, err);
    LW_TAKE(&u->room, u->copied_out, p->n_buckets, err);
    LW_TAKE_ROOM(&u->room, u->here, p->n_params, err);
    LW_TAKE(&u->room, u->temporary, p->n_buckets, err);
    LW_TAKE(&u->room, u->ahead, p->n_buckets, err);
    LW_TAKE(&u->room, u->held, 2L * p->n_buckets, err);
    LW_TAKE(&u->room, u->module_first, p->n_modules + 2L, err);
    LW_TAKE(&u->room, u->reduces, p->n_sets, err);
    u->has_gathered = lw_plan_temporary_weights(p, u->temporary);
    u->has_gathered = lw_plan_weights_ahead(p, u->ahead) || u->has_gathered;
    for (int32_t i = 0; !u->has_copies && i < p->n_params; i++)
        u->has_copies = p->params[i].tied >= 0 && p->params[i].tied != i && lw_plan_holds(p, i);
    bool has_tied = false;
    for (int32_t i = 0; !has_tied && i < p->n_params; i++)
        has_tied = !lw_plan_holds(p, i);
    LW_TRY(index_tied(u, has_tied, err));
    return index_modules(u, has_tied, err);
}

/* --- gradients that are used alike ------------------------------------------------------------ */

/* The end of the run from v[first] on in which each is one more than the one before it, or each is
 * one less. */
static int32_t run_end(const int32_t *v, int32_t n, int32_t first)
{
    int32_t end = first + 1, step = end < n ? v[end] - v[first] : 0;

    if (step != 1 && step != -1)
        return end;
    while (end < n && v[end] - v[end - 1] == step)
        end++;
    return end;
}

/* Of a list: alike[i] is false where it has i without i - 1 beside it, or i - 1 without i. In a run
 * the lowest has none below beside it, and the highest none above. */
static void part_unlike(bool *alike, const int32_t *v, int32_t n)
{
    for (int32_t k = 0, end; k < n; k = end) {
        int32_t low = v[k], high, before = k > 0 ? v[k - 1] : -2;
        end = run_end(v, n, k);
        high = v[end - 1];
        if (high < low) {
            high = low;
            low = v[end - 1];
        }
        bool alone = end == k + 1;
        alike[low] &= alone && before == low - 1;
        alike[high + 1] &= alone && before == high + 1;
    }
}

/* Where lists of ready gradients begin and end, between[n_ready + 1]: parts of lists that overlap
 * count as lists. */
static void part_ready(const struct lw_plan *p, bool *between, bool *alike)
{
    for (int32_t i = 0; i < p->n_ops; i++) {
        int32_t n = lw_op_shared(p, i)->n_ready, first = lw_op_at(p, i).first_ready;
        if (n > 0)
            between[first] = between[first + n] = true;
    }
    for (int32_t first = 0, end; first < p->n_ready; first = end) {
        for (end = first + 1; end < p->n_ready && !between[end];)
            end++;
        part_unlike(alike, p->ready + first, end - first);
    }
}

static bool is_like(const struct lw_plan_param *a, const struct lw_plan_param *b)
{
    return a->stage == b->stage && a->trainable == b->trainable && a->used == b->used &&
           a->ignored == b->ignored;
}

enum lw_status lw_uses_skip_alike(struct lw_uses *u, struct lw_err *err)
{
    const struct lw_plan *p = u->p;
    bool *alike, *between;

    LW_TAKE(&u->room, alike, p->n_params + 1L, err);
    LW_TAKE(&u->room, between, p->n_ready + 1L, err);
    for (int32_t i = 1; i < p->n_params; i++)
        alike[i] = is_like(&p->params[i - 1], &p->params[i]);
    for (int32_t i = 0; i < p->n_params; i++) {
        int32_t tied = p->params[i].tied;
        if (tied >= 0)
            alike[i] = alike[i + 1] = alike[tied] = alike[tied + 1] = false;
    }
    for (int32_t b = 0; b < p->n_buckets; b++)
        part_unlike(alike, p->slots + p->buckets[b].first_slot, p->buckets[b].n_slots);
    part_ready(p, between, alike);
    u->alike = alike;
    return LW_OK;
}

void lw_uses_free(struct lw_uses *u)
{
    lw_arena_free(&u->program_room);
    lw_arena_free(&u->room);
}

static void place_gradients(struct lw_uses *u)
{
    const struct lw_plan *p = u->p;

    memset(u->bucket_of, -1, (size_t)p->n_params * sizeof *u->bucket_of);
    for (int32_t s = 0; s < p->n_sets; s++) {
        const struct lw_bucket_set *set = &p->sets[s];
        u->reduces[s] = lw_plan_uses_set(p, u->variant, s);
        for (int32_t b = set->first_bucket; u->reduces[s] && b < set->first_bucket + set->n_buckets;
             b++)
            for (int32_t i = 0; i < p->buckets[b].n_slots; i++)
                u->bucket_of[p->slots[p->buckets[b].first_slot + i]] = b;
    }
}

static void list_params(struct lw_uses *u)
{
    const struct lw_plan *p = u->p;
    int32_t stage = p->roles[u->role].stage;

    for (int32_t i = 0; stage != u->here_stage && i < p->n_params; i++) {
        const struct lw_plan_param *a = &p->params[i];
        bool holds = a->tied < 0 || lw_plan_holds(p, i);
        u->here[i] = a->trainable && a->stage == stage && holds;
    }
    u->here_stage = stage;
}

static void note_op(struct lw_uses *u, const struct lw_op *op)
{
    const struct lw_plan *p = u->p;
    bool norm = op->bucket >= 0 && lw_plan_is_norm(p, op->bucket);

    switch (op->kind) {
    case LW_OP_COPY_IN:
        u->copies = u->copies || !norm;
        for (int32_t r = 0; r < op->n_ready; r++)
            u->copied_in[p->ready[op->first_ready + r]] = true;
        break;
    case LW_OP_COPY_OUT:
        if (op->bucket >= 0 && !norm)
            u->copied_out[op->bucket] = true;
        break;
    case LW_OP_SEND:
    case LW_OP_RECV:
        u->talks = true;
        break;
    default:
        break;
    }
}

static void note_program(struct lw_uses *u)
{
    const struct lw_plan *p = u->p;

    memset(u->copied_in, 0, (size_t)p->n_params * sizeof *u->copied_in);
    memset(u->copied_out, 0, (size_t)p->n_buckets * sizeof *u->copied_out);
    u->copies = u->talks = false;
    for (int32_t i = u->program.first_op; i < u->program.first_op + u->program.n_ops; i++)
        note_op(u, LW_OP_HELD(p, i));
}

/* Gathered weights after a program of the role. An optimizer makes those stale that stay. */
static void follow_gathers(const struct lw_uses *u, int32_t variant, int32_t *there)
{
    const struct lw_plan *p = u->p;
    struct lw_program g = p->programs[(int64_t)variant * p->n_roles + u->role];

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *op = LW_OP(p, i);
        for (int32_t b = 0; op->kind == LW_OP_OPTIMIZER && b < p->n_buckets; b++)
            there[b] = u->ahead[b] ? -1 : there[b];
        if (op->bucket >= 0 && (u->temporary[op->bucket] || u->ahead[op->bucket]) &&
            (op->kind == LW_OP_ALL_GATHER || op->kind == LW_OP_FREE))
            there[op->bucket] = op->kind == LW_OP_FREE ? -1 : i;
    }
}

/* What the passes before each pass of the variant left gathered: the same before all of them.
 * Nothing that is still right is left at the end of a step (terms.c). Of equal passes in a row the
 * third leaves what the second does. */
static enum lw_status find_held(struct lw_uses *u, struct lw_err *err)
{
    const struct lw_plan *p = u->p;
    int32_t *there = u->held + p->n_buckets, before[2] = {-1, -1};
    bool seen = false;

    memset(u->held, -1, 2 * (size_t)p->n_buckets * sizeof *u->held);
    for (int32_t i = 0; u->has_gathered && i < 2 * p->n_passes - p->repeat_from; i++) {
        int32_t v = lw_plan_variant_of_pass(p, i);
        if (v == before[0] && v == before[1])
            continue;
        for (int32_t b = 0; v == u->variant && seen && b < p->n_buckets; b++)
            if ((there[b] < 0) != (u->held[b] < 0))
                return lw_fail(err, LW_EPLAN, "variant '%s': the weights of bucket %d are gathered "
                                              "before one pass of it, and not before another",
                               p->variants[v].name, b);
        if (v == u->variant && !seen)
            memcpy(u->held, there, (size_t)p->n_buckets * sizeof *there);
        seen = seen || v == u->variant;
        follow_gathers(u, v, there);
        if (p->variants[v].ends_step)
            memset(there, -1, (size_t)p->n_buckets * sizeof *there);
        before[1] = before[0];
        before[0] = v;
    }
    return LW_OK;
}

enum lw_status lw_uses_program(struct lw_uses *u, int32_t variant, int32_t role, struct lw_err *err)
{
    if (variant != u->variant) {
        u->variant = variant;
        place_gradients(u);
    }
    u->role = role;
    u->program = u->p->programs[(int64_t)variant * u->p->n_roles + role];
    list_params(u);
    note_program(u);
    LW_TRY(find_held(u, err));
    lw_arena_free(&u->program_room);
    u->messages = (struct lw_message_ends){0};
    return u->talks ? lw_message_ends_init(u->p, &u->program, &u->program_room, &u->messages, err)
                    : LW_OK;
}

/* --- one op ----------------------------------------------------------------------------------- */

static enum lw_status use(const struct walk *w, enum lw_use_buffer buffer, int32_t index, int64_t n,
                          int access)
{
    const struct lw_use x = {.buffer = buffer, .index = index, .n = n, .access = access};

    return w->visit(w->ctx, &x, w->err);
}

static enum lw_status use_gradient(const struct walk *w, int32_t param, int access)
{
    return use(w, LW_USE_GRADIENT, param, -1, access);
}

/* The part of the bucket that the op works on as this rank sees it. */
static enum lw_status use_bucket(const struct walk *w, enum lw_use_buffer buffer, int32_t bucket,
                                 int access)
{
    struct lw_use x = {
        .buffer = buffer, .index = bucket, .n = w->u->p->buckets[bucket].bytes, .access = access};

    if (w->rank >= 0 && w->op->operand >= 0) {
        struct lw_operand d = lw_plan_operand(w->u->p, w->op, w->rank);
        x.first = d.offset;
        x.n = d.bytes;
    }
    return w->visit(w->ctx, &x, w->err);
}

/* Where a backward leaves the gradient: in its slot, unless the program copies it there. */
static enum lw_status use_made(const struct walk *w, int32_t param)
{
    int32_t b = w->u->bucket_of[param];

    return b >= 0 && !w->u->copied_in[param] ? use_bucket(w, LW_USE_BUCKET, b, LW_ADD)
                                             : use_gradient(w, param, LW_ADD);
}

/* Where the optimizer reads it: in its slot, unless the program copies it out. */
static enum lw_status use_result(const struct walk *w, int32_t param, int access)
{
    int32_t b = w->u->bucket_of[param];

    return b >= 0 && !w->u->copied_out[b] ? use_bucket(w, LW_USE_BUCKET, b, access)
                                          : use_gradient(w, param, access);
}

static enum lw_status use_results(const struct walk *w, int access)
{
    int32_t before = -1;

    for (int32_t i = 0; i < w->u->p->n_params; i++) {
        if (lw_uses_skips(w->u, i) || !w->u->here[i])
            continue;
        int32_t b = w->u->bucket_of[i];
        bool seen = b >= 0 && b == before && !w->u->copied_out[b];
        if (!seen)
            LW_TRY(use_result(w, i, access));
        before = b;
    }
    return LW_OK;
}

static enum lw_status use_ready(const struct walk *w)
{
    int32_t filled = -1;

    for (int32_t r = w->op->first_ready; r < w->op->first_ready + w->op->n_ready; r++) {
        int32_t param = w->u->p->ready[r], b = w->u->bucket_of[param];
        if (lw_uses_skips(w->u, param) || !w->u->here[param])
            continue;
        if (w->op->kind != LW_OP_COPY_IN) {
            LW_TRY(use_made(w, param));
            continue;
        }
        LW_TRY(use_gradient(w, param, LW_READ));
        if (b >= 0 && b != filled)
            LW_TRY(use_bucket(w, LW_USE_BUCKET, b, LW_WRITE));
        filled = b;
    }
    return LW_OK;
}

/* A module's backward adds to the gradients that its parameters are tied to. */
static enum lw_status use_tied(const struct walk *w)
{
    bool makes = w->op->kind == LW_OP_BACKWARD || w->op->kind == LW_OP_BACKWARD_WEIGHT;

    for (int32_t i = makes && w->op->module >= 0 ? w->u->module_tied[w->op->module] : -1; i >= 0;
         i = w->u->next_tied[i])
        if (w->u->here[w->u->p->params[i].tied])
            LW_TRY(use_made(w, w->u->p->params[i].tied));
    return LW_OK;
}

/* Squares are taken of what the optimizer reads, and scaling changes that. */
static enum lw_status use_norm(const struct walk *w)
{
    bool scales = w->op->kind == LW_OP_COPY_OUT;

    LW_TRY(use_bucket(w, LW_USE_BUCKET, w->op->bucket, scales ? LW_READ : LW_WRITE));
    return w->op->comm >= 0 ? LW_OK : use_results(w, scales ? LW_READ | LW_WRITE : LW_READ);
}

static enum lw_status use_slots(const struct walk *w,
                                enum lw_status (*of)(const struct walk *, int32_t, int))
{
    const struct lw_bucket *b = &w->u->p->buckets[w->op->bucket];

    for (int32_t i = 0; i < b->n_slots; i++) {
        int32_t param = w->u->p->slots[b->first_slot + i];
        if (!lw_uses_skips(w->u, param))
            LW_TRY(of(w, param, LW_READ | LW_WRITE));
    }
    return LW_OK;
}

/* A copy, cast or communication of a bucket. */
static enum lw_status use_about_bucket(const struct walk *w)
{
    switch (lw_plan_bucket_kind(w->u->p, w->op->bucket)) {
    case LW_BUCKET_WEIGHTS:
        return use_bucket(w, LW_USE_WEIGHTS, w->op->bucket, LW_READ | LW_WRITE);
    case LW_BUCKET_TIED:
        return use_slots(w, use_result);
    case LW_BUCKET_NORM:
        return use_norm(w);
    default:
        if (w->op->kind != LW_OP_COPY_OUT)
            return use_bucket(w, LW_USE_BUCKET, w->op->bucket, LW_READ | LW_WRITE);
        LW_TRY(use_bucket(w, LW_USE_BUCKET, w->op->bucket, LW_READ));
        return use_slots(w, use_gradient);
    }
}

static enum lw_status use_weights_of(const struct walk *w, int32_t module)
{
    for (int32_t i = w->u->module_first[module]; i < w->u->module_first[module + 1]; i++)
        if (lw_plan_op_reads(w->u->p, w->index, w->u->module_weights[i]))
            LW_TRY(use_bucket(w, LW_USE_WEIGHTS, w->u->module_weights[i], LW_READ));
    return LW_OK;
}

static enum lw_status use_update(const struct walk *w)
{
    const struct lw_plan *p = w->u->p;

    LW_TRY(use_results(w, LW_READ));
    LW_TRY(use(w, LW_USE_OPTIMIZER, 0, 0, LW_READ | LW_WRITE));
    for (int32_t s = 0; s < p->n_sets; s++) {
        const struct lw_bucket_set *set = &p->sets[s];
        bool here = set->kind == LW_BUCKET_WEIGHTS && set->stage == p->roles[w->u->role].stage;
        for (int32_t b = set->first_bucket; here && b < set->first_bucket + set->n_buckets; b++)
            LW_TRY(use_bucket(w, LW_USE_WEIGHTS, b, LW_READ | LW_WRITE));
    }
    return LW_OK;
}

static enum lw_status use_message(const struct walk *w, int32_t message, int access)
{
    int32_t op = w->u->program.first_op + message;

    return use(w, LW_USE_MESSAGE, op, lw_op_at(w->u->p, op).bytes, access);
}

/* A send reads what its maker wrote, or what a receive brought that it passes on; a receive writes
 * what its taker reads. */
static enum lw_status use_messages(const struct walk *w)
{
    const struct lw_message_ends *m = &w->u->messages;
    int32_t first = w->u->program.first_op, i = w->index - first;

    if (m->passed[i] >= 0)
        LW_TRY(use_message(w, m->passed[i], LW_READ));
    if (m->end_of[i] >= 0)
        LW_TRY(use_message(w, i, w->op->kind == LW_OP_SEND ? LW_READ : LW_WRITE));
    for (int32_t k = m->first[i]; k >= 0; k = m->next[k])
        LW_TRY(use_message(w, k,
                           lw_op_at(w->u->p, first + k).kind == LW_OP_SEND ? LW_WRITE : LW_READ));
    return LW_OK;
}

bool lw_op_memory(const struct lw_plan *p, int32_t op, int32_t rank, struct lw_use *out)
{
    const struct lw_op *o = LW_OP_HELD(p, op);
    int64_t kept = o->work < 0 ? 0 : lw_work_at(p, o->work)->keeps_bytes;

    *out = (struct lw_use){.buffer = LW_USE_ACTIVATION, .index = op};
    if (o->kind == LW_OP_ALLOC || o->kind == LW_OP_FREE) {
        bool weights = o->bucket >= 0 && lw_plan_is_weights(p, o->bucket);
        if (weights)
            *out = (struct lw_use){.buffer = LW_USE_WEIGHTS, .index = o->bucket};
        out->n = rank < 0 ? o->bytes : lw_plan_operand(p, o, rank).bytes;
        out->access = o->kind == LW_OP_ALLOC ? LW_TAKE : LW_FREE;
        return true;
    }
    out->n = kept < 0 ? -kept : kept;
    out->access = kept < 0 ? LW_FREE : LW_TAKE;
    return kept != 0;
}

enum lw_status lw_op_uses(const struct lw_uses *u, int32_t op, int32_t rank, lw_use_fn *visit,
                          void *ctx, struct lw_err *err)
{
    const struct walk w = {u, LW_OP_HELD(u->p, op), op, rank, visit, ctx, err};
    enum lw_op_class class_ = lw_op_class(w.op->kind);
    bool moves = w.op->work >= 0 || class_ == LW_CLASS_MEMORY; /* else it takes and frees nothing */
    struct lw_use memory;

    if (moves && lw_op_memory(u->p, op, rank, &memory))
        LW_TRY(visit(ctx, &memory, err));
    LW_TRY(use_ready(&w));
    LW_TRY(use_tied(&w));
    if (lw_op_uses_weights(w.op))
        LW_TRY(use_weights_of(&w, w.op->module));
    if (w.op->kind == LW_OP_OPTIMIZER)
        LW_TRY(use_update(&w));
    if (w.op->bucket >= 0 && (class_ == LW_CLASS_COPY || w.op->comm >= 0))
        LW_TRY(use_about_bucket(&w));
    return u->talks ? use_messages(&w) : LW_OK;
}
