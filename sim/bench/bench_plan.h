#pragma once

#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "shared/plan/plan.h"
#include "shared/workload/workload.h"

/* Plans whose answer is known on paper, for measuring speed and for tests.
 *   w-ar     one all-reduce of 64 MiB
 *   w-ddp    10 forwards of 1000 us, 10 backwards of 2000 us, each releasing such an all-reduce on
 *            the communication stream: 12,000 us + 10 all-reduces where those are longer
 *   streams  a pipeline of 32 micro-batches over all ranks: forward and backward of 100 us,
 *            messages of 1 MiB to the neighbours on their own streams, rendezvous */
enum sim_bench { SIM_BENCH_W_AR, SIM_BENCH_W_DDP, SIM_BENCH_STREAMS };

enum { SIM_BENCH_BYTES = 67108864 };

enum lw_status sim_bench_plan(enum sim_bench which, int32_t n_ranks, struct lw_plan *plan,
                              struct lw_err *err);
/* n devices in one node, links of 50e9 B/s and 500 ns. */
enum lw_status sim_bench_cluster(int32_t n, struct lw_cluster *c, struct lw_err *err);

/* A model of n_params f32 parameters of 64 elements, `each` of them in a module of 1 us forward and
 * 2 us backward, in registration order and without recorded ready times: what planning at size is
 * measured on. */
enum { BENCH_PARAMS_PER_MODULE = 8 };
enum lw_status sim_bench_workload(int32_t n_params, int32_t each, struct lw_workload *w,
                                  struct lw_err *err);
