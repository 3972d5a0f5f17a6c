#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/tune_trial/tune_judge.h"
#include "analysis/tune/tune_search.h"
#include "shared/base/progress.h"
#include "shared/text/records.h"

/* lapwing tune --here: the search on this machine's cores, and a trial of its answer: its best
 * strategies and some of the others are executed, and what was measured is set beside what was
 * predicted. See docs/design/tune.md. */

enum { LW_TUNE_HERE_BEST = 5, LW_TUNE_HERE_OTHERS = 5 };
#define LW_TUNE_REGRET_PCT 3.0 /* the bar */

struct lw_tune_here_request {
    bool on;
    int64_t n_steps, n_repeats, seed; /* measured steps of a run; runs of a strategy; of others */
    double most_s;                    /* what all runs may take by the prediction */
};

/* Of a command line: those options that --here gives it where it has none of its own. The texts and
 * *out, which ends with NULL, are in the arena. LW_EUSAGE: an option that does not go with --here,
 * or more ranks than cores. */
enum lw_status lw_tune_here_words(int argc, char **argv, struct lw_arena *a, int *n, char ***out,
                                  struct lw_err *err);

/* This machine, measured, as a file that this process may read while fd is open: *name is in the
 * arena. The caller closes fd, where it is not below 0. */
enum lw_status lw_tune_here_calibrate(int64_t ranks, bool quiet, struct lw_arena *a, int *fd,
                                      const char **name, struct lw_err *err);

struct lw_tune_here_row {
    const char *strategy, *of; /* "best", "others" */
    const char *differs;       /* those of its options that some row lacks */
    int64_t place;             /* among all that fit, by predicted step; 1 = the best */
    lw_ps predicted, measured, least, most;
    double error_pct;
    int64_t tie;
    lw_ps at_speed;            /* measured, with compute at the speed that is assumed in its
                                * prediction; -1 = not known */
    double machine_speed;      /* of the repeats: the median; NAN = not known */
    double others_pct;         /* of the processors, taken by other programs: the worst repeat */
    int64_t predicted_run, measured_run; /* of the database; -1 = not stored */
    const char *reason;        /* why it was not executed; "" = it was */
    int n_loaded;              /* repeats beside which others took too much */
};

struct lw_tune_here_result {
    struct lw_arena arena;
    struct lw_tune_here_row row[2 * (LW_TUNE_HERE_BEST + LW_TUNE_HERE_OTHERS)];
    int n_rows, n_loaded;  /* loaded: repeats of all rows */
    const char *common;    /* options of all rows */
    int64_t n_alike;       /* passed over: predicted as long as one that is there */
    struct lw_tune_verdict verdict;
    bool interrupted;
};

/* What is run; all borrowed. */
struct lw_tune_here_task {
    const struct lw_tune_here_request *request;
    const struct lw_tune_part *parts;
    const struct lw_tune_result *found; /* of a search without bounds */
    const char *db, *command;           /* db NULL: nothing is stored */
    const struct lw_progress *progress;
};

/* LW_EINVAL: the runs would take too long; or none could be executed. Free *out in any case. */
enum lw_status lw_tune_here(const struct lw_tune_here_task *t, struct lw_tune_here_result *out,
                            struct lw_err *err);
void lw_tune_here_free(struct lw_tune_here_result *r);

/* What the exit status is to say: LW_ENO, the regret is above the bar; LW_ELOAD, so it is, and the
 * runs were disturbed; a tie that the disturbance made counts so too. */
enum lw_status lw_tune_here_verdict(const struct lw_tune_here_result *r, struct lw_err *err);

struct lw_tune_report;
enum lw_status lw_tune_here_print(const struct lw_tune_report *p,
                                  const struct lw_tune_here_request *request,
                                  const struct lw_tune_here_result *r, enum lw_format format,
                                  FILE *f, struct lw_err *err);
