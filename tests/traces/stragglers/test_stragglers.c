/* What stragglers cost: a job by hand, two recorded jobs and their authors' results, bad tables. */
#include "tests/lib/unit.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/io/input.h"
#include "shared/json/json.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "traces/stragglers/stragglers.h"

#define JOBS "../shared/straggler-jobs/"
#define HEAD "step,rank,dp_rank,stage,optype,seq_id,mc,gmc,mb_id,start_us,duration_us\n"

static enum lw_status study(const char *text, struct traces_stragglers *s, struct lw_err *err)
{
    size_t len = strlen(text);
    char *copy = calloc(len + 64, 1);
    struct lw_input in = {.name = "job.csv", .text = copy, .len = len};
    struct job_ops j;

    memcpy(copy, text, len);
    enum lw_status status = job_ops_read(&in, &j, err);
    free(copy);
    LW_TRY(status);
    status = traces_stragglers_find(&j, s, err);
    job_ops_free(&j);
    return status;
}

/* Two workers of one stage; rank 7 takes 20 us for its forward, rank 4 10. Both reduce for 5 us
 * once the later one is there, clip for 1 and step for 2: 20 + 20 + 5 + 1 + 2 = 48 us. Forwards of
 * the mean 15 make it 43. Rank 7's alone as recorded: 48; rank 4's: 43. */
static const char two[] =
    HEAD "5,4,0,0,forward-compute,0,0,0,0,0,10\n5,4,0,0,backward-compute,0,0,0,0,10,20\n"
         "5,4,0,0,grads-reduce-scatter,0,0,-1,-1,30,15\n5,4,0,0,optimizer-clip-main-grad,0,-1,-1,"
         "-1,45,1\n5,4,0,0,optimizer,0,-1,-1,-1,46,2\n"
         "5,7,1,0,forward-compute,0,0,0,0,0,20\n5,7,1,0,backward-compute,0,0,0,0,20,20\n"
         "5,7,1,0,grads-reduce-scatter,0,0,-1,-1,40,5\n5,7,1,0,optimizer-clip-main-grad,0,-1,-1,"
         "-1,45,1\n5,7,1,0,optimizer,0,-1,-1,-1,46,2\n";

TEST(a_slow_worker_is_named_with_what_it_costs)
{
    struct traces_stragglers s;
    struct lw_err err = {0};

    if (study(two, &s, &err) != LW_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(s.recorded_ns, 48000);
    assert_int_equal(s.simulated_ns, 48000);
    assert_int_equal(s.alike_ns, 43000);
    assert_true(fabs(s.slowdown - 48.0 / 43) < 1e-12);
    assert_int_equal(s.by_dp.v[0].number, 1);
    assert_true(fabs(s.by_dp.v[0].slowdown - 48.0 / 43) < 1e-12);
    assert_true(fabs(s.by_dp.v[1].slowdown - 1) < 1e-12);
    assert_string_equal(s.by_type.v[0].name, "forward-compute");
    assert_int_equal(s.by_worker.v[0].number, 7);
    assert_int_equal(s.slowest.n_ranks, 1);
    assert_true(fabs(s.slowest.removed - 1) < 1e-12);
    assert_int_equal(s.steps[0].step, 5);
    traces_stragglers_free(&s);
}

TEST(bad_tables_are_refused_with_line_and_reason)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {HEAD, "job.csv"},
        {HEAD "5,4,0,0,thinking,0,0,0,0,0,10\n", "job.csv:2: unknown optype 'thinking'"},
        {HEAD "5,4,0,0,forward-compute,0,0,0,0,soon,10\n", "start_us is 'soon'"},
        {HEAD "5,4,0,0,forward-compute,0,0,0,0,0,-1\n", "duration_us is '-1'"},
        {HEAD "5,4,0,-2,forward-compute,0,0,0,0,0,1\n", "stage"},
        {HEAD "5,4,0,0,forward-compute,0,0,0,0,0,1\n5,4,0,0,forward-compute,0,0,0,0,0,1\n",
         "is there twice"},
        {HEAD "5,4,0,0,forward-compute,0,0,0,0,0,1\n5,5,1,0,backward-compute,0,0,0,0,0,1\n",
         "missing in step 5 on dp_rank"},
        {HEAD "5,4,0,0,forward-compute,0,0,0,0,0,1\n5,5,1000000,0,forward-compute,0,0,0,0,0,1\n",
         "missing in step"},
        /* a send whose receive is not recorded */
        {HEAD "1,0,0,0,forward-compute,0,0,0,0,0,1\n1,0,0,0,forward-send,0,-1,-1,-1,1,1\n"
              "1,1,0,1,forward-compute,0,0,1,0,2,1\n",
         "'forward-send' 0 of stage 0 has no 'forward-recv' on stage 1"},
        /* each stage receives before it may send what the other waits for */
        {HEAD "1,0,0,0,backward-compute,0,0,0,0,0,5\n1,0,0,0,forward-compute,0,0,0,0,20,1\n"
              "1,0,0,0,forward-send,0,-1,-1,-1,21,1\n1,0,0,0,backward-recv,0,-1,-1,-1,0,1\n"
              "1,1,0,1,forward-recv,0,-1,-1,-1,0,1\n1,1,0,1,forward-compute,0,0,1,0,1,1\n"
              "1,1,0,1,backward-compute,0,0,1,0,2,1\n1,1,0,1,backward-send,0,-1,-1,-1,3,1\n",
         "waits for itself in a cycle"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_stragglers s = {.n_steps = 77};
        struct lw_err err = {0};
        assert_int_equal(study(cases[i].text, &s, &err), LW_EFORMAT);
        if (!strstr(err.msg, cases[i].says) || strchr(err.msg, '\n'))
            fail_msg("'%s' is not in: %s", cases[i].says, err.msg);
        assert_int_equal(s.n_steps, 77);
    }
}

TEST(failing_allocations_leak_nothing)
{
    struct traces_stragglers s = {.n_steps = 77};

    EACH_ALLOCATION_FAILS(0, study(two, &s, NULL), s, traces_stragglers_free(&s));
}

/* ---- recorded jobs: *_expected.json ---- */

static const struct expected {
    const char *file;
    double s, m_w, m_s;
    int n_types;
    struct {
        const char *name;
        double slowdown;
    } types[11];
    int n_stages;
    double stages[4]; /* by stage */
    int dp[2];
    double dp_slowdown[2];
} jobs[] = {
    {"ST_ops.csv.gz", 1.1787021836556841, 0.031404269124045224, 1.2193563788811714, 11,
     {{"forward-compute", 1.0874989663025318},
      {"backward-compute", 1.074156472437866},
      {"embedding-grads-all-reduce", 1.0095504024370303},
      {"grads-reduce-scatter", 1.00266695254219},
      {"optimizer-clip-main-grad", 1.0023506224771044},
      {"optimizer", 1.0014767395023902},
      {"params-all-gather", 1.0011307740825817},
      {"layernorm-grads-all-reduce", 1.0000026919173086},
      {"gc", 1.0},
      {"backward-pp-comm", 0.999992994223364},
      {"forward-pp-comm", 0.9998586213458615}},
     4, {0.9980450635272368, 0.9830562530894704, 0.9824931309511952, 1.2322559543157936},
     {1, 0}, {1.1778704237064905, 1.1730828198099532}},
    {"SE_ops.csv.gz", 1.5373613711484118, 0.025062266911209777, 0.6877108929755429, 3,
     {{"backward-compute", 1.412770613588},
      {"forward-compute", 1.145963507348328},
      {"embedding-grads-all-reduce", 1.001754713787978}},
     2, {1.1678121027453754, 1.4354480066634938}, {8, 27},
     {1.204479822846585, 1.190060993692899}},
};

static double blame_of(const struct traces_blames *v, const char *name, int number)
{
    for (int32_t i = 0; i < v->n; i++)
        if (name ? strcmp(v->v[i].name, name) == 0 : v->v[i].number == number)
            return v->v[i].slowdown;
    return NAN;
}

static void near(const char *file, const char *what, double found, double want)
{
    if (!(fabs(found - want) <= 1e-5 * fabs(want)))
        fail_msg("%s: %s is %.7f, expected %.7f", file, what, found, want);
}

/* One object of the authors' file, {"812": {"1": 1.79, ...}, ...} by step; how many figures. */
static int steps_agree(const char *file, struct lw_json *j, const struct traces_stragglers *s,
                       const struct traces_blames *v, bool named)
{
    int n = 0;

    assert_true(lw_json_enter(j, LW_JSON_OBJECT));
    while (lw_json_next(j)) {
        int64_t step = strtoll(lw_json_key(j, NULL), NULL, 10);
        int32_t i = 0, k;
        while (i < s->n_steps && s->steps[i].step != step)
            i++;
        assert_true(i < s->n_steps);
        assert_true(lw_json_enter(j, LW_JSON_OBJECT));
        while (lw_json_next(j)) {
            char key[64], what[128];
            snprintf(key, sizeof key, "%s", lw_json_key(j, NULL));
            double want = lw_json_double(j);
            for (k = 0; k < v->n; k++)
                if (named ? strcmp(v->v[k].name, key) == 0 : v->v[k].number == atoi(key))
                    break;
            snprintf(what, sizeof what, "%s in step %lld", key, (long long)step);
            if (k < v->n)
                near(file, what, v->v[k].steps[i], want);
            else
                near(file, what, 1, want); /* a type that the job has no operation of */
            n++;
        }
    }
    return n;
}

TEST(recorded_jobs_have_their_authors_results_of_each_step)
{
    static const struct {
        const char *ops, *results;
        int figures; /* ST: 32 steps of 1 + 11 + 4 + 2, SE: 43 of 1 + 11 + 2 */
    } each[] = {{"ST_ops.csv.gz", "ST_expected.json", 32 * 18},
                {"SE_ops.csv.gz", "SE_expected.json", 43 * 14}};

    if (access(JOBS, F_OK) != 0) {
        puts("SKIP: no " JOBS);
        skip();
    }
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        char file[128], results[128];
        struct lw_input in, authors;
        struct lw_err err = {0};
        struct job_ops ops;
        struct traces_stragglers s;
        struct lw_json *j;
        int n = 0;
        snprintf(file, sizeof file, JOBS "%s", each[i].ops);
        snprintf(results, sizeof results, JOBS "%s", each[i].results);
        assert_ok(lw_input_read(file, 0, &in, &err), err);
        assert_ok(lw_input_read(results, 0, &authors, &err), err);
        assert_ok(job_ops_read(&in, &ops, &err), err);
        assert_ok(traces_stragglers_find(&ops, &s, &err), err);
        assert_ok(lw_json_open(results, authors.text, authors.len, &j, &err), err);
        assert_true(lw_json_enter(j, LW_JSON_OBJECT));
        while (lw_json_next(j)) {
            if (!lw_json_key_is(j, "result") || !lw_json_enter(j, LW_JSON_OBJECT))
                continue;
            while (lw_json_next(j))
                if (lw_json_key_is(j, "blocking_decompose_by_optype_per_step"))
                    n += steps_agree(results, j, &s, &s.by_type, true);
                else if (lw_json_key_is(j, "blocking_decompose_by_stage_per_step"))
                    n += steps_agree(results, j, &s, &s.by_stage, false);
                else if (lw_json_key_is(j, "blocking_decompose_by_dp_rank_per_step"))
                    n += steps_agree(results, j, &s, &s.by_dp, false);
                else if (lw_json_key_is(j, "blocking_step_slowdown") &&
                         lw_json_enter(j, LW_JSON_OBJECT))
                    while (lw_json_next(j)) {
                        int64_t step = strtoll(lw_json_key(j, NULL), NULL, 10);
                        for (int32_t k = 0; k < s.n_steps; k++)
                            if (s.steps[k].step == step) {
                                near(results, "a step", s.steps[k].slowdown, lw_json_double(j));
                                n++;
                            }
                    }
        }
        assert_ok(lw_json_done(j, &err), err);
        assert_int_equal(n, each[i].figures);
        lw_json_close(j);
        traces_stragglers_free(&s);
        job_ops_free(&ops);
        lw_input_free(&in);
        lw_input_free(&authors);
    }
}

TEST(recorded_jobs_have_their_authors_results)
{
    if (access(JOBS, F_OK) != 0) {
        puts("SKIP: no " JOBS);
        skip();
    }
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        const struct expected *x = &jobs[i];
        char file[128];
        struct lw_input in;
        struct lw_err err = {0};
        struct job_ops j;
        struct traces_stragglers s;
        snprintf(file, sizeof file, JOBS "%s", x->file);
        assert_int_equal(lw_input_read(file, 0, &in, &err), LW_OK);
        if (job_ops_read(&in, &j, &err) != LW_OK || traces_stragglers_find(&j, &s, &err) != LW_OK)
            fail_msg("%s", err.msg);
        near(file, "S", s.slowdown, x->s);
        near(file, "M_W", s.slowest.removed, x->m_w);
        near(file, "M_S", s.last_stage.removed, x->m_s);
        for (int k = 0; k < x->n_types; k++)
            near(file, x->types[k].name, blame_of(&s.by_type, x->types[k].name, 0),
                 x->types[k].slowdown);
        for (int k = 0; k < x->n_stages; k++)
            near(file, "stage", blame_of(&s.by_stage, NULL, k), x->stages[k]);
        for (int k = 0; k < 2; k++)
            near(file, "dp_rank", blame_of(&s.by_dp, NULL, x->dp[k]), x->dp_slowdown[k]);
        traces_stragglers_free(&s);
        job_ops_free(&j);
        lw_input_free(&in);
    }
}

TEST_WITH(inspect_reads_a_table_of_operations, fixture_open, fixture_close)
{
    fixture_put(fixture_path("job.csv"), two);
    expect("inspect job.csv", 0, "10 operations of 2 workers");
    expect("inspect job.csv", 0, "make the job 1.116 times as long");
    expect("inspect --format json job.csv", 0, "\"slowdown\": 1.116279");
    expect("inspect --format json job.csv", 0,
           "\"by_dp_rank_per_step\": [ { \"step\": 5, \"dp_rank\": 1, \"slowdown\": 1.116279 }");
    expect("import job.csv -o w.json", 1, "'lapwing inspect' says what its stragglers cost");
}
