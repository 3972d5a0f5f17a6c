/* Plan files: docs/formats/plan.md. The file holds lists of rows, one line each, in the order of
 * the tables of struct lw_plan; what a row can imply is left out (an op's place in the shared lists
 * of dependencies, a rank's index within its role, the number of a role's ranks). Reading therefore
 * has two halves: rows are read by tables, then packed into a plan.
 *
 * Plans come from users: packing verifies every index and size before it is used, whatever
 * lw_plan_check would say later. */
#include "shared/files.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/files_strategy.h"

struct rank_row {
    int32_t role, dp, pp, tp;
};

struct comm_row {
    struct lw_comm comm;
    int32_t *groups, n_groups;
};

struct group_row {
    int32_t *members, n_members;
};

struct bucket_row {
    struct lw_bucket bucket;
    int32_t *params, n_params, n_offsets;
    int64_t *offsets;
};

struct set_row {
    struct lw_bucket_set set;
    struct bucket_row *buckets;
    int32_t n_buckets;
};

struct program_row {
    int32_t variant, role, first_op, n_ops;
};

struct op_row {
    struct lw_op op;
    int32_t *deps, *ready;
};

struct operands_row {
    struct lw_operand *of_ranks;
    int32_t n;
};

struct plan_file {
    struct lw_plan plan; /* the tables that need no packing, and the counts */
    const char *hash;
    struct rank_row *ranks;
    struct comm_row *comms;
    struct group_row *groups;
    struct set_row *sets;
    struct program_row *programs;
    struct op_row *ops;
    struct operands_row *operands;
    int32_t n_rank_rows, n_comm_rows, n_group_rows, n_set_rows, n_program_rows, n_op_rows,
        n_operand_rows;
};

/* --- the format --------------------------------------------------------------------------------
 */

static const char *stream_word(int k)
{
    static const char *const words[] = {"compute", "comm", "copy", "host"};
    return k >= 0 && k < 4 ? words[k] : NULL;
}

static const char *purpose_word(int k)
{
    static const char *const words[] = {"data",     "model",     "tensor", "forward",
                                        "backward", "embedding", "world",  "recorded"};
    return k >= 0 && k < 8 ? words[k] : NULL;
}

static const char *reducer_word(int k)
{
    return k >= 0 && k < LW_N_REDUCERS ? lw_reducer_name((enum lw_reducer_kind)k) : NULL;
}

/* -1 is nothing, or unknown; what allows it is verified when the plan is packed */
#define INDEX(json, at_) LW_F_INT32(json, at_, -1)

#define AT(field) offsetof(struct rank_row, field)
static const struct lw_field rank_fields[] = {
    {.name = "role", .kind = LW_FIELD_INT32, .must = true, .at = AT(role), .most = INT32_MAX},
    LW_F_INT32("dp", AT(dp), 0),
    LW_F_INT32("pp", AT(pp), 0),
    LW_F_INT32("tp", AT(tp), 0),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_role, field)
static const struct lw_field role_fields[] = {
    LW_F_NAME("name", AT(name)),
    INDEX("stage", AT(stage)),
    LW_F_INT64("params_bytes", AT(static_bytes[LW_MEM_PARAMS]), 0),
    LW_F_INT64("grads_bytes", AT(static_bytes[LW_MEM_GRADS]), 0),
    LW_F_INT64("optimizer_bytes", AT(static_bytes[LW_MEM_OPTIMIZER]), 0),
    LW_F_INT64("buckets_bytes", AT(static_bytes[LW_MEM_BUCKETS]), 0),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_stream, field)
static const struct lw_field stream_fields[] = {
    LW_F_NAME("name", AT(name)),
    {.name = "class", .kind = LW_FIELD_WORD, .must = true, .at = AT(class_), .word = stream_word},
    {.name = "priority",
     .kind = LW_FIELD_INT32,
     .at = AT(priority),
     .least = INT32_MIN,
     .most = INT32_MAX},
    {0},
};
#undef AT

static const struct lw_field group_fields[] = {
    LW_F_ITEMS("members", LW_FIELD_INTS32, offsetof(struct group_row, members),
               offsetof(struct group_row, n_members)),
    {0},
};

#define AT(field) offsetof(struct comm_row, field)
static const struct lw_field comm_fields[] = {
    LW_F_NAME("name", AT(comm.name)),
    {.name = "purpose",
     .kind = LW_FIELD_WORD,
     .must = true,
     .at = AT(comm.purpose),
     .word = purpose_word},
    LW_F_WORD("reducer", AT(comm.reducer), reducer_word),
    {.name = "stream",
     .kind = LW_FIELD_INT32,
     .must = true,
     .at = AT(comm.stream),
     .most = INT32_MAX},
    LW_F_ITEMS("groups", LW_FIELD_INTS32, AT(groups), AT(n_groups)),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_plan_param, field)
static const struct lw_field param_fields[] = {
    LW_F_NAME("name", AT(name)),
    {.name = "numel", .kind = LW_FIELD_INT64, .must = true, .at = AT(numel), .most = INT64_MAX},
    LW_F_BYTE_WORD("dtype", AT(dtype), lw_word_dtype),
    LW_F_INT16("stage", AT(stage), 0),
    INDEX("module", AT(module)),
    LW_F_INT8("device", AT(device), 0),
    INDEX("tied", AT(tied)),
    LW_F_BOOL("trainable", AT(trainable), true),
    LW_F_BOOL("sparse", AT(sparse), false),
    LW_F_BOOL("used", AT(used), true),
    LW_F_BOOL("ignored", AT(ignored), false),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_plan_buffer, field)
static const struct lw_field buffer_fields[] = {
    LW_F_NAME("name", AT(name)),
    {.name = "numel", .kind = LW_FIELD_INT64, .must = true, .at = AT(numel), .most = INT64_MAX},
    LW_F_WORD("dtype", AT(dtype), lw_word_dtype),
    LW_F_BOOL("broadcast", AT(broadcast), false),
    {0},
};
#undef AT

#define AT(field) offsetof(struct bucket_row, field)
static const struct lw_field bucket_fields[] = {
    LW_F_WORD("dtype", AT(bucket.dtype), lw_word_dtype),
    {.name = "bytes",
     .kind = LW_FIELD_INT64,
     .must = true,
     .at = AT(bucket.bytes),
     .most = INT64_MAX},
    LW_F_INT64("limit_bytes", AT(bucket.limit_bytes), 0),
    LW_F_ITEMS("params", LW_FIELD_INTS32, AT(params), AT(n_params)),
    LW_F_ITEMS("offsets", LW_FIELD_INTS64, AT(offsets), AT(n_offsets)),
    {0},
};
#undef AT

#define AT(field) offsetof(struct set_row, field)
static const struct lw_field set_fields[] = {
    LW_F_NAME("name", AT(set.name)),
    LW_F_INT32("stage", AT(set.stage), 0),
    LW_F_LIST("buckets", AT(buckets), AT(n_buckets), bucket_fields, struct bucket_row),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_shard, field)
static const struct lw_field shard_fields[] = {
    {.name = "param", .kind = LW_FIELD_INT32, .must = true, .at = AT(param), .most = INT32_MAX},
    INDEX("owner", AT(owner)),
    LW_F_INT64("first", AT(first), 0),
    {.name = "numel", .kind = LW_FIELD_INT64, .must = true, .at = AT(numel), .most = INT64_MAX},
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_work, field)
static const struct lw_field work_fields[] = {
    LW_F_NS("ns", AT(ps), -1),
    LW_F_INT64("flops", AT(flops), -1),
    LW_F_INT64("bytes", AT(bytes), -1),
    {.name = "keeps_bytes", .kind = LW_FIELD_INT64, .at = AT(keeps_bytes), .least = -INT64_MAX,
     .most = INT64_MAX},
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_variant, field)
static const struct lw_field variant_fields[] = {
    LW_F_NAME("name", AT(name)),
    LW_F_STRING("set", AT(set_name)),
    LW_F_BOOL("ends_step", AT(ends_step), false),
    {0},
};
#undef AT

#define AT(field) offsetof(struct program_row, field)
static const struct lw_field program_fields[] = {
    {.name = "variant", .kind = LW_FIELD_INT32, .must = true, .at = AT(variant), .most = INT32_MAX},
    {.name = "role", .kind = LW_FIELD_INT32, .must = true, .at = AT(role), .most = INT32_MAX},
    {.name = "first_op",
     .kind = LW_FIELD_INT32,
     .must = true,
     .at = AT(first_op),
     .most = INT32_MAX},
    {.name = "n_ops", .kind = LW_FIELD_INT32, .must = true, .at = AT(n_ops), .most = INT32_MAX},
    {0},
};
#undef AT

#define AT(field) offsetof(struct op_row, field)
static const struct lw_field op_fields[] = {
    {.name = "kind", .kind = LW_FIELD_WORD, .must = true, .at = AT(op.kind), .word = lw_word_op, .size = 1},
    LW_F_STRING("name", AT(op.name)),
    {.name = "stream",
     .kind = LW_FIELD_INT32,
     .must = true,
     .at = AT(op.stream),
     .most = INT32_MAX},
    LW_F_ITEMS("deps", LW_FIELD_INTS32, AT(deps), AT(op.n_deps)),
    INDEX("work", AT(op.work)),
    {.name = "work_ns",
     .kind = LW_FIELD_NS,
     .at = AT(op.work_ps),
     .most = INT64_MAX,
     .null_is_minus_1 = true},
    LW_F_BYTE_WORD("dtype", AT(op.dtype), lw_word_dtype),
    INDEX("comm", AT(op.comm)),
    INDEX("call", AT(op.call)),
    LW_F_INT64("bytes", AT(op.bytes), 0),
    INDEX("peer", AT(op.peer)),
    INDEX("operand", AT(op.operand)),
    INDEX("module", AT(op.module)),
    LW_F_INT16("stage", AT(op.stage), -1),
    INDEX("micro_batch", AT(op.micro_batch)),
    INDEX("bucket", AT(op.bucket)),
    LW_F_ITEMS("ready", LW_FIELD_INTS32, AT(ready), AT(op.n_ready)),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_operand, field)
static const struct lw_field operand_fields[] = {
    LW_F_INT64("bytes", AT(bytes), 0),
    LW_F_INT64("offset", AT(offset), 0),
    INDEX("peer", AT(peer)),
    {0},
};
#undef AT

static const struct lw_field operands_fields[] = {
    LW_F_LIST("of_ranks", offsetof(struct operands_row, of_ranks), offsetof(struct operands_row, n),
              operand_fields, struct lw_operand),
    {0},
};

static void read_strategy(struct lw_fields *r, void *base)
{
    lw_strategy_fields_read(r, &((struct plan_file *)base)->plan.strategy);
}

static void write_strategy(struct lw_jsonout *o, const struct lw_field *f, const void *base)
{
    lw_strategy_fields_write(o, f->name, &((const struct plan_file *)base)->plan.strategy);
}

#define AT(field) offsetof(struct plan_file, field)
static const struct lw_field plan_fields[] = {
    LW_F_HEAD,
    LW_F_NAME("name", AT(plan.name)),
    LW_F_STRING("hash", AT(hash)),
    LW_F_STRING("workload_hash", AT(plan.workload_hash)),
    LW_F_STRING("cluster", AT(plan.cluster_name)),
    LW_F_OWN("strategy", read_strategy, write_strategy),
    LW_F_ITEMS("notes", LW_FIELD_STRINGS, AT(plan.notes), AT(plan.n_notes)),
    LW_F_INT32("n_stages", AT(plan.n_stages), 1),
    LW_F_LIST("ranks", AT(ranks), AT(n_rank_rows), rank_fields, struct rank_row),
    LW_F_LIST("roles", AT(plan.roles), AT(plan.n_roles), role_fields, struct lw_role),
    LW_F_LIST("streams", AT(plan.streams), AT(plan.n_streams), stream_fields, struct lw_stream),
    LW_F_LIST("groups", AT(groups), AT(n_group_rows), group_fields, struct group_row),
    LW_F_LIST("comms", AT(comms), AT(n_comm_rows), comm_fields, struct comm_row),
    LW_F_LIST("params", AT(plan.params), AT(plan.n_params), param_fields, struct lw_plan_param),
    LW_F_LIST("buffers", AT(plan.buffers), AT(plan.n_buffers), buffer_fields,
              struct lw_plan_buffer),
    {.name = "stage_of_module",
     .kind = LW_FIELD_INTS32,
     .at = AT(plan.stage_of),
     .n_at = AT(plan.n_modules),
     .least = -1,
     .most = INT32_MAX},
    LW_F_LIST("bucket_sets", AT(sets), AT(n_set_rows), set_fields, struct set_row),
    LW_F_LIST("shards", AT(plan.shards), AT(plan.n_shards), shard_fields, struct lw_shard),
    LW_F_LIST("works", AT(plan.works), AT(plan.n_works), work_fields, struct lw_work),
    LW_F_LIST("variants", AT(plan.variants), AT(plan.n_variants), variant_fields,
              struct lw_variant),
    LW_F_ITEMS("passes", LW_FIELD_INTS32, AT(plan.pass_variant), AT(plan.n_passes)),
    LW_F_INT32("repeat_from", AT(plan.repeat_from), 0),
    LW_F_LIST("programs", AT(programs), AT(n_program_rows), program_fields, struct program_row),
    LW_F_LIST("ops", AT(ops), AT(n_op_rows), op_fields, struct op_row),
    LW_F_LIST("operands", AT(operands), AT(n_operand_rows), operands_fields, struct operands_row),
    {0},
};
#undef AT

/* --- packing: verify, then move into the plan's own tables ---------------------------------------
 */

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

static void *take(const struct pack *k, int64_t n, size_t size)
{
    return lw_arena_alloc(&k->p->arena, n, size);
}

static enum lw_status pack_ranks(const struct pack *k)
{
    struct lw_plan *p = k->p;
    int32_t n = k->file->n_rank_rows;

    LW_TRY(some(k, "ranks", n));
    p->n_ranks = n;
    p->role_of = take(k, n, sizeof *p->role_of);
    p->index_in_role = take(k, n, sizeof *p->index_in_role);
    p->coord = take(k, (int64_t)n * 3, sizeof *p->coord);
    if (!p->role_of || !p->index_in_role || !p->coord)
        return lw_fail_nomem(k->err);
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
    p->groups = take(k, p->n_groups, sizeof *p->groups);
    p->members = take(k, n, sizeof *p->members);
    if (!p->groups || !p->members)
        return lw_fail_nomem(k->err);
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
    p->comms = take(k, p->n_comms, sizeof *p->comms);
    p->comm_group = take(k, (int64_t)p->n_comms * p->n_ranks, sizeof *p->comm_group);
    if (!p->comms || !p->comm_group)
        return lw_fail_nomem(k->err);
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
    p->sets = take(k, p->n_sets, sizeof *p->sets);
    p->buckets = take(k, n_buckets, sizeof *p->buckets);
    p->slots = take(k, n_slots, sizeof *p->slots);
    p->offsets = take(k, n_slots, sizeof *p->offsets);
    if (!p->sets || !p->buckets || !p->slots || !p->offsets)
        return lw_fail_nomem(k->err);
    for (int32_t s = 0; s < p->n_sets; s++) {
        const struct set_row *row = &k->file->sets[s];
        p->sets[s] = row->set;
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
    p->programs = take(k, (int64_t)p->n_variants * p->n_roles, sizeof *p->programs);
    if (!p->programs)
        return lw_fail_nomem(k->err);
    for (int32_t v = 0; v < p->n_variants; v++)
        for (int32_t s = 0; s < p->n_sets; s++)
            p->variants[v].n_sets +=
                *p->variants[v].set_name && strcmp(p->sets[s].name, p->variants[v].set_name) == 0;
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
    p->ops = take(k, p->n_ops, sizeof *p->ops);
    p->deps = take(k, n_deps, sizeof *p->deps);
    p->ready = take(k, n_ready, sizeof *p->ready);
    if (!p->ops || !p->deps || !p->ready)
        return lw_fail_nomem(k->err);
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
    p->operand_first = take(k, p->n_operand_rows, sizeof *p->operand_first);
    p->operands = take(k, n, sizeof *p->operands);
    if (!p->operand_first || !p->operands)
        return lw_fail_nomem(k->err);
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

/* The plan's strings and plain tables are in its arena already; rows move there too, since they
 * were read into the same arena: a plan that was read holds both forms. */
static enum lw_status pack(struct plan_file *f, struct lw_plan *p, struct lw_err *err)
{
    struct pack k = {f, p, err};

    LW_TRY(some(&k, "roles", p->n_roles));
    LW_TRY(some(&k, "streams", p->n_streams));
    LW_TRY(pack_ranks(&k));
    LW_TRY(pack_groups(&k));
    LW_TRY(pack_comms(&k));
    LW_TRY(pack_params(&k));
    LW_TRY(pack_buckets(&k));
    LW_TRY(pack_ops(&k));
    LW_TRY(pack_operands(&k));
    return pack_programs(&k);
}

/* --- reading -----------------------------------------------------------------------------------
 */

static enum lw_status verify(struct lw_plan *p, const char *hash, bool unchecked,
                             struct lw_err *err)
{
    if (lw_strategy_check(&p->strategy, err) != LW_OK)
        return lw_err_context(err, "at strategy");
    if (!unchecked)
        LW_TRY(lw_plan_check(p, err));
    LW_TRY(lw_plan_hash(p, err));
    if (!unchecked && *hash && strcmp(hash, p->hash) != 0)
        return lw_fail(err, LW_EPLAN,
                       "at hash: found %.40s, but the contents hash to %s: the plan was edited "
                       "(without the field \"hash\" it is taken as it is)",
                       hash, p->hash);
    return LW_OK;
}

enum lw_status lw_plan_read(const char *file, bool unchecked, struct lw_plan *p, struct lw_err *err)
{
    struct plan_file f = {.plan.strategy = lw_strategy_default()};
    struct lw_arena arena = {0};
    enum lw_status s = lw_file_read(file, "plan", plan_fields, &arena, &f, err);

    f.plan.arena = arena;
    if (s == LW_OK) {
        s = pack(&f, &f.plan, err);
        if (s == LW_OK)
            s = verify(&f.plan, f.hash, unchecked, err);
        if (s != LW_OK && s != LW_ENOMEM)
            lw_err_context(err, "%s", file);
    }
    if (s != LW_OK) {
        lw_plan_free(&f.plan);
        return s;
    }
    *p = f.plan;
    return LW_OK;
}

/* --- writing: rows again -----------------------------------------------------------------------
 */

static enum lw_status unpack_ranks(struct plan_file *f, struct lw_arena *a, struct lw_err *err)
{
    const struct lw_plan *p = &f->plan;

    f->n_rank_rows = p->n_ranks;
    f->n_group_rows = p->n_groups;
    f->ranks = lw_arena_alloc(a, p->n_ranks, sizeof *f->ranks);
    f->groups = lw_arena_alloc(a, p->n_groups, sizeof *f->groups);
    if (!f->ranks || !f->groups)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < p->n_ranks; i++) {
        f->ranks[i].role = p->role_of[i];
        memcpy(&f->ranks[i].dp, &p->coord[(int64_t)i * 3], 3 * sizeof(int32_t));
    }
    for (int32_t g = 0; g < p->n_groups; g++)
        f->groups[g] =
            (struct group_row){p->members + p->groups[g].first_member, p->groups[g].n_members};
    return LW_OK;
}

static enum lw_status unpack_comms(struct plan_file *f, struct lw_arena *a, struct lw_err *err)
{
    const struct lw_plan *p = &f->plan;

    f->n_comm_rows = p->n_comms;
    f->comms = lw_arena_alloc(a, p->n_comms, sizeof *f->comms);
    unsigned char *used = lw_arena_alloc(a, p->n_groups, 1);
    if (!f->comms || !used)
        return lw_fail_nomem(err);
    for (int32_t c = 0; c < p->n_comms; c++) {
        struct comm_row *row = &f->comms[c];
        const int32_t *group_of = p->comm_group + (int64_t)c * p->n_ranks;
        row->comm = p->comms[c];
        memset(used, 0, (size_t)p->n_groups);
        for (int32_t r = 0; r < p->n_ranks; r++)
            if (group_of[r] >= 0 && !used[group_of[r]]) {
                used[group_of[r]] = 1;
                row->n_groups++;
            }
        row->groups = lw_arena_alloc(a, row->n_groups, sizeof *row->groups);
        if (!row->groups)
            return lw_fail_nomem(err);
        for (int32_t g = 0, n = 0; g < p->n_groups; g++)
            if (used[g])
                row->groups[n++] = g;
    }
    return LW_OK;
}

static enum lw_status unpack_bucket(const struct lw_plan *p, int32_t b, struct bucket_row *row,
                                    struct lw_arena *a, struct lw_err *err)
{
    row->bucket = p->buckets[b];
    row->n_params = row->n_offsets = row->bucket.n_slots;
    row->params = lw_arena_alloc(a, row->n_params, sizeof *row->params);
    row->offsets = lw_arena_alloc(a, row->n_params, sizeof *row->offsets);
    if (!row->params || !row->offsets)
        return lw_fail_nomem(err);
    for (struct lw_slot_walk w = {0}; lw_plan_next_slot(p, &row->bucket, &w);) {
        row->params[w.n - 1] = w.slot.param;
        row->offsets[w.n - 1] = w.slot.offset;
    }
    return LW_OK;
}

static enum lw_status unpack_sets(struct plan_file *f, struct lw_arena *a, struct lw_err *err)
{
    const struct lw_plan *p = &f->plan;

    f->n_set_rows = p->n_sets;
    f->sets = lw_arena_alloc(a, p->n_sets, sizeof *f->sets);
    if (!f->sets)
        return lw_fail_nomem(err);
    for (int32_t s = 0; s < p->n_sets; s++) {
        struct set_row *row = &f->sets[s];
        row->set = p->sets[s];
        row->n_buckets = row->set.n_buckets;
        row->buckets = lw_arena_alloc(a, row->n_buckets, sizeof *row->buckets);
        if (!row->buckets)
            return lw_fail_nomem(err);
        for (int32_t b = 0; b < row->n_buckets; b++)
            LW_TRY(unpack_bucket(p, row->set.first_bucket + b, &row->buckets[b], a, err));
    }
    return LW_OK;
}

static enum lw_status unpack_ops(struct plan_file *f, struct lw_arena *a, struct lw_err *err)
{
    const struct lw_plan *p = &f->plan;

    f->n_op_rows = p->n_ops;
    f->n_program_rows = p->n_variants * p->n_roles;
    f->n_operand_rows = p->n_operand_rows;
    f->ops = lw_arena_alloc(a, p->n_ops, sizeof *f->ops);
    f->programs = lw_arena_alloc(a, f->n_program_rows, sizeof *f->programs);
    f->operands = lw_arena_alloc(a, p->n_operand_rows, sizeof *f->operands);
    if (!f->ops || !f->programs || !f->operands)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < p->n_ops; i++)
        f->ops[i] = (struct op_row){p->ops[i], p->deps + p->ops[i].first_dep,
                                    p->ready + p->ops[i].first_ready};
    for (int32_t i = 0; i < f->n_program_rows; i++)
        f->programs[i] = (struct program_row){i / p->n_roles, i % p->n_roles,
                                              p->programs[i].first_op, p->programs[i].n_ops};
    for (int32_t i = 0; i < p->n_operand_rows; i++) {
        int32_t end = i + 1 < p->n_operand_rows ? p->operand_first[i + 1] : p->n_operands;
        f->operands[i] =
            (struct operands_row){p->operands + p->operand_first[i], end - p->operand_first[i]};
    }
    return LW_OK;
}

enum lw_status lw_plan_write(const struct lw_plan *p, const char *file, struct lw_err *err)
{
    struct plan_file f = {.plan = *p, .hash = p->hash};
    struct lw_arena rows = {0};
    enum lw_status s = unpack_ranks(&f, &rows, err);

    if (s == LW_OK)
        s = unpack_comms(&f, &rows, err);
    if (s == LW_OK)
        s = unpack_sets(&f, &rows, err);
    if (s == LW_OK)
        s = unpack_ops(&f, &rows, err);
    if (s == LW_OK)
        s = lw_file_write(file, "plan", plan_fields, &f, err);
    lw_arena_free(&rows);
    return s;
}
