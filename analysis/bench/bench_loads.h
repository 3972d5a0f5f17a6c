#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

/* The loads of `lapwing bench`: see docs/design/bench.md. */

struct bench_choice {
    const char *name;
    const char *method; /* "events", "recurrence", "collective"; NULL = the load's own */
    int64_t ranks;      /* or events pending; 0 = the load's own */
    int64_t params, jitter_ns, start_skew_ns, seed;
    bool no_fold;
};

struct bench_result {
    const char *name, *method;
    int64_t ranks, n_simulated, simulated_ps, n_events, n_messages, peak_rss_bytes;
    double wall_s;
    int64_t rate;        /* events per second, set where it is printed */
    double whole_s;      /* with what is made for it: of a prediction, the plan */
    double limit_s;      /* of whole_s; and of peak_rss_bytes; -1 = none is set */
    int64_t limit_bytes;
};

/* Is there such a load, and does it simulate (and have methods, jitter, skew and folding)? */
bool bench_knows(const char *name);
bool bench_simulates(const char *name);
/* Run one load here. LW_EINVAL: no such load, or ranks that it cannot have. */
enum lw_status bench_run(const struct bench_choice *c, struct bench_result *r, struct lw_err *err);
/* The same in a process of its own, so that its peak of memory is its own. */
enum lw_status bench_run_apart(const struct bench_choice *c, struct bench_result *r,
                               struct lw_err *err);
