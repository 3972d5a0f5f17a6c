/* Bucket what-ifs on recordings of one model with several caps (traces/recorded,
 * ../shared/groundtruth): both ranks of the recording with cap A are asked about cap B, and
 * compared with the recording with cap B. The errors are in docs/design/replay_accuracy.md. */
#include "tests/lib/unit.h"
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "shared/numbers/median.h"
#include "shared/bucket/bucket.h"
#include "tests/lib/traces/replay_help.h"
#include "traces/replay/recorded_timeline.h"

#define MIB INT64_C(1048576)

enum { N_CAPS = 4 };

#define GROUNDTRUTH "../shared/groundtruth"

/* torch's own rule of these recordings: a given cap is the only limit, else 1 MiB and 25 MiB */
static const struct {
    const char *name;
    int64_t first, cap;
} caps[N_CAPS] = {
    {"1", MIB, MIB},
    {"5", 5 * MIB, 5 * MIB},
    {"25", 25 * MIB, 25 * MIB},
    {"default", MIB, 25 * MIB},
};

struct run { /* of two ranks */
    struct traces_source s[2];
    double recorded, spread; /* median period; longest over shortest, in percent */
};

static double pct(double a, double b)
{
    return 100 * (a / b - 1);
}

/* The median period with other buckets (NULL: as recorded). */
static double period(struct run *run, const struct lw_bucket_request *want)
{
    struct traces_replay_choice choice = {.buckets = want};
    struct replay_run x;
    struct lw_timeline t;
    lw_ps v[2];

    replay_run(run->s, 2, &choice, &x);
    assert_int_equal(x.r.n_steps, 2);
    assert_int_equal(traces_recorded_rows(&x.r, &x.r.plan, &t, NULL), LW_OK);
    assert_int_equal(traces_replay_periods(&x.r, &t, -1, v, NULL), LW_OK);
    run->spread = v[0] > v[1] ? pct((double)v[0], (double)v[1]) : pct((double)v[1], (double)v[0]);
    run->recorded = (double)lw_median(v, 2);
    assert_int_equal(traces_replay_periods(&x.r, &x.t, -1, v, NULL), LW_OK);
    lw_timeline_free(&t);
    replay_run_free(&x);
    return (double)lw_median(v, 2);
}

static struct lw_bucket_request request(int64_t first, int64_t cap)
{
    return (struct lw_bucket_request){
        .policy = LW_BUCKET_C10D_2, .cap_bytes = cap, .first_bytes = first};
}

/* Reads and replays it as recorded. */
static double open_run(const char *folder, const char *name, const char *cap, const char *suffix,
                       struct run *run)
{
    for (int rank = 0; rank < 2; rank++) {
        char file[256];
        snprintf(file, sizeof file, "%s/%scap%s.rank%d.%s", folder, name, cap, rank, suffix);
        replay_read(&run->s[rank], file);
    }
    double base = period(run, NULL);
    if (fabs(pct(base, run->recorded)) > 1)
        fail_msg("%s cap %s: replay off by %.2f %%", name, cap, pct(base, run->recorded));
    return base;
}

static void close_run(struct run *run)
{
    for (int r = 0; r < 2; r++)
        traces_source_free(&run->s[r]);
}

struct errors {
    double sum, worst;
    int n, n_told, n_right; /* told: changes of 3 % and more, predicted and recorded; same sign */
    int n_certain, n_kept;  /* recorded ones whose prediction is above the known error; same sign */
    int n_recorded, n_signs; /* recorded changes of 3 % and more, beyond the spread of the steps */
};

static void count(struct errors *e, const char *name, const char *from, const char *to,
                  const struct run *a, const struct run *b, double base, double predicted)
{
    double error = pct(predicted, b->recorded), told = pct(predicted, base);
    double truth = pct(b->recorded, a->recorded);
    double spread = a->spread > b->spread ? a->spread : b->spread;

    print_message("%s %s -> %s: recorded %+.1f %%, predicted %+.1f %%, error %+.1f %%\n", name,
                  from, to, truth, told, error);
    e->sum += fabs(error);
    e->worst = fabs(error) > e->worst ? fabs(error) : e->worst;
    e->n++;
    if (fabs(told) >= 3 && fabs(truth) >= 3) {
        e->n_told++;
        e->n_right += (told > 0) == (truth > 0);
    }
    if (fabs(truth) >= 3 && fabs(told) > 4.7) { /* else the output calls the sign uncertain */
        e->n_certain++;
        e->n_kept += (told > 0) == (truth > 0);
    }
    if (fabs(truth) >= 3 && fabs(truth) > spread) {
        e->n_recorded++;
        e->n_signs += (told > 0) == (truth > 0);
    }
}

static void print_errors(const struct errors *e)
{
    print_message("%d what-ifs: mean error %.1f %%, worst %.1f %%; %d of %d predicted changes of 3 "
                  "%% and more in the right direction, %d of %d recorded ones\n",
                  e->n, e->sum / e->n, e->worst, e->n_right, e->n_told, e->n_signs, e->n_recorded);
}

static void check_model(const char *model, struct errors *e)
{
    double predicted[N_CAPS][N_CAPS], base[N_CAPS];
    struct run run[N_CAPS];

    for (int a = 0; a < N_CAPS; a++) {
        base[a] = open_run("traces/recorded", model, caps[a].name, "json.gz", &run[a]);
        for (int b = 0; b < N_CAPS; b++) {
            struct lw_bucket_request want = request(caps[b].first, caps[b].cap);
            predicted[a][b] = period(&run[a], &want);
        }
        assert_true(predicted[a][a] == base[a]);
    }
    for (int a = 0; a < N_CAPS; a++)
        for (int b = 0; b < N_CAPS; b++)
            if (a != b)
                count(e, model, caps[a].name, caps[b].name, &run[a], &run[b], base[a],
                      predicted[a][b]);
    for (int a = 0; a < N_CAPS; a++)
        close_run(&run[a]);
}

TEST(other_caps_are_right_in_direction)
{
    struct errors e = {0};

    check_model("gpt6__gloo2__", &e);
    check_model("resnet18__gloo2__", &e);
    print_errors(&e);
    assert_true(e.sum / e.n <= 5);
    assert_true(e.worst <= 15);
    assert_true(e.n_right >= 7 && e.n_right >= e.n_told - 1);
    assert_true(e.n_signs >= 8 && e.n_signs >= e.n_recorded - 2);
    assert_true(e.n_certain >= 5 && e.n_kept == e.n_certain);
}

/* Its caps are limits after a first bucket of 1 MiB. */
static void check_network(const char *name, struct errors *e)
{
    static const char *const cap[2] = {"1", "25"};
    const struct lw_bucket_request want[2] = {request(MIB, MIB), request(MIB, 25 * MIB)};
    struct run run[2];
    double base[2];

    for (int a = 0; a < 2; a++)
        base[a] = open_run(GROUNDTRUTH, name, cap[a], "trace.json.gz", &run[a]);
    for (int a = 0; a < 2; a++) {
        assert_true(period(&run[a], &want[a]) == base[a]);
        count(e, name, cap[a], cap[1 - a], &run[a], &run[1 - a], base[a],
              period(&run[a], &want[1 - a]));
        close_run(&run[a]);
    }
}

static bool groundtruth_is_there(void)
{
    bool there = access(GROUNDTRUTH, R_OK) == 0;

    if (!there)
        print_message("SKIP: %s is absent\n", GROUNDTRUTH);
    return there;
}

/* The link bounds the collectives. */
TEST(other_caps_on_slow_links_are_right)
{
    struct errors e = {0};

    if (!groundtruth_is_there())
        skip();
    check_network("gpt6__500m__", &e);
    check_network("gpt6__1g__", &e);
    check_network("resnet18__500m__", &e);
    check_network("resnet18__1g__", &e);
    print_errors(&e);
    assert_true(e.sum / e.n <= 1.3);
    assert_true(e.worst <= 3.6);
    assert_int_equal(e.n_recorded, 8);
    assert_int_equal(e.n_signs, 8);
}

/* The processor bounds them. Steps of one configuration differ by up to 21 % there. */
TEST(other_caps_on_fast_links_are_right_beyond_the_noise)
{
    struct errors e = {0};

    if (!groundtruth_is_there())
        skip();
    check_network("gpt6__5g__", &e);
    check_network("gpt6__unl__", &e);
    check_network("resnet18__5g__", &e);
    check_network("resnet18__unl__", &e);
    print_errors(&e);
    assert_true(e.sum / e.n <= 6);
    assert_int_equal(e.n_recorded, 2);
    assert_int_equal(e.n_signs, 2);
}

/* One recording with one bucket of 22 MiB on 1 Gbit/s; steps measured without a profiler with caps
 * of 25, 5 and 1 MiB: 420.9, 315.5 and 303.7 ms (gpt__1g.json). */
TEST(smaller_buckets_of_a_recent_torch_hide_behind_the_backward)
{
    static const struct {
        int64_t cap;
        double measured_pct;
    } of[] = {{MIB, -27.84}, {5 * MIB, -25.04}};
    struct run run;

    if (access(GROUNDTRUTH "-torch", R_OK) != 0) {
        print_message("SKIP: %s-torch is absent\n", GROUNDTRUTH);
        skip();
    }
    double base = open_run(GROUNDTRUTH "-torch/traces", "gpt__1g__ddp_", "25", "json.gz", &run);
    for (int i = 0; i < 2; i++) {
        struct lw_bucket_request want = request(of[i].cap, of[i].cap);
        double told = pct(period(&run, &want), base);
        print_message("%lld MiB: measured %.1f %%, predicted %.1f %%\n",
                      (long long)(of[i].cap / MIB), of[i].measured_pct, told);
        assert_true(fabs(told - of[i].measured_pct) <= 3);
    }
    close_run(&run);
}

/* FSDP2, a pipeline and accumulation of torch 2.15, whose collectives and messages block the host:
 * without a change they come out as recorded. open_run fails at 1 %. */
TEST(other_strategies_of_a_recent_torch_replay_within_1_percent)
{
    static const char *const names[] = {"gpt__1g__fsdp_reshard", "gpt__1g__pp_1f1b_m4",
                                        "gpt__1g__acc4_nosync", "gpt__1g__ddp_cap25"};

    if (access(GROUNDTRUTH "-torch", R_OK) != 0) {
        print_message("SKIP: %s-torch is absent\n", GROUNDTRUTH);
        skip();
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct run run;
        for (int rank = 0; rank < 2; rank++) {
            char file[256];
            snprintf(file, sizeof file, GROUNDTRUTH "-torch/traces/%s.rank%d.json.gz", names[i],
                     rank);
            replay_read(&run.s[rank], file);
        }
        double base = period(&run, NULL), error = pct(base, run.recorded);
        print_message("%s: %+.2f %%\n", names[i], error);
        assert_true(fabs(error) <= 1);
        close_run(&run);
    }
}
