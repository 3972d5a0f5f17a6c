#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "shared/base/err.h"
#include "traces/import/importer.h"
#include "traces/import/read_traces.h"
#include "traces/import/trace_names.h"
#include "traces/nccl_tests/import_nccl_tests.h"
#include "traces/report/alike_ranks.h"
#include "traces/report/rank_report.h"
#include "traces/steps/cross_rank.h"
#include "traces/steps/device_figures.h"
#include "traces/steps/host_bound.h"
#include "traces/steps/step_phases.h"
#include "traces/trace/trace.h"

/* What `lapwing inspect` says about a list of files, held until all are read. Zeroed = empty. */
struct traces_report_file {
    const char *name; /* borrowed */
    const struct lw_importer *importer;
    /* of a trace */
    struct lw_trace trace;
    struct lw_inspection device;
    struct lw_steps steps;
    struct traces_host_bound host_bound;
    struct traces_rank_report profile; /* with --report */
    void *facts; /* of other formats: what their importer read */
};

struct traces_report {
    struct traces_names names; /* of the files */
    int64_t n;
    struct traces_report_file *files;
    const struct lw_kernel_table *kernels; /* a user's classes; NULL = none; borrowed */
    struct lw_arena arena;                 /* of cross */
    bool all;                              /* text: every collective, not the longest alone */
    bool one_run;                          /* several traces, of different ranks of one run */
    const char *apart;                     /* why several traces with ranks are not, or NULL */
    bool report;                           /* --report: profiles, and of all what follows */
    struct traces_alike alike;             /* of ranks of one run */
    int64_t n_changes;                     /* of two files that are not */
    struct traces_kernel_change *changes;
    struct traces_cross_rank cross;        /* of them, lists in the order of the files */
};

/* On as many cores as there are; the error is that of the first file that has one. */
enum lw_status traces_report_read(struct traces_report *r, char **names, int n,
                                  const struct traces_reading *reading,
                                  const struct traces_bench_hint *hint, struct lw_err *err);
void traces_report_free(struct traces_report *r);

/* Before it is printed: what was asked for can be shown of every file (csv: rows); of --report, of
 * one file at least. LW_ENOTSUP names the file and what shows it. */
enum lw_status traces_report_check(const struct traces_report *r, bool csv, struct lw_err *err);

enum lw_status traces_report_json(const struct traces_report *r, FILE *f, struct lw_err *err);
enum lw_status traces_report_text(const struct traces_report *r, FILE *f, struct lw_err *err);
/* One table: a row per window, communication kernel, host step, host collective or measured
 * size. */
enum lw_status traces_report_csv(const struct traces_report *r, FILE *f, struct lw_err *err);
