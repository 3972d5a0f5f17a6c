#pragma once

#include <stdint.h>

#include "shared/base/err.h"
#include "traces/trace/trace.h"

/* The device rows of a trace with the call that launched each. Several device rows may share one
 * call (graph replay); some have none (launched before the capture began). */
struct traces_launches {
    int64_t n;       /* device rows, in start order */
    int64_t *row;    /* [n] */
    int64_t *launch; /* [n] row of the runtime or driver call, -1 = not in the trace */
};

/* Memory is the arena's. */
enum lw_status traces_launches_build(const struct lw_trace *t, struct lw_arena *arena,
                                     struct traces_launches *out, struct lw_err *err);

/* Launches whose device op is not in the file: calls named as others that launched one, up to the
 * last of those. Recorders lose device ops when their buffers are full. */
enum lw_status traces_lost_launches(const struct lw_trace *t, const struct traces_launches *l,
                                    int64_t *n, struct lw_err *err);

/* Device rows that are there once more: of the same call, name, stream, start and length, which a
 * stream cannot run beside each other. A file that was written or joined twice has them. */
int64_t traces_repeated_rows(const struct lw_trace *t);

/* Calls by the number that the recorder gave each; `at` is the caller's: a row, or a place in a
 * list. */
struct traces_correlated {
    int64_t correlation, at;
};

void traces_correlated_sort(struct traces_correlated *v, int64_t n);
/* `at` of the call of this number, the least of several; -1 = none. v is sorted. */
int64_t traces_correlated_find(const struct traces_correlated *v, int64_t n, int64_t correlation);
