/* The tables and fields of a plan. Names of files, hashes of inputs and notes are no fields: they
 * say why and not what. */
#include "shared/plan/plan_tables.h"

#include "shared/plan/op.h"
#include "shared/strategy/reducer_kind.h"
#include "shared/workload/buffer.h"
#include "shared/workload/product.h"
#include "shared/workload/sparse.h"

/* A set is never of the kind LW_BUCKET_SPARSE. */
static const char *set_kind_word(int k)
{
    return k >= 0 && k < LW_BUCKET_SPARSE ? lw_bucket_kind_name((enum lw_bucket_kind)k) : NULL;
}

static const char *reducer_word(int k)
{
    return k >= 0 && k < LW_N_REDUCERS ? lw_reducer_name((enum lw_reducer_kind)k) : NULL;
}

#define P(m) offsetof(struct lw_plan, m)

/* What a number may be, and what it is where a plan file leaves it out (0 without -1). */
#define TO(low, high) .ranged = true, .least = low, .most = high
#define FROM(low) TO(low, INT64_MAX)
#define INDEX(n) .ranged = true, .refers = P(n)
#define INDEX_OR_NONE(n) INDEX(n), .least = -1, .absent = -1
#define BYTES FROM(0), .is_bytes = true
#define FROM_0_OR_NONE FROM(-1), .absent = -1
#define WORDS(words, n) .word = words, TO(0, (n) - 1)
#define DTYPE WORDS(lw_dtype_word, LW_N_DTYPES)
#define ELEMENTS TO(0, INT64_MAX / 16 - 1)

#define FIELD(what, kind_, t, m, ...)                                           \
    {.name = what, .kind = LW_PF_##kind_, .at = offsetof(struct lw_##t, m),     \
     .size = sizeof(((struct lw_##t *)0)->m), __VA_ARGS__}
#define NAMED(what, t, m, ...) FIELD(what, NUMBER, t, m, __VA_ARGS__)
#define N(t, m, ...) NAMED(#m, t, m, __VA_ARGS__)
#define B(t, m, ...) FIELD(#m, BIT, t, m, __VA_ARGS__)
#define NAME(t, m, ...) FIELD(#m, TEXT, t, m, .must = true, __VA_ARGS__)
#define MUST .must = true
#define ITEMS(what, kind_, t, first, of, ...) \
    FIELD(what, kind_, t, first, .list = P(of), .n_list = P(n_##of), __VA_ARGS__)
#define INT(what, ...) {.name = what, .size = sizeof(int32_t), __VA_ARGS__}

typedef const struct lw_plan_field fields;

static fields role_of_fields[] = {
    INT("role", INDEX(n_roles)), {0},
}, index_in_role_fields[] = {
    INT("index in its role", .derived = true), {0},
}, coord_fields[] = {
    INT("coordinate"), {0},
}, stage_of_fields[] = {
    INT("stage", .key = "", INDEX(n_stages)), {0},
}, role_fields[] = {
    NAME(role, name), N(role, stage, INDEX(n_stages), MUST),
    NAMED("parameter bytes", role, static_bytes[LW_MEM_PARAMS], .key = "params_bytes", BYTES),
    NAMED("gradient bytes", role, static_bytes[LW_MEM_GRADS], .key = "grads_bytes", BYTES),
    NAMED("optimizer bytes", role, static_bytes[LW_MEM_OPTIMIZER], .key = "optimizer_bytes",
          BYTES),
    NAMED("bucket bytes", role, static_bytes[LW_MEM_BUCKETS], .key = "buckets_bytes", BYTES),
    {0},
}, stream_fields[] = {
    NAME(stream, name),
    NAMED("class", stream, class_, WORDS(lw_stream_class_word, LW_STREAM_HOST + 1), MUST),
    N(stream, priority), {0},
}, comm_fields[] = {
    NAME(comm, name), N(comm, purpose, WORDS(lw_comm_purpose_word, LW_N_COMM_PURPOSES), MUST),
    FIELD("reducer", REDUCER, comm, reducer, WORDS(reducer_word, LW_N_REDUCERS)),
    N(comm, stream, INDEX(n_streams), MUST), {0},
}, group_fields[] = {
    ITEMS("member", LIST, group, first_member, members, .key = "members", INDEX(n_ranks)), {0},
}, comm_group_fields[] = {
    INT("group", .key = "groups", INDEX_OR_NONE(n_groups)), {0},
}, param_fields[] = {
    NAME(plan_param, name), NAMED("elements", plan_param, numel, .key = "numel", ELEMENTS, MUST),
    N(plan_param, dtype, DTYPE), N(plan_param, stage, INDEX(n_stages)),
    N(plan_param, module, INDEX_OR_NONE(n_modules)), N(plan_param, device, FROM(0)),
    N(plan_param, tied, INDEX_OR_NONE(n_params)), B(plan_param, trainable, .absent = true),
    B(plan_param, sparse),
    B(plan_param, used, .absent = true), B(plan_param, ignored), B(plan_param, expert), {0},
}, buffer_fields[] = {
    NAME(buffer, name), NAMED("elements", buffer, numel, .key = "numel", ELEMENTS, MUST),
    N(buffer, dtype, DTYPE), B(buffer, broadcast), {0},
}, whole_fields[] = {
    INT("index", .key = "", INDEX(n_params), .ascending = true), {0},
}, sparse_fields[] = {
    N(sparse, param, INDEX(n_params), .ascending = true, MUST),
    N(sparse, row_numel, FROM(1), MUST), N(sparse, touched_rows, FROM(1), MUST), {0},
}, set_fields[] = {
    NAME(bucket_set, name), N(bucket_set, stage, INDEX(n_stages)),
    NAMED("first bucket", bucket_set, first_bucket, FROM(0), .derived = true),
    NAMED("number of buckets", bucket_set, n_buckets, FROM(0), .derived = true),
    FIELD("kind", KIND, bucket_set, kind, WORDS(set_kind_word, LW_BUCKET_SPARSE), .absent = -1,
          .place = -1),
    {0},
}, bucket_fields[] = {
    N(bucket, set, INDEX(n_sets), .derived = true), N(bucket, dtype, DTYPE),
    N(bucket, bytes, BYTES, MUST),
    NAMED("limit", bucket, limit_bytes, .key = "limit_bytes", BYTES),
    ITEMS("number of gradients", SLOTS, bucket, first_slot, slots, .key = "params",
          INDEX(n_params), .derived = true),
    {0},
}, shard_fields[] = {
    NAMED("parameter", shard, param, .key = "param", INDEX(n_params), MUST),
    N(shard, owner, INDEX_OR_NONE(n_ranks)),
    NAMED("first element", shard, first, .key = "first", FROM(0)),
    NAMED("elements", shard, numel, .key = "numel", FROM(0), MUST), {0},
}, product_fields[] = {
    N(product, batch, TO(1, INT32_MAX), .absent = 1), N(product, m, TO(1, INT32_MAX), MUST),
    N(product, n, TO(1, INT32_MAX), MUST), N(product, k, TO(1, INT32_MAX), MUST),
    N(product, dtype, DTYPE), N(product, out_size, FROM(0), .place = 1), B(product, fp8),
    B(product, accumulate), B(product, grouped, .place = 1),
    /* bits after the others: hashes of plans without stay */
    B(product, fp4, .named_first = true), B(product, tf32, .named_first = true),
    {0},
}, variant_fields[] = {
    NAME(variant, name), FIELD("set_name", TEXT, variant, set_name, .key = "set"),
    B(variant, ends_step), {0},
}, program_fields[] = {
    NAMED("first op", program, first_op, .key = "first_op", FROM(0), MUST),
    NAMED("number of ops", program, n_ops, .key = "n_ops", FROM(0), MUST), {0},
}, op_fields[] = {
    N(op, kind, WORDS(lw_op_word, LW_N_OP_KINDS), MUST, .place = -6), N(op, dtype, DTYPE),
    N(op, stream, INDEX(n_streams), MUST, .place = -4),
    NAMED("communicator class", op, comm, .key = "comm", INDEX_OR_NONE(n_comms)),
    N(op, call, FROM_0_OR_NONE), N(op, bytes, BYTES), N(op, peer, INDEX_OR_NONE(n_ranks)),
    NAMED("operand row", op, operand, .key = "operand", INDEX_OR_NONE(n_operand_rows)),
    N(op, module, INDEX_OR_NONE(n_modules)), N(op, stage, INDEX_OR_NONE(n_stages)),
    NAMED("micro-batch", op, micro_batch, .key = "micro_batch", INDEX_OR_NONE(n_ops)),
    N(op, bucket, INDEX_OR_NONE(n_buckets)),
    ITEMS("dependency", LIST, op, first_dep, deps, .key = "deps", INDEX(n_ops), .earlier = true,
          .place = -3),
    ITEMS("gradient", LIST, op, first_ready, ready, .key = "ready", INDEX(n_params),
          .shared = true),
    FIELD("name", TEXT, op, name, .place = -5),
    FIELD("work", WORK, op, work, INDEX_OR_NONE(n_works), .place = -2),
    FIELD("work_ps", APART, op, work_ps, .key = "work_ns", FROM(-1), .is_ps = true,
          .or_null = true, .place = -1),
    {0},
}, operand_first_fields[] = {
    INT("first operand", .derived = true), {0},
}, operand_fields[] = {
    N(operand, bytes, BYTES), N(operand, offset, BYTES),
    N(operand, peer, INDEX_OR_NONE(n_ranks)), {0},
}, pass_fields[] = {
    INT("variant", .key = "", INDEX(n_variants)), {0},
}, work_fields[] = {
    N(work, ps, .key = "ns", FROM_0_OR_NONE, .is_ps = true), N(work, flops, FROM_0_OR_NONE),
    N(work, bytes, FROM_0_OR_NONE),
    N(work, keeps_bytes),
    NAMED("time bound by compute", work, bound_ps[LW_BOUND_COMPUTE], .key = "compute_ns", FROM(0),
          .is_ps = true),
    NAMED("time bound by memory", work, bound_ps[LW_BOUND_MEMORY], .key = "memory_ns", FROM(0),
          .is_ps = true),
    NAMED("time bound by launches", work, bound_ps[LW_BOUND_LAUNCH], .key = "launch_ns", FROM(0),
          .is_ps = true),
    NAMED("time bound by the host", work, bound_ps[LW_BOUND_HOST], .key = "host_ns", FROM(0),
          .is_ps = true),
    N(work, source, WORDS(lw_time_source_word, LW_N_TIME_SOURCES)),
    ITEMS("product", LIST, work, first_product, work_products, .key = "products",
          INDEX(n_products), .shared = true),
    {0},
}, no_fields[] = {
    {0},
};

#define TABLE(m, n, what, key_, fields_, ...)                                              \
    [LW_TABLE_##m] = {.row = what, .key = key_, .at = P(m), .n_at = P(n), .fields = fields_, \
                      .size = sizeof *((struct lw_plan *)0)->m, __VA_ARGS__}
#define ROWS(m, what, key_, fields_, ...) TABLE(m, n_##m, what, key_, fields_, __VA_ARGS__)
#define INTS(m, n, what, key_, fields_, ...) \
    TABLE(m, n, what, key_, fields_, .ints = true, __VA_ARGS__)
/* Lists that rows refer into: their items are checked with the rows. */
#define REFERRED(m, key_) ROWS(m, "item", key_, no_fields, .apart = true)

const struct lw_plan_table lw_plan_tables[LW_N_TABLES] = {
    INTS(role_of, n_ranks, "rank", "ranks", role_of_fields, .least = 1),
    INTS(index_in_role, n_ranks, "rank", "ranks", index_in_role_fields),
    INTS(coord, n_ranks, "rank", "ranks", coord_fields, .within = "axis"),
    INTS(stage_of, n_modules, "module", "stage_of_module", stage_of_fields),
    ROWS(roles, "role", "roles", role_fields, .least = 1),
    ROWS(streams, "stream", "streams", stream_fields, .least = 1),
    ROWS(comms, "communicator class", "comms", comm_fields),
    ROWS(groups, "group", "groups", group_fields),
    INTS(comm_group, n_comms, "communicator class", "comms", comm_group_fields, .within = "rank"),
    ROWS(params, "parameter", "params", param_fields),
    ROWS(buffers, "buffer", "buffers", buffer_fields),
    INTS(whole, n_whole, "parameter that all of a tensor group hold whole", "whole_params",
         whole_fields, .if_at = P(n_whole), .mark = "whole"),
    ROWS(sparse, "sparse gradient", "sparse", sparse_fields, .if_at = P(n_sparse),
         .mark = "sparse", .uncounted = true),
    ROWS(sets, "bucket set", "bucket_sets", set_fields),
    ROWS(buckets, "bucket", "buckets", bucket_fields),
    ROWS(shards, "shard", "shards", shard_fields),
    ROWS(products, "product", "products", product_fields, .if_at = P(n_products),
         .mark = "products"),
    ROWS(variants, "variant", "variants", variant_fields, .least = 1),
    TABLE(programs, n_variants, "program", "programs", program_fields, .uncounted = true),
    ROWS(ops, "op", "ops", op_fields),
    INTS(operand_first, n_operand_rows, "operand row", "operands", operand_first_fields),
    ROWS(operands, "operand", "operands", operand_fields),
    INTS(pass_variant, n_passes, "pass", "passes", pass_fields, .least = 1),
    ROWS(works, "work", "works", work_fields, .apart = true),
    REFERRED(members, "groups.members"),
    REFERRED(slots, "buckets.params"),
    REFERRED(offsets, "buckets.offsets"),
    REFERRED(deps, "ops.deps"),
    REFERRED(ready, "ops.ready"),
    REFERRED(work_products, "works.products"),
    REFERRED(notes, "notes"),
    REFERRED(from_times, "from_times"),
};

int32_t lw_plan_count_at(const struct lw_plan *p, size_t at)
{
    return *(const int32_t *)(const void *)((const char *)p + at);
}

int64_t lw_table_within(const struct lw_plan_table *t, const struct lw_plan *p)
{
    return t->at == P(coord) ? 3 : t->at == P(comm_group) ? p->n_ranks
           : t->at == P(programs) ? p->n_roles : 1;
}

int64_t lw_table_rows(const struct lw_plan_table *t, const struct lw_plan *p)
{
    return lw_plan_count_at(p, t->n_at) * lw_table_within(t, p);
}

const char *lw_table_at(const struct lw_plan_table *t, const struct lw_plan *p)
{
    return *(const char *const *)(const void *)((const char *)p + t->at);
}

const char *lw_table_row(const struct lw_plan_table *t, const struct lw_plan *p, int64_t i,
                         struct lw_op *room)
{
    if (t == &lw_plan_tables[LW_TABLE_works])
        return (const char *)lw_work_at(p, (int32_t)i);
    if (t != &lw_plan_tables[LW_TABLE_ops])
        return lw_table_at(t, p) + (size_t)i * t->size;
    *room = lw_op_at(p, i);
    return (const char *)room;
}

const int32_t *lw_field_list(const struct lw_plan_field *f, const struct lw_plan *p,
                             const char *row, int32_t *n)
{
    const int32_t *at = (const int32_t *)(const void *)(row + f->at);

    *n = at[1];
    return *(int32_t *const *)(const void *)((const char *)p + f->list) + at[0];
}
