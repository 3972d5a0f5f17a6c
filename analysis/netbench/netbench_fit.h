#pragma once

#include "analysis/netbench/netbench_fabric.h"
#include "shared/io/csv_rows.h"
#include "shared/strategy/reducer_kind.h"
#include "sim/nccl/nccl_curves.h"

/* A published table with what NCCL's cost model gives for its rows. */
struct netbench_table {
    struct lw_arena arena;
    struct lw_rows rows;
    char name[96]; /* of the file, without folder and ending */
    struct netbench_fabric fabric;
    const char *source, *apart; /* apart: netbench_apart */
    bool can_predict;
    enum lw_op_kind op;
    enum lw_reducer_kind algorithm;
    enum sim_nccl_place place;
    enum sim_nccl_arch arch;
    int32_t n;
    int64_t *bytes;
    double *measured_us;
    double *raw_us, *beyond_us; /* only where can_predict: the model, what nccl+cal adds to it */
    uint32_t *marks;              /* sim_nccl_row_mark of each row */
    double host_us;               /* of a call, that the table's times contain */
};

/* Where the curves are asked for row i. */
struct sim_nccl_spot netbench_spot(const struct netbench_table *t, int32_t i);
/* Row i by the model alone, with the host's time of a call. */
double netbench_raw_us(const struct netbench_table *t, int32_t i);
/* The same by what auto takes, the table left out of its curves, the transfer times `times`: the
 * model alone where no curve is left. */
double netbench_left_out_us(const struct netbench_table *t, int32_t i, double times);

/* The stored table that has the same rows, whatever the file is called; -1: none. */
int netbench_stored(const struct netbench_table *t);

/* validate_netbench.c. *t is zeroed before; on success the caller frees it. */
enum lw_status netbench_read(const struct lw_input *in, struct netbench_table *t,
                             struct lw_err *err);
void netbench_free(struct netbench_table *t);

/* Writes the curves of all tables that are not apart as sim/nccl/nccl_curve_data.c to `path`. */
enum lw_status netbench_fit(char **files, int n, const char *path, struct lw_err *err);
