/* What bounds the compute of a prediction: sim prints it, and JSON has the times. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/sql_file.h"

static double number_at(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    if (!at)
        fail_msg("no %s in %s", key, text);
    return strtod(at + strlen(key), NULL);
}

struct bound {
    double compute, memory, launch, host, busy;
};

static struct bound bound_in(const char *out)
{
    const char *at = strstr(out, "\"compute_bound\": {");

    assert_non_null(at);
    return (struct bound){number_at(at, "\"compute_ns\": "), number_at(at, "\"memory_ns\": "),
                          number_at(at, "\"launch_ns\": "), number_at(at, "\"host_ns\": "),
                          number_at(out, "\"compute_busy_ns\": ")};
}

static struct bound bound_of(const char *options)
{
    return bound_in(lapwingf("sim -w gpt-125m --batch 1 -c dgx-h100 %s --no-db --format json",
                             options));
}

/* Each of the four is rounded to a nanosecond. Recomputed and split modules have their shares. */
TEST_WITH(bounds_add_up_to_the_compute, fixture_open, fixture_close)
{
    static const char *const options[] = {
        "--dp 8 --framework nanotron", "--tp 2 --dp 2", "--pp 2 --micro-batches 4",
        "--dp 2 --recompute full", "--dp 2 --recompute selective", "--cp 2 --dp 2",
    };

    for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
        struct bound b = bound_of(options[k]);
        double sum = b.compute + b.memory + b.launch + b.host;
        if (fabs(sum - b.busy) > 4)
            fail_msg("%s: %.0f of %.0f", options[k], sum, b.busy);
    }
}

/* The slowest rank is not the lowest of its class, or its class has another number than it. */
TEST_WITH(they_are_of_the_slowest_rank_where_ranks_are_alike, fixture_open, fixture_close)
{
    static const char asked[] =
        "sim -w gpt-125m --layers 9 --dp 4 --pp 3 --tp 2 --micro-batches 1 --sequence-parallel on "
        "-c slow.json --no-db --format json";
    double of_all = 0;

    shell("$L cluster dgx-a100 -o all.json", NULL);
    shell("sed 's/\"content_hash\".*/\"exceptions\": "
          "[{\"rank\":8,\"speed\":0.95},{\"rank\":2,\"speed\":0.95}]/' all.json >slow.json", NULL);
    for (int fold = 0; fold < 2; fold++) {
        const char *out = lapwingf("%s%s", asked, fold ? "" : " --no-fold");
        double n = number_at(out, "\"n_simulated_ranks\": ");
        struct bound b = bound_in(out);
        assert_true(fold ? n < 24 : n == 24);
        if (fabs(b.compute + b.memory + b.launch + b.host - b.busy) > 4)
            fail_msg("%.0f ranks: %.0f of %.0f", n, b.compute + b.memory + b.launch + b.host,
                     b.busy);
        assert_true(!fold || b.compute == of_all);
        of_all = b.compute;
    }
}

/* The ideal framework never waits for the host; nanotron's launches are slow. */
TEST_WITH(the_host_bounds_small_kernels_of_a_slow_framework, fixture_open, fixture_close)
{
    struct bound ideal = bound_of("--dp 8 --framework ideal");
    struct bound slow = bound_of("--dp 8 --framework nanotron");

    assert_true(ideal.host == 0);
    assert_true(slow.host > 0.3 * slow.busy);
    expect("sim -w gpt-125m --batch 1 -c dgx-h100 --dp 8 --framework nanotron --no-db", 0,
           "  the host ");
}

/* A file that a model was written to has its kernels; a module whose times were edited, here the
 * embedding, which the host bounds, is measured. */
TEST_WITH(of_a_models_file_it_is_the_models, fixture_open, fixture_close)
{
    shell("$L model gpt-125m --batch 1 --device dgx-h100 --framework nanotron -o w.json", NULL);
    struct bound model = bound_of("--framework nanotron");
    const char *out =
        lapwingf("sim -w w.json --framework nanotron -c dgx-h100 --no-db --format json");
    const char *at = strstr(out, "\"compute_bound\": {");
    assert_non_null(at);
    assert_true(number_at(at, "\"host_ns\": ") == model.host);
    assert_true(number_at(at, "\"memory_ns\": ") == model.memory);
    shell("sed -i '0,/\"forward_ns\": /s//\"forward_ns\": 1/' w.json", NULL);
    out = lapwingf("sim -w w.json --framework nanotron -c dgx-h100 --no-db --format json");
    at = strstr(out, "\"compute_bound\": {");
    assert_non_null(at);
    assert_true(number_at(at, "\"measured_ns\": ") > 0);
    assert_true(number_at(at, "\"host_ns\": ") < model.host);
    assert_true(number_at(at, "\"memory_ns\": ") > 0.5 * model.memory);
}

/* Whatever was edited, and though the file has lost its hash, or comes through a pipe. Times that
 * are still those of kernels are bound as these are. */
TEST_WITH(an_edited_file_keeps_its_edits, fixture_open, fixture_close)
{
    static const struct {
        const char *edit, *figure;
        bool kernels;
    } edits[] = {
        {"s/\"kept_bytes\": [1-9][0-9]*/&0/", "\"peak_memory_bytes\": ", true},
        {"s/\"output_bytes\": [1-9][0-9]*/&00/", "\"step_ns\": ", true},
        {"s/\"dtype\": \"bf16\"/\"dtype\": \"f32\"/", "\"peak_memory_bytes\": ", false},
        {"s/\"optimizer_ns\": [1-9][0-9]*/&0/", "\"step_ns\": ", false}};
    static const char asked[] = "-c dgx-h100 --dp 2 --pp 2 --micro-batches 4 --framework nanotron "
                                "--no-db --format json";

    shell("$L model gpt-125m --batch 1 --device dgx-h100 --framework nanotron -o w.json", NULL);
    char *plain = strdup(lapwingf("sim -w w.json %s", asked));
    for (size_t k = 0; k < sizeof edits / sizeof *edits; k++) {
        shellf("sed '%s; s/\"content_hash\".*/\"notes_\": 0/' w.json | "
               "grep -v notes_ >x.json", edits[k].edit);
        shell("sed -i '$!b' x.json; sed -zi 's/,\\n}/\\n}/' x.json", NULL);
        for (int piped = 0; piped < 2; piped++) {
            const char *out = lapwingf(piped ? "sim -w - %s < x.json" : "sim -w x.json %s", asked);
            assert_int_equal(number_at(out, "\"measured_ns\": ") == 0, edits[k].kernels);
            assert_true(number_at(out, edits[k].figure) != number_at(plain, edits[k].figure));
        }
    }
    free(plain);
}

/* A plan's file and a stored plan have what their model had; of a recording nothing is known. */
TEST_WITH(of_a_plan_it_is_that_of_its_model, fixture_open, fixture_close)
{
    static const char asked[] = "--db b.db --format json";
    struct bound model = bound_of("--dp 2 --framework nanotron");
    char stored[8192];

    shell("$L plan -w gpt-125m --batch 1 -c dgx-h100 --dp 2 --framework nanotron -o p.json", NULL);
    snprintf(stored, sizeof stored, "%s", lapwingf("sim p.json -c dgx-h100 %s", asked));
    for (int i = 0; i < 2; i++) {
        const char *out = i == 0 ? stored : lapwingf("sim --run 1 -c dgx-h100 %s", asked);
        assert_true(number_at(out, "\"compute_ns\": ") == model.compute);
        assert_true(number_at(out, "\"memory_ns\": ") == model.memory);
        assert_true(number_at(out, "\"host_ns\": ") == model.host);
    }
    recording_of_model("gpt-125m --batch 1 --device dgx-h100", "r.json");
    expect("sim -w r.json -c dgx-h100 --no-db --format json", 0, "\"compute_bound\": null");
}

/* The database has of each op what bounds it: its parts sum to its time, and those of the ops that
 * rank 0 ran in the last step are the figures of the run. */
TEST_WITH(the_database_has_the_bounds_of_ops, fixture_open, fixture_close)
{
    static const char of_step[] =
        "SELECT sum(%s) FROM span JOIN op ON op.plan = 1 AND op.op = span.op WHERE rank = 0"
        " AND class = 'compute' AND step = (SELECT max(step) FROM span)";
    char sql[300];
    const char *out = lapwing("sim -w gpt-125m --batch 1 -c dgx-h100 --dp 2 --framework nanotron "
                              "--interference off --db b.db --spans --format json", NULL);
    double host = number_at(out, "\"host_ns\": "), memory = number_at(out, "\"memory_ns\": ");
    const char *file = fixture_path("b.db");

    snprintf(sql, sizeof sql, of_step, "host_ps");
    assert_true(fabs((double)sql_ask(file, sql) / 1000 - host) <= 0.51);
    snprintf(sql, sizeof sql, of_step, "memory_ps");
    assert_true(fabs((double)sql_ask(file, sql) / 1000 - memory) <= 0.51);
    assert_int_equal(sql_ask(file, "SELECT count(*) FROM op WHERE class = 'compute' AND"
                                   " (compute_ps + memory_ps + launch_ps + host_ps != work_ps"
                                   " OR time_source != 'shape')"), 0);
    assert_true(sql_ask(file, "SELECT count(*) FROM op WHERE bound = 'host'") > 0);
    assert_int_equal(sql_ask(file, "SELECT count(*) FROM op WHERE (class = 'collective') !="
                                   " (bound = 'network' AND time_source = 'cluster')"), 0);
}
