/* lapwing model: a workload from a model's shape, without a recording. */
#include <string.h>

#include "shared/cli/cli.h"
#include "shared/cli/cluster_warning.h"
#include "shared/cli/command.h"
#include "shared/cli/model_source.h"
#include "shared/cli/plan_source.h"
#include "shared/files/files.h"
#include "traces/models/model_kernels.h"
#include "traces/models/model_print.h"
#include "traces/models/model_workload.h"

enum { N_OWN = 13 };

struct session {
    struct lw_model_request model;
    struct lw_strategy strategy; /* the groups that times are for */
    const char *device, *output;
    struct lw_plan_source source; /* of the framework alone */
    enum lw_format format;
    bool kernels;
};

/* c NULL: sizes alone. */
static enum lw_status build(struct session *s, const struct lw_cluster *c, struct lw_workload *w,
                            struct lw_err *err)
{
    struct lw_strategy strategy = s->strategy;
    struct lw_model_target target = {.strategy = &strategy, .cluster = c};
    const struct lw_framework *f = &s->source.framework;

    lw_framework_free(&s->source.framework); /* of a device that the model was not made for */
    LW_TRY(lw_plan_source_framework(&s->source, &s->model, &strategy, c, err));
    if (f->name && strcmp(f->name, LW_IDEAL_FRAMEWORK) != 0)
        target.framework = f;
    target.usual = !s->source.framework_name;
    return traces_model_workload(&s->model, &target, w, err);
}

/* Without --device: of this machine where it has the model's figures, else sizes alone. */
static enum lw_status build_here(struct session *s, struct lw_workload *w,
                                 struct lw_err *err)
{
    struct lw_cluster host;
    struct lw_err why = {0};

    LW_TRY(lw_cluster_find("host", &host, err));
    enum lw_status st = build(s, &host, w, &why);
    lw_cluster_free(&host);
    return st == LW_OK ? LW_OK : build(s, NULL, w, err);
}

static enum lw_status build_on(struct session *s, struct lw_workload *w, struct lw_err *err)
{
    struct lw_cluster c;

    LW_TRY(lw_cluster_find_device(s->device, &c, err));
    lw_cluster_warn(&c, 0);
    enum lw_status st = build(s, &c, w, err);
    lw_cluster_free(&c);
    return st;
}

static bool is_stdout(const char *output)
{
    return output && strcmp(output, "-") == 0;
}

static enum lw_status make(struct session *m, struct lw_err *err)
{
    struct lw_workload w;

    LW_TRY(lw_strategy_check(&m->strategy, err));
    enum lw_status s = m->device ? build_on(m, &w, err) : build_here(m, &w, err);

    if (s != LW_OK)
        return s;
    if (m->output)
        s = lw_workload_write(&w, m->output, err);
    if (s == LW_OK && m->kernels)
        s = traces_model_print_kernels(&w, m->source.framework.name ? &m->source.choice : NULL,
                                       m->format, err);
    else if (s == LW_OK && !is_stdout(m->output))
        s = traces_model_print(&w, m->source.framework.name ? &m->source.choice : NULL, m->output,
                               m->format, err);
    lw_workload_free(&w);
    return s;
}

int cmd_model(int argc, char **argv)
{
    struct session s = {.strategy = lw_strategy_default(),
                        .source.make_model = traces_model_workload};
    struct lw_opt_call words;
    bool list = false;
    struct lw_opt options[LW_MODEL_SOURCE_OPTIONS + N_OWN] = {
        {"list", 0, LW_OPT_FLAG, &list, NULL, "show every model with its size and source"},
        {"kernels", 0, LW_OPT_FLAG, &s.kernels, NULL,
         "print its kernels: whole shape, what a tensor group splits, what one rank takes"},
        {"output", 'o', LW_OPT_STRING, &s.output, "FILE",
         "write the workload (default: only print a summary)"},
        LW_OPTION_FORCE,
        {"device", 0, LW_OPT_STRING, &s.device, "KIND",
         "a known system, its device's kind, or a cluster file (this machine where it has the "
         "figures; else no times are made)"},
        {"tp", 0, LW_OPT_INT, &s.strategy.tp, "N",
         "times for tensor groups of N: each rank's shapes (1); as --tp of the plan", 1, 4096},
        {"ep", 0, LW_OPT_INT, &s.strategy.ep, "N",
         "times for N ranks that share the experts (1); as --ep of the plan", 1, 65536},
        {"etp", 0, LW_OPT_INT, &s.strategy.etp, "N",
         "ranks of a tensor group that split each expert: as --tp (default), or 1: they share the "
         "experts; as --etp of the plan", 1, 4096},
        {"cp", 0, LW_OPT_INT, &s.strategy.cp, "N", "ranks that share each sequence (1)", 1, 4096},
        {"sequence-parallel", 0, LW_OPT_FLAG, &s.strategy.sequence_parallel, NULL,
         "split norms and residuals over the tensor group too"},
        {"framework", 0, LW_OPT_STRING, &s.source.framework_name, "NAME|FILE",
         "times for this training program: a known framework or a file (the one that such groups "
         "are usually run with: `lapwing framework --help`)"},
        LW_OPTION_FORMAT(&s.format),
        {0},
    };
    const struct lw_usage usage = {
        "model", "NAME|config.json|FOLDER [options] | --list",
        "Make the workload of a model from its shape: multi-layer perceptrons, ResNets, "
        "transformers under the names that --list shows, or of a Hugging Face config.json or its "
        "folder. Sizes "
        "that are not given are the model's. Times are by kernel shape where the device has "
        "figures for it; else they are a roofline's on the device, from its tables where it was "
        "calibrated over sizes; nothing of the model itself is measured.",
        0, 1};
    struct lw_err err = {0};
    int n, rc;

    lw_model_options(&s.model, &words, options + N_OWN - 1);
    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n)) >= 0)
        return rc;
    if (list != (n == 0))
        return lw_cli_usage("model", list ? "--list takes no NAME" : "expects a NAME, or --list");
    if (list)
        return lw_cli_end("model", traces_models_list(s.format, &err), &err);
    if (s.kernels && is_stdout(s.output))
        return lw_cli_usage("model", "--kernels and -o - both write standard output");
    s.model.name = argv[1];
    enum lw_status status = make(&s, &err);
    lw_plan_source_free(&s.source);
    return lw_cli_end("model", status, &err);
}
