#pragma once

#include <stdbool.h>

#include "traces/et/read_et.h"
#include "traces/import/read_traces.h"

/* PyTorch execution traces among the profiler's traces of the same run: each goes into the trace
 * of its process. f[*n] loses them. Without a profiler's trace nothing changes. LW_EINVAL: one has
 * no partner, or is of other steps. */
enum lw_status traces_join_files(struct traces_file *f, int *n, struct lw_err *err);

/* The one of t[n] that an execution trace belongs to: of its process, of several that of the rank
 * in its name; where it names no process of that rank, else the only one. taken[] are left out.
 * -1 = none. */
int traces_join_partner(const struct traces_et *e, struct lw_trace *const *t, const bool *taken,
                        int n);
/* Reads the file, which is an execution trace, with all of its calls; free `in` and `out`. */
enum lw_status traces_join_open(const char *name, struct lw_input *in, struct traces_et *out,
                                struct lw_err *err);
bool traces_is_execution(const struct lw_importer *importer);
