/* liblapwing.so as a program and as Python see it: the same figures as `lapwing sim`, and no other
 * symbol. */
#include "tests/lib/unit.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/library/lapwing.h"
#include "shared/base/arena.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

static const char *const options[] = {"dp", "4", "bucket-cap", "5MiB", NULL};

TEST_WITH(figures_are_those_of_the_command, fixture_open, fixture_close)
{
    char error[200] = "", words[200];
    lapwing_plan *p = lapwing_plan_make("mlp", "dgx-a100", options, error, sizeof error);
    double step;

    if (!p)
        fail_msg("%s", error);
    assert_int_equal(lapwing_plan_ranks(p), 4);
    int64_t bytes = 0;
    for (int32_t i = 0; i < lapwing_plan_buckets(p); i++)
        bytes += lapwing_plan_bucket_bytes(p, i);
    assert_int_equal(bytes, 4 * 16793600LL); /* mlp's parameters in f32 */
    assert_int_equal(lapwing_plan_bucket_bytes(p, lapwing_plan_buckets(p)), -1);
    lapwing_result *r = lapwing_simulate(p, 0, error, sizeof error);
    assert_non_null(r);
    assert_int_equal(lapwing_figure(r, "step_ps", &step), 0);
    lapwing("model mlp --device dgx-a100 -o w.json", NULL);
    const char *out = lapwing("sim -w w.json -c dgx-a100 --dp 4 --bucket-cap 5MiB --no-db --format "
                              "json", NULL);
    /* shown in ns, rounded half up */
    snprintf(words, sizeof words, "\"step_ns\": %lld", (long long)((int64_t)step + 500) / 1000);
    assert_non_null(strstr(out, lapwing_plan_hash(p)));
    if (!strstr(out, words))
        fail_msg("no %s in %s", words, out);
    lapwing_result_free(r);
    lapwing_plan_free(p);
}

/* Rates, memory and costs are those of `lapwing sim --format csv`, to its digits. */
TEST_WITH(rates_are_those_of_the_command, fixture_open, fixture_close)
{
    static const char *const given[] = {"dp", "8", "tokens", "1T", "price", "2.5", NULL};
    static const struct {
        const char *name;
        double within;
    } figures[] = {{"tokens_per_s", 0.06}, {"mfu_pct", 6e-4}, {"overlap_pct", 6e-4},
                   {"memory_bytes", 0}, {"device_memory_bytes", 0}, {"days", 6e-5},
                   {"device_hours", 6e-3}, {"cost", 6e-3}, {"cost_per_trillion_tokens", 6e-3},
                   {"price_per_device_hour", 0}};
    char error[400] = "", *csv, *title, *value, *names, *values;
    lapwing_plan *p = lapwing_plan_make("gpt2", "dgx-a100", given, error, sizeof error);
    lapwing_result *r = lapwing_simulate(p, 0, error, sizeof error);
    double x;

    if (!r)
        fail_msg("%s", error);
    csv = strdup(lapwing("sim -w gpt2 -c dgx-a100 --dp 8 --tokens 1T --price 2.5 --no-db "
                         "--format csv", NULL));
    assert_non_null(csv);
    names = csv;
    values = strchr(csv, '\n');
    *values++ = '\0';
    int n = 0;
    while ((title = strsep(&names, ",")) && (value = strsep(&values, ",\n")))
        for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
            if (strcmp(title, figures[i].name) == 0) {
                assert_int_equal(lapwing_figure(r, title, &x), 0);
                if (!(x > 0 && fabs(x - strtod(value, NULL)) <= figures[i].within))
                    fail_msg("%s: %.9g, the command has %s", title, x, value);
                n++;
            }
    assert_int_equal(n, sizeof figures / sizeof *figures);
    free(csv);
    lapwing_result_free(r);
    lapwing_plan_free(p);
}

/* Without the option it is that of channels. */
TEST(interference_is_an_option_of_a_plan)
{
    static const char *const off[] = {"dp", "8", "interference", "off", NULL};
    static const char *const channels[] = {"dp", "8", "interference", "channels", NULL};
    static const char *const other[] = {"dp", "8", "interference", "some", NULL};
    static const char *const usual[] = {"dp", "8", NULL};
    const char *const *const each[] = {off, channels, usual};
    double step[3];
    char error[400] = "";

    for (int i = 0; i < 3; i++) {
        lapwing_plan *p = lapwing_plan_make("gpt2", "dgx-a100", each[i], error, sizeof error);
        lapwing_result *r = lapwing_simulate(p, 0, error, sizeof error);
        if (!r)
            fail_msg("%s", error);
        assert_int_equal(lapwing_figure(r, "step_ps", &step[i]), 0);
        lapwing_result_free(r);
        lapwing_plan_free(p);
    }
    assert_true(step[0] < step[1] && step[1] == step[2]);
    assert_null(lapwing_plan_make("gpt2", "dgx-a100", other, error, sizeof error));
    assert_non_null(strstr(error, "expected one of channels, published, off"));
}

TEST(an_unknown_price_is_refused)
{
    static const char *const price[] = {"price", "free", NULL}, *const tokens[] = {"tokens", "1X",
                                                                                  NULL};
    char error[400] = "";

    assert_null(lapwing_plan_make("gpt2", "dgx-a100", price, error, sizeof error));
    assert_string_equal(error, "--price: 'free' is not a number above 0, at most 1000000");
    assert_null(lapwing_plan_make("gpt2", "dgx-a100", tokens, error, sizeof error));
    assert_non_null(strstr(error, "--tokens: found '1X', expected a number of tokens"));
}

/* The interval of a step is that of `lapwing sim`; the ideal framework has none. */
TEST_WITH(an_interval_is_that_of_the_command, fixture_open, fixture_close)
{
    static const char *const given[] = {"framework", "composer", "dp", "8", "zero", "3", NULL};
    static const char *const ideal[] = {"framework", "ideal", "dp", "8", NULL};
    static const char *const names[] = {"p10_ps", "p90_ps"};
    const char *const *const each[] = {given, ideal};
    char error[400] = "", words[64];

    for (int k = 0; k < 2; k++) {
        lapwing_plan *p = lapwing_plan_make("gpt-1.3b", "dgx-a100", each[k], error,
                                            sizeof error);
        lapwing_result *r = lapwing_simulate(p, 0, error, sizeof error);
        if (!r)
            fail_msg("%s", error);
        for (int i = 0; i < 2; i++) {
            double ps;
            assert_int_equal(lapwing_figure(r, names[i], &ps), 0);
            if (k == 1) {
                assert_true(ps == -1);
                continue;
            }
            snprintf(words, sizeof words, "\"%.3s_ns\": %lld", names[i],
                     (long long)((int64_t)ps + 500) / 1000);
            assert_non_null(strstr(lapwing("sim -w gpt-1.3b -c dgx-a100 --framework composer "
                                           "--dp 8 --zero 3 --no-db --format json", NULL), words));
        }
        lapwing_result_free(r);
        lapwing_plan_free(p);
    }
}

/* Options of a model and --global-batch are those of the command line. */
TEST_WITH(a_model_takes_the_options_of_the_command_line, fixture_open, fixture_close)
{
    static const char *const given[] = {"dtype", "bf16", "dp", "4", "batch", "2", "seq", "512",
                                        "fp8", "on", "global-batch", "32", NULL};
    static const char *const odd[] = {"global-batch", "33", "dp", "4", "batch", "2", NULL};
    static const char *const wrong[] = {"batch", "many", NULL};
    char error[400] = "";
    lapwing_plan *p = lapwing_plan_make("gpt2", "dgx-h100", given, error, sizeof error);

    if (!p)
        fail_msg("%s", error);
    assert_non_null(strstr(lapwing("sim -w gpt2 --dtype bf16 -c dgx-h100 --dp 4 --batch 2 --seq "
                                   "512 --fp8 --micro-batches 4 --no-db --format json", NULL),
                           lapwing_plan_hash(p)));
    lapwing_plan_free(p);
    assert_null(lapwing_plan_make("gpt2", "dgx-h100", odd, error, sizeof error));
    assert_non_null(strstr(error, "--global-batch 33 does not divide"));
    assert_null(lapwing_plan_make("gpt2", "dgx-h100", wrong, error, sizeof error));
    assert_non_null(strstr(error, "--batch: "));
}

/* Standard error is the program's that uses the library. */
TEST_WITH(nothing_is_printed, fixture_open, fixture_close)
{
    static const char *const tiny[] = {"dp", "2", "bucket-cap", "25", NULL};
    char error[400] = "";

    shell("$L cluster dgx-h100 -o c.json && "
          "sed -i -E 's/(\"latency_ns\": .\"value\": )[0-9]+/\\10/' c.json && "
          "$L model gpt2 --device dgx-a100 -o w.json", NULL);
    fflush(stderr);
    int kept = dup(STDERR_FILENO);
    assert_non_null(freopen(fixture_path("said"), "w", stderr));
    lapwing_plan *p = lapwing_plan_make(fixture_path("w.json"), fixture_path("c.json"), tiny, error,
                                        sizeof error);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    if (!p)
        fail_msg("%s", error);
    lapwing_plan_free(p);
    assert_string_equal(shell("cat said", NULL), "");
}

TEST(the_timeline_outlives_its_plan)
{
    char error[200] = "";
    lapwing_plan *p = lapwing_plan_make("mlp", "dgx-a100", options, error, sizeof error);
    lapwing_result *r = lapwing_simulate(p, 1, error, sizeof error);
    int n_reduce = 0;

    lapwing_plan_free(p);
    assert_non_null(r);
    const int64_t *start = lapwing_column64(r, "start_ps"), *end = lapwing_column64(r, "end_ps");
    const int32_t *rank = lapwing_column32(r, "rank"), *op = lapwing_column32(r, "op");
    assert_true(lapwing_rows(r) > 0);
    for (int64_t i = 0; i < lapwing_rows(r); i++) {
        assert_true(start[i] <= end[i] && rank[i] >= 0 && rank[i] < 4);
        assert_non_null(lapwing_op_name(r, op[i]));
        n_reduce += strcmp(lapwing_kind_name(lapwing_kind(r, i)), "all_reduce") == 0;
    }
    assert_true(n_reduce > 0 && n_reduce % 4 == 0);
    assert_null(lapwing_column64(r, "rank"));
    assert_null(lapwing_column32(r, "end_ps"));
    lapwing_result_free(r);
    lapwing_result_free(NULL);
    lapwing_plan_free(NULL);
}

TEST(errors_are_the_commands_lines)
{
    static const char *const wrong[] = {"dp", "0", NULL}, *const odd[] = {"dp", NULL},
                             *const unknown[] = {"colour", "red", NULL},
                             *const near[] = {"bucket-cpa", "1MiB", NULL};
    char error[200] = "";
    double v;

    assert_null(lapwing_plan_make("mlp", "dgx-a100", wrong, error, sizeof error));
    assert_non_null(strstr(error, "dp"));
    assert_null(lapwing_plan_make("mlp", "dgx-a100", odd, error, sizeof error));
    assert_non_null(strstr(error, "has no value"));
    assert_null(lapwing_plan_make("mlp", "dgx-a100", unknown, error, sizeof error));
    assert_non_null(strstr(error, "colour"));
    assert_null(lapwing_plan_make("mlp", "dgx-a100", near, error, sizeof error));
    assert_non_null(strstr(error, "'bucket-cpa' (did you mean 'bucket-cap'?)"));
    assert_null(lapwing_plan_make("mlp", "dgx-a10", NULL, error, sizeof error));
    assert_non_null(strstr(error, "did you mean 'dgx-a100'?"));
    assert_null(lapwing_plan_make("gpt3", "dgx-a100", NULL, error, sizeof error));
    assert_non_null(strstr(error, "did you mean 'gpt2'?"));
    assert_null(lapwing_plan_make("nosuch", "dgx-a100", NULL, error, 20)); /* cut, not overrun */
    assert_int_equal(strlen(error), 19);
    assert_null(lapwing_plan_make("mlp", "nosuch", NULL, NULL, 0));
    lapwing_plan *p = lapwing_plan_make("mlp", "dgx-a100", NULL, error, sizeof error);
    assert_null(lapwing_simulate(p, -1, error, sizeof error));
    assert_null(lapwing_simulate(p, 1000001, error, sizeof error));
    assert_string_equal(error, "steps: found 1000001, expected 0 (up to the steady state) to "
                               "1000000");
    lapwing_result *r = lapwing_simulate(p, 0, error, sizeof error);
    assert_int_equal(lapwing_figure(r, "colour", &v), -1);
    lapwing_result_free(r);
    lapwing_plan_free(p);
}

/* Every function with NULL in every place, as a program calls it that does not look at results. */
TEST(a_null_is_an_error_everywhere)
{
    char error[200] = "";
    double value;

    assert_null(lapwing_plan_make(NULL, "dgx-a100", NULL, error, sizeof error));
    assert_string_equal(error, "the workload is NULL: give a name or a file");
    assert_null(lapwing_plan_make("mlp", NULL, NULL, error, sizeof error));
    assert_string_equal(error, "the cluster is NULL: give a name or a file");
    assert_null(lapwing_plan_make(NULL, NULL, NULL, NULL, 0));
    assert_null(lapwing_plan_make(NULL, NULL, NULL, NULL, 200));
    assert_null(lapwing_plan_hash(NULL));
    assert_int_equal(lapwing_plan_ranks(NULL), -1);
    assert_int_equal(lapwing_plan_buckets(NULL), -1);
    assert_int_equal(lapwing_plan_bucket_bytes(NULL, 0), -1);
    assert_null(lapwing_simulate(NULL, 0, error, sizeof error));
    assert_non_null(strstr(error, "the plan is NULL"));
    assert_null(lapwing_simulate(NULL, 0, NULL, 0));
    assert_int_equal(lapwing_figure(NULL, "step_ps", &value), -1);
    assert_int_equal(lapwing_rows(NULL), -1);
    assert_null(lapwing_column32(NULL, "op"));
    assert_null(lapwing_column64(NULL, "end_ps"));
    assert_int_equal(lapwing_kind(NULL, 0), -1);
    assert_null(lapwing_op_name(NULL, 0));
    lapwing_plan *p = lapwing_plan_make("mlp", "dgx-a100", NULL, NULL, 0);
    lapwing_result *r = lapwing_simulate(p, 0, NULL, 0);
    assert_non_null(r);
    assert_int_equal(lapwing_figure(r, NULL, &value), -1);
    assert_int_equal(lapwing_figure(r, "step_ps", NULL), -1);
    assert_int_equal(lapwing_figure(r, NULL, NULL), -1);
    assert_null(lapwing_column32(r, NULL));
    assert_null(lapwing_column64(r, NULL));
    assert_string_equal(lapwing_op_name(r, -1), "");
    assert_null(lapwing_figure_name(-1));
    assert_string_equal(lapwing_kind_name(-1), "");
    lapwing_result_free(r);
    lapwing_plan_free(p);
    lapwing_result_free(NULL);
    lapwing_plan_free(NULL);
}

/* Else it waits for what the user of the program types. */
TEST(a_library_reads_no_standard_input)
{
    char error[200] = "";

    assert_null(lapwing_plan_make("-", "dgx-a100", NULL, error, sizeof error));
    assert_string_equal(error, "the workload is '-': a library reads no standard input; give a "
                               "name or a file");
    assert_null(lapwing_plan_make("mlp", "-", NULL, error, sizeof error));
    assert_non_null(strstr(error, "the cluster is '-'"));
}

/* Allocated at the first call that asks for a row: 4,096 ranks are one class. */
TEST(rows_are_made_when_they_are_asked_for)
{
    static const char *const many[] = {"dp", "4096", NULL};
    lapwing_plan *p = lapwing_plan_make("mlp", "dgx-a100", many, NULL, 0);
    int64_t before = lw_alloc_live();
    lapwing_result *r = lapwing_simulate(p, 0, NULL, 0);
    double n_ops;

    assert_non_null(r);
    assert_int_equal(lapwing_figure(r, "n_ops", &n_ops), 0);
    lw_alloc_fail_at(1);
    assert_int_equal(lapwing_rows(r), -1);
    lw_alloc_fail_at(0);
    assert_true(lapwing_rows(r) >= 4096 && (double)lapwing_rows(r) >= n_ops);
    assert_non_null(lapwing_column64(r, "end_ps"));
    assert_int_equal(lapwing_column32(r, "rank")[lapwing_rows(r) - 1], 4095);
    lapwing_result_free(r);
    assert_int_equal(lw_alloc_live(), before);
    lapwing_plan_free(p);
}

/* The library beside the program under test. */
#define LIBRARY "$(dirname $L)/liblapwing.so"

TEST_WITH(nothing_else_is_visible, fixture_open, fixture_close)
{
    int rc;

    const char *out = shell("nm -D --defined-only " LIBRARY " | grep -v ' lapwing_' | grep -v "
                            "' LAPWING_0'", &rc);
    if (rc == 0)
        fail_msg("visible beside the interface: %s", out);
    assert_non_null(strstr(shell("nm -D --defined-only " LIBRARY, NULL), "lapwing_simulate"));
}

TEST_WITH(the_example_runs, fixture_open, fixture_close)
{
    const char *out = shell("$(dirname $L)/library_example mlp", NULL);
    assert_non_null(strstr(out, "1MiB"));
    assert_non_null(strstr(out, "100MiB   1 buckets"));
    assert_true(strlen(shell("cat $P/analysis/library/example.c", NULL)) > 0);
}

/* `pip install` of the tree, without a network: the modules and the library beside them. */
TEST_WITH(pip_installs_the_module, fixture_open, fixture_close)
{
    int rc;

#ifdef __SANITIZE_ADDRESS__
    print_message("SKIP pip install: the library has sanitizers, which Python does not load\n");
    skip();
#endif
    shell("python3 -m pip --version", &rc);
    if (rc != 0) {
        print_message("SKIP pip install: no pip\n");
        skip();
    }
    const char *out = shell("LAPWING_LIBRARY=" LIBRARY " python3 -m pip install -q --no-index "
                            "--no-deps --target site $P 2>&1", &rc);
    if (rc != 0)
        fail_msg("%s", out);
    out = shell("env -u LAPWING_LIBRARY PYTHONPATH=site python3 -c \"import lapwing; "
                "t = lapwing.sweep('mlp', 'dgx-a100', dp=[2, 4], zero=[0, 9]); "
                "print(t['dp'], t['zero'], [e is None for e in t['error']], lapwing.version())\"",
                &rc);
    assert_non_null(strstr(out, "[2, 2, 4, 4] [0, 9, 0, 9] [True, False, True, False] 0.1.0"));
}

TEST_WITH(python_gets_a_dict_and_columns, fixture_open, fixture_close)
{
    int rc;

    shell("python3 -c 'import ctypes'", &rc);
    if (rc != 0) {
        print_message("SKIP the Python module: no python3\n");
        skip();
    }
    fixture_put(fixture_path("t.py"),
                "import lapwing\n"
                "r = lapwing.simulate('mlp', 'dgx-a100', timeline=True, dp=4, "
                "bucket_cap='5MiB')\n"
                "assert sum(r['bucket_bytes']) == 4 * 16793600, r\n"
                "assert r['n_ranks'] == 4 and r['step_ps'] == round(r['step_ms'] * 1e9)\n"
                "t = r['timeline']\n"
                "assert len(t['start_ps']) == len(t['kind']) == len(t['name']) > 0\n"
                "assert max(t['end_ps'][i] - t['start_ps'][i] for i in range(len(t['op']))) > 0\n"
                "o = lapwing.simulate('mlp', 'dgx-a100', dp=4, overlap=False)\n"
                "assert o['exposed_comm_ps'] >= r['exposed_comm_ps'] and 'timeline' not in o\n"
                "try:\n"
                "    lapwing.simulate('mlp', 'dgx-a100', dp=0)\n"
                "except lapwing.Error as e:\n"
                "    assert 'dp' in str(e)\n"
                "else:\n"
                "    raise AssertionError('dp=0 was accepted')\n"
                "try:\n"
                "    lapwing.simulate('mlp', 'dgx-a100', steps=2 ** 32 + 1)\n"
                "except lapwing.Error as e:\n"
                "    assert 'expected 0' in str(e)\n"
                "else:\n"
                "    raise AssertionError('2 ** 32 + 1 steps were cut to 1')\n"
                "print(r['plan_hash'])\n");
    const char *out = shell("PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$P/analysis/library "
                            "LAPWING_LIBRARY=" LIBRARY " LD_PRELOAD=$LAPWING_ASAN "
                            "ASAN_OPTIONS=detect_leaks=0 python3 t.py", NULL);
    char hash[33] = "";
    snprintf(hash, sizeof hash, "%.32s", out);
    lapwing("model mlp --device dgx-a100 -o w.json", NULL);
    assert_non_null(strstr(lapwing("plan -w w.json -c dgx-a100 --dp 4 --bucket-cap 5MiB", NULL),
                           hash));
}
