/* The committed results of published runs: that a new prediction gives them, that no measured cell
 * reaches a prediction, and that the pages show them. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/python_server.h"
#include "tests/lib/files/file_fixture.h"

TEST_GROUP(fixture_open, python_close)

#define PYTHON "PYTHONDONTWRITEBYTECODE=1 python3 $P/tests/evidence/"

static void check_sample(const char *how)
{
    char words[200];
    int rc;

    snprintf(words, sizeof words, "evidence.py %s $L $P/../shared $P/docs/results/evidence",
             how);
    const char *out = python(words, &rc);
    if (rc == 4) {
        print_message("SKIP %s: ../shared has no table of the results\n", how);
        skip();
    }
    if (rc != 0)
        fail_msg("%s: exit %d:\n%s", how, rc, out);
}

TEST(a_sample_of_the_results_is_what_this_build_predicts)
{
    check_sample("sample");
}

TEST(no_prediction_moves_with_what_was_measured)
{
    check_sample("doubled");
}

/* Of this build; rc 4 where ../shared has none of the tables. */
static const char *kernel_tables(const char *how, const char *shared, const char *project, int *rc)
{
    char words[300];

    snprintf(words, sizeof words, "kernel_tables.py %s $L %s %s", how, shared, project);
    return python(words, rc);
}

TEST(the_kept_errors_of_kernels_are_those_of_this_build)
{
    int rc;
    const char *out = kernel_tables("check", "$P/../shared", "$P", &rc);

    if (rc == 4) {
        print_message("SKIP: ../shared has no kernel-tables or netbench\n");
        skip();
    }
    if (rc != 0)
        fail_msg("exit %d:\n%s", rc, out);
}

/* Two products that no figure is fitted on, measured at the predicted time and at twice it: errors
 * of 0 and 50 %, of which the upper middle is kept. One table of collectives, which is left out of
 * its own fit. */
TEST(errors_of_a_sample_of_kernels)
{
    int rc;

    shell("mkdir -p s/kernel-tables s/netbench p/docs/results && "
          "printf 'device,dtype,m,n,k,latency_ms,min_ms\nh200_sxm,bf16,1,7168,1536,1,1\n"
          "h200_sxm,bf16,2,768,7168,1,1\n' > s/kernel-tables/gemm.csv && "
          "$L cost --measured s/kernel-tables/gemm.csv --format csv > rows.csv && "
          "PYTHONDONTWRITEBYTECODE=1 python3 -c '\n"
          "import csv\n"
          "rows = list(csv.DictReader(open(\"rows.csv\")))\n"
          "assert [r[\"fitted\"] for r in rows] == [\"no\", \"no\"]\n"
          "f = open(\"s/kernel-tables/gemm.csv\", \"w\")\n"
          "f.write(\"device,dtype,m,n,k,latency_ms,min_ms\\n\")\n"
          "for times, r, mnk in zip((1, 2), rows, (\"1,7168,1536\", \"2,768,7168\")):\n"
          "    ms = times * int(r[\"predicted_ns\"]) / 1e6\n"
          "    f.write(f\"h200_sxm,bf16,{mnk},{ms},{ms}\\n\")' && "
          "printf 'op,algo,nranks,nnodes,gpu,intra,inter,size_bytes,time_us,algbw_gbs,busbw_gbs,"
          "source\nall_reduce,auto,8,1,H200,NVSwitch4,none,1048576,50,0,0,none\n' "
          "> s/netbench/one.csv",
          &rc);
    assert_int_equal(rc, 0);
    const char *out = kernel_tables("write", "s", "p", &rc);
    if (rc != 0)
        fail_msg("exit %d:\n%s", rc, out);
    assert_non_null(
        strstr(shell("cat p/docs/results/kernels.csv", NULL), "gemm,h200_sxm,gemm,bf16,2,50.0,"));
    assert_non_null(strstr(shell("cat p/docs/results/nccl.csv", NULL), "one,NVLink,1,"));
    kernel_tables("check", "s", "p", &rc);
    assert_int_equal(rc, 0);
    shell("sed -i s/,50.0,/,49.0,/ p/docs/results/kernels.csv", NULL);
    out = kernel_tables("check", "s", "p", &rc);
    assert_int_equal(rc, 1);
    assert_non_null(strstr(out, "this build gives gemm,h200_sxm,gemm,bf16,2,50.0,"));
    assert_non_null(strstr(out, "this build does not give gemm,h200_sxm,gemm,bf16,2,49.0,"));
}

/* A project whose kept results are those of this build: two kinds of products and one table. */
static void keep_a_sample(void)
{
    int rc;

    shell("mkdir -p s/kernel-tables s/netbench p/docs/results && "
          "printf 'device,dtype,m,n,k,latency_ms,min_ms\nh200_sxm,bf16,1,7168,1536,1,1\n"
          "h200_sxm,fp8,1,7168,1536,1,1\n' > s/kernel-tables/gemm.csv && "
          "printf 'op,algo,nranks,nnodes,gpu,intra,inter,size_bytes,time_us,algbw_gbs,busbw_gbs,"
          "source\nall_reduce,auto,8,1,H200,NVSwitch4,none,1048576,50,0,0,none\n' "
          "> s/netbench/one.csv", NULL);
    const char *out = kernel_tables("write", "s", "p", &rc);
    if (rc != 0)
        fail_msg("exit %d:\n%s", rc, out);
}

/* Each change of the kept rows is found: all but the last leave every row of this build in them. */
TEST(kept_rows_that_this_build_does_not_give_are_found)
{
    static const struct {
        const char *change, *says;
    } cases[] = {
        {"echo gemm,h100_sxm,gemm,bf16,1,1.0,1.0,1.0,1.0 >> $f",
         "kernels.csv: this build does not give gemm,h100_sxm,"},
        {"sed -n 2p $f > row; cat row >> $f",
         "kernels.csv: this build does not give gemm,h200_sxm,"},
        {"(sed -n 1p $f; sed 1d $f | tac) > turned; cp turned $f",
         "kernels.csv: its rows are in another order than this build's"},
        {"sed -i 2d $f", "kernels.csv: this build gives gemm,h200_sxm,"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[200];
        int rc;
        keep_a_sample();
        kernel_tables("check", "s", "p", &rc);
        assert_int_equal(rc, 0);
        snprintf(words, sizeof words, "f=p/docs/results/kernels.csv; %s", cases[i].change);
        shell(words, NULL);
        const char *out = kernel_tables("check", "s", "p", &rc);
        if (rc != 1 || !strstr(out, cases[i].says))
            fail_msg("%s: exit %d, expected 1 and '%s':\n%s", cases[i].change, rc, cases[i].says,
                     out);
    }
}

/* One set of two is looked at alone, and the other one's results stay. */
TEST(a_set_that_is_not_there_is_named)
{
    static const char *const sets[][2] = {{"kernel-tables", "kernels.csv"},
                                          {"netbench", "nccl.csv"}};
    char words[200];
    int rc;

    for (int i = 0; i < 2; i++) {
        keep_a_sample();
        snprintf(words, sizeof words, "cp -r p was && rm -r s/%s", sets[i][0]);
        shell(words, NULL);
        for (int k = 0; k < 2; k++) {
            const char *out = kernel_tables(k == 0 ? "check" : "write", "s", "p", &rc);
            snprintf(words, sizeof words, "%s: not looked at: s has no %s/*.csv", sets[i][1],
                     sets[i][0]);
            if (rc != 0 || !strstr(out, words) || !strstr(out, "kernel tables: ok, "))
                fail_msg("exit %d, expected 0 and '%s':\n%s", rc, words, out);
        }
        shell("diff -r p was && rm -r was", NULL);
        shellf("sed -i '$s/^/x/' p/docs/results/%s", sets[1 - i][1]);
        kernel_tables("check", "s", "p", &rc);
        assert_int_equal(rc, 1);
    }
    shell("rm -r s/*", NULL);
    kernel_tables("check", "s", "p", &rc);
    assert_int_equal(rc, 4);
}

TEST(pages_show_the_results)
{
    int rc;
    const char *out = shell(PYTHON "pages.py check $P", &rc);

    if (rc != 0)
        fail_msg("exit %d:\n%s", rc, out);
}

/* Ratios 1 to 9: positions 0.1 * 10 and 0.9 * 10 are the first and the ninth; of 1 to 19, the
 * second and the 18th (Hyndman and Fan 1996, definition 6). */
TEST(quantiles_are_those_of_sim)
{
    shell("cd $P/tests/evidence && PYTHONDONTWRITEBYTECODE=1 python3 -c '\n"
          "from pages import inside, interval, quantile\n"
          "nine, more = list(range(1, 10)), list(range(1, 20))\n"
          "assert quantile(nine, 0.1) == 1 and quantile(nine, 0.9) == 9\n"
          "assert quantile(more, 0.1) == 2 and quantile(more, 0.9) == 18\n"
          "assert quantile([3.0], 0.1) == 3 == quantile([3.0], 0.9)\n"
          "assert interval(nine[:7]) == \"-\" and inside(nine[:8]) is None\n"
          "assert 70 < inside(more) < 90, inside(more)'", NULL);
}

/* Of six rows these move: 9 % of a step, 3 % of memory, and one that is no longer predicted. 7 % of
 * a step, 1 % of memory and a measured cell do not. */
TEST(rows_that_moved_are_printed)
{
    int rc;

    shell("mkdir before after; head=id,predicted_s,measured_s,predicted_gib,measured_gib\n"
          "printf '%s\n' $head 0,1,1,10,9 1,1,1,10,9 2,1,1,10,9 3,1,1,, 4,1,1,10,9 >before/a.csv\n"
          "printf '%s\n' $head 0,1.09,1,10,9 1,1,1,10.3,9 2,1.07,1,10.1,9 3,,1,, 4,1,2,10,9 "
          ">after/a.csv",
          NULL);
    assert_string_equal(shell(PYTHON "moved.py before after", &rc),
                        "a 0: predicted_s: 1 -> 1.09 (+9.0 %), measured 1\n"
                        "a 1: predicted_gib: 10 -> 10.3 (+3.0 %), measured 9\n"
                        "a 3: predicted_s: 1 -> none\n"
                        "3 predictions of published runs moved\n");
    assert_int_equal(rc, 0);
}
