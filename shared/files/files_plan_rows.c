/* The format of plan files: docs/formats/plan.md. */
#include "shared/files/files_plan_rows.h"

#include <stddef.h>

#include "shared/files/files_strategy.h"
#include "shared/plan/buffer.h"
#include "shared/plan/op.h"
#include "shared/plan/product.h"
#include "shared/plan/sparse.h"

static const char *reducer_word(int k)
{
    return k >= 0 && k < LW_N_REDUCERS ? lw_reducer_name((enum lw_reducer_kind)k) : NULL;
}

static const char *set_kind_word(int k)
{
    return k >= 0 && k < LW_BUCKET_SPARSE ? lw_bucket_kind_name((enum lw_bucket_kind)k) : NULL;
}

/* -1 is nothing, or unknown; what allows it is verified when the plan is packed */
#define INDEX(json, at_) LW_F_INT32(json, at_, -1)

#define AT(field) offsetof(struct rank_row, field)
static const struct lw_field rank_fields[] = {
    LW_F_MUST_INT32("role", AT(role)),
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
    LW_F_MUST_WORD("class", AT(class_), lw_stream_class_word),
    LW_F("priority", INT32, AT(priority), .least = INT32_MIN, .most = INT32_MAX),
    {0},
};
#undef AT

static const struct lw_field group_fields[] = {
    LW_F_ITEMS("members", INTS32, offsetof(struct group_row, members),
               offsetof(struct group_row, n_members)),
    {0},
};

#define AT(field) offsetof(struct comm_row, field)
static const struct lw_field comm_fields[] = {
    LW_F_NAME("name", AT(comm.name)),
    LW_F_MUST_WORD("purpose", AT(comm.purpose), lw_comm_purpose_word),
    LW_F_WORD("reducer", AT(comm.reducer), reducer_word),
    LW_F_MUST_INT32("stream", AT(comm.stream)),
    LW_F_ITEMS("groups", INTS32, AT(groups), AT(n_groups)),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_plan_param, field)
static const struct lw_field param_fields[] = {
    LW_F_NAME("name", AT(name)),
    LW_F_MUST_INT64("numel", AT(numel)),
    LW_F_BYTE_WORD("dtype", AT(dtype), lw_dtype_word),
    LW_F_INT16("stage", AT(stage), 0),
    INDEX("module", AT(module)),
    LW_F_INT8("device", AT(device), 0),
    INDEX("tied", AT(tied)),
    LW_F_BOOL("trainable", AT(trainable), true),
    LW_F_BOOL("sparse", AT(sparse), false),
    LW_F_BOOL("used", AT(used), true),
    LW_F_BOOL("ignored", AT(ignored), false),
    LW_F_BOOL("expert", AT(expert), false),
    {0},
};
#undef AT

#define AT(field) offsetof(struct bucket_row, field)
static const struct lw_field bucket_fields[] = {
    LW_F_WORD("dtype", AT(bucket.dtype), lw_dtype_word),
    LW_F_MUST_INT64("bytes", AT(bucket.bytes)),
    LW_F_INT64("limit_bytes", AT(bucket.limit_bytes), 0),
    LW_F_ITEMS("params", INTS32, AT(params), AT(n_params)),
    LW_F_ITEMS("offsets", INTS64, AT(offsets), AT(n_offsets)),
    {0},
};
#undef AT

#define AT(field) offsetof(struct set_row, field)
static const struct lw_field set_fields[] = {
    LW_F_NAME("name", AT(set.name)),
    LW_F("kind", WORD, AT(set.kind), .word = set_kind_word, .absent = -1),
    LW_F_INT32("stage", AT(set.stage), 0),
    LW_F_LIST("buckets", AT(buckets), AT(n_buckets), bucket_fields, struct bucket_row),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_shard, field)
static const struct lw_field shard_fields[] = {
    LW_F_MUST_INT32("param", AT(param)),
    INDEX("owner", AT(owner)),
    LW_F_INT64("first", AT(first), 0),
    LW_F_MUST_INT64("numel", AT(numel)),
    {0},
};
#undef AT

#define AT(field) offsetof(struct work_row, field)
static const struct lw_field work_fields[] = {
    LW_F_NS("ns", AT(work.ps), -1),
    LW_F_INT64("flops", AT(work.flops), -1),
    LW_F_INT64("bytes", AT(work.bytes), -1),
    LW_F("keeps_bytes", INT64, AT(work.keeps_bytes), .least = -INT64_MAX, .most = INT64_MAX),
    LW_F_ITEMS("products", INTS32, AT(products), AT(work.n_products)),
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
    LW_F_MUST_INT32("variant", AT(variant)),
    LW_F_MUST_INT32("role", AT(role)),
    LW_F_MUST_INT32("first_op", AT(first_op)),
    LW_F_MUST_INT32("n_ops", AT(n_ops)),
    {0},
};
#undef AT

#define AT(field) offsetof(struct op_row, field)
static const struct lw_field op_fields[] = {
    LW_F("kind", WORD, AT(op.kind), .must = true, .word = lw_op_word, .size = 1),
    LW_F_STRING("name", AT(op.name)),
    LW_F_MUST_INT32("stream", AT(op.stream)),
    LW_F_ITEMS("deps", INTS32, AT(deps), AT(op.n_deps)),
    INDEX("work", AT(op.work)),
    LW_F("work_ns", NS, AT(op.work_ps), .most = INT64_MAX, .null_is_minus_1 = true),
    LW_F_BYTE_WORD("dtype", AT(op.dtype), lw_dtype_word),
    INDEX("comm", AT(op.comm)),
    INDEX("call", AT(op.call)),
    LW_F_INT64("bytes", AT(op.bytes), 0),
    INDEX("peer", AT(op.peer)),
    INDEX("operand", AT(op.operand)),
    INDEX("module", AT(op.module)),
    LW_F_INT16("stage", AT(op.stage), -1),
    INDEX("micro_batch", AT(op.micro_batch)),
    INDEX("bucket", AT(op.bucket)),
    LW_F_ITEMS("ready", INTS32, AT(ready), AT(op.n_ready)),
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

#define AT(field) offsetof(struct lw_step_yield, field)
static const struct lw_field yield_fields[] = {
    LW_F_INT64("samples", AT(samples), 0),
    LW_F_INT64("tokens", AT(tokens), 0),
    LW_F("model_flops", REAL, AT(model_flops)),
    LW_F("hardware_flops", REAL, AT(hardware_flops)),
    LW_F_BYTE_WORD("dtype", AT(dtype), lw_dtype_word),
    LW_F_BOOL("fp8", AT(fp8), false),
    {0},
};
#undef AT

static void read_strategy(struct lw_fields *r, void *base)
{
    lw_strategy_fields_read(r, ((struct plan_file *)base)->plan.strategy);
}

static void write_strategy(struct lw_jsonout *o, const struct lw_field *f, const void *base)
{
    lw_strategy_fields_write(o, f->name, ((const struct plan_file *)base)->plan.strategy);
}

#define AT(field) offsetof(struct plan_file, field)
const struct lw_field lw_plan_file_fields[] = {
    LW_F_HEAD,
    LW_F("format", INT32, AT(format), .absent = 1, .least = 1, .most = LW_PLAN_FORMAT),
    LW_F_NAME("name", AT(plan.name)),
    LW_F_STRING("hash", AT(hash)),
    LW_F_STRING("workload_hash", AT(plan.workload_hash)),
    LW_F_STRING("cluster", AT(plan.cluster_name)),
    LW_F_STRING("device", AT(plan.device)),
    LW_F_STRING("framework", AT(plan.framework)),
    LW_F_STRING("framework_hash", AT(plan.framework_hash)),
    LW_F_OBJECT("dims", AT(plan.dims), lw_model_dims_fields),
    LW_F_OBJECT("a_step_yields", AT(plan.yield), yield_fields),
    LW_F_OWN("strategy", read_strategy, write_strategy),
    LW_F_ITEMS("notes", STRINGS, AT(plan.notes), AT(plan.n_notes)),
    LW_F_ITEMS("from_times", STRINGS, AT(plan.from_times), AT(plan.n_from_times)),
    LW_F_INT32("n_stages", AT(plan.n_stages), 1),
    LW_F_LIST("ranks", AT(ranks), AT(n_rank_rows), rank_fields, struct rank_row),
    LW_F_LIST("roles", AT(plan.roles), AT(plan.n_roles), role_fields, struct lw_role),
    LW_F_LIST("streams", AT(plan.streams), AT(plan.n_streams), stream_fields, struct lw_stream),
    LW_F_LIST("groups", AT(groups), AT(n_group_rows), group_fields, struct group_row),
    LW_F_LIST("comms", AT(comms), AT(n_comm_rows), comm_fields, struct comm_row),
    LW_F_LIST("params", AT(plan.params), AT(plan.n_params), param_fields, struct lw_plan_param),
    LW_F_LIST("buffers", AT(plan.buffers), AT(plan.n_buffers), lw_buffer_fields, struct lw_buffer),
    LW_F("stage_of_module", INTS32, AT(plan.stage_of), .n_at = AT(plan.n_modules), .least = -1,
         .most = INT32_MAX),
    LW_F_ITEMS("whole_params", INTS32, AT(plan.whole), AT(plan.n_whole)),
    LW_F_LIST("sparse", AT(plan.sparse), AT(plan.n_sparse), lw_sparse_fields, struct lw_sparse),
    LW_F_LIST("bucket_sets", AT(sets), AT(n_set_rows), set_fields, struct set_row),
    LW_F_LIST("shards", AT(plan.shards), AT(plan.n_shards), shard_fields, struct lw_shard),
    LW_F_LIST("products", AT(plan.products), AT(plan.n_products), lw_product_fields,
              struct lw_product),
    LW_F_LIST("works", AT(works), AT(n_work_rows), work_fields, struct work_row),
    LW_F_LIST("variants", AT(plan.variants), AT(plan.n_variants), variant_fields,
              struct lw_variant),
    LW_F_ITEMS("passes", INTS32, AT(plan.pass_variant), AT(plan.n_passes)),
    LW_F_INT32("repeat_from", AT(plan.repeat_from), 0),
    LW_F_LIST("programs", AT(programs), AT(n_program_rows), program_fields, struct program_row),
    LW_F_LIST("ops", AT(ops), AT(n_op_rows), op_fields, struct op_row),
    LW_F_LIST("operands", AT(operands), AT(n_operand_rows), operands_fields, struct operands_row),
    {0},
};
#undef AT
