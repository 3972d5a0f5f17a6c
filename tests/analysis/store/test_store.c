/* The results database: what is stored comes back, and what cannot be stored says why. */
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/lib/unit.h"

#include "analysis/store/store.h"
#include "shared/plan/plan_builder.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/commands/old_plan.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/files/sql_file.h"

static char file[400];

static int open_folder(void **state)
{
    fixture_open(state);
    snprintf(file, sizeof file, "%s", fixture_path("runs.db"));
    return 0;
}

/* SQLite's memory through the counted allocator: its failures are tested like ours. */
static void *counted_malloc(int n)
{
    int64_t *p = lw_alloc((size_t)n + 16);
    if (!p)
        return NULL;
    p[0] = n;
    return p + 2;
}

static void counted_free(void *p)
{
    if (p)
        lw_free((int64_t *)p - 2);
}

static void *counted_realloc(void *p, int n)
{
    int64_t *q = lw_realloc((int64_t *)p - 2, (size_t)n + 16);
    if (!q)
        return NULL;
    q[0] = n;
    return q + 2;
}

static int counted_size(void *p)
{
    return p ? (int)((int64_t *)p)[-2] : 0;
}

static int round_up(int n)
{
    return (n + 7) & ~7;
}

static int nothing_to_start(void *p)
{
    (void)p;
    return SQLITE_OK;
}

static void nothing_to_end(void *p)
{
    (void)p;
}

static const sqlite3_mem_methods counted = {counted_malloc, counted_free,     counted_realloc,
                                            counted_size,   round_up,         nothing_to_start,
                                            nothing_to_end, (void *)&counted};

/* Two ranks; a forward, a backward that completes two gradients, their all-reduces in two
 * buckets. */
static enum lw_status small_plan(int64_t cap_bytes, struct lw_plan *p, struct lw_err *err)
{
    struct lw_builder *b = lw_builder_new("two ranks", 2);
    struct lw_strategy s = lw_strategy_default();
    int32_t both[] = {0, 1};

    s.dp = 2;
    s.bucket_cap_bytes = cap_bytes;
    if (!b)
        return lw_fail_nomem(err);
    lw_builder_strategy(b, &s);
    int32_t role = lw_builder_role(b, &(struct lw_role){.name = "all"});
    for (int32_t r = 0; r < 2 && role >= 0; r++)
        lw_builder_rank(b, r, role, r, 0, 0);
    int32_t compute = lw_builder_stream(b, "compute", LW_STREAM_COMPUTE, 0);
    int32_t wire = lw_builder_stream(b, "comm", LW_STREAM_COMM, 1);
    int32_t data = lw_builder_comm(b, "data", LW_COMM_DATA, LW_REDUCER_RING, wire);
    lw_builder_group(b, data, both, 2);
    lw_builder_module(b, 0);
    for (int32_t i = 0; i < 2; i++)
        lw_builder_param(b, &(struct lw_plan_param){.name = i ? "w1" : "w0", .numel = 256,
                                                    .tied = -1, .trainable = true, .used = true});
    lw_builder_set(b, LW_BUCKET_GRADIENTS, "initial", 0);
    for (int32_t i = 0; i < 2; i++)
        lw_builder_bucket(b, &(struct lw_bucket){.bytes = 1024, .limit_bytes = cap_bytes},
                          &(struct lw_slot){.param = 1 - i, .offset = 0}, 1);
    int32_t v = lw_builder_variant(b, "first", "initial", true);
    lw_builder_program(b, v, role);
    struct lw_op f = lw_builder_blank(LW_OP_FORWARD, compute);
    f.work_ps = 5000;
    int32_t forward = lw_builder_op(b, &f, NULL, 0);
    f.kind = LW_OP_BACKWARD;
    int32_t backward = lw_builder_op(b, &f, &forward, 1);
    lw_builder_ready(b, 1);
    lw_builder_ready(b, 0);
    for (int32_t i = 0; i < 2; i++) {
        struct lw_op ar = lw_builder_blank(LW_OP_ALL_REDUCE, wire);
        ar.comm = data;
        ar.bytes = 1024;
        ar.bucket = i;
        lw_builder_op(b, &ar, &backward, 1);
    }
    lw_builder_pass(b, v);
    return lw_builder_finish(b, p, err);
}

/* Columns of a timeline on the stack: rows ascend by (step, pass, rank, op). */
enum { ROWS = 5 };
static int32_t step_[ROWS] = {0, 0, 0, 0, 1}, pass_[ROWS], rank_[ROWS] = {0, 0, 1, 1, 0},
               stream_[ROWS] = {0, 1, 0, 1, 0}, comm_[ROWS] = {-1, 0, -1, 0, -1},
               op_[ROWS] = {0, 2, 0, 2, 0};
static uint8_t kind_[ROWS] = {LW_OP_FORWARD, LW_OP_ALL_REDUCE, LW_OP_FORWARD, LW_OP_ALL_REDUCE,
                              LW_OP_FORWARD};
static lw_ps ready_[ROWS] = {0, 5000, 0, 5500, 9000}, issue_[ROWS] = {-1, 5000, -1, 5500, -1},
             start_[ROWS] = {0, 5001, 0, 5501, 9000}, all_in_[ROWS] = {-1, 5501, -1, 5501, -1},
             end_[ROWS] = {5000, 8000, 5499, 8001, 14000};

static const struct lw_timeline small_timeline = {
    .n = ROWS, .capacity = ROWS, .step = step_, .pass = pass_, .rank = rank_, .stream = stream_,
    .comm = comm_, .op = op_, .kind = kind_, .ready = ready_, .issue = issue_, .start = start_,
    .all_in = all_in_, .end = end_,
};

static lw_ps two_steps[] = {8001, 5000};
static struct lw_measure two_ranks[] = {
    {.step = 0, .rank = 0, .start = 0, .end = 8000, .compute_busy = 5000, .comm_busy = 2999,
     .exposed_comm = 2999, .idle = 1},
    {.step = 0, .rank = 1, .start = 0, .end = 8001, .compute_busy = 5499, .comm_busy = 2500,
     .exposed_comm = 2500, .idle = 2},
};
static const struct lw_summary small_summary = {
    .n_steps = 2, .n_ranks = 2, .step = 6500, .steps = two_steps, .ranks = two_ranks, .worst = 1,
    .bubble_ratio = 0.25, .peak_memory_bytes = 4096, .n_ops = ROWS,
};

/* Store one whole run; *run = its id. */
static enum lw_status store_one(const struct lw_plan *p, enum lw_run_kind kind, int64_t *run,
                                struct lw_err *err)
{
    struct lw_figure speed = {.value = 1e9, .source = "measured"};
    struct lw_cluster c = {.name = "two cores", .n_nodes = 1, .devices_per_node = 2,
                           .device = {.kind = "cpu", .copy_bytes_per_s = speed}};
    struct lw_workload w = {.name = "toy", .from = {.hash = "abc", .file = "toy.json",
                                                    .producer = "hand"}};
    struct lw_run_info info = {.kind = kind, .plan = p, .cluster = &c, .workload = &w,
                               .backend = kind == LW_RUN_EXEC ? "threads" : NULL,
                               .command = "lapwing sim toy.json", .seed = 7, .n_warmup = 1};
    struct lw_store *s;

    LW_TRY(lw_store_open(file, LW_STORE_WRITE, &s, err));
    enum lw_status st = lw_store_begin_run(s, &info, run, err);
    if (st == LW_OK)
        st = lw_store_spans(s, *run, &small_timeline, err);
    if (st == LW_OK)
        st = lw_store_metric_int(s, *run, "n_events", -1, -1, 12, err);
    if (st == LW_OK)
        st = lw_store_finish_run(s, *run, &small_summary, LW_RUN_OK, "", err);
    lw_store_close(s);
    return st;
}

static int64_t ask(const char *sql)
{
    return sql_ask(file, sql);
}

static void must_do(const char *sql)
{
    sql_do(file, sql);
}

TEST_WITH(a_stored_run_comes_back_with_its_measures, open_folder, fixture_close)
{
    struct lw_plan p = {0};
    struct lw_err err = {0};
    struct lw_arena a = {0};
    struct lw_store *s;
    struct lw_run r;
    int64_t id;

    assert_int_equal(small_plan(1024, &p, &err), LW_OK);
    assert_int_equal(store_one(&p, LW_RUN_SIM, &id, &err), LW_OK);
    assert_int_equal(id, 1);
    assert_int_equal(lw_store_open(file, LW_STORE_READ, &s, &err), LW_OK);
    assert_int_equal(lw_store_find_run(s, "last", &a, &r, &err), LW_OK);
    assert_int_equal(r.id, 1);
    assert_int_equal(r.kind, LW_RUN_SIM);
    assert_int_equal(r.status, LW_RUN_OK);
    assert_string_equal(r.plan_hash, p.hash);
    assert_string_equal(r.workload_from, "hand, toy.json");
    assert_string_equal(r.cluster_name, "two cores");
    assert_int_equal(strlen(r.cluster_hash), 32);
    assert_string_equal(r.backend, "");
    assert_int_equal(r.bucket_cap_bytes, 1024);
    assert_int_equal(r.n_buckets, 2);
    assert_int_equal(r.seed, 7);
    assert_int_equal(r.n_spans, ROWS);
    assert_int_equal(r.step, 6500);
    assert_int_equal(r.exposed_comm, 2500); /* of the worst rank, rank 1 */
    assert_int_equal(r.compute_busy, 5499);
    lw_store_close(s);
    lw_arena_free(&a);
    lw_plan_free(&p);
    /* 6500 ps = 6.5 ns, shown as 7: half up */
    assert_int_equal(ask("SELECT step_ns FROM run_summary WHERE id = 1"), 7);
    assert_int_equal(ask("SELECT value FROM metric WHERE name = 'step_ps' AND step = 1"), 5000);
    assert_int_equal(ask("SELECT value FROM metric WHERE name = 'idle_ps' AND rank = 0"), 1);
    assert_int_equal(ask("SELECT value FROM metric WHERE name = 'n_events'"), 12);
}

TEST_WITH(spans_keep_picoseconds_and_the_names_of_their_ops, open_folder, fixture_close)
{
    struct lw_plan p = {0};
    struct lw_err err = {0};
    int64_t id;

    assert_int_equal(small_plan(1024, &p, &err), LW_OK);
    assert_int_equal(store_one(&p, LW_RUN_SIM, &id, &err), LW_OK);
    lw_plan_free(&p);
    assert_int_equal(ask("SELECT end_ps FROM span WHERE rank = 1 AND op = 2"), 8001);
    assert_int_equal(ask("SELECT count(*) FROM run_span WHERE run = 1 AND kind = 'all_reduce'"
                         " AND stream = 'comm' AND bucket = 0 AND bytes = 1024 AND end_ns = 8"),
                     2);
    assert_int_equal(ask("SELECT issue_ns FROM run_span WHERE op = 0 AND rank = 0 AND step = 0"),
                     -1);
}

TEST_WITH(a_timeline_comes_back_to_the_picosecond, open_folder, fixture_close)
{
    struct lw_plan p = {0};
    struct lw_err err = {0};
    struct lw_arena a = {0};
    struct lw_timeline t = {0};
    struct lw_store *s;
    struct lw_run r;
    int64_t id;

    assert_int_equal(small_plan(1024, &p, &err), LW_OK);
    for (int i = 0; i < 2; i++) /* the second run's rows lie after the first one's */
        assert_int_equal(store_one(&p, LW_RUN_SIM, &id, &err), LW_OK);
    assert_int_equal(lw_store_open(file, LW_STORE_READ, &s, &err), LW_OK);
    assert_int_equal(lw_store_find_run(s, "2", &a, &r, &err), LW_OK);
    assert_int_equal(lw_store_load_timeline(s, &r, &t, &err), LW_OK);
    assert_int_equal(t.n, ROWS);
    assert_memory_equal(t.step, step_, sizeof step_);
    assert_memory_equal(t.pass, pass_, sizeof pass_);
    assert_memory_equal(t.rank, rank_, sizeof rank_);
    assert_memory_equal(t.stream, stream_, sizeof stream_);
    assert_memory_equal(t.comm, comm_, sizeof comm_);
    assert_memory_equal(t.op, op_, sizeof op_);
    assert_memory_equal(t.kind, kind_, sizeof kind_);
    assert_memory_equal(t.ready, ready_, sizeof ready_);
    assert_memory_equal(t.issue, issue_, sizeof issue_);
    assert_memory_equal(t.start, start_, sizeof start_);
    assert_memory_equal(t.all_in, all_in_, sizeof all_in_);
    assert_memory_equal(t.end, end_, sizeof end_);
    lw_timeline_free(&t);
    lw_store_close(s);
    lw_arena_free(&a);
    lw_plan_free(&p);
}

/* Another machine's times are another plan with the same hash. */
TEST_WITH(a_plan_with_other_times_is_stored_beside, open_folder, fixture_close)
{
    struct lw_plan p = {0}, loaded;
    struct lw_err err = {0};
    struct lw_arena a = {0};
    struct lw_run r;
    struct lw_store *s;
    int64_t id;
    lw_ps was = 0;

    assert_int_equal(small_plan(1024, &p, &err), LW_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(store_one(&p, LW_RUN_SIM, &id, &err), LW_OK);
        was = lw_plan_work_ps(&p, &p.ops[0]);
        if (i == 0)
            *(p.ops[0].work >= 0 ? &p.works[p.ops[0].work].ps : &p.ops[0].work_ps) += 5;
    }
    assert_int_equal(ask("SELECT count(*) FROM plan"), 2);
    assert_int_equal(ask("SELECT count(DISTINCT hash) FROM plan"), 1);
    assert_int_equal(ask("SELECT count(DISTINCT times) FROM plan"), 2);
    assert_int_equal(lw_store_open(file, LW_STORE_READ, &s, &err), LW_OK);
    for (int i = 1; i < 4; i++) {
        char run[2] = {(char)('0' + i)};
        assert_ok(lw_store_find_run(s, run, &a, &r, &err), err);
        assert_string_equal(r.plan_hash, p.hash);
        assert_ok(lw_store_load_plan(s, &r, &loaded, &err), err);
        assert_int_equal(lw_plan_work_ps(&loaded, &loaded.ops[0]), i == 1 ? was - 5 : was);
        lw_plan_free(&loaded);
    }
    lw_store_close(s);
    lw_arena_free(&a);
    lw_plan_free(&p);
}

TEST_WITH(a_plan_is_stored_once_per_hash, open_folder, fixture_close)
{
    struct lw_plan p = {0}, other = {0};
    struct lw_err err = {0};
    int64_t id;

    assert_int_equal(small_plan(1024, &p, &err), LW_OK);
    assert_int_equal(small_plan(2048, &other, &err), LW_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(store_one(&p, i ? LW_RUN_EXEC : LW_RUN_SIM, &id, &err), LW_OK);
    assert_int_equal(ask("SELECT count(*) FROM plan"), 1);
    assert_int_equal(store_one(&other, LW_RUN_SIM, &id, &err), LW_OK);
    assert_int_equal(id, 3);
    assert_int_equal(ask("SELECT count(*) FROM plan"), 2);
    assert_int_equal(ask("SELECT count(*) FROM op"), 8);
    assert_int_equal(ask("SELECT count(*) FROM plan_file"), 2);
    assert_int_equal(ask("SELECT param FROM slot WHERE plan = 1 AND bucket = 0"), 1);
    assert_int_equal(ask("SELECT count(*) FROM bucket WHERE set_name = 'initial'"), 4);
    assert_int_equal(ask("SELECT value FROM plan_option WHERE plan = 1 AND name = 'dp'"), 2);
    lw_plan_free(&p);
    lw_plan_free(&other);
}

TEST_WITH(a_run_whose_process_was_killed_is_found_failed, open_folder, fixture_close)
{
    struct lw_run_info info = {.kind = LW_RUN_EXEC, .backend = "threads", .honesty = "real"};
    struct lw_err err = {0};
    struct lw_arena a = {0};
    struct lw_store *s;
    struct lw_run *runs;
    char says[64];
    int64_t id;
    int32_t n;

    pid_t child = fork();
    if (child == 0) {
        if (lw_store_open(file, LW_STORE_WRITE, &s, &err) == LW_OK)
            lw_store_begin_run(s, &info, &id, &err);
        kill(getpid(), SIGKILL);
    }
    waitpid(child, NULL, 0);
    snprintf(says, sizeof says, "process %d on ", (int)child);
    assert_int_equal(lw_store_open(file, LW_STORE_READ, &s, &err), LW_OK); /* shown so */
    assert_int_equal(lw_store_runs(s, &a, &runs, &n, &err), LW_OK);
    assert_int_equal(runs[0].status, LW_RUN_FAILED);
    assert_non_null(strstr(runs[0].message, says));
    lw_store_close(s);
    assert_int_equal(ask("SELECT status = 'running' FROM run"), 1);
    assert_int_equal(lw_store_open(file, LW_STORE_WRITE, &s, &err), LW_OK); /* stored so */
    assert_int_equal(ask("SELECT status = 'failed' FROM run"), 1);
    assert_int_equal(lw_store_runs(s, &a, &runs, &n, &err), LW_OK);
    assert_int_equal(n, 1);
    assert_int_equal(runs[0].status, LW_RUN_FAILED);
    assert_non_null(strstr(runs[0].message, says));
    assert_int_equal(runs[0].plan, -1);
    assert_int_equal(runs[0].step, -1);
    assert_string_equal(runs[0].honesty, "real");
    lw_arena_free(&a);
    lw_store_close(s);
}

TEST_WITH(a_run_of_a_living_process_and_of_another_machine_stay_running, open_folder, fixture_close)
{
    struct lw_run_info info = {.kind = LW_RUN_EXEC};
    struct lw_err err = {0};
    struct lw_store *s, *other;
    int64_t id;
    bool mine;

    assert_int_equal(lw_store_open(file, LW_STORE_WRITE, &s, &err), LW_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(lw_store_begin_run(s, &info, &id, &err), LW_OK);
    must_do("UPDATE run_process SET host = 'elsewhere', pid = 1 << 40 WHERE run = 2;"
            "UPDATE run_process SET machine = machine || 'x', pid = 1 << 40 WHERE run = 3;"
            "UPDATE run_process SET pid_started = 1 WHERE run = 4;"
            "UPDATE run_process SET machine = 'b' || machine WHERE run = 5");
    assert_int_equal(lw_store_open(file, LW_STORE_WRITE, &other, &err), LW_OK);
    lw_store_close(other);
    assert_int_equal(ask("SELECT sum(id) FROM run WHERE status = 'running'"), 1 + 2 + 3);
    assert_int_equal(ask("SELECT message LIKE 'process % ended before%' FROM run"
                         " WHERE id = 4"), 1); /* number used again; 5: the host was started anew */
    assert_int_equal(lw_store_end_of_run(s, 1, NULL, "real", 3, &mine, &err), LW_OK);
    assert_true(mine);
    assert_int_equal(lw_store_end_of_run(s, 1, NULL, "real", 3, &mine, &err), LW_OK);
    assert_false(mine); /* once */
    assert_int_equal(ask("SELECT n_warmup FROM run WHERE message = 'not stored whole'"), 3);
    lw_store_close(s);
}

/* Its id, in a store that the caller closes. */
static int64_t begin_execution(struct lw_store **s)
{
    struct lw_run_info info = {.kind = LW_RUN_EXEC};
    struct lw_err err = {0};
    int64_t id;

    assert_int_equal(lw_store_open(file, LW_STORE_WRITE, s, &err), LW_OK);
    assert_int_equal(lw_store_begin_run(*s, &info, &id, &err), LW_OK);
    return id;
}

/* Whoever stores a run that nobody blamed may be killed before its end: the reason is there. */
TEST_WITH(a_run_that_is_not_stored_whole_says_why, open_folder, fixture_close)
{
    struct lw_err err = {0};
    struct lw_store *s;
    int64_t id = begin_execution(&s);
    bool mine;

    assert_int_equal(lw_store_end_of_run(s, id, "rank 0 is gone", "real", 3, &mine, &err), LW_OK);
    assert_true(mine);
    assert_int_equal(ask("SELECT status = 'failed' AND message = 'rank 0 is gone; not stored whole'"
                         " FROM run"), 1);
    lw_store_close(s);
}

/* A process that is killed between the two leaves no running row: status and reason are one write.
 * The run is then stored once, by the first to come. */
TEST_WITH(a_blamed_run_has_failed_at_once, open_folder, fixture_close)
{
    struct lw_err err = {0};
    struct lw_store *s;
    int64_t id = begin_execution(&s);
    bool mine;

    assert_int_equal(lw_store_blame(s, id, "rank 2 is gone", &err), LW_OK);
    assert_int_equal(ask("SELECT status = 'failed' AND message = 'rank 2 is gone' FROM run"), 1);
    assert_int_equal(lw_store_end_of_run(s, id, "rank 1 is gone", "real", 3, &mine, &err), LW_OK);
    assert_true(mine);
    assert_int_equal(ask("SELECT status = 'failed' AND message = 'rank 2 is gone; not stored whole'"
                         " FROM run"), 1);
    assert_int_equal(lw_store_end_of_run(s, id, "rank 1 is gone", "real", 3, &mine, &err), LW_OK);
    assert_false(mine);
    assert_int_equal(lw_store_blame(s, id, "rank 1 is gone", &err), LW_OK); /* too late */
    assert_int_equal(ask("SELECT count(*) FROM run WHERE message LIKE 'rank 1%'"), 0);
    assert_int_equal(lw_store_finish_run(s, id, NULL, LW_RUN_TIMEOUT, "rank 2 hung", &err), LW_OK);
    assert_int_equal(ask("SELECT status = 'timeout' AND message = 'rank 2 hung' FROM run"), 1);
    lw_store_close(s);
}

/* What one command reads is of one moment: another process deletes runs meanwhile. */
TEST_WITH(a_reader_sees_one_moment, open_folder, fixture_close)
{
    struct lw_run_info info = {.kind = LW_RUN_EXEC};
    struct lw_err err = {0};
    struct lw_arena a = {0};
    struct lw_store *s, *reader;
    struct lw_run r, all[1];
    int64_t id;

    assert_int_equal(lw_store_open(file, LW_STORE_WRITE, &s, &err), LW_OK);
    assert_int_equal(lw_store_begin_run(s, &info, &id, &err), LW_OK);
    assert_int_equal(lw_store_open(file, LW_STORE_READ, &reader, &err), LW_OK);
    assert_int_equal(lw_store_find_run(s, "1", &a, &all[0], &err), LW_OK);
    assert_int_equal(lw_store_delete_runs(s, all, 1, &err), LW_OK);
    assert_int_equal(lw_store_find_run(s, "1", &a, &r, &err), LW_EINVAL);
    assert_int_equal(lw_store_find_run(reader, "1", &a, &r, &err), LW_OK);
    lw_store_close(reader);
    assert_int_equal(lw_store_open(file, LW_STORE_READ, &reader, &err), LW_OK);
    assert_int_equal(lw_store_find_run(reader, "1", &a, &r, &err), LW_EINVAL);
    lw_store_close(reader);
    lw_arena_free(&a);
    lw_store_close(s);
}

TEST_WITH(a_failed_run_keeps_its_message, open_folder, fixture_close)
{
    struct lw_run_info info = {.kind = LW_RUN_EXEC};
    struct lw_err err = {0};
    struct lw_arena a = {0};
    struct lw_store *s;
    struct lw_run r;
    int64_t id;

    assert_int_equal(lw_store_open(file, LW_STORE_WRITE, &s, &err), LW_OK);
    assert_int_equal(lw_store_begin_run(s, &info, &id, &err), LW_OK);
    assert_int_equal(lw_store_finish_run(s, id, NULL, LW_RUN_TIMEOUT, "rank 1 hung", &err), LW_OK);
    assert_int_equal(lw_store_find_run(s, "1", &a, &r, &err), LW_OK);
    assert_int_equal(r.status, LW_RUN_TIMEOUT);
    assert_string_equal(r.message, "rank 1 hung");
    lw_arena_free(&a);
    lw_store_close(s);
}

TEST_WITH(a_run_that_is_not_there_is_named_with_the_range, open_folder, fixture_close)
{
    struct lw_plan p = {0};
    struct lw_err err = {0};
    struct lw_arena a = {0};
    struct lw_store *s;
    struct lw_run r;
    int64_t id;
    const char *const bad[] = {"0", "3", "-1", "first", "1.5", ""};

    assert_int_equal(lw_store_open(file, LW_STORE_WRITE, &s, &err), LW_OK);
    assert_int_equal(lw_store_find_run(s, "last", &a, &r, &err), LW_EINVAL);
    has(err.msg, "holds no run yet");
    lw_store_close(s);
    assert_int_equal(small_plan(1024, &p, &err), LW_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(store_one(&p, LW_RUN_SIM, &id, &err), LW_OK);
    assert_int_equal(lw_store_open(file, LW_STORE_READ, &s, &err), LW_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(lw_store_find_run(s, bad[i], &a, &r, &err), LW_EINVAL);
        has(err.msg, "there are runs 1 to 2, or 'last'");
    }
    lw_store_close(s);
    lw_arena_free(&a);
    lw_plan_free(&p);
}

TEST_WITH(past_errors_count_this_cluster_alone, open_folder, fixture_close)
{
    struct lw_figure speed = {.value = 1e9, .source = "measured"};
    struct lw_cluster c = {.name = "two cores", .n_nodes = 1, .devices_per_node = 2,
                           .device = {.kind = "cpu", .copy_bytes_per_s = speed}};
    struct lw_past_errors e;
    struct lw_plan p = {0};
    struct lw_err err = {0};
    struct lw_store *s;
    char insert[512], hash[33];
    int64_t id;

    assert_int_equal(small_plan(1024, &p, &err), LW_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(store_one(&p, i % 2 ? LW_RUN_EXEC : LW_RUN_SIM, &id, &err), LW_OK);
    assert_int_equal(lw_cluster_hash(&c, hash, &err), LW_OK);
    /* 1-2 and 3-4: a prediction with an execution, -4 % and 10 %; 1-3 is sim with sim */
    snprintf(insert, sizeof insert,
             "INSERT INTO comparison VALUES (1, 1, 2, '%s', 'op', 96, 100, -4, 0, 0, NULL, 0),"
             " (2, 3, 4, '%s', 'op', 110, 100, 10, 0, 0, NULL, 0),"
             " (3, 1, 3, '%s', 'op', 190, 100, 90, 0, 0, NULL, 0),"
             " (4, 1, 4, 'other', 'op', 150, 100, 50, 0, 0, NULL, 0)", hash, hash, hash);
    must_do(insert);
    assert_int_equal(lw_store_open(file, LW_STORE_READ, &s, &err), LW_OK);
    assert_int_equal(lw_store_past_errors(s, &c, &e, &err), LW_OK);
    assert_int_equal(e.n, 2);
    assert_float_equal(e.mean_abs_pct, 7.0, 1e-6); /* (4 + 10) / 2 */
    assert_float_equal(e.max_abs_pct, 10.0, 1e-6);
    c.device.copy_bytes_per_s.value = 2e9; /* calibrated anew: another cluster */
    assert_int_equal(lw_store_past_errors(s, &c, &e, &err), LW_OK);
    assert_int_equal(e.n, 0);
    lw_store_close(s);
    lw_plan_free(&p);
}

static void refused(enum lw_store_mode mode, enum lw_status code, const char *words)
{
    struct lw_store *s = NULL;
    struct lw_err err = {0};

    assert_int_equal(lw_store_open(file, mode, &s, &err), code);
    assert_null(s);
    has(err.msg, file);
    has(err.msg, words);
    assert_int_equal(lw_alloc_live(), 0);
}

TEST_WITH(a_text_file_is_not_a_database, open_folder, fixture_close)
{
    fixture_put(file,
                "{\"lapwing\": 1, \"kind\": \"plan\", \"and\": \"a text that is long enough\"}\n");
    refused(LW_STORE_WRITE, LW_EFORMAT, "not a usable SQLite database");
    refused(LW_STORE_READ, LW_EFORMAT, "not a usable SQLite database");
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_size, 68); /* untouched */
}

TEST_WITH(another_programs_database_is_left_alone, open_folder, fixture_close)
{
    must_do("CREATE TABLE mine (x); PRAGMA user_version = 3;");
    refused(LW_STORE_WRITE, LW_EFORMAT, "a database of another program (application_id 0)");
    assert_int_equal(ask("SELECT count(*) FROM sqlite_schema"), 1);
    assert_int_equal(ask("PRAGMA user_version"), 3);
}

TEST_WITH(a_newer_schema_is_refused, open_folder, fixture_close)
{
    struct lw_store *s;
    struct lw_err err = {0};

    assert_int_equal(lw_store_open(file, LW_STORE_WRITE, &s, &err), LW_OK);
    lw_store_close(s);
    must_do("PRAGMA user_version = 99");
    refused(LW_STORE_WRITE, LW_EFORMAT, "schema version 99, of a newer lapwing (this one");
}

TEST_WITH(edited_version_numbers_are_named, open_folder, fixture_close)
{
    struct lw_store *s;
    struct lw_err err = {0};

    assert_int_equal(lw_store_open(file, LW_STORE_WRITE, &s, &err), LW_OK);
    lw_store_close(s);
    must_do("PRAGMA user_version = 0");
    refused(LW_STORE_WRITE, LW_EFORMAT, "schema version 0 and a table 'run' (this");
    refused(LW_STORE_READ, LW_EFORMAT, "schema version 0 and a table 'run'");
    must_do("PRAGMA user_version = -1");
    refused(LW_STORE_WRITE, LW_EFORMAT, "schema version -1 and a table 'run'");
    must_do("PRAGMA user_version = 1; PRAGMA foreign_keys = OFF; DROP VIEW run_summary;"
            "DROP VIEW run_span; DROP TABLE run");
    refused(LW_STORE_READ, LW_EFORMAT, "schema version 1 and no table 'run'");
}

TEST_WITH(unreadable_database_is_named, open_folder, fixture_close)
{
    snprintf(file, sizeof file, "%s", fixture_path("."));
    refused(LW_STORE_WRITE, LW_EIO, "a folder, not a database; give the name of a file to --db");
    refused(LW_STORE_READ, LW_EIO, "a folder, not a database");
    snprintf(file, sizeof file, "/dev/null");
    refused(LW_STORE_WRITE, LW_EIO, "a device or pipe, not a database");
    snprintf(file, sizeof file, "/proc/lapwing.db");
    refused(LW_STORE_WRITE, LW_EIO, "unable to open database file: No such file or directory");
}

TEST_WITH(an_older_schema_is_brought_up_to_date_by_a_writer, open_folder, fixture_close)
{
    struct lw_store *s;
    struct lw_err err = {0};

    must_do(
        "PRAGMA application_id = 0x4c617077; CREATE TABLE kept (x); INSERT INTO kept VALUES (5)");
    refused(LW_STORE_READ, LW_EFORMAT,
            "schema version 0, of an older lapwing (this one reads 14 on");
    assert_int_equal(lw_store_open(file, LW_STORE_WRITE, &s, &err), LW_OK);
    lw_store_close(s);
    assert_int_equal(ask("PRAGMA user_version"), 17);
    assert_int_equal(ask("SELECT count(*) FROM run"), 0);
    assert_int_equal(ask("SELECT x FROM kept"), 5);
}

/* Each column of ops counts; as many sets of alike ones are made of the older table. */
TEST_WITH(ops_of_an_older_database_are_the_same_rows, open_folder, fixture_close)
{
    static const char sum_of_ops[] =
        "SELECT sum((op + 1) * (length(kind || class || dtype || name || bound || time_source)"
        " + stream + 3 * comm + 5 * call + 7 * bytes + 11 * work_ps + 13 * peer + 17 * operand"
        " + 19 * module + 23 * stage + 29 * micro_batch + 31 * bucket + compute_ps + memory_ps"
        " + launch_ps + host_ps)) FROM op";
    struct lw_plan p = {0};
    struct lw_err err = {0};
    struct lw_store *s;
    int64_t id;

    assert_int_equal(small_plan(1024, &p, &err), LW_OK);
    assert_int_equal(store_one(&p, LW_RUN_SIM, &id, &err), LW_OK);
    int64_t ops = ask(sum_of_ops), n = ask("SELECT count(*) FROM op_alike");
    assert_true(ops != 0);
    make_spans_old(file);
    assert_int_equal(ask(sum_of_ops), ops);
    assert_int_equal(lw_store_open(file, LW_STORE_WRITE, &s, &err), LW_OK);
    lw_store_close(s);
    assert_int_equal(ask(sum_of_ops), ops);
    assert_int_equal(ask("SELECT count(*) FROM op_alike"), n);
    assert_int_equal(ask("SELECT count(*) FROM op_row"), p.n_ops);
    lw_plan_free(&p);
}

/* The hash of a plan covered its times: the plans of such a database get those of today. One that
 * was stored without its file keeps what it has. */
TEST_WITH(plans_of_an_older_database_are_hashed_anew, open_folder, fixture_close)
{
    static const char before[] =
        "DROP VIEW run_summary; CREATE TABLE old AS SELECT id, hash, name, n_ranks, n_stages,"
        " n_params, n_buckets, n_ops, bucket_cap_bytes, repeat_from, workload_hash, cluster_name"
        " FROM plan; DROP TABLE plan;"
        "CREATE TABLE plan (id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, name TEXT NOT NULL,"
        " n_ranks INTEGER NOT NULL, n_stages INTEGER NOT NULL, n_params INTEGER NOT NULL,"
        " n_buckets INTEGER NOT NULL, n_ops INTEGER NOT NULL, bucket_cap_bytes INTEGER NOT NULL,"
        " repeat_from INTEGER NOT NULL, workload_hash TEXT, cluster_name TEXT) STRICT;"
        "INSERT INTO plan SELECT * FROM old; DROP TABLE old; CREATE VIEW run_summary AS SELECT 1;"
        "ALTER TABLE run DROP COLUMN step_p10_ps; ALTER TABLE run DROP COLUMN step_p90_ps;"
        "ALTER TABLE run DROP COLUMN interval_of;"
        "ALTER TABLE op DROP COLUMN bound; ALTER TABLE op DROP COLUMN time_source;"
        "ALTER TABLE op DROP COLUMN compute_ps; ALTER TABLE op DROP COLUMN memory_ps;"
        "ALTER TABLE op DROP COLUMN launch_ps; ALTER TABLE op DROP COLUMN host_ps;"
        "DROP TABLE search; DROP TABLE searched; DROP TABLE search_reason;"
        "UPDATE plan SET hash = 'before' || id;"
        "PRAGMA user_version = 7";
    struct lw_plan p = {0}, other = {0}, loaded;
    struct lw_err err = {0};
    struct lw_arena a = {0};
    struct lw_run r;
    struct lw_store *s;
    int64_t id;

    assert_int_equal(small_plan(1024, &p, &err), LW_OK);
    assert_int_equal(small_plan(2048, &other, &err), LW_OK);
    assert_int_equal(store_one(&p, LW_RUN_SIM, &id, &err), LW_OK);
    assert_int_equal(store_one(&other, LW_RUN_SIM, &id, &err), LW_OK);
    make_plan_old(file, 2, &other);
    make_spans_old(file);
    must_do(before);
    assert_int_equal(store_one(&p, LW_RUN_EXEC, &id, &err), LW_OK);
    assert_int_equal(id, 3);
    assert_int_equal(ask("SELECT count(*) FROM plan"), 2);
    assert_int_equal(ask("SELECT plan FROM run WHERE id = 3"), 1);
    assert_int_equal(lw_store_open(file, LW_STORE_READ, &s, &err), LW_OK);
    assert_ok(lw_store_find_run(s, "1", &a, &r, &err), err);
    assert_string_equal(r.plan_hash, p.hash);
    assert_ok(lw_store_load_plan(s, &r, &loaded, &err), err);
    lw_plan_free(&loaded);
    assert_ok(lw_store_find_run(s, "2", &a, &r, &err), err);
    assert_string_equal(r.plan_hash, "before2");
    assert_ok(lw_store_load_plan(s, &r, &loaded, &err), err);
    assert_string_equal(loaded.hash, "before2");
    lw_plan_free(&loaded);
    lw_store_close(s);
    lw_arena_free(&a);
    lw_plan_free(&other);
    lw_plan_free(&p);
}

/* What the documentation tells people to type works on a stored run. */
TEST_WITH(the_statements_of_the_documentation_work, open_folder, fixture_close)
{
    struct lw_plan p = {0};
    struct lw_err err = {0};
    static char text[16384];
    int64_t id;
    int n = 0;

    assert_int_equal(small_plan(1024, &p, &err), LW_OK);
    assert_int_equal(store_one(&p, LW_RUN_EXEC, &id, &err), LW_OK);
    lw_plan_free(&p);
    FILE *f = fopen("docs/formats/schema.md", "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    for (char *at = strstr(text, "```sql\n"); at; at = strstr(at + 1, "```sql\n")) {
        char *end = strstr(at + 7, "```");
        assert_non_null(end);
        *end = '\0';
        must_do(at + 7);
        *end = '`';
        n++;
    }
    assert_int_equal(n, 3);
}

TEST_WITH(an_absent_file_is_created_only_for_writing, open_folder, fixture_close)
{
    refused(LW_STORE_READ, LW_EIO, "cannot open the database (No such file or directory)");
    assert_int_not_equal(access(file, F_OK), 0);
    snprintf(file, sizeof file, "%s", fixture_path("none/runs.db"));
    refused(LW_STORE_WRITE, LW_EIO, "No such file or directory");
}

TEST_WITH(a_locked_database_says_so, open_folder, fixture_close)
{
    struct lw_run_info info = {.kind = LW_RUN_SIM};
    struct lw_store *s;
    struct lw_err err = {0};
    sqlite3 *other;
    int64_t id = -5;

    assert_int_equal(lw_store_open(file, LW_STORE_WRITE, &s, &err), LW_OK);
    lw_store_wait_at_most(s, 50);
    assert_int_equal(sqlite3_open(file, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(lw_store_begin_run(s, &info, &id, &err), LW_EIO);
    has(err.msg, "another process has been writing for 0.05 s");
    assert_int_equal(id, -5);
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(lw_store_begin_run(s, &info, &id, &err), LW_OK);
    sqlite3_close(other);
    lw_store_close(s);
}

/* In a child whose files may not grow beyond 64 KiB. */
static int fill_small_disk(void)
{
    struct rlimit limit = {.rlim_cur = 65536, .rlim_max = 65536};
    struct lw_store *s;
    struct lw_err err = {0};
    int64_t run;
    struct lw_timeline t = small_timeline;

    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    enum lw_status st = lw_store_open(file, LW_STORE_WRITE, &s, &err);
    if (st == LW_OK)
        st = lw_store_begin_run(s, &(struct lw_run_info){.kind = LW_RUN_SIM}, &run, &err);
    for (int i = 0; i < 100000 && st == LW_OK; i++)
        st = lw_store_spans(s, run, &t, &err);
    bool clear = strstr(err.msg, file) && strstr(err.msg, "is the disk full?");
    if (!clear)
        fprintf(stderr, "status %d: %s\n", (int)st, err.msg);
    return st == LW_EIO && clear ? 0 : 1;
}

TEST_WITH(a_full_disk_is_reported, open_folder, fixture_close)
{
    int status;

    pid_t child = fork();
    if (child == 0)
        _exit(fill_small_disk());
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

/* In a child without root's rights: the file may be read, not written. */
static int read_frozen(void)
{
    struct lw_store *s;
    struct lw_err err = {0};
    struct lw_arena a = {0};
    struct lw_run r;

    if (geteuid() == 0 && setuid(65534) != 0)
        return 9;
    if (lw_store_open(file, LW_STORE_READ, &s, &err) != LW_OK)
        return 1;
    if (lw_store_find_run(s, "last", &a, &r, &err) != LW_OK || r.id != 1)
        return 2;
    lw_store_close(s);
    if (lw_store_open(file, LW_STORE_WRITE, &s, &err) != LW_EIO)
        return 3;
    return strstr(err.msg, "cannot be written (Permission denied); use another --db") ? 0 : 4;
}

static void is_read_but_not_written(mode_t folder)
{
    struct lw_plan p = {0};
    struct lw_err err = {0};
    int64_t id;
    int status;

    assert_int_equal(small_plan(1024, &p, &err), LW_OK);
    assert_int_equal(store_one(&p, LW_RUN_SIM, &id, &err), LW_OK);
    lw_plan_free(&p);
    assert_int_equal(chmod(file, 0444), 0);
    assert_int_equal(chmod(fixture_path("."), folder), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(read_frozen());
    waitpid(child, &status, 0);
    assert_int_equal(chmod(fixture_path("."), 0755), 0);
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(WIFEXITED(status));
}

TEST_WITH(a_frozen_folder_can_be_read_but_not_written, open_folder, fixture_close)
{
    is_read_but_not_written(0555);
}

TEST_WITH(a_frozen_file_of_a_writable_folder_is_not_written, open_folder, fixture_close)
{
    is_read_but_not_written(0777);
}

TEST_WITH(every_failing_allocation_is_reported_and_leaks_nothing, open_folder, fixture_close)
{
    struct lw_plan p = {0};
    struct lw_err err = {0};
    int64_t id = -5, held, n = 0;
    enum lw_status st = LW_ENOMEM;

    assert_int_equal(small_plan(1024, &p, &err), LW_OK);
    held = lw_alloc_live();
    while (st != LW_OK && ++n < 120000) {
        id = -5;
        remove(file);
        err = (struct lw_err){0};
        lw_alloc_fail_at(n);
        st = store_one(&p, LW_RUN_SIM, &id, &err);
        lw_alloc_fail_at(0);
        assert_int_equal(lw_alloc_live(), held);
        if (st != LW_OK && st != LW_ENOMEM && st != LW_EIO)
            fail_msg("allocation %lld: status %d, %s", (long long)n, (int)st, err.msg);
        assert_int_equal(st == LW_OK, err.msg[0] == '\0');
        n += n / 64; /* later ones in growing steps: SQLite takes thousands */
    }
    assert_int_equal(st, LW_OK);
    assert_true(n > 50);
    assert_int_equal(id, 1);
    lw_plan_free(&p);
}

static int count_allocations(__attribute__((unused)) void **state)
{
    sqlite3_config(SQLITE_CONFIG_MALLOC, &counted);
    sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
    return 0;
}

TEST_GROUP(count_allocations, NULL)
