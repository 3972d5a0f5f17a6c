/* The format of plan files: docs/formats/plan.md. Rows have the fields of plan_tables.c; here are
 * order of tables, and what a row has beside the fields of its table. */
#include "shared/files/files_plan_rows.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "shared/files/files_strategy.h"
#include "shared/plan/op.h"
#include "shared/workload/buffer.h"
#include "shared/workload/product.h"
#include "shared/workload/sparse.h"

/* --- fields of a table ------------------------------------------------------------------------ */

static void append(struct lw_plan_format *m, struct lw_field f)
{
    assert(m->n < LW_PLAN_FORMAT_FIELDS);
    m->fields[m->n++] = f;
}

static void append_all(struct lw_plan_format *m, const struct lw_field *fields)
{
    while (fields && fields->name)
        append(m, *fields++);
}

static enum lw_field_kind kind_of(const struct lw_plan_field *f)
{
    return f->kind == LW_PF_TEXT  ? LW_FIELD_STRING
           : f->kind == LW_PF_BIT ? LW_FIELD_BOOL
           : f->n_list            ? LW_FIELD_INTS32
           : f->word              ? LW_FIELD_WORD
           : f->is_ps             ? LW_FIELD_NS
           : f->size == 8         ? LW_FIELD_INT64
                                  : LW_FIELD_INT32;
}

/* -1, nothing or unknown, is written by leaving the field out; what refers to a table is verified
 * when the plan is packed. */
static struct lw_field field_of(const struct lw_plan_field *f, size_t list_at)
{
    enum lw_field_kind kind = kind_of(f);
    bool sized = kind == LW_FIELD_INT32 || kind == LW_FIELD_WORD;
    int64_t most = f->n_list ? INT64_MAX : INT64_MAX >> (64 - 8 * f->size);

    return (struct lw_field){
        .name = f->key ? f->key : f->name, .kind = kind, .must = f->must,
        .at = f->n_list ? list_at : f->at, .n_at = f->at + sizeof(int32_t), .absent = f->absent,
        .least = f->ranged ? 0 : -most, .most = most, .word = f->word,
        .size = sized ? f->size : 0, .null_is_minus_1 = f->or_null,
    };
}

size_t lw_plan_row_lists(enum lw_plan_table_id id)
{
    size_t align = sizeof(int32_t *);

    return (lw_plan_tables[id].size + align - 1) / align * align;
}

size_t lw_plan_row_size(enum lw_plan_table_id id)
{
    size_t size = lw_plan_row_lists(id);

    for (const struct lw_plan_field *f = lw_plan_tables[id].fields; f->name; f++)
        size += f->n_list && !f->derived ? sizeof(int32_t *) : 0;
    return size;
}

/* The fields of a table's rows, with others before and after them. */
static const struct lw_field *rows(struct lw_plan_format *m, enum lw_plan_table_id id,
                                   const struct lw_field *before, const struct lw_field *after)
{
    const struct lw_field *first = m->fields + m->n;

    append_all(m, before);
    for (int place = LW_PLAN_FIRST_PLACE; place <= LW_PLAN_LAST_PLACE; place++) {
        size_t list_at = lw_plan_row_lists(id);
        for (const struct lw_plan_field *f = lw_plan_tables[id].fields; f->name; f++) {
            if (f->place == place && !f->derived)
                append(m, field_of(f, list_at));
            list_at += f->n_list && !f->derived ? sizeof(int32_t *) : 0;
        }
    }
    append_all(m, after);
    append(m, (struct lw_field){0});
    return first;
}

static const struct lw_field *kept(struct lw_plan_format *m, const struct lw_field *fields)
{
    const struct lw_field *first = m->fields + m->n;

    append_all(m, fields);
    append(m, (struct lw_field){0});
    return first;
}

/* --- what rows have beside them --------------------------------------------------------------- */

#define AT(field) offsetof(struct rank_row, field)
static const struct lw_field rank_fields[] = {
    LW_F_MUST_INT32("role", AT(role)),
    LW_F_INT32("dp", AT(dp), 0),
    LW_F_INT32("pp", AT(pp), 0),
    LW_F_INT32("tp", AT(tp), 0),
    {0},
};
#undef AT

static const struct lw_field groups_of_comm[] = {
    LW_F_ITEMS("groups", INTS32, offsetof(struct comm_row, groups),
               offsetof(struct comm_row, n_groups)),
    {0},
};

static const struct lw_field slots_of_bucket[] = {
    LW_F_ITEMS("params", INTS32, offsetof(struct bucket_row, params),
               offsetof(struct bucket_row, n_params)),
    LW_F_ITEMS("offsets", INTS64, offsetof(struct bucket_row, offsets),
               offsetof(struct bucket_row, n_offsets)),
    {0},
};

static const struct lw_field place_of_program[] = {
    LW_F_MUST_INT32("variant", offsetof(struct program_row, variant)),
    LW_F_MUST_INT32("role", offsetof(struct program_row, role)),
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
    LW_F_BOOL("fp4", AT(fp4), false),
    LW_F_BOOL("tf32", AT(tf32), false),
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

/* --- the file --------------------------------------------------------------------------------- */

/* Row i of the plan with the lists that its fields name: files of many micro-batches have millions
 * of ops, and all rows at once would take as much memory as the plan. */
static void make_row(const struct plan_file *f, enum lw_plan_table_id id, int32_t i, char *row)
{
    const struct lw_plan_table *t = &lw_plan_tables[id];
    char *list_at = row + lw_plan_row_lists(id);
    struct lw_op op;
    int32_t n_items;

    assert(lw_plan_row_size(id) <= LW_MADE_STRUCT);
    const char *from = lw_table_row(t, &f->plan, i, &op);
    memcpy(row, from, t->size);
    for (const struct lw_plan_field *x = t->fields; x->name; x++)
        if (x->n_list && !x->derived) {
            const int32_t *items = lw_field_list(x, &f->plan, from, &n_items);
            memcpy(list_at, &items, sizeof items);
            list_at += sizeof items;
        }
}

#define MAKES(table)                                                                 \
    static void make_row_of_##table(const void *base, int32_t i, void *room)         \
    {                                                                                \
        make_row(base, LW_TABLE_##table, i, room);                                   \
    }
MAKES(groups)
MAKES(works)
MAKES(ops)

#define AT(field) offsetof(struct plan_file, field)
/* Rows as they are in the plan; rows with their lists. */
#define PLAIN(key, table) \
    LW_F_LIST(key, AT(plan.table), AT(plan.n_##table), rows(m, LW_TABLE_##table, NULL, NULL), \
              *((struct lw_plan *)0)->table)
#define WITH_LISTS(key, table)                                                             \
    {.name = key, .kind = LW_FIELD_LIST, .at = AT(lists[LW_TABLE_##table].rows),           \
     .n_at = AT(lists[LW_TABLE_##table].n), .size = lw_plan_row_size(LW_TABLE_##table),            \
     .fields = rows(m, LW_TABLE_##table, NULL, NULL), .make = make_row_of_##table}
const struct lw_field *lw_plan_file_fields(struct lw_plan_format *m)
{
    m->n = 0;
    const struct lw_field buckets_of_set[] = {
        LW_F_LIST("buckets", offsetof(struct set_row, buckets), offsetof(struct set_row, n_buckets),
                  rows(m, LW_TABLE_buckets, NULL, slots_of_bucket), struct bucket_row),
        {0},
    };
    const struct lw_field of_ranks[] = {
        LW_F_LIST("of_ranks", offsetof(struct operands_row, of_ranks),
                  offsetof(struct operands_row, n), rows(m, LW_TABLE_operands, NULL, NULL),
                  struct lw_operand),
        {0},
    };
    const struct lw_field file[] = {
        LW_F_HEAD,
        LW_F("format", INT32, AT(format), .absent = 1, .least = 1, .most = LW_PLAN_FORMAT),
        LW_F_NAME("name", AT(plan.name)),
        LW_F_STRING("hash", AT(hash)),
        LW_F_STRING("workload_hash", AT(plan.workload_hash)),
        LW_F_STRING("cluster", AT(plan.cluster_name)),
        LW_F_STRING("device", AT(plan.device)),
        LW_F_STRING("framework", AT(plan.framework)),
        LW_F_STRING("framework_hash", AT(plan.framework_hash)),
        LW_F("rules", INT32, AT(plan.rules), .most = INT32_MAX),
        LW_F_STRING("optimizer", AT(plan.optimizer)),
        LW_F_OBJECT("dims", AT(plan.dims), lw_model_dims_fields),
        LW_F("state_bytes", INT64, AT(plan.own_states), .most = 100),
        LW_F("last_spares", INT64, AT(plan.last_spares), .least = -INT64_MAX, .most = INT64_MAX),
        LW_F_OBJECT("a_step_yields", AT(plan.yield), yield_fields),
        LW_F_OWN("strategy", read_strategy, write_strategy),
        LW_F_ITEMS("notes", STRINGS, AT(plan.notes), AT(plan.n_notes)),
        LW_F_ITEMS("from_times", STRINGS, AT(plan.from_times), AT(plan.n_from_times)),
        LW_F_INT32("n_stages", AT(plan.n_stages), 1),
        LW_F_LIST("ranks", AT(ranks), AT(n_rank_rows), rank_fields, struct rank_row),
        PLAIN("roles", roles),
        PLAIN("streams", streams),
        WITH_LISTS("groups", groups),
        LW_F_LIST("comms", AT(comms), AT(n_comm_rows),
                  rows(m, LW_TABLE_comms, NULL, groups_of_comm), struct comm_row),
        PLAIN("params", params),
        PLAIN("buffers", buffers),
        LW_F("stage_of_module", INTS32, AT(plan.stage_of), .n_at = AT(plan.n_modules), .least = -1,
             .most = INT32_MAX),
        LW_F_ITEMS("whole_params", INTS32, AT(plan.whole), AT(plan.n_whole)),
        PLAIN("sparse", sparse),
        LW_F_LIST("bucket_sets", AT(sets), AT(n_set_rows),
                  rows(m, LW_TABLE_sets, NULL, buckets_of_set), struct set_row),
        PLAIN("shards", shards),
        PLAIN("products", products),
        WITH_LISTS("works", works),
        PLAIN("variants", variants),
        LW_F_ITEMS("passes", INTS32, AT(plan.pass_variant), AT(plan.n_passes)),
        LW_F_INT32("repeat_from", AT(plan.repeat_from), 0),
        LW_F_LIST("programs", AT(programs), AT(n_program_rows),
                  rows(m, LW_TABLE_programs, place_of_program, NULL), struct program_row),
        WITH_LISTS("ops", ops),
        LW_F_LIST("operands", AT(operands), AT(n_operand_rows), kept(m, of_ranks),
                  struct operands_row),
        {0},
    };
    return kept(m, file);
}
#undef AT
