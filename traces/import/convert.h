#pragma once

#include <stdbool.h>

#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "shared/plan/plan.h"
#include "shared/workload/workload.h"
#include "traces/import/importer.h"
#include "traces/import/read_traces.h"
#include "traces/nccl_tests/import_nccl_tests.h"
#include "traces/workload/to_workload.h"

/* From files that were read to what an import writes. */
struct traces_wanted {
    bool workload, cluster;
    struct traces_choice choice;    /* traces only; its memory is looked up here */
    const char *from_device;        /* traces: what they were recorded on; NULL = as they say */
    bool chosen;                    /* an option that concerns traces alone was given */
    struct traces_bench_hint bench; /* tables of collectives only */
    bool in_place;
    const char *loggops; /* GOAL schedules only; NULL = as they say */
};

/* How graphs become a plan. */
struct traces_replay_rule;
struct traces_plan_wanted {
    const struct traces_replay_rule *rule; /* what is timed anew; NULL = nothing */
    const char *loggops;                   /* parameters of GOAL schedules; NULL = as they say */
};

struct traces_converted {
    bool has_workload, has_cluster, has_plan; /* what was requested and is there */
    struct lw_workload workload;
    struct lw_cluster cluster;
    struct lw_plan plan; /* of formats of graphs, in place of a workload */
    const char *network; /* of measured collectives, as their log says; NULL: not said */
    struct traces_coverage coverage; /* of the workload */
};

/* LW_EINVAL: files of several formats, or something requested that the format does not give. */
enum lw_status traces_convert(const struct traces_file *f, int n, const struct traces_wanted *want,
                              struct traces_converted *out, struct lw_err *err);

/* What rows of the importers' table take for `convert`: of a format whose graphs give a plan, and
 * of one that `inspect` alone reads (LW_EINVAL). */
enum lw_status traces_convert_plan(const struct traces_file *f, int n,
                                   const struct traces_wanted *want, struct traces_converted *out,
                                   struct lw_err *err);
enum lw_status traces_convert_nothing(const struct traces_file *f, int n,
                                      const struct traces_wanted *want,
                                      struct traces_converted *out, struct lw_err *err);
/* Of every format with a timeline. */
enum lw_status traces_convert_timeline(const struct traces_file *f, int n,
                                       const struct traces_wanted *want,
                                       struct traces_converted *out, struct lw_err *err);
/* Of a format that gives the whole step as it was measured: all of it is covered. */
void traces_cover_all(struct traces_converted *out);
void traces_converted_free(struct traces_converted *c);
