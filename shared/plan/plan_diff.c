/* Two plans side by side, and where a bucket leaves. Fields are listed in tables of names and
 * values, so that a new field of a plan is one more line here. What is compared is what the hash
 * covers. */
#include "shared/plan/plan_diff.h"

#include "shared/base/checked.h"
#include "shared/plan/op.h"
#include "shared/plan/sparse.h"
#include "shared/plan/strategy.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct diff {
    const struct lw_plan *a, *b;
    char *text;
    size_t room;
};

struct field {
    const char *name;
    int64_t a, b;
};

static bool say(struct diff *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool say(struct diff *d, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(d->text, d->room, fmt, ap);
    va_end(ap);
    return true;
}

/* The first field that differs, said as "WHAT: NAME is x in the first plan, y in the second". */
static bool fields_differ(struct diff *d, const char *what, const struct field *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (f[i].a != f[i].b)
            return say(d, "%s: %s is %lld in the first plan, %lld in the second", what, f[i].name,
                       (long long)f[i].a, (long long)f[i].b);
    return false;
}

static bool words_differ(struct diff *d, const char *what, const char *a, const char *b)
{
    return strcmp(a, b) != 0 &&
           say(d, "%s is '%s' in the first plan, '%s' in the second", what, a, b);
}

static bool strategies_differ(struct diff *d)
{
    for (int i = 0; i < lw_strategy_n_options(); i++) {
        char x[64], y[64], what[80];
        snprintf(what, sizeof what, "strategy: --%s", lw_strategy_option(i)->name);
        if (words_differ(d, what, lw_strategy_get(d->a->strategy, i, x),
                         lw_strategy_get(d->b->strategy, i, y)))
            return true;
    }
    return false;
}

static bool ranks_differ(struct diff *d)
{
    const struct lw_plan *a = d->a, *b = d->b;
    const struct field n[] = {{"number of ranks", a->n_ranks, b->n_ranks},
                              {"number of roles", a->n_roles, b->n_roles},
                              {"number of streams", a->n_streams, b->n_streams},
                              {"number of communicator classes", a->n_comms, b->n_comms},
                              {"number of groups", a->n_groups, b->n_groups}};

    if (fields_differ(d, "plan", n, sizeof n / sizeof *n))
        return true;
    for (int32_t r = 0; r < a->n_ranks; r++) {
        char what[48];
        const struct field f[] = {{"role", a->role_of[r], b->role_of[r]},
                                  {"index in its role", a->index_in_role[r], b->index_in_role[r]},
                                  {"dp coordinate", a->coord[3L * r], b->coord[3L * r]},
                                  {"pp coordinate", a->coord[3L * r + 1], b->coord[3L * r + 1]},
                                  {"tp coordinate", a->coord[3L * r + 2], b->coord[3L * r + 2]}};
        snprintf(what, sizeof what, "rank %d", r);
        if (fields_differ(d, what, f, sizeof f / sizeof *f))
            return true;
    }
    for (int32_t r = 0; r < a->n_roles; r++) {
        char what[48];
        const struct lw_role *x = &a->roles[r], *y = &b->roles[r];
        const struct field f[] = {
            {"stage", x->stage, y->stage},
            {"parameter bytes", x->static_bytes[LW_MEM_PARAMS], y->static_bytes[LW_MEM_PARAMS]},
            {"gradient bytes", x->static_bytes[LW_MEM_GRADS], y->static_bytes[LW_MEM_GRADS]},
            {"optimizer bytes", x->static_bytes[LW_MEM_OPTIMIZER],
             y->static_bytes[LW_MEM_OPTIMIZER]},
            {"bucket bytes", x->static_bytes[LW_MEM_BUCKETS], y->static_bytes[LW_MEM_BUCKETS]}};
        snprintf(what, sizeof what, "role %d", r);
        if (words_differ(d, "name of a role", x->name, y->name) ||
            fields_differ(d, what, f, sizeof f / sizeof *f))
            return true;
    }
    return false;
}

static bool comms_differ(struct diff *d)
{
    const struct lw_plan *a = d->a, *b = d->b;
    char what[48];

    for (int32_t i = 0; i < a->n_streams; i++) {
        const struct field f[] = {{"class", a->streams[i].class_, b->streams[i].class_},
                                  {"priority", a->streams[i].priority, b->streams[i].priority}};
        snprintf(what, sizeof what, "stream %d", i);
        if (words_differ(d, "name of a stream", a->streams[i].name, b->streams[i].name) ||
            fields_differ(d, what, f, sizeof f / sizeof *f))
            return true;
    }
    for (int32_t i = 0; i < a->n_comms; i++) {
        const struct lw_comm *x = &a->comms[i], *y = &b->comms[i];
        const struct field f[] = {{"purpose", x->purpose, y->purpose},
                                  {"reducer", x->reducer, y->reducer},
                                  {"stream", x->stream, y->stream}};
        snprintf(what, sizeof what, "communicator class %d", i);
        if (words_differ(d, "name of a communicator class", x->name, y->name) ||
            fields_differ(d, what, f, sizeof f / sizeof *f))
            return true;
        for (int64_t r = (int64_t)i * a->n_ranks; r < (int64_t)(i + 1) * a->n_ranks; r++)
            if (a->comm_group[r] != b->comm_group[r])
                return say(d,
                           "%s: the group of rank %lld is %d in the first plan, %d in the second",
                           what, (long long)(r % a->n_ranks), a->comm_group[r], b->comm_group[r]);
    }
    for (int32_t i = 0; i < a->n_groups; i++) {
        const struct lw_group *x = &a->groups[i], *y = &b->groups[i];
        if (x->n_members != y->n_members)
            return say(d, "group %d: %d members in the first plan, %d in the second", i,
                       x->n_members, y->n_members);
        for (int32_t m = 0; m < x->n_members; m++)
            if (a->members[x->first_member + m] != b->members[y->first_member + m])
                return say(d, "group %d: member %d is rank %d in the first plan, %d in the second",
                           i, m, a->members[x->first_member + m], b->members[y->first_member + m]);
    }
    return false;
}

static bool params_differ(struct diff *d)
{
    const struct lw_plan *a = d->a, *b = d->b;
    const struct field n[] = {{"number of parameters", a->n_params, b->n_params},
                              {"number of buffers", a->n_buffers, b->n_buffers},
                              {"number of modules", a->n_modules, b->n_modules}};

    if (fields_differ(d, "model", n, sizeof n / sizeof *n))
        return true;
    for (int32_t i = 0; i < a->n_params; i++) {
        const struct lw_plan_param *x = &a->params[i], *y = &b->params[i];
        char what[160];
        const struct field f[] = {{"elements", x->numel, y->numel},
                                  {"dtype", x->dtype, y->dtype},
                                  {"stage", x->stage, y->stage},
                                  {"module", x->module, y->module},
                                  {"device", x->device, y->device},
                                  {"tied", x->tied, y->tied},
                                  {"trainable", x->trainable, y->trainable},
                                  {"sparse", x->sparse, y->sparse},
                                  {"used", x->used, y->used},
                                  {"ignored", x->ignored, y->ignored},
                                  {"expert", x->expert, y->expert}};
        snprintf(what, sizeof what, "parameter %d '%.100s'", i, x->name);
        if (words_differ(d, "name of a parameter", x->name, y->name) ||
            fields_differ(d, what, f, sizeof f / sizeof *f))
            return true;
    }
    for (int32_t i = 0; i < a->n_buffers; i++) {
        const struct lw_plan_buffer *x = &a->buffers[i], *y = &b->buffers[i];
        const struct field f[] = {{"elements", x->numel, y->numel},
                                  {"dtype", x->dtype, y->dtype},
                                  {"broadcast", x->broadcast, y->broadcast}};
        if (words_differ(d, "name of a buffer", x->name, y->name) ||
            fields_differ(d, x->name, f, sizeof f / sizeof *f))
            return true;
    }
    if (a->n_whole != b->n_whole)
        return say(d, "model: %d parameters are whole on every rank of a tensor group in the first "
                      "plan, %d in the second", a->n_whole, b->n_whole);
    for (int32_t i = 0; i < a->n_whole; i++)
        if (a->whole[i] != b->whole[i])
            return say(d,
                       "model: parameter %d is whole on every rank of a tensor group in the first "
                       "plan, parameter %d in the second",
                       a->whole[i], b->whole[i]);
    if (a->n_sparse != b->n_sparse)
        return say(
            d,
            "model: %d parameters have rows of sparse gradients in the first plan, %d in the "
            "second",
            a->n_sparse, b->n_sparse);
    for (int32_t i = 0; i < a->n_sparse; i++) {
        const struct lw_sparse *x = &a->sparse[i], *y = &b->sparse[i];
        const struct field f[] = {{"param", x->param, y->param},
                                  {"row_numel", x->row_numel, y->row_numel},
                                  {"touched_rows", x->touched_rows, y->touched_rows}};
        char what[40];
        snprintf(what, sizeof what, "sparse gradient %d", i);
        if (fields_differ(d, what, f, sizeof f / sizeof *f))
            return true;
    }
    for (int32_t i = 0; i < a->n_modules; i++)
        if (a->stage_of[i] != b->stage_of[i])
            return say(d, "module %d: stage %d in the first plan, %d in the second", i,
                       a->stage_of[i], b->stage_of[i]);
    return false;
}

static bool bucket_differs(struct diff *d, const char *set, int32_t i, const struct lw_bucket *x,
                           const struct lw_bucket *y)
{
    char what[96];
    const struct field f[] = {{"bytes", x->bytes, y->bytes},
                              {"gradients", x->n_slots, y->n_slots},
                              {"dtype", x->dtype, y->dtype},
                              {"limit", x->limit_bytes, y->limit_bytes}};

    snprintf(what, sizeof what, "bucket %d of set '%.40s'", i, set);
    if (fields_differ(d, what, f, sizeof f / sizeof *f))
        return true;
    struct lw_slot_walk p = {0}, q = {0};
    while (lw_plan_next_slot(d->a, x, &p) && lw_plan_next_slot(d->b, y, &q)) {
        int32_t a = p.slot.param, b = q.slot.param;
        if (a != b)
            return say(d, "%s: place %d holds parameter %d '%s' in the first plan, %d '%s' in the "
                          "second", what, p.n - 1, a, d->a->params[a].name, b,
                       d->b->params[b].name);
        if (p.slot.offset != q.slot.offset)
            return say(d, "%s: parameter %d '%s' begins at element %lld in the first plan, %lld in "
                          "the second", what, a, d->a->params[a].name, (long long)p.slot.offset,
                       (long long)q.slot.offset);
    }
    return false;
}

static bool buckets_differ(struct diff *d)
{
    const struct lw_plan *a = d->a, *b = d->b;

    if (a->n_sets != b->n_sets)
        return say(d, "buckets: %d sets in the first plan, %d in the second", a->n_sets, b->n_sets);
    for (int32_t s = 0; s < a->n_sets; s++) {
        const struct lw_bucket_set *x = &a->sets[s], *y = &b->sets[s];
        if (words_differ(d, "name of a bucket set", x->name, y->name))
            return true;
        if (words_differ(d, "kind of a bucket set",
                         lw_bucket_kind_name((enum lw_bucket_kind)x->kind),
                         lw_bucket_kind_name((enum lw_bucket_kind)y->kind)))
            return true;
        if (x->n_buckets != y->n_buckets || x->stage != y->stage)
            return say(d,
                       "bucket set '%s': %d buckets of stage %d in the first plan, %d of stage %d "
                       "in the second",
                       x->name, x->n_buckets, x->stage, y->n_buckets, y->stage);
        for (int32_t i = 0; i < x->n_buckets; i++)
            if (bucket_differs(d, x->name, i, &a->buckets[x->first_bucket + i],
                               &b->buckets[y->first_bucket + i]))
                return true;
    }
    return false;
}

static bool shards_differ(struct diff *d)
{
    const struct lw_plan *a = d->a, *b = d->b;

    if (a->n_shards != b->n_shards)
        return say(d, "shards: %d in the first plan, %d in the second", a->n_shards, b->n_shards);
    for (int32_t i = 0; i < a->n_shards; i++) {
        const struct lw_shard *x = &a->shards[i], *y = &b->shards[i];
        char what[48];
        const struct field f[] = {{"parameter", x->param, y->param},
                                  {"owner", x->owner, y->owner},
                                  {"first element", x->first, y->first},
                                  {"elements", x->numel, y->numel}};
        snprintf(what, sizeof what, "shard %d", i);
        if (fields_differ(d, what, f, sizeof f / sizeof *f))
            return true;
    }
    return false;
}

static bool passes_differ(struct diff *d)
{
    const struct lw_plan *a = d->a, *b = d->b;
    const struct field n[] = {{"number of variants", a->n_variants, b->n_variants},
                              {"number of passes", a->n_passes, b->n_passes},
                              {"repeat_from", a->repeat_from, b->repeat_from}};

    if (fields_differ(d, "passes", n, sizeof n / sizeof *n))
        return true;
    for (int32_t i = 0; i < a->n_variants; i++)
        if (words_differ(d, "name of a variant", a->variants[i].name, b->variants[i].name) ||
            words_differ(d, "bucket set of a variant", a->variants[i].set_name,
                         b->variants[i].set_name) ||
            (a->variants[i].ends_step != b->variants[i].ends_step &&
             say(d, "variant '%s': ends the step in one plan only", a->variants[i].name)))
            return true;
    for (int32_t i = 0; i < a->n_passes; i++)
        if (a->pass_variant[i] != b->pass_variant[i])
            return say(d, "pass %d: '%s' in the first plan, '%s' in the second", i,
                       a->variants[a->pass_variant[i]].name, b->variants[b->pass_variant[i]].name);
    return false;
}

static int32_t n_products(const struct lw_plan *p, const struct lw_op *op)
{
    return op->work < 0 ? 0 : p->works[op->work].n_products;
}

static const struct lw_product *product(const struct lw_plan *p, const struct lw_op *op, int32_t k)
{
    return &p->products[p->work_products[p->works[op->work].first_product + k]];
}

/* Two ops at the same place of the same program; indexes into op lists count from its start. */
static bool op_differs(struct diff *d, const char *what, int32_t first_a, int32_t first_b,
                       int32_t i)
{
    const struct lw_plan *a = d->a, *b = d->b;
    const struct lw_op *x = &a->ops[first_a + i], *y = &b->ops[first_b + i];
    char where[160];
    const struct field f[] = {{"stream", x->stream, y->stream},
                              {"dtype", x->dtype, y->dtype},
                              {"bytes", x->bytes, y->bytes},
                              {"work in ps", lw_plan_work_ps(a, x), lw_plan_work_ps(b, y)},
                              {"flops", x->work < 0 ? -1 : a->works[x->work].flops,
                               y->work < 0 ? -1 : b->works[y->work].flops},
                              {"memory traffic", x->work < 0 ? -1 : a->works[x->work].bytes,
                               y->work < 0 ? -1 : b->works[y->work].bytes},
                              {"activations kept", x->work < 0 ? 0 : a->works[x->work].keeps_bytes,
                               y->work < 0 ? 0 : b->works[y->work].keeps_bytes},
                              {"number of products", n_products(a, x), n_products(b, y)},
                              {"bucket", x->bucket, y->bucket},
                              {"module", x->module, y->module},
                              {"stage", x->stage, y->stage},
                              {"micro-batch", x->micro_batch, y->micro_batch},
                              {"communicator class", x->comm, y->comm},
                              {"call", x->call, y->call},
                              {"peer", x->peer, y->peer},
                              {"operand row", x->operand, y->operand},
                              {"work index", x->work, y->work},
                              {"number of dependencies", x->n_deps, y->n_deps},
                              {"number of ready gradients", x->n_ready, y->n_ready}};

    if (x->kind != y->kind)
        return say(d, "%s, op %d: %s in the first plan, %s in the second", what, i,
                   lw_op_name(x->kind), lw_op_name(y->kind));
    snprintf(where, sizeof where, "%s, op %d (%s)", what, i, lw_op_name(x->kind));
    if (fields_differ(d, where, f, sizeof f / sizeof *f) ||
        words_differ(d, "name of an op", x->name, y->name))
        return true;
    for (int32_t k = 0; k < n_products(a, x); k++) {
        const struct lw_product *p = product(a, x, k), *q = product(b, y, k);
        if (!lw_product_equal(p, q))
            return say(d, "%s: product %d is %lld x (%lld, %lld, %lld) in the first plan, %lld x "
                       "(%lld, %lld, %lld) in the second", where, k, (long long)p->batch,
                       (long long)p->m, (long long)p->n, (long long)p->k, (long long)q->batch,
                       (long long)q->m, (long long)q->n, (long long)q->k);
    }
    for (int32_t k = 0; k < x->n_deps; k++)
        if (a->deps[x->first_dep + k] - first_a != b->deps[y->first_dep + k] - first_b)
            return say(d, "%s: waits for op %d in the first plan, op %d in the second", where,
                       a->deps[x->first_dep + k] - first_a, b->deps[y->first_dep + k] - first_b);
    for (int32_t k = 0; k < x->n_ready; k++)
        if (a->ready[x->first_ready + k] != b->ready[y->first_ready + k])
            return say(d, "%s: gradient %d in the first plan, %d in the second", where,
                       a->ready[x->first_ready + k], b->ready[y->first_ready + k]);
    return false;
}

static bool programs_differ(struct diff *d)
{
    const struct lw_plan *a = d->a, *b = d->b;

    for (int32_t v = 0; v < a->n_variants; v++) {
        for (int32_t r = 0; r < a->n_roles; r++) {
            struct lw_program x = a->programs[(int64_t)v * a->n_roles + r];
            struct lw_program y = b->programs[(int64_t)v * b->n_roles + r];
            char what[120];
            snprintf(what, sizeof what, "variant '%.40s', role '%.40s'", a->variants[v].name,
                     a->roles[r].name);
            for (int32_t i = 0; i < x.n_ops && i < y.n_ops; i++)
                if (op_differs(d, what, x.first_op, y.first_op, i))
                    return true;
            if (x.n_ops != y.n_ops)
                return say(d, "%s: %d ops in the first plan, %d in the second", what, x.n_ops,
                           y.n_ops);
        }
    }
    for (int32_t i = 0; i < a->n_operands && i < b->n_operands; i++) {
        const struct lw_operand *x = &a->operands[i], *y = &b->operands[i];
        const struct field f[] = {{"bytes", x->bytes, y->bytes},
                                  {"offset", x->offset, y->offset},
                                  {"peer", x->peer, y->peer}};
        char what[48];
        snprintf(what, sizeof what, "operand %d", i);
        if (fields_differ(d, what, f, sizeof f / sizeof *f))
            return true;
    }
    return false;
}

bool lw_plan_diff(const struct lw_plan *a, const struct lw_plan *b, char *text, size_t room)
{
    struct diff d = {a, b, text, room};

    *text = 0;
    if (strategies_differ(&d) || ranks_differ(&d) || comms_differ(&d) || params_differ(&d) ||
        buckets_differ(&d) || shards_differ(&d) || passes_differ(&d) || programs_differ(&d))
        return true;
    return strcmp(a->hash, b->hash) != 0 &&
           say(&d, "the tables of works or operands are laid out differently (hash %s, %s)",
               a->hash, b->hash);
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
            const struct lw_op *o = &p->ops[i];
            if (o->kind == LW_OP_BACKWARD) {
                if (o->micro_batch != micro_batch)
                    at = (struct lw_launch_point){0, 0, -1};
                micro_batch = o->micro_batch;
                at.at = lw_add_sat(at.at, lw_plan_work_ps(p, o));
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
