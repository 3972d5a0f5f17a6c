#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/timeline/timeline.h"
#include "traces/steps/step_phases.h"
#include "traces/trace/trace.h"

/* Where the work of a host moment lies on the clock that counts: on the device's main stream where
 * the trace has one, else on the host itself. */
struct traces_ops {
    bool device;
    int32_t stream;      /* the one with the most kernel time that is not communication */
    int64_t n;           /* its rows, in launch order */
    int64_t *row, *launch_ns;
    int64_t *max_end;    /* [n] latest end up to here */
    int64_t *min_start;  /* [n] first start from here on */
    int64_t n_idle;      /* between any ops of the device, in time order */
    struct lw_interval *idle;
    int64_t *idle_before; /* [n_idle] length of all idle intervals before it */
};

enum lw_status traces_ops_build(const struct lw_trace *t, struct lw_arena *arena,
                                struct traces_ops *out, struct lw_err *err);

/* The clock of one step, with the stretches taken out that data parallelism added to it. */
struct traces_axis {
    const struct lw_trace *t;
    const struct traces_ops *ops;
    int64_t first, n;    /* ops whose data below differ from those of `ops` */
    bool *is_overhead;   /* [n] launched by the data-parallel wrapper; others are not */
    int64_t *max_end;    /* [n] latest end up to here, overhead left out */
    int64_t n_excluded;
    struct lw_interval *excluded; /* sorted, disjoint */
    int64_t host_scale; /* lengths count the device's idle times as so many of TRACES_HOST_UNIT */
};

/* The device idles because the host is not fast enough: host gaps. */
enum { TRACES_HOST_UNIT = 1 << 20 };

/* parallel: this run was data-parallel, so take its work out. */
enum lw_status traces_axis_build(const struct lw_trace *t, const struct traces_ops *ops,
                                 const struct lw_step *s, bool parallel, struct lw_arena *arena,
                                 struct traces_axis *out, struct lw_err *err);

/* When work launched from host moment ns on starts; when all launched before it has ended. The same
 * moment without a device; INT64_MAX / INT64_MIN without such work. */
int64_t traces_axis_start(const struct traces_axis *a, int64_t ns);
int64_t traces_axis_end(const struct traces_axis *a, int64_t ns);
/* Length of [from, to), host gaps scaled; without the excluded stretches; and of its host gaps as
 * recorded. */
int64_t traces_axis_span(const struct traces_axis *a, int64_t from, int64_t to);
int64_t traces_axis_length(const struct traces_axis *a, int64_t from, int64_t to);
int64_t traces_ops_idle(const struct traces_ops *o, int64_t from, int64_t to);
