#pragma once

#include "exec/run/run.h"

/* Row i happened later by so much; what is not known (-1) stays so. */
void exec_move_span(struct lw_timeline *t, int64_t i, lw_ps by);

/* Take the time between the batches of a run out of its timeline, which is sorted and has the
 * rows of all ranks: a batch then begins when the one before it ended. Work of the program
 * between batches (verifying, measuring cores, submitting) does not count as part of a step. */
void exec_close_gaps(struct lw_exec_result *r);
