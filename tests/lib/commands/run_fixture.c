/* Stored runs that are small enough to check by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "shared/plan/plan_builder.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/commands/old_plan.h"
#include "tests/lib/commands/run_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/sql_file.h"

char runs_db[128];

static const int64_t two[] = {1048576, 4194304}, one[] = {5242880};

const struct fixture_run
    runs_predicted = {.kind = LW_RUN_SIM, .sizes = two, .n_buckets = 2, .n_steps = 1,
                      .wire_us = 100, .cap_bytes = 1048576},
    runs_measured = {.kind = LW_RUN_EXEC, .sizes = two, .n_buckets = 2, .n_steps = 4,
                     .wire_us = 140, .cap_bytes = 1048576, .n_warmup = 1},
    runs_one_bucket = {.kind = LW_RUN_SIM, .sizes = one, .n_buckets = 1, .n_steps = 1,
                       .wire_us = 150, .cap_bytes = 26214400};

int runs_open(void **state)
{
    fixture_open(state);
    snprintf(runs_db, sizeof runs_db, "%s", fixture_path("lapwing.db"));
    return 0;
}

void runs_sql(const char *sql)
{
    sql_do(runs_db, sql);
}

void runs_rows_sql(const char *sql)
{
    make_pieces_old(runs_db);
    sql_do(runs_db, sql);
}

void runs_change_spans(const char *sql)
{
    struct lw_store *s;
    struct lw_err err = {0};

    make_spans_old(runs_db);
    sql_do(runs_db, sql);
    assert_int_equal(lw_store_open(runs_db, LW_STORE_WRITE, &s, &err), LW_OK);
    lw_store_close(s);
}

enum { COMPUTE, WIRE, FORWARD = 0, BACKWARD, FIRST_BUCKET };

static int32_t add_op(struct lw_builder *b, enum lw_op_kind kind, int32_t stream, int32_t bucket,
                      int64_t bytes, int32_t dep)
{
    struct lw_op op = lw_builder_blank(kind, stream);

    op.bucket = bucket;
    op.bytes = bytes;
    op.comm = bucket >= 0 ? 0 : -1;
    op.module = bucket >= 0 ? -1 : 0;
    return lw_builder_op(b, &op, &dep, dep >= 0 ? 1 : 0);
}

static void make_plan(const struct fixture_run *f, struct lw_plan *p)
{
    struct lw_builder *b = lw_builder_new("fixture", 2);
    struct lw_strategy s = lw_strategy_default();
    struct lw_err err = {0};
    int32_t both[] = {0, 1};

    s.dp = 2;
    s.bucket_cap_bytes = f->cap_bytes;
    lw_builder_strategy(b, &s);
    int32_t role = lw_builder_role(b, &(struct lw_role){.name = "all",
                                                        .static_bytes[LW_MEM_PARAMS] = 4096});
    for (int32_t r = 0; r < 2; r++)
        lw_builder_rank(b, r, role, r, 0, 0);
    lw_builder_stream(b, "compute", LW_STREAM_COMPUTE, 0);
    lw_builder_stream(b, "comm", LW_STREAM_COMM, 1);
    lw_builder_comm(b, "data", LW_COMM_DATA, LW_REDUCER_RING, WIRE);
    lw_builder_group(b, 0, both, 2);
    lw_builder_module(b, 0);
    for (int32_t k = 0; k < f->n_buckets; k++)
        lw_builder_param(b, &(struct lw_plan_param){.name = "w<&>", .numel = f->sizes[k] / 4,
                                                    .tied = -1, .trainable = true, .used = true});
    lw_builder_set(b, LW_BUCKET_GRADIENTS, "initial", 0);
    for (int32_t k = 0; k < f->n_buckets; k++)
        lw_builder_bucket(b, &(struct lw_bucket){.bytes = f->sizes[k],
                                                 .limit_bytes = f->cap_bytes},
                          &(struct lw_slot){.param = k, .offset = 0}, 1);
    int32_t v = lw_builder_variant(b, "steady", "initial", true);
    lw_builder_program(b, v, role);
    int32_t last = add_op(b, LW_OP_FORWARD, COMPUTE, -1, 0, -1);
    last = add_op(b, LW_OP_BACKWARD, COMPUTE, -1, 0, last);
    for (int32_t k = 0; k < f->n_buckets; k++)
        last = add_op(b, LW_OP_ALL_REDUCE, WIRE, k, f->sizes[k], BACKWARD);
    add_op(b, LW_OP_OPTIMIZER, COMPUTE, -1, 0, last);
    lw_builder_pass(b, v);
    assert_int_equal(lw_builder_finish(b, p, &err), LW_OK);
}

static void add_span(struct lw_timeline *t, lw_ps t0, int32_t step, int32_t rank, int32_t op,
                     enum lw_op_kind kind, const int64_t us[5])
{
    struct lw_err err = {0};
    bool wire = kind == LW_OP_ALL_REDUCE;
    struct lw_span v = {
        .step = step, .rank = rank, .op = op, .kind = kind, .stream = wire ? WIRE : COMPUTE,
        .comm = wire ? 0 : -1, .ready = t0 + us[0] * LW_PS_PER_US,
        .issue = t0 + us[1] * LW_PS_PER_US, .start = t0 + us[2] * LW_PS_PER_US,
        .all_in = us[3] < 0 ? -1 : t0 + us[3] * LW_PS_PER_US, .end = t0 + us[4] * LW_PS_PER_US,
    };
    assert_int_equal(lw_timeline_add(t, &v, &err), LW_OK);
}

/* From t0 on; returns its end. */
static lw_ps add_step(struct lw_timeline *t, const struct fixture_run *f, lw_ps t0, int32_t step,
                      int32_t rank)
{
    int64_t wire = f->wire_us * (step < f->n_warmup ? 10 : 1), free_at = 0, end = 300;

    add_span(t, t0, step, rank, FORWARD, LW_OP_FORWARD, (int64_t[]){0, 0, 0, -1, 100});
    add_span(t, t0, step, rank, BACKWARD, LW_OP_BACKWARD, (int64_t[]){100, 100, 100, -1, 300});
    for (int32_t k = 0; k < f->n_buckets; k++) {
        int64_t ready = 200 + 50 * k, own = ready + (rank ? 12 : 2), last = ready + 12;
        int64_t start = own > free_at ? own : free_at, all_in = last > free_at ? last : free_at;
        free_at = all_in + wire;
        add_span(t, t0, step, rank, FIRST_BUCKET + k, LW_OP_ALL_REDUCE,
                 (int64_t[]){ready, ready + 1, start, all_in, free_at});
    }
    end = free_at > end ? free_at : end;
    add_span(t, t0, step, rank, FIRST_BUCKET + f->n_buckets, LW_OP_OPTIMIZER,
             (int64_t[]){end, end, end, -1, end + 20});
    return t0 + (end + 20) * LW_PS_PER_US;
}

int64_t runs_store(const struct fixture_run *f)
{
    struct lw_figure speed = {.value = 1e9, .source = "measured"};
    struct lw_cluster c = {.name = "two cores", .n_nodes = 1, .devices_per_node = 2,
                           .device = {.kind = "cpu", .copy_bytes_per_s = speed}};
    struct lw_workload w = {.name = "toy", .from = {.hash = "abc", .file = "toy.json",
                                                    .producer = "hand"}};
    struct lw_plan p = {0};
    struct lw_timeline t = {0};
    struct lw_summary sum = {0};
    struct lw_store *s = NULL;
    struct lw_err err = {0};
    int64_t id = -1;
    lw_ps end = 0;
    bool exec = f->kind == LW_RUN_EXEC;
    struct lw_run_info info = {.kind = f->kind, .plan = &p, .cluster = &c, .workload = &w,
                               .backend = exec ? "threads" : NULL, .honesty = exec ? "real" : NULL,
                               .command = "lapwing sim <toy> & more", .n_warmup = f->n_warmup};

    make_plan(f, &p);
    p.device = f->device ? f->device : p.device;
    for (int32_t step = 0; step < f->n_steps; step++) {
        lw_ps t0 = end; /* both ranks end together */
        for (int32_t rank = 0; rank < 2; rank++)
            end = add_step(&t, f, t0, step, rank);
    }
    if (lw_timeline_sort(&t, &err) != LW_OK ||
        lw_timeline_summarize(&t, &p, f->n_warmup, &sum, &err) != LW_OK ||
        lw_store_open(runs_db, LW_STORE_WRITE, &s, &err) != LW_OK ||
        lw_store_begin_run(s, &info, &id, &err) != LW_OK ||
        lw_store_spans(s, id, &t, &err) != LW_OK ||
        lw_store_memory(s, id, &t, &p, &err) != LW_OK ||
        lw_store_finish_run(s, id, &sum, LW_RUN_OK, "", &err) != LW_OK)
        fail_msg("%s", err.msg);
    lw_store_close(s);
    lw_summary_free(&sum);
    lw_timeline_free(&t);
    lw_plan_free(&p);
    return id;
}
