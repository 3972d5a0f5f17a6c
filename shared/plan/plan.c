/* The plan: access and release. */
#include "shared/plan/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shared/numbers/checked.h"
#include "shared/plan/op.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/sparse.h"

LW_FREE_BY_ARENA(lw_plan_free, struct lw_plan)

int32_t lw_plan_variant_of_pass(const struct lw_plan *p, int64_t pass)
{
    if (pass >= p->n_passes) {
        int64_t cycle = p->n_passes - p->repeat_from;
        pass = p->repeat_from + (pass - p->repeat_from) % cycle;
    }
    return p->pass_variant[pass];
}

struct lw_program lw_plan_program(const struct lw_plan *p, int32_t variant, int32_t rank)
{
    return p->programs[(int64_t)variant * p->n_roles + lw_plan_role_of(p, rank)];
}

int32_t lw_plan_longest_program(const struct lw_plan *p)
{
    int32_t longest = 0;

    for (int64_t i = 0; i < (int64_t)p->n_variants * p->n_roles; i++)
        longest = p->programs[i].n_ops > longest ? p->programs[i].n_ops : longest;
    return longest;
}

enum lw_status lw_plan_ranks_by_role(const struct lw_plan *p, struct lw_arena *room,
                                     int32_t **ranks, int32_t **first, struct lw_err *err)
{
    LW_TAKE(room, *ranks, p->n_ranks, err);
    LW_TAKE(room, *first, p->n_roles + 1L, err);
    for (int32_t r = 0; r < p->n_roles; r++)
        (*first)[r + 1] = (*first)[r] + p->roles[r].n_ranks;
    for (int32_t r = 0; r < p->n_ranks; r++)
        (*ranks)[(*first)[lw_plan_role_of(p, r)] + lw_plan_index_of(p, r)] = r;
    return LW_OK;
}

struct lw_routing lw_plan_routing(const struct lw_plan *p)
{
    return (struct lw_routing){.copies = (int32_t)p->strategy->dispatch_once,
                               .experts = (int32_t)p->dims.n_experts,
                               .groups = (int32_t)p->dims.expert_groups,
                               .topk_groups = (int32_t)p->dims.topk_groups,
                               .in_turn = p->dims.experts_in_turn};
}

const struct lw_group *lw_plan_group(const struct lw_plan *p, int32_t comm, int32_t rank)
{
    int32_t g = lw_plan_group_of(p, comm, rank);
    return g < 0 ? NULL : &p->groups[g];
}

struct lw_operand lw_plan_operand(const struct lw_plan *p, const struct lw_op *op, int32_t rank)
{
    if (op->operand < 0)
        return (struct lw_operand){.bytes = op->bytes, .peer = op->peer};
    return lw_operand_at(p, op->operand, lw_plan_index_of(p, rank));
}

int32_t lw_operand_row_length(const struct lw_plan *p, int32_t row)
{
    int32_t end = row + 1 < p->n_operand_rows ? p->operand_first[row + 1] : p->n_operands;

    return end - p->operand_first[row];
}

void lw_work_forget_bounds(struct lw_work *w)
{
    memset(w->bound_ps, 0, sizeof w->bound_ps);
    w->source = LW_TIME_GIVEN;
}

bool lw_plan_has_times(const struct lw_plan *p)
{
    bool has = p->n_works == 0 || (p->device && p->device[0]);
    int32_t n;
    const struct lw_work *works = lw_plan_held_works(p, &n);

    for (int32_t k = 0; !has && k < n; k++)
        has = works[k].ps >= 0;
    return has;
}

void lw_plan_drop_times(struct lw_plan *p)
{
    int32_t n_ops, n_works;
    struct lw_work *works = lw_plan_held_works(p, &n_works);

    for (int32_t k = 0; k < n_works; k++) {
        works[k].ps = -1;
        lw_work_forget_bounds(&works[k]);
    }
    struct lw_op *ops = lw_plan_held_ops(p, &n_ops);
    for (int32_t i = 0; i < n_ops; i++)
        if (ops[i].kind == LW_OP_HOST && ops[i].work < 0 && ops[i].work_ps > 0)
            ops[i].work_ps = -1;
    p->device = "";
}

enum lw_status lw_plan_need_times(const struct lw_plan *p, const char *name, struct lw_err *err)
{
    if (lw_plan_has_times(p))
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "plan '%s' has no times: it was made without a device; make it again with the "
                   "cluster (lapwing plan -w ... -c NAME -o FILE)", name);
}

int32_t lw_plan_member(const struct lw_plan *p, const struct lw_group *g, int32_t rank)
{
    for (int32_t i = 0; i < g->n_members; i++)
        if (lw_plan_member_at(p, g->first_member + i) == rank)
            return i;
    return -1;
}

bool lw_op_uses_weights(const struct lw_op *op)
{
    return op->module >= 0 && (op->kind == LW_OP_FORWARD || op->kind == LW_OP_BACKWARD ||
                               op->kind == LW_OP_BACKWARD_INPUT || op->kind == LW_OP_KERNEL);
}

bool lw_plan_op_reads(const struct lw_plan *p, int32_t op, int32_t bucket)
{
    const struct lw_op *o = LW_OP(p, op);
    struct lw_program g = {0, 0};

    if (o->kind != LW_OP_FORWARD || o->bucket < 0 || o->bucket == bucket)
        return true;
    for (int64_t k = (int64_t)p->n_variants * p->n_roles; k-- > 0;)
        if (op >= p->programs[k].first_op && op < p->programs[k].first_op + p->programs[k].n_ops)
            g = p->programs[k];
    for (int32_t i = g.first_op; i < op; i++)
        if (lw_op_at(p, i).kind == LW_OP_ALL_GATHER && lw_op_at(p, i).bucket == bucket)
            return true;
        else if (lw_op_at(p, i).kind == LW_OP_ALL_GATHER && lw_op_at(p, i).bucket == o->bucket)
            return false;
    return false;
}

static const char *const kind_names[LW_N_BUCKET_KINDS] = {"gradients", "weights", "tied", "norm",
                                                          "sparse"};

const char *lw_comm_purpose_word(int p)
{
    static const char *const words[] = {"data",  "model",    "tensor",  "forward",
                                        "backward", "embedding", "world", "recorded",
                                        "context", "expert", "expert data", "replicas",
                                        "recorded data"};
    return p >= 0 && p < LW_N_COMM_PURPOSES ? words[p] : NULL;
}

const char *lw_stream_class_word(int c)
{
    static const char *const words[] = {"compute", "comm", "copy", "host"};
    return c >= 0 && c <= LW_STREAM_HOST ? words[c] : NULL;
}

const char *lw_bucket_kind_name(enum lw_bucket_kind kind)
{
    return kind_names[kind];
}

enum lw_bucket_kind lw_bucket_kind_of_set(const char *name)
{
    for (int k = LW_BUCKET_WEIGHTS; k <= LW_BUCKET_NORM; k++)
        if (strcmp(name, kind_names[k]) == 0)
            return (enum lw_bucket_kind)k;
    return LW_BUCKET_GRADIENTS;
}

enum lw_bucket_kind lw_plan_bucket_kind(const struct lw_plan *p, int32_t bucket)
{
    if (lw_plan_sparse(p, bucket))
        return LW_BUCKET_SPARSE;
    return (enum lw_bucket_kind)p->sets[p->buckets[bucket].set].kind;
}

bool lw_plan_is_weights(const struct lw_plan *p, int32_t bucket)
{
    return p->sets[p->buckets[bucket].set].kind == LW_BUCKET_WEIGHTS;
}

bool lw_plan_in_block(const struct lw_plan *p, const struct lw_plan_param *x, int64_t above)
{
    return x->module > 0 && x->module < p->n_modules - 1 && x->numel > above;
}

bool lw_plan_is_tied(const struct lw_plan *p, int32_t bucket)
{
    return p->sets[p->buckets[bucket].set].kind == LW_BUCKET_TIED;
}

bool lw_plan_is_norm(const struct lw_plan *p, int32_t bucket)
{
    return p->sets[p->buckets[bucket].set].kind == LW_BUCKET_NORM;
}

bool lw_plan_uses_set(const struct lw_plan *p, int32_t variant, int32_t set)
{
    const char *name = p->variants[variant].set_name;

    return *name && p->sets[set].kind == LW_BUCKET_GRADIENTS &&
           strcmp(p->sets[set].name, name) == 0;
}

const struct lw_sparse *lw_plan_sparse(const struct lw_plan *p, int32_t bucket)
{
    const struct lw_bucket *b = &p->buckets[bucket];

    if (p->n_sparse == 0 || b->n_slots != 1 || p->sets[b->set].kind != LW_BUCKET_GRADIENTS)
        return NULL;
    return lw_sparse_of(p->sparse, p->n_sparse, p->slots[b->first_slot]);
}

enum lw_sparse_turn lw_plan_sparse_turn(const struct lw_plan *p, int32_t op)
{
    int32_t n = 0;

    while (n < LW_SPARSE_VALUES && op > n && lw_op_at(p, op - n - 1).kind == LW_OP_ALL_GATHER &&
           lw_op_at(p, op - n - 1).bucket == lw_op_at(p, op).bucket)
        n++;
    return (enum lw_sparse_turn)n;
}

/* It is in p->whole. */
static bool is_whole(const struct lw_plan *p, int32_t param)
{
    int32_t low = 0, high = p->n_whole;

    while (low < high) {
        int32_t mid = low + (high - low) / 2;
        if (p->whole[mid] < param)
            low = mid + 1;
        else
            high = mid;
    }
    return low < p->n_whole && p->whole[low] == param;
}

bool lw_plan_counts(const struct lw_plan *p, int32_t param, int32_t tensor)
{
    const struct lw_plan_param *a = &p->params[param];
    bool first = a->tied < 0 || a->tied == param || p->strategy->compat == LW_COMPAT_COLOSSALAI;

    return a->trainable && lw_plan_holds(p, param) && first &&
           (tensor == 0 || !is_whole(p, param));
}

bool lw_plan_holds(const struct lw_plan *p, int32_t param)
{
    const struct lw_plan_param *a = &p->params[param];

    return a->tied < 0 || a->tied == param || p->params[a->tied].stage != a->stage;
}

void lw_plan_link_tied(const struct lw_plan *p, int32_t *next)
{
    memset(next, -1, (size_t)p->n_params * sizeof *next);
    for (int32_t i = p->n_params - 1; i >= 0; i--)
        if (!lw_plan_holds(p, i)) {
            next[i] = next[p->params[i].tied];
            next[p->params[i].tied] = i;
        }
}

const char *lw_plan_op_text(const struct lw_plan *p, int32_t op, char *text)
{
    const struct lw_op *o = LW_OP(p, op);
    int n = snprintf(text, LW_OP_TEXT, "op %d (%s", op, lw_op_name(o->kind));

    if (o->bucket >= 0)
        n += snprintf(text + n, LW_OP_TEXT - (size_t)n, ", bucket %d", o->bucket);
    else if (o->module >= 0)
        n += snprintf(text + n, LW_OP_TEXT - (size_t)n, ", module %d", o->module);
    n += snprintf(text + n, LW_OP_TEXT - (size_t)n, ")");
    for (int64_t i = 0; i < (int64_t)p->n_variants * p->n_roles; i++) {
        const struct lw_program *g = &p->programs[i];
        if (op >= g->first_op && op < g->first_op + g->n_ops) {
            snprintf(text + n, LW_OP_TEXT - (size_t)n, " of '%.40s' for role '%.40s'",
                     p->variants[i / p->n_roles].name, p->roles[i % p->n_roles].name);
            break;
        }
    }
    return text;
}

enum lw_status lw_plan_op_fail(const struct lw_plan *p, int32_t op, struct lw_err *err,
                               const char *fmt, ...)
{
    char text[LW_OP_TEXT], rest[sizeof err->msg];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(rest, sizeof rest, fmt, ap);
    va_end(ap);
    return lw_fail(err, LW_EPLAN, "%s%s", lw_plan_op_text(p, op, text), rest);
}

void lw_plan_launch_points(const struct lw_plan *p, int32_t variant, int32_t first, int32_t n,
                           struct lw_launch_point *out)
{
    for (int32_t k = 0; k < n; k++)
        out[k] = (struct lw_launch_point){0, 0, -1};
    for (int32_t r = 0; r < p->n_roles; r++) {
        struct lw_program g = p->programs[(int64_t)variant * p->n_roles + r];
        struct lw_launch_point at = {0, 0, -1};
        int32_t micro_batch = -1;
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
            const struct lw_op *o = LW_OP(p, i);
            if (o->kind == LW_OP_BACKWARD) {
                if (o->micro_batch != micro_batch)
                    at = (struct lw_launch_point){0, 0, -1};
                micro_batch = o->micro_batch;
                lw_ps work = lw_plan_work_ps(p, o);
                at.at = at.at < 0 || work < 0 ? -1 : lw_add_sat(at.at, work);
                at.n_ready += o->n_ready;
            }
            if (o->bucket < first || o->bucket - first >= n || out[o->bucket - first].op >= 0 ||
                lw_op_class(o->kind) != LW_CLASS_COLLECTIVE)
                continue;
            out[o->bucket - first] = at;
            out[o->bucket - first].op = i;
        }
    }
}
