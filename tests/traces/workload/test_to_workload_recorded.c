/* From recorded steps, our own and published, to workloads. */
#include "tests/lib/unit.h"
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/lib/traces/step_help.h"

static const struct traces_choice median = {.step = -1};

TEST(recorded_local_steps_are_covered_within_one_percent)
{
    static const char *const files[] = {"traces/recorded/resnet18__local.rank0.json.gz",
                                        "traces/recorded/gpt6__local.rank0.json.gz"};

    for (int i = 0; i < 4; i++) {
        struct imported x = import_file(files[i % 2]);
        struct traces_choice choice = {.step = -1, .as_traced = i >= 2};
        import_as(&x, &choice);
        int64_t want = choice.as_traced ? x.c.traced_ns : x.c.measured_ns;
        double pct = 100.0 * (double)x.c.workload_ns / (double)want;
        print_message("%s: %.3f %% of %.3f ms\n", files[i % 2], pct, (double)want / 1e6);
        assert_true(want > 0 && pct >= 99.0 && pct <= 101.0);
        import_free(&x);
    }
}

/* Each gradient becomes ready inside its module's window of the backward. */
TEST(recorded_gradients_are_ready_inside_their_modules_windows)
{
    static const char *const files[] = {"traces/recorded/resnet18__local.rank0.json.gz",
                                        "traces/recorded/gpt6__local.rank0.json.gz"};

    for (int f = 0; f < 2; f++) {
        struct imported x = import_file(files[f]);
        lw_ps start[512], end = 0;
        import_median(&x);
        assert_true(x.w.n_modules <= 512);
        for (int32_t i = x.w.n_modules - 1; i >= 0; i--) {
            start[i] = end;
            end += x.w.modules[i].backward_input_ps;
        }
        for (int32_t i = 0; i < x.w.n_params; i++) {
            int32_t m = x.w.params[i].module;
            lw_ps window_end = start[m] + x.w.modules[m].backward_input_ps;
            assert_true(x.w.params[i].ready_ps >= start[m]);
            assert_true(x.w.params[i].ready_ps <= window_end);
        }
        import_free(&x);
    }
}

TEST(recorded_ranks_give_the_buckets_that_ddp_logged)
{
    struct traces_source s[2] = {
        import_file("traces/recorded/resnet18__local.rank0.json.gz").s,
        import_file("traces/recorded/resnet18__gloo2__cap5.rank0.json.gz").s};
    struct lw_workload w, bare;
    struct traces_coverage c;

    import_ok(s, 2, &median, &w, &c);
    assert_int_equal(w.recorded.world_size, 2);
    assert_int_equal(w.recorded.n_buckets, 6);
    /* the same from the trace's own all-reduces, without the sidecar */
    s[1].has_sidecar = false;
    import_ok(&s[1], 1, &median, &bare, &c);
    assert_int_equal(bare.recorded.n_buckets, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(bare.recorded.bucket_bytes[i], w.recorded.bucket_bytes[i]);
    lw_workload_free(&w);
    lw_workload_free(&bare);
    traces_source_free(&s[0]);
    traces_source_free(&s[1]);
}

/* What the recorder names decides what a plan counts for the optimizer's state. */
TEST(the_sidecar_names_the_optimizer)
{
    static const struct {
        const char *named;
        enum lw_optimizer optimizer;
    } cases[] = {
        {"\"SGD, momentum 0.9\"", LW_OPTIMIZER_MOMENTUM}, {"\"SGD\"", LW_OPTIMIZER_SGD},
        {"\"SGD, momentum 0\"", LW_OPTIMIZER_SGD},       {"\"AdamW\"", LW_OPTIMIZER_ADAM},
        {"\"Adam\"", LW_OPTIMIZER_ADAM},                 {"\"Adamax\"", LW_OPTIMIZER_UNKNOWN},
        {"null", LW_OPTIMIZER_UNKNOWN},
    };
    static const char *const trace = "traces/recorded/gpt6__local.rank0.json.gz";
    char path[] = "/tmp/lapwing-sidecar-XXXXXX";

    assert_true(mkstemp(path) >= 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_sidecar s;
        struct lw_err err = {0};
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fprintf(f, "{\"lapwing\":1,\"kind\":\"recording\",\"optimizer\":%s,\"parameters\":[]}",
                cases[i].named);
        assert_int_equal(fclose(f), 0);
        assert_ok(traces_sidecar_read(path, &s, &err), err);
        assert_int_equal(s.optimizer, cases[i].optimizer);
        traces_sidecar_free(&s);
    }
    remove(path);
    struct imported x = import_file(trace);
    import_median(&x);
    assert_int_equal(x.w.optimizer, LW_OPTIMIZER_MOMENTUM);
    import_free(&x);
}

/* Fields of a sidecar that a program other than the recorder may have written. */
TEST(a_sidecars_fields_are_read_or_refused_by_place)
{
    static const struct {
        const char *param, *measured, *says; /* NULL: read, with that many rows */
        int64_t rows;
    } cases[] = {
        {"\"shape\": [5, 3]", "{}", NULL, 5},
        {"\"shape\": [null]", "{}", NULL, 0},
        {"\"shape\": null", "{}", NULL, 0},
        {"\"shape\": []", "{}", NULL, 0},
        {"\"shape\": [5, \"x\"]", "{}", "parameters[0].shape[1]", 0},
        {"\"shape\": [5, 1.5]", "{}", "parameters[0].shape[1]", 0},
        {"\"dtype\": null", "{}", "parameters[0].dtype", 0},
        {"\"dtype\": \"float32\"", "{\"zero_grad_ns\": {\"median\": 7, \"p25\": 1.5}}", NULL, 0},
        {"\"dtype\": \"float32\"", "{\"step_ns\": {\"median\": 7, \"p25\": 1.5}}",
         "at measured.step_ns.p25 ", 0},
    };
    char path[] = "/tmp/lapwing-sidecar-XXXXXX";

    assert_true(mkstemp(path) >= 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_sidecar s;
        struct lw_err err = {0};
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fprintf(f, "{\"lapwing\": 1, \"kind\": \"recording\", \"measured\": %s,"
                   "\"parameters\": [{\"name\": \"a\", \"numel\": 15, %s}]}",
                cases[i].measured, cases[i].param);
        assert_int_equal(fclose(f), 0);
        enum lw_status status = traces_sidecar_read(path, &s, &err);
        if (status != (cases[i].says ? LW_EFORMAT : LW_OK))
            fail_msg("%s %s: %d %s", cases[i].param, cases[i].measured, status, err.msg);
        if (cases[i].says) {
            if (!strstr(err.msg, cases[i].says))
                fail_msg("'%s' does not say '%s'", err.msg, cases[i].says);
        } else {
            assert_int_equal(s.params[0].rows, cases[i].rows);
            traces_sidecar_free(&s);
        }
    }
    remove(path);
}

TEST(ddp_resnet50_takes_its_parameters_from_a_list)
{
    const char *file = "../shared/traces/kineto/ddp_resnet50_2xA100_rank0.json.gz";
    struct lw_err err = {0};
    int64_t sum = 0;

    if (access(file, R_OK) != 0) {
        print_message("SKIP parameters of ddp_resnet50: %s is absent\n", file);
        skip();
    }
    struct imported x = import_file(file);
    /* without a list the five all-reduces give the sizes */
    assert_int_equal(lw_workload_from_traces(&x.s, 1, &median, &x.w, &x.c, &err), LW_OK);
    assert_int_equal(lw_workload_numel(&x.w, true), 25557032);
    lw_workload_free(&x.w);
    struct traces_param params[161] = {{0}};
    for (int i = 0; i < 161; i++)
        params[i] = (struct traces_param){"p", 1, LW_F32, true, false, -1, -1, 0};
    struct traces_sidecar list = {.file = "list", .model = "resnet50", .n_params = 161,
                                  .params = params};
    struct traces_choice choice = {.step = -1, .params = &list};
    import_as(&x, &choice);
    assert_int_equal(x.w.n_ready, 161);
    assert_int_equal(x.w.recorded.world_size, 2);
    assert_int_equal(x.w.recorded.n_buckets, 5);
    for (int i = 0; i < 5; i++)
        sum += x.w.recorded.bucket_bytes[i];
    assert_int_equal(sum, 4 * 25557032LL);
    import_free(&x);
}
