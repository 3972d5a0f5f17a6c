/* The plan: access, release, and its canonical bytes. The hash covers every decision in a fixed
 * order; it leaves out names of files, hashes of inputs and notes, which say why and not what. */
#include "shared/plan/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/hash.h"
#include "shared/plan/op.h"
#include "shared/plan/sparse.h"
#include "shared/plan/strategy.h"

enum { PLAN_FORMAT = 1 };

void lw_plan_free(struct lw_plan *p)
{
    lw_arena_free(&p->arena);
    *p = (struct lw_plan){0};
}

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
    return p->programs[(int64_t)variant * p->n_roles + p->role_of[rank]];
}

int32_t lw_plan_longest_program(const struct lw_plan *p)
{
    int32_t longest = 0;

    for (int64_t i = 0; i < (int64_t)p->n_variants * p->n_roles; i++)
        longest = p->programs[i].n_ops > longest ? p->programs[i].n_ops : longest;
    return longest;
}

const struct lw_group *lw_plan_group(const struct lw_plan *p, int32_t comm, int32_t rank)
{
    int32_t g = p->comm_group[(int64_t)comm * p->n_ranks + rank];
    return g < 0 ? NULL : &p->groups[g];
}

struct lw_operand lw_plan_operand(const struct lw_plan *p, const struct lw_op *op, int32_t rank)
{
    if (op->operand < 0)
        return (struct lw_operand){.bytes = op->bytes, .peer = op->peer};
    return p->operands[p->operand_first[op->operand] + p->index_in_role[rank]];
}

lw_ps lw_plan_work_ps(const struct lw_plan *p, const struct lw_op *op)
{
    return op->work >= 0 ? p->works[op->work].ps : op->work_ps;
}

int32_t lw_plan_member(const struct lw_plan *p, const struct lw_group *g, int32_t rank)
{
    for (int32_t i = 0; i < g->n_members; i++)
        if (p->members[g->first_member + i] == rank)
            return i;
    return -1;
}

bool lw_op_uses_weights(const struct lw_op *op)
{
    return op->module >= 0 && (op->kind == LW_OP_FORWARD || op->kind == LW_OP_BACKWARD ||
                               op->kind == LW_OP_BACKWARD_INPUT || op->kind == LW_OP_KERNEL);
}

static const char *const kind_names[LW_N_BUCKET_KINDS] = {"gradients", "weights", "tied", "norm",
                                                          "sparse"};

const char *lw_comm_purpose_name(enum lw_comm_purpose p)
{
    static const char *const names[] = {"data",  "model",    "tensor",  "forward",
                                        "backward", "embedding", "world", "recorded",
                                        "context", "expert", "expert data", "replicas"};
    return names[p];
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

    while (n < LW_SPARSE_VALUES && op > n && p->ops[op - n - 1].kind == LW_OP_ALL_GATHER &&
           p->ops[op - n - 1].bucket == p->ops[op].bucket)
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

int32_t lw_plan_find_variant(const struct lw_plan *p, const char *name)
{
    for (int32_t v = 0; v < p->n_variants; v++)
        if (strcmp(p->variants[v].name, name) == 0)
            return v;
    return -1;
}

const char *lw_plan_op_text(const struct lw_plan *p, int32_t op, char *text)
{
    const struct lw_op *o = &p->ops[op];
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

bool lw_plan_next_slot(const struct lw_plan *p, const struct lw_bucket *b, struct lw_slot_walk *w)
{
    int64_t end = w->n > 0 ? w->slot.offset + p->params[w->slot.param].numel : 0;

    if (w->n >= b->n_slots)
        return false;
    w->slot.param = p->slots[b->first_slot + w->n];
    w->slot.offset = b->first_offset < 0 ? end : p->offsets[b->first_offset + w->n];
    w->n++;
    return true;
}

static void feed_ints(struct lw_hash *h, const int32_t *v, int64_t n)
{
    lw_hash_int(h, n);
    lw_hash_ints32(h, v, n);
}

/* Options that differ from the default, so that a new option leaves hashes as they are. */
static void feed_strategy(struct lw_hash *h, const struct lw_strategy *s)
{
    struct lw_strategy usual = lw_strategy_default();
    char buf[64], other[64];

    for (int i = 0; i < lw_strategy_n_options(); i++) {
        const char *text = lw_strategy_get(s, i, buf);
        if (strcmp(text, lw_strategy_get(&usual, i, other)) == 0)
            continue;
        lw_hash_string(h, lw_strategy_option(i)->name);
        lw_hash_string(h, text);
    }
    lw_hash_string(h, "");
}

static void feed_ranks(struct lw_hash *h, const struct lw_plan *p)
{
    feed_ints(h, p->role_of, p->n_ranks);
    feed_ints(h, p->index_in_role, p->n_ranks);
    feed_ints(h, p->coord, (int64_t)p->n_ranks * 3);
    lw_hash_int(h, p->n_roles);
    for (int32_t r = 0; r < p->n_roles; r++) {
        lw_hash_string(h, p->roles[r].name);
        lw_hash_int(h, p->roles[r].stage);
        for (int m = 0; m < LW_N_MEM; m++)
            lw_hash_int(h, p->roles[r].static_bytes[m]);
    }
}

static void feed_comms(struct lw_hash *h, const struct lw_plan *p)
{
    lw_hash_int(h, p->n_streams);
    for (int32_t i = 0; i < p->n_streams; i++) {
        lw_hash_string(h, p->streams[i].name);
        lw_hash_int(h, p->streams[i].class_);
        lw_hash_int(h, p->streams[i].priority);
    }
    lw_hash_int(h, p->n_comms);
    for (int32_t i = 0; i < p->n_comms; i++) {
        lw_hash_string(h, p->comms[i].name);
        lw_hash_int(h, p->comms[i].purpose);
        lw_hash_int(h, p->comms[i].reducer);
        lw_hash_int(h, p->comms[i].stream);
    }
    lw_hash_int(h, p->n_groups);
    for (int32_t i = 0; i < p->n_groups; i++)
        feed_ints(h, p->members + p->groups[i].first_member, p->groups[i].n_members);
    feed_ints(h, p->comm_group, (int64_t)p->n_comms * p->n_ranks);
}

static void feed_params(struct lw_hash *h, const struct lw_plan *p)
{
    lw_hash_int(h, p->n_params);
    for (int32_t i = 0; i < p->n_params; i++) {
        const struct lw_plan_param *a = &p->params[i];
        lw_hash_string(h, a->name);
        lw_hash_int(h, a->numel);
        lw_hash_int(h, a->dtype);
        lw_hash_int(h, a->stage);
        lw_hash_int(h, a->module);
        lw_hash_int(h, a->device);
        lw_hash_int(h, a->tied);
        lw_hash_int(h, a->trainable | a->sparse << 1 | a->used << 2 | a->ignored << 3 |
                           a->expert << 4);
    }
    lw_hash_int(h, p->n_buffers);
    for (int32_t i = 0; i < p->n_buffers; i++) {
        lw_hash_string(h, p->buffers[i].name);
        lw_hash_int(h, p->buffers[i].numel);
        lw_hash_int(h, p->buffers[i].dtype);
        lw_hash_int(h, p->buffers[i].broadcast);
    }
    feed_ints(h, p->stage_of, p->n_modules);
    if (p->n_whole > 0) {
        lw_hash_string(h, "whole");
        feed_ints(h, p->whole, p->n_whole);
    }
    if (p->n_sparse > 0)
        lw_hash_string(h, "sparse");
    for (int32_t i = 0; i < p->n_sparse; i++) {
        lw_hash_int(h, p->sparse[i].param);
        lw_hash_int(h, p->sparse[i].row_numel);
        lw_hash_int(h, p->sparse[i].touched_rows);
    }
}

static void feed_buckets(struct lw_hash *h, const struct lw_plan *p)
{
    lw_hash_int(h, p->n_sets);
    for (int32_t i = 0; i < p->n_sets; i++) {
        lw_hash_string(h, p->sets[i].name);
        lw_hash_int(h, p->sets[i].stage);
        lw_hash_int(h, p->sets[i].first_bucket);
        lw_hash_int(h, p->sets[i].n_buckets);
        if (p->sets[i].kind != (int32_t)lw_bucket_kind_of_set(p->sets[i].name))
            lw_hash_string(h, kind_names[p->sets[i].kind]);
    }
    lw_hash_int(h, p->n_buckets);
    for (int32_t i = 0; i < p->n_buckets; i++) {
        const struct lw_bucket *b = &p->buckets[i];
        lw_hash_int(h, b->set);
        lw_hash_int(h, b->dtype);
        lw_hash_int(h, b->bytes);
        lw_hash_int(h, b->limit_bytes);
        lw_hash_int(h, b->n_slots);
        for (struct lw_slot_walk k = {0}; lw_plan_next_slot(p, b, &k);) {
            lw_hash_int(h, k.slot.param);
            lw_hash_int(h, k.slot.offset);
        }
    }
    lw_hash_int(h, p->n_shards);
    for (int32_t i = 0; i < p->n_shards; i++) {
        lw_hash_int(h, p->shards[i].param);
        lw_hash_int(h, p->shards[i].owner);
        lw_hash_int(h, p->shards[i].first);
        lw_hash_int(h, p->shards[i].numel);
    }
}

static void feed_op(struct lw_hash *h, const struct lw_plan *p, const struct lw_op *op)
{
    const int64_t fields[] = {
        op->kind,  op->dtype,  op->stream, op->comm,    op->call,   op->work,        op->work_ps,
        op->bytes, op->peer,   op->operand, op->module, op->stage,  op->micro_batch, op->bucket,
    };

    lw_hash_ints(h, fields, sizeof fields / sizeof *fields);
    feed_ints(h, p->deps + op->first_dep, op->n_deps);
    feed_ints(h, p->ready + op->first_ready, op->n_ready);
    lw_hash_string(h, op->name);
}

static void feed_products(struct lw_hash *h, const struct lw_plan *p)
{
    lw_hash_string(h, "products");
    lw_hash_int(h, p->n_products);
    for (int32_t i = 0; i < p->n_products; i++) {
        const struct lw_product *x = &p->products[i];
        const int64_t fields[] = {x->batch, x->m, x->n, x->k, x->dtype, x->out_size,
                                  x->fp8 | x->accumulate << 1 | x->grouped << 2};
        lw_hash_ints(h, fields, sizeof fields / sizeof *fields);
    }
    for (int32_t i = 0; i < p->n_works; i++)
        feed_ints(h, p->work_products + p->works[i].first_product, p->works[i].n_products);
}

static void feed_programs(struct lw_hash *h, const struct lw_plan *p)
{
    lw_hash_int(h, p->n_works);
    for (int32_t i = 0; i < p->n_works; i++) {
        lw_hash_int(h, p->works[i].ps);
        lw_hash_int(h, p->works[i].flops);
        lw_hash_int(h, p->works[i].bytes);
        if (p->works[i].keeps_bytes != 0) { /* no other number here is below -1 */
            lw_hash_int(h, -2);
            lw_hash_int(h, p->works[i].keeps_bytes);
        }
    }
    if (p->n_products > 0)
        feed_products(h, p);
    lw_hash_int(h, p->n_variants);
    for (int32_t i = 0; i < p->n_variants; i++) {
        lw_hash_string(h, p->variants[i].name);
        lw_hash_string(h, p->variants[i].set_name);
        lw_hash_int(h, p->variants[i].ends_step);
    }
    for (int64_t i = 0; i < (int64_t)p->n_variants * p->n_roles; i++) {
        lw_hash_int(h, p->programs[i].first_op);
        lw_hash_int(h, p->programs[i].n_ops);
    }
    lw_hash_int(h, p->n_ops);
    for (int32_t i = 0; i < p->n_ops; i++)
        feed_op(h, p, &p->ops[i]);
    feed_ints(h, p->operand_first, p->n_operand_rows);
    lw_hash_int(h, p->n_operands);
    for (int32_t i = 0; i < p->n_operands; i++) {
        lw_hash_int(h, p->operands[i].bytes);
        lw_hash_int(h, p->operands[i].offset);
        lw_hash_int(h, p->operands[i].peer);
    }
    feed_ints(h, p->pass_variant, p->n_passes);
    lw_hash_int(h, p->repeat_from);
}

enum lw_status lw_plan_hash(struct lw_plan *p, struct lw_err *err)
{
    struct lw_hash *h = lw_hash_new();

    if (!h)
        return lw_fail_nomem(err);
    lw_hash_int(h, PLAN_FORMAT);
    feed_strategy(h, p->strategy);
    feed_ranks(h, p);
    feed_comms(h, p);
    feed_params(h, p);
    feed_buckets(h, p);
    feed_programs(h, p);
    lw_hash_finish(h, p->hash);
    return LW_OK;
}
