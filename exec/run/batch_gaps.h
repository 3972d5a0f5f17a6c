#pragma once

#include "exec/run/run.h"

/* Take the time between the batches of a run out of its timeline, which is sorted and has the
 * rows of all ranks: a batch then begins when the one before it ended. Work of the program
 * between batches (verifying, measuring cores, submitting) does not count as part of a step. */
void exec_close_gaps(struct lw_exec_result *r);
