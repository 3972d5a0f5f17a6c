/* A plan into the database, once per hash and times: row by row what reports, plots and joins ask
 * for, and as a whole, so that a stored plan is read, simulated and executed as the one that was
 * stored. Runs inside the transaction of its caller. */
#include "analysis/store/store_plan.h"

#include <stdlib.h>

#include "analysis/store/sql.h"
#include "analysis/store/store.h"
#include "shared/base/arena.h"
#include "shared/files/files.h"
#include "shared/io/input.h"
#include "shared/plan/plan.h"
#include "shared/plan/strategy.h"

static const char *const op_class[] = {"compute", "copy", "collective", "p2p", "memory", "host"};

const char *lw_store_class_name(enum lw_op_kind kind)
{
    return op_class[lw_op_class(kind)];
}

typedef void put_fn(struct lw_sql *q, int64_t id, const struct lw_plan *p);

static void put_options(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    char buf[64];
    for (int i = 0; i < lw_strategy_n_options(); i++)
        lw_sql_run(q, "ltt", id, lw_strategy_option(i)->name,
                   lw_strategy_get(p->strategy, i, buf));
}

static void put_notes(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_notes; i++)
        lw_sql_run(q, "lit", id, i, p->notes[i]);
}

static void put_ranks(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t r = 0; r < p->n_ranks; r++) {
        const int32_t *at = p->coord + 3 * (int64_t)r;
        lw_sql_run(q, "liitiiii", id, r, p->role_of[r], p->roles[p->role_of[r]].name,
                   p->index_in_role[r], at[0], at[1], at[2]);
    }
}

static void put_streams(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_streams; i++)
        lw_sql_run(q, "litti", id, i, p->streams[i].name,
                   lw_stream_class_word(p->streams[i].class_), p->streams[i].priority);
}

static void put_comms(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_comms; i++)
        lw_sql_run(q, "littit", id, i, p->comms[i].name, lw_reducer_name(p->comms[i].reducer),
                   p->comms[i].stream, lw_comm_purpose_word(p->comms[i].purpose));
}

static void put_comm_ranks(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t c = 0; c < p->n_comms; c++)
        for (int32_t r = 0; r < p->n_ranks; r++)
            if (p->comm_group[(int64_t)c * p->n_ranks + r] >= 0)
                lw_sql_run(q, "liii", id, c, r, p->comm_group[(int64_t)c * p->n_ranks + r]);
}

static void put_params(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_params; i++) {
        const struct lw_plan_param *w = &p->params[i];
        lw_sql_run(q, "litltiii", id, i, w->name, w->numel, lw_dtype_name(w->dtype), w->stage,
                   w->module, (int)w->trainable);
    }
}

static void put_buckets(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_buckets; i++) {
        const struct lw_bucket *b = &p->buckets[i];
        const struct lw_bucket_set *set = &p->sets[b->set];
        lw_sql_run(q, "litiitlli", id, i, set->name, set->stage, i - set->first_bucket,
                   lw_dtype_name(b->dtype), b->bytes, b->limit_bytes, b->n_slots);
    }
}

static void put_slots(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_buckets; i++)
        for (struct lw_slot_walk w = {0}; lw_plan_next_slot(p, &p->buckets[i], &w);)
            lw_sql_run(q, "liiil", id, i, w.n - 1, w.slot.param, w.slot.offset);
}

static void put_passes(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_passes; i++)
        lw_sql_run(q, "lii", id, i, p->pass_variant[i]);
}

static void put_programs(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t v = 0; v < p->n_variants; v++)
        for (int32_t r = 0; r < p->n_roles; r++) {
            struct lw_program g = p->programs[(int64_t)v * p->n_roles + r];
            lw_sql_run(q, "liitiii", id, v, r, p->variants[v].name,
                       (int)p->variants[v].ends_step, g.first_op, g.n_ops);
        }
}

static void put_ops(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_ops; i++) {
        const struct lw_op *o = &p->ops[i];
        lw_sql_run(q, "litttiiilliiiiiit", id, i, lw_op_name(o->kind),
                   lw_store_class_name(o->kind), lw_dtype_name(o->dtype), o->stream, o->comm,
                   o->call, o->bytes, lw_plan_work_ps(p, o), o->peer, o->operand, o->module,
                   o->stage, o->micro_batch, o->bucket, o->name);
    }
}

static void put_operands(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t row = 0; row < p->n_operand_rows; row++) {
        int32_t end = row + 1 < p->n_operand_rows ? p->operand_first[row + 1] : p->n_operands;
        for (int32_t i = p->operand_first[row]; i < end; i++)
            lw_sql_run(q, "liilli", id, row, i - p->operand_first[row], p->operands[i].bytes,
                       p->operands[i].offset, p->operands[i].peer);
    }
}

static void put_deps(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_ops; i++)
        for (int32_t k = 0; k < p->ops[i].n_deps; k++)
            lw_sql_run(q, "lii", id, i, p->deps[p->ops[i].first_dep + k]);
}

static void put_ready(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_ops; i++)
        for (int32_t k = 0; k < p->ops[i].n_ready; k++)
            lw_sql_run(q, "lii", id, i, p->ready[p->ops[i].first_ready + k]);
}

static const struct {
    const char *insert;
    put_fn *put;
} tables[] = {
    {"INSERT INTO plan_option VALUES (?,?,?)", put_options},
    {"INSERT INTO plan_note VALUES (?,?,?)", put_notes},
    {"INSERT INTO plan_rank VALUES (?,?,?,?,?,?,?,?)", put_ranks},
    {"INSERT INTO stream VALUES (?,?,?,?,?)", put_streams},
    {"INSERT INTO comm VALUES (?,?,?,?,?,?)", put_comms},
    {"INSERT INTO comm_rank VALUES (?,?,?,?)", put_comm_ranks},
    {"INSERT INTO param VALUES (?,?,?,?,?,?,?,?)", put_params},
    {"INSERT INTO bucket VALUES (?,?,?,?,?,?,?,?,?)", put_buckets},
    {"INSERT INTO slot VALUES (?,?,?,?,?)", put_slots},
    {"INSERT INTO pass VALUES (?,?,?)", put_passes},
    {"INSERT INTO program VALUES (?,?,?,?,?,?,?)", put_programs},
    {"INSERT INTO op VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", put_ops},
    {"INSERT INTO operand VALUES (?,?,?,?,?,?)", put_operands},
    {"INSERT OR IGNORE INTO dep VALUES (?,?,?)", put_deps},
    {"INSERT OR IGNORE INTO ready VALUES (?,?,?)", put_ready},
};

/* The plan as its file has it: what the tables leave out is in it. */
static enum lw_status put_file(struct lw_store *s, int64_t id, const struct lw_plan *p,
                               struct lw_err *err)
{
    char *text = NULL, *packed = NULL;
    size_t len = 0, n = 0;

    LW_TRY(lw_plan_write_text(p, &text, &len, err));
    enum lw_status st = lw_gzip_pack(text, len, &packed, &n, err);
    free(text);
    LW_TRY(st);
    st = lw_sql_do(s, err, "INSERT INTO plan_file VALUES (?,?)", "lb", id, packed, n);
    lw_free(packed);
    return st;
}

static enum lw_status hash_plan(struct lw_store *s, int64_t id, struct lw_err *err)
{
    const struct lw_run run = {.id = -1, .plan = id};
    struct lw_input in;
    struct lw_plan p;
    struct lw_err why = {0};
    char times[33];

    enum lw_status st = lw_store_plan_file(s, &run, "plan", &in, &why);
    if (st == LW_OK) {
        st = lw_plan_read_text("plan", in.text, in.len, true, &p, &why);
        lw_input_free(&in);
    }
    if (st != LW_OK)
        return st == LW_ENOMEM ? lw_fail_nomem(err) : LW_OK; /* it is told when it is loaded */
    st = lw_plan_hash_times(&p, times, err);
    if (st == LW_OK)
        st = lw_sql_do(s, err, "UPDATE plan SET hash = ?, times = ? WHERE id = ?", "ttl", p.hash,
                       times, id);
    lw_plan_free(&p);
    return st;
}

enum lw_status lw_store_hash_plans(struct lw_store *s, struct lw_err *err)
{
    for (int64_t id = 0;;) {
        LW_TRY(lw_sql_number(s, &id, err, "SELECT min(plan) FROM plan_file WHERE plan > ?", "l",
                             id));
        if (id <= 0)
            return LW_OK;
        LW_TRY(hash_plan(s, id, err));
    }
}

enum lw_status lw_store_put_plan(struct lw_store *s, const struct lw_plan *p, int64_t *id,
                                 struct lw_err *err)
{
    struct lw_sql *q;
    char times[33];

    if (!p->hash[0])
        return lw_fail(err, LW_EINVAL, "plan '%s' has no hash: it cannot be stored", p->name);
    LW_TRY(lw_plan_hash_times(p, times, err));
    LW_TRY(lw_sql_number(s, id, err, "SELECT id FROM plan WHERE hash = ? AND times = ?", "tt",
                         p->hash, times));
    if (*id > 0)
        return LW_OK;
    LW_TRY(lw_sql_do(s, err,
                     "INSERT INTO plan (hash, name, n_ranks, n_stages, n_params, n_buckets,"
                     " n_ops, bucket_cap_bytes, repeat_from, workload_hash, cluster_name, times)"
                     " VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
                     "ttiiiiilittt", p->hash, p->name ? p->name : "", p->n_ranks, p->n_stages,
                     p->n_params, p->n_buckets, p->n_ops, p->strategy->bucket_cap_bytes,
                     p->repeat_from, p->workload_hash, p->cluster_name, times));
    *id = lw_sql_last_id(s);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        LW_TRY(lw_sql_prepare(s, tables[i].insert, &q, err));
        tables[i].put(q, *id, p);
        LW_TRY(lw_sql_finish(q, err));
    }
    return put_file(s, *id, p, err);
}
