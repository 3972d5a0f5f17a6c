/* lapwing plan: make a plan from a workload and a strategy, show it, compare two; or draw the grid
 * of a pipeline schedule. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shared/cli/cli.h"
#include "shared/show/plan_grid.h"
#include "shared/show/plan_show.h"
#include "shared/cli/command.h"
#include "shared/files/files.h"
#include "shared/json/jsonout.h"
#include "shared/cli/plan_source.h"
#include "shared/device/device_kind.h"
#include "shared/framework/framework_memory.h"
#include "shared/text/wrap.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/cost_nccl.h"
#include "sim/predict/memory_predict.h"
#include "traces/models/model_workload.h"

static bool yields_equal(const struct lw_step_yield *a, const struct lw_step_yield *b)
{
    return a->samples == b->samples && a->tokens == b->tokens && a->model_flops == b->model_flops &&
           a->hardware_flops == b->hardware_flops && a->dtype == b->dtype && a->fp8 == b->fp8 &&
           a->fp4 == b->fp4 && a->tf32 == b->tf32;
}

static void difference_json(const struct lw_plan *a, const struct lw_plan *b,
                            const struct lw_plan_difference *d)
{
    struct lw_jsonout o = {.file = stdout};

    lw_jsonout_object(&o, NULL);
    lw_jsonout_bool(&o, "same", !d->decision[0]);
    LW_JSON(&o, "first_difference", d->decision[0] ? d->decision : NULL, "times_differ",
            d->times[0] ? d->times : NULL, "activations_differ",
            d->bytes[0] ? d->bytes : NULL, "first_plan_hash", a->hash, "second_plan_hash", b->hash,
            "first_device", a->device, "second_device", b->device, "first_framework", a->framework,
            "second_framework", b->framework);
    lw_jsonout_bool(&o, "yields_differ", !yields_equal(&a->yield, &b->yield));
    lw_jsonout_strings(&o, "first_from_times", a->from_times, a->n_from_times);
    lw_jsonout_strings(&o, "second_from_times", b->from_times, b->n_from_times);
    lw_jsonout_end(&o);
}

static void say_from_times(const char *which, const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_from_times; i++)
        printf("%s%s", i == 0 ? which : ", ", p->from_times[i]);
    printf(p->n_from_times > 0 ? "\n" : "");
}

/* What is no decision. */
static void say_origin(const char *what, const char *a, const char *b)
{
    const char *x = a && *a ? a : "unknown", *y = b && *b ? b : "unknown";

    if (strcmp(x, y) != 0)
        lw_printf_paragraph(stdout, "%s '%s' in the first plan, '%s' in the second", what, x, y);
}

static void say_yield(const struct lw_step_yield *a, const struct lw_step_yield *b)
{
    if (!yields_equal(a, b))
        lw_printf_paragraph(stdout,
                            "a step yields %" PRId64 " samples, %" PRId64
                            " tokens, %.6g model FLOPs of %s in the "
                            "first plan, %" PRId64 ", %" PRId64 ", %.6g of %s in the second",
                            a->samples, a->tokens, a->model_flops, lw_yield_type(a), b->samples,
                            b->tokens, b->model_flops, lw_yield_type(b));
}

static void difference_text(const struct lw_plan *a, const struct lw_plan *b,
                            const struct lw_plan_difference *d)
{
    if (d->decision[0]) {
        printf("%s\n", d->decision);
        say_from_times("decided by times in the first plan: ", a);
        say_from_times("decided by times in the second plan: ", b);
        return;
    }
    printf("the plans decide the same (%s)\n", a->hash);
    if (d->times[0])
        printf("times differ: %s\n", d->times);
    if (d->bytes[0])
        lw_printf_paragraph(stdout, "activations differ: %s", d->bytes);
    say_origin("times are of", a->device, b->device);
    say_origin("made with framework", a->framework, b->framework);
    say_yield(&a->yield, &b->yield);
}

static enum lw_status diff(const char *first, const char *second, enum lw_format format,
                           struct lw_err *err)
{
    struct lw_plan a, b;
    struct lw_plan_difference d;

    LW_TRY(lw_plan_read(first, false, &a, err));
    enum lw_status s = lw_plan_read(second, false, &b, err);
    if (s != LW_OK) {
        lw_plan_free(&a);
        return s;
    }
    s = lw_plan_diff(&a, &b, &d, err);
    if (s == LW_OK && format == LW_FORMAT_JSON)
        difference_json(&a, &b, &d);
    else if (s == LW_OK)
        difference_text(&a, &b, &d);
    if (s == LW_OK && d.decision[0])
        s = lw_fail(err, LW_ENO, "%s and %s differ", first, second);
    lw_plan_free(&b);
    lw_plan_free(&a);
    return s;
}

static void drop(void *ctx, const char *remark)
{
    (void)ctx, (void)remark; /* sim says it */
}

/* Policies that weigh times ask the cluster that is named. */
static enum lw_status load(struct lw_plan_source *src, const char *plan_file, struct lw_cluster *c,
                           struct lw_plan *p, struct lw_err *err)
{
    struct lw_cost cost = lw_sim_cost(c);

    LW_TRY(lw_plan_source_load(src, plan_file, src->cluster_file ? &cost : NULL, c, p, err));
    if (!src->cluster_file)
        return LW_OK;
    p->cluster_name = lw_arena_strdup(&p->arena, c->name);
    enum lw_status s = p->cluster_name ? sim_nccl_check_plan(c, p, drop, NULL, err)
                                       : lw_fail_nomem(err);
    if (s != LW_OK)
        lw_plan_free(p);
    return s;
}

/* Memory is predicted on the cluster whose times the plan has. */
static enum lw_status show(const struct lw_plan_source *src, const struct lw_cluster *c,
                           struct lw_plan *p, enum lw_format format, struct lw_err *err)
{
    struct lw_memory_figures memory;
    struct lw_plan_shown shown = {.plan = p, .framework = &src->choice, .device = &c->device};
    struct lw_err why = {0};
    bool here = src->cluster_file || (p->device && p->device[0] &&
                                      lw_device_same_kind(p->device, c->device.kind));

    lw_framework_hold(&src->framework, p);
    shown.no_memory = here ? why.msg
                      : lw_plan_has_times(p)
                          ? "without the cluster that the times are of (-c NAME)"
                          : "without a cluster (-c NAME)";
    if (format != LW_FORMAT_CSV && here &&
        lw_memory_predict(p, &src->framework, c, &memory, &why) == LW_OK)
        shown.memory = &memory;
    return lw_plan_show(&shown, format, err);
}

static enum lw_status write_and_show(const struct lw_plan_source *src, const struct lw_cluster *c,
                                     struct lw_plan *p, const char *out, enum lw_format format,
                                     struct lw_err *err)
{
    if (out)
        LW_TRY(lw_plan_write(p, out, err));
    if (!(out && strcmp(out, "-") == 0)) /* else standard output is the plan */
        LW_TRY(show(src, c, p, format, err));
    if (out && strcmp(out, "-") != 0 && format == LW_FORMAT_TEXT)
        printf("\nwrote %s\n", out);
    return LW_OK;
}

static enum lw_status make(struct lw_plan_source *src, const char *plan_file, const char *out,
                           enum lw_format format, struct lw_err *err)
{
    struct lw_cluster c;
    struct lw_plan p;

    LW_TRY(lw_plan_source_cluster(src, &c, err));
    enum lw_status s = load(src, plan_file, &c, &p, err);
    if (s == LW_OK) {
        s = write_and_show(src, &c, &p, out, format, err);
        lw_plan_free(&p);
    }
    lw_cluster_free(&c);
    return s;
}

/* "diff A B", which names two plan files as they are. */
static int compare(const struct lw_plan_source *src, char **argv, int n, const char *out,
                   enum lw_format format)
{
    struct lw_err err = {0};

    if (n != 3)
        return lw_cli_usage("plan", "diff takes two plan files, got %d", n - 1);
    if (src->n_given > 0 || src->workload_file || src->cluster_file || src->strategy_file || out)
        return lw_cli_usage("plan", "diff compares two plan files as they are: %s%s changes "
                                    "nothing", src->n_given > 0 ? "--" : "",
                            src->n_given > 0     ? src->names[0]
                            : src->workload_file ? "-w"
                            : src->cluster_file  ? "-c"
                            : src->strategy_file ? "-s"
                                                 : "-o");
    for (int i = 2; i < 4; i++) {
        const char *other = lw_plan_source_of_w(src, argv[i]);
        if (other)
            return lw_cli_usage("plan", "diff takes two plan files, and '%s' is %s: "
                                        "'lapwing plan -w %s -o FILE' writes a plan of it",
                                argv[i], other, argv[i]);
    }
    return lw_cli_end("plan", diff(argv[2], argv[3], format, &err), &err);
}

int cmd_plan(int argc, char **argv)
{
    static const struct lw_usage usage = {
        "plan", "-w WORKLOAD [strategy options] [-o PLAN] | PLAN | diff A B | --schedule NAME ...",
        "Make a plan from a workload and a strategy and show its decisions; show a plan file; or "
        "name "
        "the first decision in which two plan files differ (exit status 3 when they do). The plan "
        "of a model has times where -c or --device names whose; without them it has the same "
        "decisions, unless a policy reads times, and nothing runs or predicts it. Without a "
        "workload, --schedule NAME --pp P --micro-batches M [--chunks V] draws the grid of a "
        "pipeline "
        "schedule (csv: torch's schedule IR); -o writes it as a plan that sim runs.",
        0, 3};
    const char *out = NULL;
    enum lw_format format = LW_FORMAT_TEXT;
    struct lw_plan_source src = {.make_model = traces_model_workload, .takes_timeless = true,
                                 .simulates_nothing = true,
                                 .frees_workload = true};
    struct lw_grid_request grid = {0};
    struct lw_err err = {0};
    struct lw_opt own[4 + LW_GRID_OPTIONS] = {
        {"output", 'o', LW_OPT_STRING, &out, "FILE", "write the plan here ('-': standard output)"},
        LW_OPTION_FORCE,
        LW_OPTION_FORMAT(&format)};
    int n;

    lw_grid_request_options(&grid, own + 3);
    int done = lw_plan_source_begin(&src, &usage, own, argc, argv, &n);
    if (done >= 0)
        return done;
    enum lw_status s;
    if (n > 0 && strcmp(argv[1], "diff") == 0) {
        done = compare(&src, argv, n, out, format);
        lw_plan_source_free(&src);
        return done;
    }
    if (n > 1) {
        return lw_cli_usage("plan", "takes one plan file, got '%s' too", argv[2]);
    } else if (n == 0 && !src.workload_file && lw_grid_requested(&grid, &src)) {
        s = lw_plan_grid(&src, &grid, out, format, &err);
    } else if (grid.file || grid.lower || grid.durations) {
        return lw_cli_usage("plan",
                            "--schedule-file, --lower and --durations are for a grid alone");
    } else if (n == 0 && !src.workload_file) {
        return lw_cli_usage("plan", "needs -w FILE or a plan file");
    } else {
        s = make(&src, n == 1 ? argv[1] : NULL, out, format, &err);
    }
    lw_plan_source_free(&src);
    return lw_cli_end("plan", s, &err);
}
