#pragma once

#include <stdio.h>

#include "analysis/study/prediction.h"
#include "shared/cli/option_lists.h"

/* One prediction for each combination of the lists on a command line. begin sets up a prediction
 * from the command line of one combination; it returns -1, or the exit status of wrong usage, which
 * it has printed. Each one is stored as a run of its own unless the command line says otherwise. */
typedef int lw_sweep_begin(struct lw_prediction *s, int argc, char **argv);

/* Predict all and print a row for each, also for those that cannot be predicted, with the reason.
 * *usage: -1, or the exit status of a combination that is wrong usage; nothing was predicted then.
 * LW_EINVAL: a list has a name that no model, cluster, framework or device has, and nothing was
 * predicted; or none could be predicted. LW_ENO: --must-fit, and one of them does not
 * fit. */
enum lw_status lw_sweep(const struct lw_option_lists *lists, lw_sweep_begin *begin, FILE *f,
                        int *usage, struct lw_err *err);
