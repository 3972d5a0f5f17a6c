#pragma once

#include <stddef.h>

#include "analysis/published/run_table.h"
#include "shared/plan/workload.h"

/* The first module of each of pp * vpp parts, as "0,4,7": the embedding lies in the first part and
 * the head in the last. */
void lw_run_parts(const struct lw_run *r, char *list, size_t size);

/* Whether another stage has at least as many blocks as the first one. */
bool lw_run_first_stage_waits(const struct lw_run *r);
/* Whether the hosts sleep between stages until a message is complete. */
bool lw_run_polls(const struct lw_run *r);
/* Adds what the hosts of two stages wait for between them, to the modules at their ends.
 * LW_ENOTSUP: there are fewer modules than stages. */
enum lw_status lw_run_add_polls(const struct lw_run *r, struct lw_workload *w,
                                struct lw_err *err);

/* Why the framework itself ends such a run before its first step; NULL = it does not. */
const char *lw_run_refused(const struct lw_run *r);
