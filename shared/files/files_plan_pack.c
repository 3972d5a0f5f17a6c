/* From the rows of a plan file to a plan: every index and size is verified, then moved into the
 * plan's own tables. Plans come from users: nothing is used before it is verified, whatever
 * lw_plan_check would say later. */
#include <inttypes.h>
#include <string.h>

#include "shared/files/files_plan_rows.h"
#include "shared/plan/buffer.h"
#include "shared/plan/product.h"
#include "shared/plan/sparse.h"

struct pack {
    struct plan_file *file;
    struct lw_plan *p;
    struct lw_err *err;
};

static enum lw_status within(const struct pack *k, const char *list, int64_t i, const char *field,
                             int64_t found, int64_t least, int64_t n)
{
    if (found >= least && found < n)
        return LW_OK;
    if (n <= 0)
        return lw_fail(k->err, LW_EFORMAT,
                       "at %s[%" PRId64 "].%s: found %" PRId64 ", but there is none to refer to",
                       list, i, field, found);
    return lw_fail(k->err, LW_EFORMAT,
                   "at %s[%" PRId64 "].%s: found %" PRId64 ", allowed: %" PRId64 " to %" PRId64,
                   list, i, field, found, least, n - 1);
}

static enum lw_status some(const struct pack *k, const char *list, int32_t n)
{
    return n > 0 ? LW_OK
                 : lw_fail(k->err, LW_EFORMAT, "at %s: found none, expected at least 1", list);
}

static enum lw_status pack_ranks(const struct pack *k)
{
    struct lw_plan *p = k->p;
    int32_t n = k->file->n_rank_rows;

    LW_TRY(some(k, "ranks", n));
    p->n_ranks = n;
    LW_TAKE(&p->arena, p->role_of, n, k->err);
    LW_TAKE(&p->arena, p->index_in_role, n, k->err);
    LW_TAKE(&p->arena, p->coord, (int64_t)n * 3, k->err);
    for (int32_t r = 0; r < p->n_roles; r++)
        p->roles[r].n_ranks = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct rank_row *row = &k->file->ranks[i];
        LW_TRY(within(k, "ranks", i, "role", row->role, 0, p->n_roles));
        p->role_of[i] = row->role;
        p->index_in_role[i] = p->roles[row->role].n_ranks++;
        memcpy(&p->coord[(int64_t)i * 3], &row->dp, 3 * sizeof row->dp);
    }
    for (int32_t r = 0; r < p->n_roles; r++)
        LW_TRY(within(k, "roles", r, "stage", p->roles[r].stage, -1, p->n_stages));
    return LW_OK;
}

static enum lw_status pack_groups(const struct pack *k)
{
    struct lw_plan *p = k->p;
    int64_t n = 0, at = 0;

    for (int32_t g = 0; g < k->file->n_group_rows; g++)
        n += k->file->groups[g].n_members;
    LW_TRY(within(k, "groups", 0, "members", n, 0, INT64_C(1) << 31));
    p->n_groups = k->file->n_group_rows;
    p->n_members = (int32_t)n;
    LW_TAKE(&p->arena, p->groups, p->n_groups, k->err);
    LW_TAKE(&p->arena, p->members, n, k->err);
    for (int32_t g = 0; g < p->n_groups; g++) {
        const struct group_row *row = &k->file->groups[g];
        p->groups[g] = (struct lw_group){(int32_t)at, row->n_members};
        for (int32_t m = 0; m < row->n_members; m++) {
            LW_TRY(within(k, "groups", g, "members", row->members[m], 0, p->n_ranks));
            p->members[at++] = row->members[m];
        }
    }
    return LW_OK;
}

static enum lw_status pack_comm(const struct pack *k, int32_t c)
{
    struct lw_plan *p = k->p;
    const struct comm_row *row = &k->file->comms[c];
    int32_t *group_of = p->comm_group + (int64_t)c * p->n_ranks;

    p->comms[c] = row->comm;
    LW_TRY(within(k, "comms", c, "stream", row->comm.stream, 0, p->n_streams));
    for (int32_t r = 0; r < p->n_ranks; r++)
        group_of[r] = -1;
    for (int32_t i = 0; i < row->n_groups; i++) {
        LW_TRY(within(k, "comms", c, "groups", row->groups[i], 0, p->n_groups));
        const struct lw_group *g = &p->groups[row->groups[i]];
        for (int32_t m = 0; m < g->n_members; m++) {
            int32_t rank = p->members[g->first_member + m];
            if (group_of[rank] >= 0)
                return lw_fail(k->err, LW_EFORMAT,
                               "at comms[%d].groups: rank %d is in groups %d and %d, allowed: one "
                               "group of a communicator",
                               c, rank, group_of[rank], row->groups[i]);
            group_of[rank] = row->groups[i];
        }
    }
    return LW_OK;
}

static enum lw_status pack_comms(const struct pack *k)
{
    struct lw_plan *p = k->p;

    p->n_comms = k->file->n_comm_rows;
    LW_TAKE(&p->arena, p->comms, p->n_comms, k->err);
    LW_TAKE(&p->arena, p->comm_group, (int64_t)p->n_comms * p->n_ranks, k->err);
    for (int32_t c = 0; c < p->n_comms; c++)
        LW_TRY(pack_comm(k, c));
    return LW_OK;
}

static enum lw_status pack_params(const struct pack *k)
{
    struct lw_plan *p = k->p;

    for (int32_t i = 0; i < p->n_modules; i++)
        LW_TRY(within(k, "stage_of_module", i, "stage", p->stage_of[i], -1, p->n_stages));
    for (int32_t i = 0; i < p->n_params; i++) {
        const struct lw_plan_param *a = &p->params[i];
        LW_TRY(within(k, "params", i, "numel", a->numel, 0, INT64_MAX / 16));
        LW_TRY(within(k, "params", i, "stage", a->stage, 0, p->n_stages));
        LW_TRY(within(k, "params", i, "module", a->module, -1, p->n_modules));
        LW_TRY(within(k, "params", i, "tied", a->tied, -1, p->n_params));
    }
    for (int32_t i = 0; i < p->n_whole; i++)
        LW_TRY(within(k, "whole_params", i, "parameter", p->whole[i],
                      i > 0 ? p->whole[i - 1] + INT64_C(1) : 0, p->n_params));
    for (int32_t i = 0; i < p->n_sparse; i++) {
        const struct lw_sparse *x = &p->sparse[i];
        LW_TRY(within(k, "sparse", i, "param", x->param,
                      i > 0 ? p->sparse[i - 1].param + INT64_C(1) : 0, p->n_params));
        LW_TRY(within(k, "sparse", i, "row_numel", x->row_numel, 1,
                      p->params[x->param].numel + 1));
        LW_TRY(within(k, "sparse", i, "touched_rows", x->touched_rows, 1,
                      p->params[x->param].numel / x->row_numel + 1));
    }
    for (int32_t i = 0; i < p->n_buffers; i++)
        LW_TRY(within(k, "buffers", i, "numel", p->buffers[i].numel, 0, INT64_MAX / 16));
    for (int32_t i = 0; i < p->n_shards; i++) {
        const struct lw_shard *s = &p->shards[i];
        LW_TRY(within(k, "shards", i, "param", s->param, 0, p->n_params));
        LW_TRY(within(k, "shards", i, "owner", s->owner, -1, p->n_ranks));
        LW_TRY(within(k, "shards", i, "numel", s->numel, 0, p->params[s->param].numel + 1));
        LW_TRY(
            within(k, "shards", i, "first", s->first, 0, p->params[s->param].numel - s->numel + 1));
    }
    return LW_OK;
}

/* Each begins where the one before it ends: nothing to write down. */
static bool lie_in_a_row(const struct lw_plan *p, const struct bucket_row *row)
{
    int64_t end = 0;

    for (int32_t i = 0; i < row->n_params; i++)
        if (row->offsets[i] != end ||
            __builtin_add_overflow(end, p->params[row->params[i]].numel, &end))
            return false;
    return true;
}

static enum lw_status pack_bucket(const struct pack *k, int32_t s, const struct bucket_row *row,
                                  int32_t b)
{
    struct lw_plan *p = k->p;
    struct lw_bucket *to = &p->buckets[b];

    if (row->n_offsets != row->n_params)
        return lw_fail(
            k->err, LW_EFORMAT,
            "at bucket_sets[%d].buckets[%d]: found %d params and %d offsets, expected as "
            "many",
            s, b - p->sets[s].first_bucket, row->n_params, row->n_offsets);
    *to = row->bucket;
    to->set = s;
    to->first_slot = p->n_slots;
    to->n_slots = row->n_params;
    for (int32_t i = 0; i < row->n_params; i++) {
        LW_TRY(within(k, "bucket_sets", s, "buckets.params", row->params[i], 0, p->n_params));
        p->slots[p->n_slots++] = row->params[i];
    }
    to->first_offset = -1;
    if (lie_in_a_row(p, row))
        return LW_OK;
    to->first_offset = p->n_offsets;
    for (int32_t i = 0; i < row->n_params; i++)
        p->offsets[p->n_offsets++] = row->offsets[i];
    return LW_OK;
}

static enum lw_status pack_buckets(const struct pack *k)
{
    struct lw_plan *p = k->p;
    int64_t n_buckets = 0, n_slots = 0;

    p->n_sets = k->file->n_set_rows;
    for (int32_t s = 0; s < p->n_sets; s++) {
        const struct set_row *row = &k->file->sets[s];
        n_buckets += row->n_buckets;
        for (int32_t b = 0; b < row->n_buckets; b++)
            n_slots += row->buckets[b].n_params;
    }
    LW_TRY(within(k, "bucket_sets", 0, "buckets", n_buckets, 0, INT64_C(1) << 31));
    LW_TRY(within(k, "bucket_sets", 0, "params", n_slots, 0, INT64_C(1) << 31));
    LW_TAKE(&p->arena, p->sets, p->n_sets, k->err);
    LW_TAKE(&p->arena, p->buckets, n_buckets, k->err);
    LW_TAKE(&p->arena, p->slots, n_slots, k->err);
    LW_TAKE(&p->arena, p->offsets, n_slots, k->err);
    for (int32_t s = 0; s < p->n_sets; s++) {
        const struct set_row *row = &k->file->sets[s];
        p->sets[s] = row->set;
        if (row->set.kind < 0)
            p->sets[s].kind = (int32_t)lw_bucket_kind_of_set(row->set.name);
        p->sets[s].first_bucket = p->n_buckets;
        p->sets[s].n_buckets = row->n_buckets;
        LW_TRY(within(k, "bucket_sets", s, "stage", row->set.stage, 0, p->n_stages));
        for (int32_t b = 0; b < row->n_buckets; b++)
            LW_TRY(pack_bucket(k, s, &row->buckets[b], p->n_buckets++));
    }
    return LW_OK;
}

/* The row has an entry for each rank of every role whose program names it. */
static enum lw_status check_operand(const struct pack *k, int32_t op, int32_t role)
{
    const struct lw_plan *p = k->p;
    int32_t row = p->ops[op].operand;

    if (row < 0 || k->file->operands[row].n == p->roles[role].n_ranks)
        return LW_OK;
    return lw_fail(k->err, LW_EFORMAT,
                   "at operands[%d].of_ranks: found %d entries, but ops[%d] belongs to role %d, "
                   "which has %d ranks",
                   row, k->file->operands[row].n, op, role, p->roles[role].n_ranks);
}

static enum lw_status pack_programs(const struct pack *k)
{
    struct lw_plan *p = k->p;

    LW_TRY(some(k, "variants", p->n_variants));
    LW_TAKE(&p->arena, p->programs, (int64_t)p->n_variants * p->n_roles, k->err);
    for (int32_t v = 0; v < p->n_variants; v++)
        for (int32_t s = 0; s < p->n_sets; s++)
            p->variants[v].n_sets += lw_plan_uses_set(p, v, s);
    for (int32_t i = 0; i < k->file->n_program_rows; i++) {
        const struct program_row *row = &k->file->programs[i];
        LW_TRY(within(k, "programs", i, "variant", row->variant, 0, p->n_variants));
        LW_TRY(within(k, "programs", i, "role", row->role, 0, p->n_roles));
        LW_TRY(within(k, "programs", i, "first_op", row->first_op, 0, (int64_t)p->n_ops + 1));
        LW_TRY(within(k, "programs", i, "n_ops", row->n_ops, 0,
                      (int64_t)p->n_ops - row->first_op + 1));
        struct lw_program *to = &p->programs[(int64_t)row->variant * p->n_roles + row->role];
        if (to->n_ops)
            return lw_fail(k->err, LW_EFORMAT,
                           "at programs[%d]: variant %d of role %d has a program already", i,
                           row->variant, row->role);
        *to = (struct lw_program){row->first_op, row->n_ops};
        for (int32_t op = row->first_op; op < row->first_op + row->n_ops; op++)
            LW_TRY(check_operand(k, op, row->role));
    }
    LW_TRY(some(k, "passes", p->n_passes));
    for (int32_t i = 0; i < p->n_passes; i++)
        LW_TRY(within(k, "passes", i, "variant", p->pass_variant[i], 0, p->n_variants));
    return within(k, "passes", 0, "repeat_from", p->repeat_from, 0, p->n_passes);
}

static enum lw_status pack_works(const struct pack *k)
{
    struct lw_plan *p = k->p;
    int64_t n = 0;

    for (int32_t i = 0; i < p->n_products; i++)
        LW_TRY(lw_product_check(&p->products[i], i, k->err));
    p->n_works = k->file->n_work_rows;
    for (int32_t i = 0; i < p->n_works; i++)
        n += k->file->works[i].work.n_products;
    LW_TRY(within(k, "works", 0, "products", n, 0, INT64_C(1) << 31));
    LW_TAKE(&p->arena, p->works, p->n_works, k->err);
    LW_TAKE(&p->arena, p->work_products, n, k->err);
    for (int32_t i = 0; i < p->n_works; i++) {
        const struct work_row *row = &k->file->works[i];
        p->works[i] = row->work;
        p->works[i].first_product = p->n_work_products;
        for (int32_t x = 0; x < row->work.n_products; x++) {
            LW_TRY(within(k, "works", i, "products", row->products[x], 0, p->n_products));
            p->work_products[p->n_work_products++] = row->products[x];
        }
    }
    return LW_OK;
}

static enum lw_status check_op(const struct pack *k, const struct lw_op *op, int32_t i)
{
    const struct lw_plan *p = k->p;
    const struct {
        const char *name;
        int64_t found, least, n;
    } fields[] = {
        {"stream", op->stream, 0, p->n_streams},
        {"comm", op->comm, -1, p->n_comms},
        {"work", op->work, -1, p->n_works},
        {"peer", op->peer, -1, p->n_ranks},
        {"operand", op->operand, -1, k->file->n_operand_rows},
        {"module", op->module, -1, p->n_modules},
        {"stage", op->stage, -1, p->n_stages},
        {"bucket", op->bucket, -1, p->n_buckets},
    };

    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
        LW_TRY(within(k, "ops", i, fields[f].name, fields[f].found, fields[f].least, fields[f].n));
    return LW_OK;
}

static enum lw_status pack_op(const struct pack *k, const struct op_row *row, int32_t i)
{
    struct lw_plan *p = k->p;
    struct lw_op *to = &p->ops[i];

    LW_TRY(check_op(k, &row->op, i));
    *to = row->op;
    to->first_dep = p->n_deps;
    to->first_ready = p->n_ready;
    for (int32_t d = 0; d < to->n_deps; d++) {
        LW_TRY(within(k, "ops", i, "deps", row->deps[d], 0, i));
        p->deps[p->n_deps++] = row->deps[d];
    }
    for (int32_t d = 0; d < to->n_ready; d++) {
        LW_TRY(within(k, "ops", i, "ready", row->ready[d], 0, p->n_params));
        p->ready[p->n_ready++] = row->ready[d];
    }
    return LW_OK;
}

static enum lw_status pack_ops(const struct pack *k)
{
    struct lw_plan *p = k->p;
    int64_t n_deps = 0, n_ready = 0;

    p->n_ops = k->file->n_op_rows;
    for (int32_t i = 0; i < p->n_ops; i++) {
        n_deps += k->file->ops[i].op.n_deps;
        n_ready += k->file->ops[i].op.n_ready;
    }
    LW_TRY(within(k, "ops", 0, "deps", n_deps, 0, INT64_C(1) << 31));
    LW_TRY(within(k, "ops", 0, "ready", n_ready, 0, INT64_C(1) << 31));
    LW_TAKE(&p->arena, p->ops, p->n_ops, k->err);
    LW_TAKE(&p->arena, p->deps, n_deps, k->err);
    LW_TAKE(&p->arena, p->ready, n_ready, k->err);
    for (int32_t i = 0; i < p->n_ops; i++)
        LW_TRY(pack_op(k, &k->file->ops[i], i));
    return LW_OK;
}

static enum lw_status pack_operands(const struct pack *k)
{
    struct lw_plan *p = k->p;
    int64_t n = 0;

    for (int32_t i = 0; i < k->file->n_operand_rows; i++)
        n += k->file->operands[i].n;
    LW_TRY(within(k, "operands", 0, "of_ranks", n, 0, INT64_C(1) << 31));
    p->n_operand_rows = k->file->n_operand_rows;
    LW_TAKE(&p->arena, p->operand_first, p->n_operand_rows, k->err);
    LW_TAKE(&p->arena, p->operands, n, k->err);
    for (int32_t i = 0; i < p->n_operand_rows; i++) {
        const struct operands_row *row = &k->file->operands[i];
        p->operand_first[i] = p->n_operands;
        for (int32_t e = 0; e < row->n; e++) {
            LW_TRY(
                within(k, "operands", i, "of_ranks.peer", row->of_ranks[e].peer, -1, p->n_ranks));
            p->operands[p->n_operands++] = row->of_ranks[e];
        }
    }
    return LW_OK;
}

enum lw_status lw_plan_file_pack(struct plan_file *f, struct lw_plan *p, struct lw_err *err)
{
    struct pack k = {f, p, err};

    LW_TRY(some(&k, "roles", p->n_roles));
    LW_TRY(some(&k, "streams", p->n_streams));
    LW_TRY(pack_ranks(&k));
    LW_TRY(pack_groups(&k));
    LW_TRY(pack_comms(&k));
    LW_TRY(pack_params(&k));
    LW_TRY(pack_buckets(&k));
    LW_TRY(pack_works(&k));
    LW_TRY(pack_ops(&k));
    LW_TRY(pack_operands(&k));
    return pack_programs(&k);
}
