/* From profiled graphs to planner states, and recorded answers of PipeDream's optimizer. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/unit.h"

#include "shared/golden/golden.h"
#include "shared/io/input.h"
#include "shared/partition/pipedream_graph.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"

#define NODES "node,op,fwd_ms,bwd_ms,activation_bytes,param_bytes\n"
#define RECORDED "../shared/golden/schedules/partition/pipedream_optimizer.csv"

static struct lw_pipedream_states states_of(const char *nodes, const char *edges)
{
    struct lw_profile_graph g;
    struct lw_pipedream_states s;
    struct lw_err err = {0};

    if (lw_profile_graph_parse("n.csv", nodes, "e.csv", edges, &g, &err) != LW_OK ||
        lw_pipedream_states_make(&g, &s, &err) != LW_OK)
        fail_msg("%s", err.msg);
    lw_profile_graph_free(&g);
    return s;
}

TEST(a_diamond_has_five_states)
{
    /* a feeds b and c, both feed d. Cuts after a; a b; a c; a b c; all. The input is left out, and
     * so is an element that no node takes. */
    struct lw_pipedream_states s =
        states_of(NODES "i,Input,9000,0,99,0\na,x,1000,0,1,10\nb,x,2000,0,2,20\nc,x,3000,500,4,40\n"
                        "d,x,4000,0,8,80\ng,__getitem__(1),7000,0,0,0\n",
                  "src,dst\ni,a\na,b\na,c\nb,d\nc,d\na,g\n");
    static const double time[] = {1, 3, 4.5, 6.5, 10.5}, params[] = {10, 30, 50, 70, 150};
    /* what crosses the cut: a; b and a (for c); c and a (for b); b, c and a, which the reference
     * system counts as long as either of them is an end; d */
    static const double output[] = {1, 3, 5, 7, 8};
    static const int32_t n_before[] = {0, 1, 1, 3, 4};

    assert_int_equal(s.n, 5);
    for (int i = 0; i < 5; i++) {
        assert_true(s.states[i].time_s == time[i]);
        assert_true(s.states[i].parameter_bytes == params[i]);
        assert_true(s.states[i].output_bytes == output[i]);
        assert_int_equal(s.states[i].n_before, n_before[i]);
    }
    assert_true(s.states[4].activation_bytes == 15);
    lw_pipedream_states_free(&s);
}

TEST(faults_of_a_profile_are_named)
{
    static const struct {
        const char *nodes, *edges, *message;
    } cases[] = {
        {"node\n", "src,dst\n",
         "n.csv:1: expected the titles "
         "node,op,fwd_ms,bwd_ms,activation_bytes,param_bytes"},
        {NODES "a,x,1,1,1\n", "src,dst\n", "n.csv:2: 5 cells, expected 6"},
        {NODES "a,x,1,-1,1,1\n", "src,dst\n", "n.csv:2: '-1' is not a number from 0"},
        {NODES "a,x,1,1,1,1\na,x,1,1,1,1\n", "src,dst\n", "n.csv:3: node 'a' is given twice"},
        {NODES "a,x,1,1,1,1\n", "src,dst\na,b\n", "e.csv:2: no node 'b'"},
        {NODES "a,x,1,1,1,1\nb,x,1,1,1,1\n", "src,dst\na,b\nb,a\n",
         "the graph has a cycle through 'a'"},
        {NODES "a,Input0,1,1,1,1\n", "src,dst\n", "the graph has no node but inputs"},
        {NODES, "src,dst\n", "the graph has no node but inputs"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_profile_graph g = {0};
        struct lw_pipedream_states s = {0};
        struct lw_err err = {0};
        if (lw_profile_graph_parse("n.csv", cases[i].nodes, "e.csv", cases[i].edges, &g, &err) ==
            LW_OK)
            assert_int_not_equal(lw_pipedream_states_make(&g, &s, &err), LW_OK);
        assert_string_equal(err.msg, cases[i].message);
        assert_null(s.states);
        lw_profile_graph_free(&g);
    }
}

/* The chain of docs/design/partition.md: 4 4 1 3 s, the last with 6 bytes, three machines at 1 B/s.
 * 2 layers on 2 machines, 2 on one: 4 s. As one stage on all: (12 + 4*2*6/3)/3 = 28/3 s. */
static int put_profile(void **state)
{
    fixture_open(state);
    fixture_put(fixture_path("own_nodes.csv"),
                NODES "i,Input,1,0,0,0\na,x,1000,3000,0,0\nb,x,4000,0,0,0\n"
                      "c,x,1000,0,0,0\nd,x,3000,0,0,6\n");
    fixture_put(fixture_path("own_edges.csv"), "src,dst\ni,a\na,b\nb,c\nc,d\n");
    return 0;
}

#define TABLE                                                                                      \
    "model,machines,bandwidth_Bps,straight,stages_per_level,stages,single_stage_s,pipeline_stage_" \
    "s,"                                                                                           \
    "speedup,dp_speedup\n"
#define OWN "own,3,1,0,2,\"[0,2)@8sx2 [2,4)@4sx1\",12,4,3,1.28571428571"
#define LEVELS "own,2x1,1x1,0,1|2,\"[0,4)@12sx1 [0,2)@8sx1 [2,4)@4sx1\",12,8,1.5,1"

static struct lw_golden_result run_table(const char *row)
{
    struct lw_golden_result r = {.profiles = {"/nowhere", fixture_path("")}, .n_profiles = 2};
    char text[32768];
    struct lw_err err = {0};

    snprintf(text, sizeof text, TABLE "%s\n", row);
    fixture_put(fixture_path("table.csv"), text);
    assert_ok(lw_golden_file(fixture_path("table.csv"), &r, &err), err);
    return r;
}

static void expect_row(const char *row, const char *message)
{
    struct lw_golden_result r = run_table(row);

    assert_int_equal(r.n_passed + r.n_failed, 1);
    assert_string_equal(r.n_failed ? r.failures[0].message : "", message);
    lw_golden_free(&r);
}

TEST(answers_by_hand_are_repeated)
{
    expect_row(OWN, "");
    /* the second layers on two machines: 8 | (4 + 4*6/2)/2 = 8 */
    expect_row("own,3,1,0,2,\"[0,2)@8sx1 [2,4)@4sx2\",12,4,3,1.28571428571",
               "stages: the slowest takes 8 s, the best plan 4 s");
    expect_row("own,3,1,0,1,\"[0,4)@12sx3\",12,4,3,1.28571428571",
               "stages: the slowest takes 9.3333333333333339 s, the best plan 4 s");
    expect_row("own,3,1,0,2,\"[0,2)@8sx2 [2,4)@4sx2\",12,4,3,1.28571428571",
               "stages: those up to state 4 use 4 of 3 machines");
    expect_row("own,3,1,0,2,\"[0,1)@8sx2 [1,4)@4sx1\",12,4,3,1.28571428571",
               "stages: no state of the model ends [0,1) after 8 s");
    expect_row("own,3,1,0,2,\"[0,2)@8sx2 [3,4)@4sx1\",12,4,3,1.28571428571",
               "stages: [3,4)x1 does not continue what is before it, or does not end with state 4");
    expect_row("own,3,1,0,3,\"[0,2)@8sx2 [2,4)@4sx1\",12,4,3,1.28571428571",
               "stages_per_level: 2 stages are listed, not 3");
    struct lw_golden_result r = run_table("other,3,1,0,1,\"[0,1)@8sx3\",12,4,3,1");
    assert_int_equal(r.n_failed, 1);
    assert_non_null(strstr(r.failures[0].message, "no profile of 'other': neither --profiles nor"));
    lw_golden_free(&r);
}

/* Every digit from one place up to another. */
static void every_digit_counts(const char *row, size_t from, size_t to)
{
    char text[32768];

    snprintf(text, sizeof text, "%s", row);
    for (char *p = text + from; p < text + to; p++) {
        char was = *p;
        if (!isdigit((unsigned char)was))
            continue;
        *p = was == '9' ? '0' : (char)(was + 1);
        struct lw_golden_result r = run_table(text);
        if (r.n_passed)
            fail_msg("passes: %s", text);
        lw_golden_free(&r);
        *p = was;
    }
}

TEST(altered_answers_fail)
{
    every_digit_counts(OWN, strlen("own,"), strlen(OWN) - 3); /* 1e-9 of the last is no more */
}

TEST(the_recorded_answers_are_repeated)
{
    struct lw_golden_result r = {0};
    struct lw_err err = {0};

    if (access(RECORDED, R_OK) != 0 || access("../shared/papers/pipedream_profiles", R_OK) != 0) {
        printf("SKIP the_recorded_answers_are_repeated: no " RECORDED " or no profiles\n");
        skip();
    }
    assert_int_equal(lw_golden_file(RECORDED, &r, &err), LW_OK);
    if (r.n_failed)
        fail_msg("%s: %s", r.failures[0].id, r.failures[0].message);
    assert_true(r.n_passed >= 10);
    lw_golden_free(&r);
}

/* Rows with one digit of the stages' bounds or replicas, or a leading digit of a time, changed. */
TEST(altered_recordings_fail)
{
    struct lw_input in;
    struct lw_err err = {0};
    int n = 0, step = unit_cases(4, 1);

    if (access(RECORDED, R_OK) != 0 || access("../shared/papers/pipedream_profiles", R_OK) != 0) {
        printf("SKIP altered_recordings_fail: no " RECORDED " or no profiles\n");
        skip();
    }
    assert_int_equal(lw_input_read(RECORDED, 0, &in, &err), LW_OK);
    for (char *line = strchr(in.text, '\n') + 1, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        for (char *p = strchr(line, '"'); *p; p++) {
            bool lead = strchr("[,x\"", p[-1]) || (p[-1] == '.' && *p != '0');
            if (!isdigit((unsigned char)*p) || !lead || n++ % step != 0)
                continue;
            char was = *p, text[32768];
            *p = was == '9' ? '8' : (char)(was + 1);
            snprintf(text, sizeof text, "%s", line);
            *p = was;
            struct lw_golden_result r = {.profiles = {"../shared/papers/pipedream_profiles"},
                                         .n_profiles = 1};
            char table[33000];
            snprintf(table, sizeof table, TABLE "%s\n", text);
            fixture_put(fixture_path("table.csv"), table);
            assert_int_equal(lw_golden_file(fixture_path("table.csv"), &r, &err), LW_OK);
            if (r.n_passed)
                fail_msg("passes: %s", text);
            lw_golden_free(&r);
        }
    }
    lw_input_free(&in);
    assert_true(n > 50);
}

TEST(levels_of_machines_are_judged)
{
    /* Two machines inside, one outside: level 1 (2 machines at 1 B/s) splits 8 | 4 or replicates
     * all at (12 + 4*1*6/2)/2 = 12: 8 s. Then one machine of those: 8 s. dp: (12+12)/2 = 12. */
    expect_row(LEVELS, "");
    expect_row("own,2x1,1x1,0,1|2,\"[0,4)@12sx1 [0,3)@9sx1 [2,4)@4sx1\",12,8,1.5,1",
               "stages: [2,4)x1 does not continue what is before it, or does not end with state 4");
    expect_row("own,2x1,1,0,1|2,\"[0,4)@12sx1 [0,2)@8sx1 [2,4)@4sx1\",12,8,1.5,1",
               "machines and bandwidth_Bps: expected as many of each, as in 4x4 and 1e+10x1e+09");
}

static enum lw_status parse_and_make_states(void)
{
    struct lw_profile_graph g = {0};
    struct lw_pipedream_states s = {0};
    struct lw_err err = {0};
    enum lw_status status =
        lw_profile_graph_parse("n", NODES "a,x,1,1,1,1\nb,x,1,1,1,1\n", "e", "src,dst\na,b\n",
                               &g, &err);

    if (status == LW_OK)
        status = lw_pipedream_states_make(&g, &s, &err);
    lw_pipedream_states_free(&s);
    lw_profile_graph_free(&g);
    return status;
}

TEST(a_failed_allocation_leaves_nothing)
{
    EACH_ALLOCATION_FAILS_IN(1, parse_and_make_states());
}

TEST_GROUP(put_profile, fixture_close)
