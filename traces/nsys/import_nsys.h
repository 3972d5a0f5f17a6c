#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "traces/trace/trace.h"

struct lw_input;

/* Is this a database of SQLite, of whatever program? */
bool lw_nsys_is(const struct lw_input *in);

/* Read a report of Nsight Systems that `nsys export --type sqlite` wrote, old schemas and new: rows
 * in order, and its iterations; see docs/design/nsys.md. Frees `in`. A rank is a device of a
 * process: of a report with several, options->part says which (LW_EINVAL where it says none).
 * LW_EFORMAT: no database, one of another program, a column that is missing or holds no number;
 * LW_ENOMEM. */
enum lw_status lw_nsys_take(struct lw_input *in, const struct lw_err *damage,
                            const struct lw_trace_reading *options, struct lw_trace *out,
                            struct lw_err *err);

/* How many ranks the report in this file holds, without reading it whole: 0 where it holds no
 * device's work. LW_EFORMAT, LW_EIO as above. */
enum lw_status lw_nsys_count(const char *file, int *n_parts, struct lw_err *err);
