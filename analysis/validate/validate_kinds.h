#pragma once

#include <stdbool.h>

#include "analysis/validate/validate.h"
#include "shared/io/csv_rows.h"
#include "shared/io/input.h"

/* A kind of file that `lapwing validate` predicts and compares; one line of its table. */
struct lw_validate_kind {
    const char *what;     /* for the message about a file that is none of them */
    const char *titles;   /* of a CSV table: it has these; NULL: `is` tells */
    bool (*is)(const struct lw_input *in);
    /* Add the families, series and cases of one file. Only its predictions' own inputs may enter
     * the predictions. */
    enum lw_status (*add)(const struct lw_input *in, struct lw_validation *v, struct lw_err *err);
    enum lw_status (*add_rows)(const struct lw_rows *rows, struct lw_validation *v,
                               struct lw_err *err); /* of a CSV table, in place of add */
};

/* validate_files.c: by the kind that the file's contents have. LW_EFORMAT names the kinds. */
enum lw_status lw_validate_file(const char *name, struct lw_validation *v, struct lw_err *err);

/* validate_ddp_runs.c: measured DDP runs over gloo. */
bool lw_validate_is_groundtruth(const struct lw_input *in);
enum lw_status lw_validate_groundtruth(const struct lw_input *in, struct lw_validation *v,
                                       struct lw_err *err);

/* validate_zero.c: memory per device under ZeRO, as published. */
enum lw_status lw_validate_zero(const struct lw_rows *r, struct lw_validation *v,
                                struct lw_err *err);

/* validate_bubble.c: bubble rates of pipeline schedules, as published. */
enum lw_status lw_validate_bubble(const struct lw_rows *r, struct lw_validation *v,
                                  struct lw_err *err);

/* validate_runs.c: training runs of GPU clusters, a run a row. */
bool lw_validate_is_runs(const struct lw_input *in);
enum lw_status lw_validate_runs(const struct lw_input *in, struct lw_validation *v,
                                struct lw_err *err);
/* validate_netbench.c: published nccl-tests tables. */
enum lw_status lw_validate_netbench(const struct lw_input *in, struct lw_validation *v,
                                    struct lw_err *err);
