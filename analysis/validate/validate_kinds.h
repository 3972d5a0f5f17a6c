#pragma once

#include <stdbool.h>

#include "analysis/validate/validate.h"
#include "shared/io/csv_rows.h"
#include "shared/io/input.h"

struct lw_runs;

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
    bool runs; /* lw_validate_read_runs and lw_validate_runs, in place of both */
    const char *no_framework; /* "has ...": why none changes a prediction; NULL: one does */
};

/* A file between its check and its cases. */
struct lw_validate_file {
    struct lw_input in;
    const struct lw_validate_kind *kind;
    struct lw_runs *runs;
};

/* validate_files.c. Open: reads the file and finds its kind by its contents; LW_EFORMAT names the
 * kinds. Faults of single rows go to the validation, and are no failure. */
enum lw_status lw_validate_open(const char *name, struct lw_validation *v,
                                struct lw_validate_file *out, struct lw_err *err);
enum lw_status lw_validate_add(const struct lw_validate_file *f, struct lw_validation *v,
                               struct lw_err *err);
void lw_validate_close(struct lw_validate_file *f);

/* validate_ddp_runs.c: measured DDP runs over gloo. */
bool lw_validate_is_groundtruth(const struct lw_input *in);
enum lw_status lw_validate_groundtruth(const struct lw_input *in, struct lw_validation *v,
                                       struct lw_err *err);

/* validate_torch_runs.c: measured runs of torch.distributed: DDP, FSDP2, pipelines. */
bool lw_validate_is_torch_runs(const struct lw_input *in);
enum lw_status lw_validate_torch_runs(const struct lw_input *in, struct lw_validation *v,
                                      struct lw_err *err);

/* validate_zero.c: memory per device under ZeRO, as published. */
enum lw_status lw_validate_zero(const struct lw_rows *r, struct lw_validation *v,
                                struct lw_err *err);

/* validate_bubble.c: bubble rates of pipeline schedules, as published. */
enum lw_status lw_validate_bubble(const struct lw_rows *r, struct lw_validation *v,
                                  struct lw_err *err);

/* validate_runs.c: measured training runs, a run a row (docs/formats/runs.md). Reading checks all
 * cells; rows with a fault have no case. */
enum lw_status lw_validate_read_runs(const struct lw_input *in, struct lw_validation *v,
                                     struct lw_runs **out, struct lw_err *err);
enum lw_status lw_validate_runs(const struct lw_runs *r, struct lw_validation *v,
                                struct lw_err *err);

struct lw_framework;
/* validate_fits.c: the framework's figures that were fitted on published runs. */
enum lw_status lw_validate_fits(struct lw_validation *v, int32_t family,
                                const struct lw_framework *f, struct lw_err *err);

/* validate_netbench.c: published nccl-tests tables. */
enum lw_status lw_validate_netbench(const struct lw_input *in, struct lw_validation *v,
                                    struct lw_err *err);
