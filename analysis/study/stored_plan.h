#pragma once

#include <stdbool.h>

#include "shared/base/err.h"

struct lw_plan_source;

/* The plan of a stored run becomes that of the source (--run): `run` is an id or "last". Nothing
 * happens where it is NULL. stores: the command will store a run in that database, so that one too
 * old to be read is brought up to date. LW_EUSAGE: beside a plan file or -w; LW_EINVAL: no such
 * run, or one without its whole plan. */
enum lw_status lw_stored_plan(const char *db, const char *run, bool stores, const char *plan_file,
                              struct lw_plan_source *source, struct lw_err *err);
