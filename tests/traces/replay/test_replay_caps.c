/* Bucket what-ifs on recordings of one model with several caps (traces/recorded): both ranks of the
 * recording with cap A are asked about cap B, and compared with the recording with cap B. The
 * errors are in docs/design/replay_accuracy.md. */
#include "tests/lib/unit.h"
#include <math.h>
#include <stdio.h>

#include "shared/numbers/median.h"
#include "shared/bucket/bucket.h"
#include "tests/lib/traces/replay_help.h"
#include "traces/replay/recorded_timeline.h"

#define MIB INT64_C(1048576)

enum { N_CAPS = 4 };

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

static void read_run(const char *model, int cap, struct traces_source *s)
{
    for (int rank = 0; rank < 2; rank++) {
        char file[128];
        snprintf(file, sizeof file, "traces/recorded/%s__gloo2__cap%s.rank%d.json.gz", model,
                 caps[cap].name, rank);
        replay_read(&s[rank], file);
    }
}

/* The median period with the buckets of a cap (-1: as recorded); *recorded: of the recording. */
static double period(const struct traces_source *s, int cap, double *recorded)
{
    struct lw_bucket_request want = {.policy = LW_BUCKET_C10D_2};
    struct traces_replay_choice choice = {.buckets = cap >= 0 ? &want : NULL};
    struct replay_run x;
    struct lw_timeline t;
    lw_ps v[2];

    if (cap >= 0) {
        want.cap_bytes = caps[cap].cap;
        want.first_bytes = caps[cap].first;
    }
    replay_run(s, 2, &choice, &x);
    assert_int_equal(x.r.n_steps, 2);
    assert_int_equal(traces_recorded_rows(&x.r, &x.r.plan, &t, NULL), LW_OK);
    assert_int_equal(traces_replay_periods(&x.r, &t, -1, v, NULL), LW_OK);
    *recorded = (double)lw_median(v, 2);
    assert_int_equal(traces_replay_periods(&x.r, &x.t, -1, v, NULL), LW_OK);
    lw_timeline_free(&t);
    replay_run_free(&x);
    return (double)lw_median(v, 2);
}

static double pct(double a, double b)
{
    return 100 * (a / b - 1);
}

struct errors {
    double sum, worst;
    int n, n_told, n_right; /* told: changes of 2 % and more, predicted and recorded; same sign */
};

static void check_model(const char *model, struct errors *e)
{
    double recorded[N_CAPS], predicted[N_CAPS][N_CAPS];

    for (int a = 0; a < N_CAPS; a++) {
        struct traces_source s[2];
        read_run(model, a, s);
        double base = period(s, -1, &recorded[a]);
        if (fabs(pct(base, recorded[a])) > 1)
            fail_msg("%s cap %s: replay off by %.2f %%", model, caps[a].name,
                     pct(base, recorded[a]));
        for (int b = 0; b < N_CAPS; b++)
            predicted[a][b] = period(s, b, &recorded[a]);
        assert_true(predicted[a][a] == base);
        for (int r = 0; r < 2; r++)
            traces_source_free(&s[r]);
    }
    for (int a = 0; a < N_CAPS; a++)
        for (int b = 0; b < N_CAPS; b++) {
            double error = pct(predicted[a][b], recorded[b]);
            double told = pct(predicted[a][b], recorded[a]), truth = pct(recorded[b], recorded[a]);
            if (a == b)
                continue;
            print_message("%s %s -> %s: recorded %+.1f %%, predicted %+.1f %%, error %+.1f %%\n",
                          model, caps[a].name, caps[b].name, truth, told, error);
            e->sum += fabs(error);
            e->worst = fabs(error) > e->worst ? fabs(error) : e->worst;
            e->n++;
            if (fabs(told) >= 2 && fabs(truth) >= 2) {
                e->n_told++;
                e->n_right += (told > 0) == (truth > 0);
            }
        }
}

TEST(other_caps_are_right_in_direction)
{
    struct errors e = {0};

    check_model("gpt6", &e);
    check_model("resnet18", &e);
    print_message("%d what-ifs: mean error %.1f %%, worst %.1f %%; %d of %d changes of 2 %% and "
                  "more in the right direction\n", e.n, e.sum / e.n, e.worst, e.n_right, e.n_told);
    assert_true(e.sum / e.n <= 5);
    assert_true(e.worst <= 13.5);
    assert_true(e.n_told >= 5);
    assert_int_equal(e.n_right, e.n_told);
}
