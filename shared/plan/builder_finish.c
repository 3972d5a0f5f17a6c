/* What a builder has becomes a plan: its tables go to one arena. */
#include "shared/plan/builder_inside.h"

#include <string.h>

/* Hand the tables to the plan's arena as they are, cut to their length: always a pointer, also for
 * an empty one. */
static void settle_tables(struct lw_builder *b)
{
    for (; !b->failed && b->n_settled < LW_N_TABLES; b->n_settled += !b->failed) {
        int t = b->n_settled;
        if (!lw_table_grows(t) || (t == LW_TABLE_ops && b->shares) ||
            (t == LW_TABLE_works && b->shares_works))
            continue;
        void *cut = lw_realloc(lw_builder_items(b, t),
                               (size_t)*lw_builder_number(b, t) * lw_plan_tables[t].size);
        if (cut)
            memcpy(lw_builder_items_at(b, t), &cut, sizeof cut);
        b->failed = !cut || lw_arena_adopt(&b->plan.arena, cut) != 0;
    }
}

static void settle_ops(struct lw_builder *b)
{
    struct lw_plan *p = &b->plan;

    lw_builder_close_op(b);
    if (b->failed || !b->shares)
        return;
    b->shares = false;
    if (p->n_ops > 0 && p->n_ops >= b->share_least) {
        b->failed = lw_op_rows_settle(p, &b->sharing, NULL) != LW_OK;
        return;
    }
    b->failed = lw_plan_write_ops(p, NULL) != LW_OK;
    lw_op_rows_free(p, &b->sharing);
}

static void settle_works(struct lw_builder *b)
{
    struct lw_plan *p = &b->plan;
    struct lw_work *rows = p->work_rows;
    int32_t *row = p->work_row;

    if (b->failed || !b->shares_works)
        return;
    if (p->n_ops >= b->share_least) {
        b->shares_works = false;
        b->failed = lw_work_rows_settle(p, &b->work_sharing, NULL) != LW_OK;
        return;
    }
    b->failed = lw_plan_write_works(p, NULL) != LW_OK;
    if (b->failed)
        return;
    b->shares_works = false;
    lw_free(rows);
    lw_free(row);
    lw_free(b->work_sharing.found);
}

/* NULL where all rows are written out. */
static void settle_rules(struct lw_builder *b)
{
    if (b->failed || !b->plan.operand_rules)
        return;
    if (!b->has_rules)
        lw_free(b->plan.operand_rules);
    else
        b->failed = lw_arena_adopt(&b->plan.arena, b->plan.operand_rules) != 0;
    if (!b->has_rules)
        b->plan.operand_rules = NULL;
    b->rules_settled = !b->failed;
}

/* Runs of shards in place of whole ones, which then are none. */
static void settle_runs(struct lw_builder *b)
{
    struct lw_plan *p = &b->plan;

    if (b->failed || p->n_shard_runs == 0)
        return;
    b->failed = lw_arena_adopt(&p->arena, p->shard_runs) != 0;
    b->runs_settled = !b->failed;
    p->shards = NULL; /* the arena's, and empty */
}

/* The rules of ranks added as a grid go to the plan's arena. */
static void settle_grid(struct lw_builder *b)
{
    struct lw_plan *p = &b->plan;

    if (b->failed || b->grid.axis[0].count == 0)
        return;
    p->grid = lw_arena_alloc(&p->arena, 1, sizeof *p->grid);
    struct lw_comm_rule *comms = lw_arena_alloc(&p->arena, p->n_comms, sizeof *comms);
    b->failed = !p->grid || !comms;
    if (b->failed)
        return;
    if (b->by_rules)
        p->comm_group = p->members = NULL;
    *p->grid = b->grid;
    p->grid->comms = comms;
    p->grid->n_comms = p->n_comms;
    if (p->n_comms > 0)
        memcpy(comms, b->grid.comms, (size_t)p->n_comms * sizeof *comms);
}

static void count_ranks(struct lw_builder *b)
{
    struct lw_plan *p = &b->plan;

    if (b->by_rules) {
        for (int32_t r = 0; !b->failed && r < p->n_roles; r++)
            p->roles[r].n_ranks = p->n_ranks / p->n_roles;
        return;
    }
    lw_builder_make_ranks(b);
    p->index_in_role = lw_arena_alloc(&p->arena, p->n_ranks, sizeof *p->index_in_role);
    b->failed = b->failed || !p->index_in_role;
    for (int32_t r = 0; !b->failed && r < p->n_ranks; r++)
        p->index_in_role[r] = p->roles[p->role_of[r]].n_ranks++;
}

static void count(struct lw_builder *b)
{
    struct lw_plan *p = &b->plan;

    count_ranks(b);
    for (int32_t v = 0; !b->failed && v < p->n_variants; v++)
        for (int32_t s = 0; s < p->n_sets; s++)
            p->variants[v].n_sets += lw_plan_uses_set(p, v, s);
    for (int32_t s = 0; s < p->n_sets; s++)
        p->n_stages = p->sets[s].stage >= p->n_stages ? p->sets[s].stage + 1 : p->n_stages;
    for (int32_t r = 0; r < p->n_roles; r++)
        p->n_stages = p->roles[r].stage >= p->n_stages ? p->roles[r].stage + 1 : p->n_stages;
}

enum lw_status lw_builder_finish(struct lw_builder *b, struct lw_plan *plan, struct lw_err *err)
{
    if (!b)
        return lw_fail_nomem(err);
    lw_builder_close_list(b);
    lw_builder_close_work(b);
    lw_builder_clear_groups(b);
    settle_tables(b);
    settle_works(b);
    settle_ops(b);
    settle_rules(b);
    settle_runs(b);
    settle_grid(b);
    count(b);
    b->plan.workload_hash = b->plan.cluster_name = b->plan.device = "";
    b->plan.framework = b->plan.framework_hash = b->plan.optimizer = "";
    enum lw_status s = b->failed  ? lw_fail_nomem(err)
                       : b->draft ? LW_OK
                                  : lw_plan_hash(&b->plan, err);
    if (s == LW_OK) {
        *plan = b->plan;
        b->plan.arena = (struct lw_arena){0};
    }
    lw_builder_free(b);
    return s;
}
