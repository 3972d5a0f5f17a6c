/* What other simulators took for the loads of sim/bench/bench_plan.h: constants, measured once on one core
 * of a 2.5 GHz Xeon (2 vCPU, 24 GiB), the load written in each one's own input. ASTRA-sim 518bd51
 * analytical, congestion-unaware; LogGOPSim upstream, reading its binary schedule; ATLAHS's fork of
 * it; SimGrid 3.32, one actor per rank, model CM02. "error" is against the closed form. */
#include "sim/bench/bench_others.h"

#include <stdint.h>

#include "shared/base/table.h"

static const struct {
    const char *name, *engine, *wall_s, *peak_mb, *error;
    int32_t ranks;
} others[] = {
    {"w-ar", "ASTRA-sim", "1.38", "103", "+0.07 %", 512},
    {"w-ar", "LogGOPSim", "0.48", "48", "-0.001 %", 512},
    {"w-ar", "SimGrid", "2.37", "39", "exact", 512},
    {"w-ar", "ASTRA-sim", "198.3", "5580", "+0.04 %", 4096},
    {"w-ar", "LogGOPSim", "79.0", "2824", "-0.002 %", 4096},
    {"w-ar", "SimGrid", "> 200", "> 76", "stopped", 4096},
    {"w-ddp", "ASTRA-sim", "13.76", "123", "+0.05 %", 512},
    {"w-ddp", "ATLAHS", "9.1", "535", "-0.010 %", 512},
    {"w-ddp", "SimGrid", "26.07", "47", "exact", 512},
};

enum lw_status sim_bench_others_print(FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"name", "simulator", ">ranks", ">wall s", ">peak MB",
                                         ">error"};
    struct lw_table *t = lw_table_new(6, titles);

    if (!t)
        return lw_fail_nomem(err);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        lw_table_cell(t, "%s", others[i].name);
        lw_table_cell(t, "%s", others[i].engine);
        lw_table_cell(t, "%d", others[i].ranks);
        lw_table_cell(t, "%s", others[i].wall_s);
        lw_table_cell(t, "%s", others[i].peak_mb);
        lw_table_cell(t, "%s", others[i].error);
    }
    fprintf(f, "\nother simulators on the same loads, measured on one core of a 2.5 GHz Xeon "
               "(docs/design/bench.md)\n");
    enum lw_status status = lw_table_print(t, f, 0, err);
    lw_table_free(t);
    return status;
}
