/* Exported runs: checked against the trace-event format, read back by our own importer, and the
 * plan that comes out of the database. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/json/json.h"
#include "shared/lower/lower.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/commands/old_plan.h"
#include "tests/lib/commands/run_fixture.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/plans/tiny_workload.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/sim_help.h"
#include "traces/export/export_chrome.h"
#include "traces/kineto/import_kineto.h"
#include "traces/steps/device_figures.h"

static struct lw_err err;

static void ok(enum lw_status st)
{
    assert_ok(st, err);
}

/* A simulated run of the tiny workload in the database: its id. The plan and timeline stay. */
static struct lw_plan plan;
static struct lw_cluster cluster;
static struct lw_timeline timeline;

static int64_t simulate(int32_t dp, int64_t cap, double bytes_per_s)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_summary sum = {0};
    struct lw_store *store;
    struct lw_sim_stats stats;
    struct tiny t;
    int64_t id;

    tiny_init(&t);
    make_cluster(&cluster, dp, bytes_per_s, 300 * LW_PS_PER_NS);
    cluster.device.copy_bytes_per_s = given(3e9);
    s.dp = dp;
    s.bucket_cap_bytes = cap;
    ok(lw_plan_build(&t.w, &s, NULL, &plan, &err));
    o.n_steps = 3;
    ok(lw_sim_run(&plan, &cluster, &o, &timeline, &stats, &err));
    ok(lw_timeline_summarize(&timeline, &plan, 1, &sum, &err));
    ok(lw_store_open(runs_db, LW_STORE_WRITE, &store, &err));
    struct lw_run_info info = {.kind = LW_RUN_SIM, .plan = &plan, .cluster = &cluster,
                               .workload = &t.w, .command = "lapwing sim", .n_warmup = 1};
    ok(lw_store_begin_run(store, &info, &id, &err));
    ok(lw_store_spans(store, id, &timeline, &err));
    ok(lw_store_finish_run(store, id, &sum, LW_RUN_OK, "", &err));
    lw_store_close(store);
    lw_summary_free(&sum);
    return id;
}

/* What a test read back from the database, and its export. */
static struct lw_plan stored_plan;
static struct lw_timeline stored;
static char *exported;

static void forget(void)
{
    lw_timeline_free(&timeline);
    lw_cluster_free(&cluster);
    lw_plan_free(&plan);
    lw_timeline_free(&stored);
    lw_plan_free(&stored_plan);
    free(exported);
    exported = NULL;
}

static int close_runs(void **state)
{
    forget();
    return fixture_close(state);
}

#define EXPORT_TEST(name) TEST_WITH(name, runs_open, close_runs)

static void load(int64_t id)
{
    struct lw_store *store;
    struct lw_arena arena = {0};
    struct lw_run run;
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long)id);
    ok(lw_store_open(runs_db, LW_STORE_READ, &store, &err));
    ok(lw_store_find_run(store, text, &arena, &run, &err));
    ok(lw_store_load_plan(store, &run, &stored_plan, &err));
    ok(lw_store_load_timeline(store, &run, &stored, &err));
    lw_store_close(store);
    lw_arena_free(&arena);
}

/* Its length; the text has room after it for the JSON reader. */
static size_t export_text(int32_t rank)
{
    const struct lw_export_note notes[] = {{"command", "lapwing sim \"x\""}};
    struct lw_export e = {.timeline = &stored, .plan = &stored_plan, .title = "predicted (run 1)",
                          .rank = rank, .notes = notes, .n_notes = 1};
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    assert_non_null(f);
    ok(lw_export_chrome(&e, f, &err));
    assert_int_equal(fclose(f), 0);
    free(exported);
    exported = calloc(n + LW_JSON_PADDING, 1);
    memcpy(exported, text, n);
    free(text);
    return n;
}

/* --- the trace-event format ------------------------------------------------------------------- */

/* One event as it stands in the file. */
struct event {
    char ph, name[128], cat[64];
    bool has_ts, has_dur, has_pid, has_tid, has_id, has_name, has_args, named;
    double ts, dur;
    int64_t pid, tid, id;
    char args_name[128];
    int n_counter_values;
};

static void copy_text(struct lw_json *j, char *to, size_t size)
{
    snprintf(to, size, "%s", lw_json_string(j, NULL));
}

static void read_args(struct lw_json *j, struct event *e)
{
    e->has_args = lw_json_enter(j, LW_JSON_OBJECT);
    while (lw_json_next(j)) {
        if (lw_json_key_is(j, "name")) {
            copy_text(j, e->args_name, sizeof e->args_name);
            e->named = true;
        }
        e->n_counter_values += e->ph == 'C' && lw_json_type(j) == LW_JSON_NUMBER;
    }
}

static struct event read_event(struct lw_json *j)
{
    struct event e = {0};

    assert_true(lw_json_enter(j, LW_JSON_OBJECT));
    while (lw_json_next(j)) {
        if (lw_json_key_is(j, "ph")) {
            e.ph = lw_json_string(j, NULL)[0];
        } else if (lw_json_key_is(j, "name")) {
            copy_text(j, e.name, sizeof e.name);
            e.has_name = true;
        } else if (lw_json_key_is(j, "cat")) {
            copy_text(j, e.cat, sizeof e.cat);
        } else if (lw_json_key_is(j, "ts")) {
            e.ts = lw_json_double(j); /* fails on a string */
            e.has_ts = true;
        } else if (lw_json_key_is(j, "dur")) {
            e.dur = lw_json_double(j);
            e.has_dur = true;
        } else if (lw_json_key_is(j, "pid")) {
            e.pid = lw_json_int64(j);
            e.has_pid = true;
        } else if (lw_json_key_is(j, "tid")) {
            e.tid = lw_json_int64(j);
            e.has_tid = true;
        } else if (lw_json_key_is(j, "id")) {
            e.id = lw_json_int64(j);
            e.has_id = true;
        } else if (lw_json_key_is(j, "args")) {
            read_args(j, &e);
        }
    }
    return e;
}

enum { MOST_EVENTS = 20000 };

static struct event events[MOST_EVENTS];
static int n_events;

static void read_events(int64_t id)
{
    struct lw_json *j;

    load(id);
    size_t len = export_text(0);
    n_events = 0;
    ok(lw_json_open("export.json", exported, len, &j, &err));
    assert_true(lw_json_enter(j, LW_JSON_OBJECT));
    while (lw_json_next(j))
        if (lw_json_key_is(j, "traceEvents") && lw_json_enter(j, LW_JSON_ARRAY))
            while (lw_json_next(j)) {
                assert_true(n_events < MOST_EVENTS);
                events[n_events++] = read_event(j);
            }
    ok(lw_json_done(j, &err));
    lw_json_close(j);
}

/* Trace Event Format: the keys that each phase must have. */
static void check_event(const struct event *e)
{
    assert_true(e->has_name && e->has_pid && e->has_tid);
    assert_non_null(strchr("MXCstf", e->ph));
    if (e->ph != 'M')
        assert_true(e->has_ts && e->ts >= 0);
    if (e->ph == 'X')
        assert_true(e->has_dur && e->dur >= 0 && e->cat[0]);
    if (e->ph == 'C')
        assert_int_equal(e->n_counter_values, 1);
    if (strchr("stf", e->ph))
        assert_true(e->has_id && e->cat[0]);
    if (e->ph == 'M') {
        bool name = strcmp(e->name, "process_name") == 0 || strcmp(e->name, "thread_name") == 0;
        assert_true(e->has_args);
        assert_true(name ? e->named && e->args_name[0]
                         : strcmp(e->name, "process_sort_index") == 0 ||
                               strcmp(e->name, "thread_sort_index") == 0);
    }
}

static const struct event *named(const char *what, int64_t pid, int64_t tid)
{
    for (int i = 0; i < n_events; i++)
        if (events[i].ph == 'M' && strcmp(events[i].name, what) == 0 && events[i].pid == pid &&
            (tid < 0 || events[i].tid == tid))
            return &events[i];
    fail_msg("no %s for pid %lld, tid %lld", what, (long long)pid, (long long)tid);
    return NULL;
}

/* The slice that a flow point hangs on: it begins there. */
static const struct event *slice_at(const struct event *point)
{
    for (int i = 0; i < n_events; i++)
        if (events[i].ph == 'X' && events[i].pid == point->pid && events[i].tid == point->tid &&
            events[i].ts == point->ts && strcmp(events[i].cat, "wait") != 0)
            return &events[i];
    fail_msg("flow %lld: no slice at %g", (long long)point->id, point->ts);
    return NULL;
}

EXPORT_TEST(every_event_has_what_its_phase_needs)
{
    int n_slices = 0;

    read_events(simulate(2, 1024, 1e9));
    for (int i = 0; i < n_events; i++) {
        check_event(&events[i]);
        if (events[i].ph == 'X') {
            named("process_name", events[i].pid, -1);
            named("thread_name", events[i].pid, events[i].tid);
            n_slices++;
        }
    }
    assert_true(n_slices > 100);
    assert_string_equal(named("process_name", 1, -1)->args_name, "predicted (run 1), rank 1");
    assert_string_equal(named("thread_name", 0, 0)->args_name, "compute");
}

EXPORT_TEST(flows_lead_from_gradient_to_bucket_to_collective)
{
    int n_flows = 0;

    read_events(simulate(2, 1024, 1e9));
    for (int i = 0; i < n_events; i++) {
        const struct event *s = &events[i];
        if (s->ph != 's')
            continue;
        assert_true(i + 2 < n_events);
        const struct event *c = s + 1, *f = s + 2;
        assert_int_equal(c->ph, 't');
        assert_int_equal(f->ph, 'f');
        assert_true(c->id == s->id && f->id == s->id);
        assert_true(s->ts <= c->ts && c->ts <= f->ts);
        assert_memory_equal(slice_at(s)->name, "backward", 8);
        assert_memory_equal(slice_at(c)->name, "copy_in", 7);
        assert_memory_equal(slice_at(f)->name, "ncclAllReduce bucket", 20);
        n_flows++;
    }
    assert_int_equal(n_flows, 4 * 2 * 3); /* gradients x ranks x steps */
    for (int i = 0; i < n_events; i++)
        for (int k = i + 1; k < n_events; k++)
            assert_false(events[i].ph == 's' && events[k].ph == 's' &&
                         events[i].id == events[k].id);
}

EXPORT_TEST(counters_end_at_zero_and_show_bytes_in_flight)
{
    static const int64_t sizes[] = {1 << 20, 3 << 20};
    const struct fixture_run f = {.kind = LW_RUN_SIM, .sizes = sizes, .n_buckets = 2,
                                  .n_steps = 1, .wire_us = 100, .cap_bytes = 1 << 20};

    read_events(runs_store(&f));
    /* both move from 212 us (rank 1 arrives) to 312, then the second bucket to 412 */
    const double at[] = {212, 312, 412};
    int n = 0;
    for (int i = 0; i < n_events; i++)
        if (events[i].ph == 'C' && events[i].pid == 0 &&
            strcmp(events[i].name, "bytes in flight") == 0) {
            assert_true(n < 3);
            assert_true(events[i].ts == at[n++]);
        }
    assert_int_equal(n, 3);
    assert_non_null(strstr(exported, "\"bytes\": 1048576"));
}

/* --- read back -------------------------------------------------------------------------------- */

static int64_t far(lw_ps a, int64_t b_ns)
{
    int64_t d = lw_ps_to_ns(a) - b_ns;
    return d < 0 ? -d : d;
}

/* Measures of the run's rank and those that inspect finds differ by `most` ns at most. */
static void expect_same(int32_t rank, int64_t most)
{
    int32_t last = stored.step[stored.n - 1];
    struct lw_summary s = {0};
    struct lw_trace trace;
    struct lw_inspection seen;
    char name[48];

    ok(lw_timeline_summarize(&stored, NULL, last, &s, &err));
    size_t len = export_text(rank);
    ok(lw_kineto_parse("export.json", exported, len, NULL, &trace, &err));
    ok(lw_trace_sort(&trace, &err));
    ok(lw_inspect(&trace, NULL, &seen, &err));
    assert_int_equal(trace.rank, rank);
    assert_int_equal(trace.world_size, stored_plan.n_ranks);
    assert_int_equal(seen.n_iterations, last + 1);
    const struct lw_iteration *it = &seen.iterations[seen.n_iterations - 1];
    const struct lw_measure *m = &s.ranks[rank];
    snprintf(name, sizeof name, "ProfilerStep#%d", m->step);
    assert_string_equal(it->name, name);
    assert_true(far(m->end - m->start, it->by_time.window_ns) <= (most > 0));
    assert_true(far(m->compute_busy, it->by_time.compute_busy_ns) <= most);
    assert_true(far(m->copy_busy, it->by_time.mem_busy_ns) <= most);
    assert_true(far(m->comm_busy, it->by_time.comm_busy_ns) <= most);
    assert_true(far(m->exposed_comm, it->by_time.exposed_comm_ns) <= most);
    assert_true(far(m->idle, it->by_time.idle_ns) <= most);
    assert_int_equal(it->by_launch.comm_busy_ns, it->by_time.comm_busy_ns);
    assert_true(it->n_comm > 0);
    assert_string_equal(it->comm[0].op, "all_reduce");
    assert_int_equal(it->comm[0].group_size, stored_plan.n_ranks);
    lw_inspection_free(&seen);
    lw_trace_free(&trace);
    lw_summary_free(&s);
}

EXPORT_TEST(inspect_finds_the_measures_of_the_run)
{
    static const int64_t sizes[] = {1 << 20, 3 << 20};
    const struct fixture_run f = {.kind = LW_RUN_EXEC, .sizes = sizes, .n_buckets = 2,
                                  .n_steps = 2, .wire_us = 100, .cap_bytes = 1 << 20};

    load(runs_store(&f));
    expect_same(0, 0); /* whole ns: exact */
    expect_same(1, 0);
}

/* Communication hidden by copies alone is not exposed, as in the run's own measures; each of the at
 * most 30 ends of an interval in a step of the tiny plan is rounded. */
EXPORT_TEST(inspect_agrees_on_random_clusters)
{
    struct prng r = prng_start("exports");

    for (int i = 0; i < 20; i++) {
        int32_t dp = (int32_t)prng_in(&r, 2, 4);
        int64_t cap = 4 * prng_in(&r, 0, 700);
        double rate = 1e8 * (double)prng_in(&r, 1, 100);
        print_message("dp %d, cap %lld, %g B/s\n", dp, (long long)cap, rate);
        load(simulate(dp, cap, rate));
        expect_same((int32_t)prng_in(&r, 0, dp - 1), 30);
        forget();
    }
}

/* --- the plan out of the database ------------------------------------------------------------- */

static void simulates_as_before(void)
{
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_timeline again = {0};
    struct lw_sim_stats stats;

    o.n_steps = 3;
    assert_string_equal(stored_plan.hash, plan.hash);
    assert_int_equal(stored_plan.n_ops, plan.n_ops);
    assert_int_equal(stored_plan.strategy->bucket_cap_bytes, 1024);
    ok(lw_sim_run(&stored_plan, &cluster, &o, &again, &stats, &err));
    assert_int_equal(again.n, timeline.n);
    for (int64_t i = 0; i < again.n; i++) {
        assert_int_equal(again.start[i], timeline.start[i]);
        assert_int_equal(again.end[i], timeline.end[i]);
        assert_int_equal(again.op[i], timeline.op[i]);
    }
    lw_timeline_free(&again);
}

EXPORT_TEST(a_stored_plan_simulates_as_before)
{
    load(simulate(3, 1024, 2e9));
    simulates_as_before();
}

EXPORT_TEST(a_plan_of_an_old_database_simulates_as_before)
{
    int64_t id = simulate(3, 1024, 2e9);

    make_plan_old(runs_db, 1, &plan);
    load(id);
    simulates_as_before();
}

/* The plan of a run is not loaded after the damage; old: as before schema version 7. */
static void refuses(const char *damage, bool old)
{
    struct lw_store *store;
    struct lw_arena arena = {0};
    struct lw_run run;
    struct lw_plan p;

    simulate(2, 1024, 1e9);
    if (old)
        make_plan_old(runs_db, 1, &plan);
    runs_sql(damage);
    ok(lw_store_open(runs_db, LW_STORE_READ, &store, &err));
    ok(lw_store_find_run(store, "last", &arena, &run, &err));
    if (lw_store_load_plan(store, &run, &p, &err) == LW_OK)
        fail_msg("loaded after %s", damage);
    lw_store_close(store);
    lw_arena_free(&arena);
    forget();
    fixture_close(NULL);
    runs_open(NULL);
}

EXPORT_TEST(an_edited_database_is_refused)
{
    static const char *const damage[] = {
        "UPDATE OR REPLACE dep SET dep = 99999",
        "UPDATE OR REPLACE dep SET dep = op",
        "UPDATE op_alike SET stream = 7",
        "UPDATE op_alike SET bucket = 50",
        "UPDATE op_alike SET kind = 'dance'",
        "UPDATE slot SET param = -1",
        "UPDATE comm_rank SET rank = rank + 5",
        "DELETE FROM op_piece WHERE op = 0",
        "DELETE FROM op_order WHERE place = 1",
        "UPDATE op_order SET place = place + 1000",
        "UPDATE op_piece SET n = n + 1",
        "UPDATE op_piece SET n = n - 1",
        "UPDATE op_piece SET n = 1 << 40",
        "UPDATE op_piece SET n = 0x7fffffffffffffff",
        "UPDATE op_piece SET place = -1",
        "UPDATE op_piece SET op = op - 1",
        "UPDATE program SET first_op = 1",
        "UPDATE plan SET n_ranks = -4",
        "UPDATE pass SET variant = 9",
        "UPDATE plan SET repeat_from = 12",
        "UPDATE stream SET stream = stream + 100",
        "UPDATE plan_rank SET role = 3",
    };

    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++)
        refuses(damage[i], true);
}

/* The file of a plan that is not whole, or of another plan, is refused. */
EXPORT_TEST(damaged_plan_files_are_refused)
{
    static const char *const damage[] = {
        "UPDATE plan_file SET gz = x'00'",
        "UPDATE plan_file SET gz = zeroblob(0)",
        "UPDATE plan_file SET gz = substr(gz, 1, length(gz) - 20)",
        "UPDATE plan_file SET gz = x'1f8b0800000000000003ffff00112233445566778899aabbccddeeff'",
        "UPDATE plan SET hash = 'ffffffffffffffffffffffffffffffff'",
    };

    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++)
        refuses(damage[i], false);
}

/* Shards, buffers and fixed memory, which no table has, come back. */
EXPORT_TEST(a_stored_plan_comes_back_whole)
{
    struct lw_plan_difference difference;
    int64_t id = simulate(2, 1024, 1e9);

    load(id);
    assert_string_equal(stored_plan.hash, plan.hash);
    assert_ok(lw_plan_diff(&plan, &stored_plan, &difference, &err), err);
    assert_string_equal(difference.decision, "");
    assert_string_equal(difference.times, "");
    assert_memory_equal(stored_plan.members, plan.members,
                        (size_t)plan.n_members * sizeof *plan.members);
    assert_int_equal(stored_plan.n_notes, plan.n_notes);
}

static enum lw_status export_to_memory(const struct lw_plan *p)
{
    const struct lw_export e = {.timeline = &timeline, .plan = p, .title = "t"};
    size_t len = 0;
    char *out = NULL;
    FILE *f = open_memstream(&out, &len);
    enum lw_status st = lw_export_chrome(&e, f, NULL);

    fclose(f);
    free(out);
    return st;
}

static void export_without_memory(struct lw_plan *p)
{
    EACH_ALLOCATION_FAILS_IN(0, export_to_memory(p));
    lw_plan_free(p);
}

EXPORT_TEST(loading_gives_memory_back_when_it_runs_out)
{
    int64_t id = simulate(2, 1024, 1e9);
    struct lw_store *store;
    struct lw_arena arena = {0};
    struct lw_run run;
    struct lw_plan p = {0};
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long)id);
    ok(lw_store_open(runs_db, LW_STORE_READ, &store, &err));
    ok(lw_store_find_run(store, text, &arena, &run, &err));
    EACH_ALLOCATION_FAILS(0, lw_store_load_plan(store, &run, &p, &err), p,
                          export_without_memory(&p));
    lw_store_close(store);
    lw_arena_free(&arena);
}
