#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/cli/cli.h"
#include "shared/cluster/cluster.h"
#include "shared/framework/framework.h"
#include "shared/framework/framework_choice.h"
#include "shared/io/input.h"
#include "shared/plan/cost.h"
#include "shared/plan/plan.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/model_request.h"
#include "shared/workload/workload.h"

/* Where a command's plan comes from: a plan file, or a workload and a strategy. One set of options
 * (-w, -c, -s, --ranks and every strategy option) for plan, sim, exec, tune and recommend.
 *
 *     struct lw_plan_source src = {0};
 *     int rc = lw_plan_source_begin(&src, &usage, own, argc, argv, &n);
 *     if (rc >= 0)
 *         return rc;
 *     LW_TRY(lw_plan_source_cluster(&src, &cluster, err));
 *     LW_TRY(lw_plan_source_load(&src, plan_file or NULL, cost or NULL, &cluster, &plan, err));
 *     lw_plan_source_free(&src);                                                               */
enum { LW_PLAN_SOURCE_OPTIONS = 160, LW_PLAN_SOURCE_OWN = 48 };

struct lw_plan_source {
    const char *workload_file, *cluster_file, *strategy_file; /* as given; NULL = not */
    /* Set before begin: makes workloads of models (traces/models/model_workload.h). */
    lw_model_maker *make_model;
    struct lw_model_request model; /* of the options of a model; its name is unset */
    const char *model_optimizer;   /* for models, where a command has its own --optimizer */
    int64_t global_batch;          /* --global-batch; 0 = not given */
    const char *framework_name;    /* --framework: a known one or a file; NULL = not given */
    double node_gbps;              /* --node-gbps: line rate of a node's ports; 0 = the cluster's */
    const char *interference; /* --interference: channels, published or off; NULL = channels */
    const char *device_spread; /* --device-spread: a share or off; NULL = the cluster's */
    const char *device, *from_device; /* --device, --from-device; NULL = not given */
    struct lw_cluster of_device;  /* with the device of --device, once it was found; owned */
    bool has_of_device;
    struct lw_cluster proportions; /* whose times stand for none; owned */
    bool as_recorded;             /* --as-recorded */
    /* Set before begin by commands that predict with the cluster's device, the default one's too:
     * its kind must be the workload's. */
    bool predicts;
    /* Set before begin by a command that takes plans without times: a model that nothing names a
     * device for (-c, --device) gives one. */
    bool takes_timeless;
    /* Set before begin by a command that simulates nothing: --interference and --device-spread are
     * refused, and help leaves them out. */
    bool simulates_nothing;
    bool silent;                  /* nothing is said on standard error */
    bool unproven;                /* load leaves the check of a plan that it makes to the caller */
    bool frees_workload;          /* load keeps no workload of a plan that it makes */
    int64_t ranks;                /* --ranks; 0 = not given */
    int64_t max_ops;              /* --max-ops; 0 = the default */
    struct lw_strategy given;     /* values of the options alone */
    const char *names[LW_PLAN_SOURCE_OPTIONS], *values[LW_PLAN_SOURCE_OPTIONS];
    bool by_older_name[LW_PLAN_SOURCE_OPTIONS];
    int n_given;                  /* strategy options on the command line */
    struct lw_opt_call call, model_words;

    struct lw_input stored;       /* a plan file in memory, of --run; text NULL: none; owned */
    /* of the run, in place of the file's: equal plans are stored once; NULL = the file's */
    const char *stored_framework, *stored_framework_hash;
    /* of a stored run whose cluster is used: cluster_file is its name, the hash as it was then, of
     * figures that it has still as it is now */
    int64_t of_run;
    char cluster_hash[33];
    bool other_today; /* a known system of that name has other figures now */
    struct lw_input stored_cluster; /* a cluster file in memory; text NULL: that of cluster_file;
                                     * owned */
    struct lw_arena strings;      /* of the strategy file */
    /* Set before lw_plan_source_workload by a command that has read the file for its ranks: it is
     * not read again. NULL = not; owned. */
    struct lw_workload *read_before;
    struct lw_workload workload;  /* filled by load when it came from -w; owned */
    bool has_workload;
    bool refused; /* load failed because the framework does not run such a strategy */
    bool measured; /* filled by workload: modules may be without kernels (lw_usual_for) */
    /* Filled by load, by workload and by recorded; the framework is owned. A replay has none. */
    struct lw_framework framework;
    struct lw_framework of_options; /* of --framework beside a recording: usual options; owned */
    struct lw_framework_choice choice;
};

/* No options yet: for sources that no command line fills. */
void lw_plan_source_init(struct lw_plan_source *s);
/* An option of the strategy as the command line has it; name and value are kept by pointer. */
enum lw_status lw_plan_source_set(struct lw_plan_source *s, const char *name, const char *value,
                                  struct lw_err *err);

/* The options of a plan source: rows of `table`, which has room for LW_PLAN_SOURCE_OPTIONS, and the
 * end mark. They set fields of `s`, which must not move. Sets s->given to its defaults. */
void lw_plan_source_options(struct lw_plan_source *s, struct lw_opt *table);

/* lw_cli_begin with the options of a plan source before the command's own, fewer than
 * LW_PLAN_SOURCE_OWN, which end with name == NULL. */
int lw_plan_source_begin(struct lw_plan_source *s, const struct lw_usage *usage,
                         const struct lw_opt *own, int argc, char **argv, int *n_operands);

/* Read or make the plan; checked in both cases. A strategy file is read first, options win over it.
 * `cluster` is that of lw_plan_source_cluster, and goes with the plan's device afterwards (see
 * lw_plan_source_fit).
 * LW_EUSAGE: neither or both of plan_file and -w, strategy options beside a plan file. LW_EINVAL:
 * --ranks that is not the plan's world, a plan_file that is a workload or a model. */
enum lw_status lw_plan_source_load(struct lw_plan_source *s, const char *plan_file,
                                   const struct lw_cost *cost, struct lw_cluster *cluster,
                                   struct lw_plan *plan, struct lw_err *err);

/* All that lw_plan_source_load checks of a workload and its strategy before it builds the plan. */
enum lw_status lw_plan_source_check(struct lw_plan_source *s, struct lw_cluster *cluster,
                                    struct lw_err *err);

/* The workload of -w: a workload file, else a model, a configuration or a folder with one, made
 * with the options of a model for the strategy and the cluster, or the device of --device. A file
 * that was made from a model is computed again from it where these options, its groups or its
 * device differ, and this is said. The framework is chosen, and `strategy` gets its usual options
 * and the micro-batches that --global-batch leads to; it is checked. */
enum lw_status lw_plan_source_workload(struct lw_plan_source *s, const char *name,
                                       struct lw_strategy *strategy,
                                       const struct lw_cluster *cluster, struct lw_workload *w,
                                       struct lw_err *err);

/* A plan file; unchecked: see lw_plan_read. Its device is compared as a workload's is. */
enum lw_status lw_plan_source_read(struct lw_plan_source *s, const char *plan_file, bool unchecked,
                                   struct lw_cluster *cluster, struct lw_plan *plan,
                                   struct lw_err *err);

/* The framework of a model: that of --framework, else the one that such a strategy is usually run
 * with on the cluster's device; NULL: no device, and none without --framework. The strategy gets
 * its usual options. */
enum lw_status lw_plan_source_framework(struct lw_plan_source *s, const struct lw_model_request *r,
                                        struct lw_strategy *strategy, const struct lw_cluster *c,
                                        struct lw_err *err);

/* The framework of --framework, where it is given: found, and not yet chosen for anything. */
enum lw_status lw_plan_source_given(struct lw_plan_source *s, struct lw_err *err);

/* The framework of times that no model has: `ideal`. */
enum lw_status lw_plan_source_recorded(struct lw_plan_source *s, struct lw_err *err);

/* How the framework cuts the workload into stages, unless the user says how, and what it does
 * between them on the cluster's device (NULL = unknown); LW_ENOTSUP where it does not run such a
 * strategy. */
enum lw_status lw_plan_source_stages(struct lw_plan_source *s, struct lw_workload *w,
                                     const struct lw_cluster *cluster,
                                     struct lw_strategy *strategy, struct lw_err *err);

/* Whether the name is a model's, a configuration's or a folder's with one. */
bool lw_plan_source_is_model(const struct lw_plan_source *s, const char *name);

/* LW_EINVAL: an option of the model that changes nothing of such a strategy (--experts-in-turn
 * without --dispatch-once). */
enum lw_status lw_plan_source_idle(const struct lw_plan_source *s, const struct lw_strategy *x,
                                   struct lw_err *err);

/* What a word that -w takes is: "a model", "a workload"; NULL: it takes none such. For messages
 * about the word elsewhere. */
const char *lw_plan_source_of_w(const struct lw_plan_source *s, const char *word);

/* Options of a model, or --global-batch, beside something that is no workload: LW_EUSAGE. */
enum lw_status lw_plan_source_no_model(const struct lw_plan_source *s, const char *what,
                                       struct lw_err *err);

/* The strategy that file and options make, on top of the defaults; not checked as a whole. */
enum lw_status lw_plan_source_strategy(struct lw_plan_source *s, struct lw_strategy *out,
                                       struct lw_err *err);

/* A workload that is timed for one kind of device cannot be combined with a cluster of another
 * (LW_EINVAL; lw_device_same_kind). With --device its times become those of that kind
 * (shared/device/retime.h); --from-device names the kind that it is timed for, in place of the
 * file's. With --as-recorded the cluster gets the workload's device (lw_cluster_put_device). */
enum lw_status lw_plan_source_fit(struct lw_plan_source *s, struct lw_workload *w,
                                  struct lw_cluster *cluster, struct lw_err *err);

/* A value of --interference that no command line has checked. */
enum lw_status lw_plan_source_interference(const char *word, struct lw_err *err);

/* A value of --device-spread that no command line has checked. */
enum lw_status lw_plan_source_spread(const char *word, struct lw_err *err);

/* The cluster of -c, or `host`, with the terms of --interference and the spread of
 * --device-spread. */
enum lw_status lw_plan_source_cluster(const struct lw_plan_source *s, struct lw_cluster *cluster,
                                      struct lw_err *err);

void lw_plan_source_free(struct lw_plan_source *s);
