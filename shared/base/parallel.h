#pragma once

#include "shared/base/err.h"
#include "shared/base/progress.h"

/* The same work on each of n things, on n_threads threads, 0: as many as this process may use cores
 * (one thing: on the calling thread). `one` is called once for each number in [0, n), touches
 * nothing but what belongs to that number, and may report its own progress. Which thread takes
 * which is left to chance; the results are not. When some fail, the error is that of the lowest
 * number among them; later ones may not have been called at all, so the caller must be able to tell
 * (zeroed = not called). */
struct lw_parallel_work {
    enum lw_status (*one)(void *ctx, int i, const struct lw_progress *p, struct lw_err *err);
    void *ctx;
    int n;
    const char *what;                   /* for the progress: "reading" */
    const struct lw_progress *progress; /* NULL = silent */
    int n_threads;
};
enum lw_status lw_parallel(const struct lw_parallel_work *w, struct lw_err *err);

/* The cores that this process may run on; at least 1. */
int lw_n_cores(void);
