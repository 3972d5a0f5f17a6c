#ifndef LW_SIM_BENCH_BENCH_OTHERS_H
#define LW_SIM_BENCH_BENCH_OTHERS_H

#include <stdio.h>

#include "shared/base/err.h"

/* What other simulators took for W-AR and W-DDP, as a table with the setup above it. */
enum lw_status sim_bench_others_print(FILE *f, struct lw_err *err);

#endif
