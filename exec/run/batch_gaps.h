#ifndef LW_EXEC_RUN_BATCH_GAPS_H
#define LW_EXEC_RUN_BATCH_GAPS_H

#include "exec/run/run.h"

/* Take the time between the batches of a run out of its timeline, which is sorted and has the rows of
 * all ranks: a batch then begins when the one before it ended. What the program does between batches
 * (judging, measuring cores, handing over) is no part of a step. */
void exec_close_gaps(struct lw_exec_result *r);

#endif
