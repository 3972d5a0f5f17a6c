#pragma once

#include <stdint.h>

#include "shared/base/err.h"
#include "shared/base/progress.h"

/* What the executor itself costs, on the threads backend of this machine. */

/* Ops without work on one stream of one rank: ns from one start to the next, over n_ops *
 * n_steps of them; and the whole time over all ops, giving them to the stream included. */
struct exec_bench_dispatch {
    int32_t n_ops, n_steps;
    double median_ns, p90_ns, whole_ns;
};
enum lw_status exec_bench_dispatch(struct exec_bench_dispatch *d, struct lw_err *err);

/* A step of N_OPS kernels (spins) with an all-reduce after each, beside the next kernel, on two
 * ranks: run by the executor, and by the same calls written down by hand (two threads per rank,
 * a counter each). The two alternate; each of a pair is the median of its steps. Ratio: executor
 * over hand, median of the pairs, with the interval that holds the true median at 95 % (order
 * statistics: of 30 pairs the 10th and 21st). */
struct exec_bench_by_hand {
    int32_t n_pairs, n_ops, n_steps;
    int64_t bytes, work_ns;         /* of each all-reduce and kernel */
    double executor_ns, hand_ns;    /* median steps, over all pairs */
    double ratio, low, high;
};
enum lw_status exec_bench_by_hand(const struct lw_progress *progress, struct exec_bench_by_hand *b,
                                  struct lw_err *err);

/* All-reduces of 25 MiB on two ranks, each beside a kernel that sleeps 1.5 times as long as the
 * all-reduce takes alone (median): the share of each all-reduce that the kernel covers, median. */
struct exec_bench_overlap {
    int32_t n_ranks, n;              /* all-reduces looked at, over ranks and steps */
    int64_t bytes, alone_ns, beside_ns, work_ns;
    double hidden;                   /* 0 to 1 */
};
enum lw_status exec_bench_overlap(struct exec_bench_overlap *b, struct lw_err *err);
