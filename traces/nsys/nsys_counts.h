#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "traces/nsys/nsys_database.h"
#include "traces/trace/trace.h"

/* What is counted of the whole report, whatever part of it is read. */
struct nsys_counts {
    int64_t n_kernels, sum_ns, busy_ns, first_ns, last_ns, last_start_ns;
    bool unordered;        /* a kernel starts before that of the row before: busy_ns is wrong */
    int64_t *streams;      /* distinct, of kernels */
    int64_t n_streams, stream_cap;
    bool several;          /* processes: ids are kept, since one of them alone becomes rows */
    uint64_t *kernel_ids, *launch_ids; /* process and correlation; 0 = none */
    int64_t n_kernel_ids, n_launch_ids, kernel_cap, launch_cap;
    int64_t n_sync, n_events, n_nvtx, n_memcpy, n_memset, n_runtime; /* rows; -1 = no such table */
};

enum lw_status nsys_count_kernel(struct nsys_counts *c, int64_t start, int64_t end, int64_t process,
                                 int64_t correlation, int64_t stream, struct lw_err *err);
enum lw_status nsys_count_launch(struct nsys_counts *c, int64_t process, int64_t correlation,
                                 struct lw_err *err);
/* Into t->counts, all but what nsys_counts_resolve adds. */
enum lw_status nsys_counts_give(struct nsys_counts *c, const struct nsys_database *d,
                                struct lw_trace *t, struct lw_err *err);
/* How many kernels have their launch in the file; the rows are sorted. */
enum lw_status nsys_counts_resolve(struct nsys_counts *c, struct lw_trace *t, struct lw_err *err);
void nsys_counts_free(struct nsys_counts *c);
