/* Replays of recorded traces: how far off, and what must not matter. Traces of ../shared where they
 * are present, and those of traces/recorded. */
#include "tests/lib/unit.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/explain/explain.h"
#include "shared/numbers/median.h"
#include "traces/replay/recorded_timeline.h"
#include "tests/lib/prng.h"
#include "tests/lib/traces/replay_help.h"
#include "shared/base/arena.h"

#define KINETO "../shared/traces/kineto"
#define RECORDED "traces/recorded"

static const struct traces_replay_choice plain = {0};

static void read_trace(const char *folder, const char *name, struct traces_source *s)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    replay_read(s, path);
    s->file = "trace";
}

static bool shared_is_there(const char *what)
{
    if (access(KINETO, R_OK) == 0)
        return true;
    print_message("SKIP %s: %s is absent\n", what, KINETO);
    return false;
}

static double error_pct(const struct replay_run *x, int32_t k)
{
    double recorded = (double)x->r.steps[k].host;

    return 100 * ((double)replay_step(x, k) - recorded) / recorded;
}

/* ---- how far off ---- */

static int32_t n_steps, n_close, n_device_files;
static double worst, worst_period;

/* Device periods of all steps: predicted in p, recorded in q. */
static void read_periods(const struct replay_run *x, lw_ps *p, lw_ps *q)
{
    struct lw_timeline recorded;

    assert_int_equal(traces_replay_periods(&x->r, &x->t, -1, p, NULL), LW_OK);
    assert_int_equal(traces_recorded_rows(&x->r, &x->r.plan, &recorded, NULL), LW_OK);
    assert_int_equal(traces_replay_periods(&x->r, &recorded, -1, q, NULL), LW_OK);
    lw_timeline_free(&recorded);
}

/* The median period of a recording with device ops, predicted against recorded. */
static void check_periods(const struct replay_run *x, const char *name)
{
    int32_t first = traces_replay_first(&x->r), n = x->r.n_steps - first;
    lw_ps *p = calloc(2 * (size_t)x->r.n_steps, sizeof *p), *q = p + x->r.n_steps;

    if (x->r.has_device) {
        read_periods(x, p, q);
        double want = (double)lw_median(q + first, n);
        double e = 100 * fabs((double)lw_median(p + first, n) - want) / want;
        n_device_files++;
        worst_period = e > worst_period ? e : worst_period;
        if (e > 1)
            fail_msg("%s: its device period is off by %.2f %%", name, e);
    }
    free(p);
}

/* Whatever the device lags: nothing is busy for longer than the period that it is shown of, and a
 * recording without device ops computes. */
static void check_shares(struct replay_run *x, const char *name)
{
    struct lw_summary s;

    assert_int_equal(traces_replay_divide(&x->r, &x->t, NULL), LW_OK);
    assert_int_equal(lw_timeline_summarize(&x->t, &x->r.plan, 1 + traces_replay_first(&x->r), &s,
                                           NULL), LW_OK);
    for (int32_t i = 0; i < s.n_ranks; i++) {
        const struct lw_measure *m = &s.ranks[i];
        lw_ps period = m->end - m->start;
        if (m->compute_busy > period || m->copy_busy > period || m->comm_busy > period)
            fail_msg("%s: busy for longer than its period", name);
        assert_int_equal(m->compute_busy + m->exposed_copy + m->exposed_comm + m->idle, period);
        assert_true(x->r.has_device || m->compute_busy > 0);
    }
    lw_summary_free(&s);
}

static void replay_file(const char *folder, const char *name)
{
    struct traces_source s;
    struct replay_run x;

    read_trace(folder, name, &s);
    replay_run(&s, 1, &plain, &x);
    for (int32_t k = 0; k < x.r.n_steps; k++) {
        double e = fabs(error_pct(&x, k));
        n_steps++;
        n_close += e <= 1;
        worst = e > worst ? e : worst;
        if (e > 3.3)
            fail_msg("%s: %s is off by %.2f %%", name, x.r.steps[k].name, e);
    }
    check_periods(&x, name);
    check_shares(&x, name);
    replay_run_free(&x);
    traces_source_free(&s);
}

static void replay_folder(const char *folder, int32_t least_files)
{
    DIR *d = opendir(folder);
    int32_t n = 0;

    assert_non_null(d);
    n_steps = n_close = n_device_files = 0;
    worst = worst_period = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        size_t len = strlen(e->d_name);
        if (len < 8 || strcmp(e->d_name + len - 8, ".json.gz") != 0 ||
            strncmp(e->d_name, "sampled", 7) == 0)
            continue;
        replay_file(folder, e->d_name);
        n++;
    }
    closedir(d);
    print_message("%s: %d files, %d steps, %d within 1 %%, worst %.2f %%\n", folder, n, n_steps,
                  n_close, worst);
    print_message("%d files with device ops: their median periods are off by at most %.2f %%\n",
                  n_device_files, worst_period);
    assert_true(n >= least_files);
    assert_true(n_close * 10 >= n_steps * 9);
}

TEST(every_kineto_step_is_predicted_within_3_3_percent)
{
    if (!shared_is_there("replays of Kineto files"))
        skip();
    replay_folder(KINETO, 19);
    assert_true(n_device_files >= 17);
}

/* A recommender whose collectives are awaited a step later: not the median alone, every step. */
TEST(every_step_of_torchrec_is_predicted_within_1_percent)
{
    struct traces_source s;
    struct replay_run x;
    lw_ps p[8], q[8];

    if (!shared_is_there("torchrec"))
        skip();
    read_trace(KINETO, "torchrec_8xA100_rank3.json.gz", &s);
    replay_run(&s, 1, &plain, &x);
    assert_in_range(x.r.n_steps, 6, 8);
    read_periods(&x, p, q);
    for (int32_t k = traces_replay_first(&x.r); k < x.r.n_steps; k++)
        assert_true(fabs((double)(p[k] - q[k])) <= 0.01 * (double)q[k]);
    replay_run_free(&x);
    traces_source_free(&s);
}

TEST(steps_recorded_on_cpus_are_predicted_within_3_3_percent)
{
    replay_folder(RECORDED, 18);
}

TEST(all_ranks_together_are_predicted_within_3_3_percent)
{
    static const char *const runs[] = {"megatron_tp2_2xV100_rank%d.json.gz",
                                       "dlrm_8gpu_rank%d.json.gz"};
    static const int n_ranks[] = {2, 8};

    if (!shared_is_there("replays of several ranks"))
        skip();
    for (int i = 0; i < 2; i++) {
        struct traces_source s[8];
        struct replay_run x;
        char name[64];
        for (int r = 0; r < n_ranks[i]; r++) {
            snprintf(name, sizeof name, i ? "dlrm_8gpu_rank%d.json.gz"
                                          : "megatron_tp2_2xV100_rank%d.json.gz", r);
            read_trace(KINETO, name, &s[r]);
        }
        replay_run(s, n_ranks[i], &plain, &x);
        for (int32_t r = 0; r < n_ranks[i]; r++) {
            double recorded = (double)x.r.steps[0].host_of_rank[r];
            double predicted = (double)traces_replay_host(&x.r, &x.t, 0, r);
            print_message("%s: %+.2f %%\n", runs[i], 100 * (predicted - recorded) / recorded);
            assert_true(fabs(predicted - recorded) <= 0.033 * recorded);
        }
        replay_run_free(&x);
        for (int r = 0; r < n_ranks[i]; r++)
            traces_source_free(&s[r]);
    }
}

/* ---- what must not matter ---- */

/* New starts for all device rows, drawn from a range of their own, in the same order. */
static void scramble(struct traces_source *s, uint64_t seed)
{
    struct lw_trace *t = &s->trace;
    struct prng g = {seed * 2685821657736338717u + 1};
    int64_t at = t->start_ns[0] + (int64_t)(prng_next(&g) % 1000000000);

    for (int64_t i = 0; i < t->n; i++)
        if (lw_trace_on_device(t, i)) {
            at += 1 + (int64_t)(prng_next(&g) % 300000);
            t->start_ns[i] = at;
        }
    lw_steps_free(&s->steps);
    replay_ready(s);
}

/* Of recordings with a short synchronisation, as of others ends tell what calls take of the host,
 * and without inferred waits, which recorded order may disprove. */
TEST(starts_of_device_ops_do_not_matter)
{
    static const char *const names[] = {
        "linear_1gpu.json.gz", "alexnet_cuda_sync.json.gz", "cuda_sync_multi_stream.json.gz",
        "cuda_sync_event.json.gz"};

    if (!shared_is_there("scrambled starts"))
        skip();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct traces_source s;
        struct replay_run a, b;
        read_trace(KINETO, names[i], &s);
        replay_run(&s, 1, &plain, &a);
        scramble(&s, 7 + i);
        replay_run(&s, 1, &plain, &b);
        assert_string_equal(a.r.plan.hash, b.r.plan.hash);
        assert_int_equal(a.t.n, b.t.n);
        assert_memory_equal(a.t.start, b.t.start, (size_t)a.t.n * sizeof *a.t.start);
        assert_memory_equal(a.t.end, b.t.end, (size_t)a.t.n * sizeof *a.t.end);
        replay_run_free(&a);
        replay_run_free(&b);
        traces_source_free(&s);
    }
}

/* ---- what must ---- */

static lw_ps end_of(const struct replay_run *x)
{
    lw_ps end = 0;

    for (int64_t i = 0; i < x->t.n; i++)
        end = x->t.end[i] > end ? x->t.end[i] : end;
    return end;
}

static lw_ps end_with(struct traces_source *s, int64_t row, int64_t dur_ns)
{
    struct replay_run x;
    int64_t before = s->trace.dur_ns[row];

    s->trace.dur_ns[row] = dur_ns;
    replay_run(s, 1, &plain, &x);
    s->trace.dur_ns[row] = before;
    lw_ps end = end_of(&x);
    replay_run_free(&x);
    return end;
}

/* Ops with slack: those that can be longer by some time without moving the end. The critical
 * ones are those of a path that explain finds. */
static void mark_critical(const struct replay_run *x, bool *critical)
{
    struct lw_explanation e;
    struct lw_err err = {0};

    assert_ok(lw_explain(&x->t, &x->r.plan, 0, 0, 0, &e, &err), err);
    for (int64_t i = 0; i < e.n_path; i++)
        if (e.path[i].op >= 0)
            critical[e.path[i].op] = true;
    lw_explanation_free(&e);
}

TEST(a_change_of_a_kernel_moves_the_end_by_its_time_or_not_at_all)
{
    static const char *const names[] = {"torchrec_8xA100_rank3.json.gz",
                                        "dlrm_8gpu_rank0.json.gz",
                                        "dlrm_8gpu_rank4.json.gz", "alexnet_cuda_sync.json.gz"};
    struct prng g = prng_start("kernels");
    const int each = unit_cases(5, 12);
    int n_doubled = 0, n_halved = 0;

    if (!shared_is_there("doubled and halved kernels"))
        skip();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct traces_source s;
        struct replay_run x;
        read_trace(KINETO, names[i], &s);
        replay_run(&s, 1, &plain, &x);
        lw_ps end = end_of(&x);
        bool *critical = calloc((size_t)x.r.plan.n_ops, sizeof *critical);
        mark_critical(&x, critical);
        for (int tries = 0, done[2] = {0}; tries < 20000 && done[0] + done[1] < 2 * each; tries++) {
            int32_t op = (int32_t)(prng_next(&g) % (uint64_t)x.r.plan.n_ops);
            int64_t row = x.r.row_of[op], dur = row >= 0 ? s.trace.dur_ns[row] : 0;
            if (dur < 2 || x.r.plan.ops[op].kind != LW_OP_KERNEL || done[critical[op]] == each)
                continue;
            done[critical[op]]++;
            if (critical[op]) {
                assert_int_equal(end_with(&s, row, 2 * dur), end + lw_ns_to_ps(dur));
                n_doubled++;
            } else {
                assert_int_equal(end_with(&s, row, dur / 2), end);
                n_halved++;
            }
        }
        free(critical);
        replay_run_free(&x);
        traces_source_free(&s);
    }
    print_message("%d doubled, %d halved\n", n_doubled, n_halved);
    assert_true(3 * n_doubled >= 5 * each && 3 * n_halved >= 10 * each);
}
