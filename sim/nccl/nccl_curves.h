#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/plan/op.h"
#include "sim/nccl/nccl_constants.h"
#include "sim/nccl/nccl_tuning.h"

/* What measured tables took beyond NCCL's cost model, by size: docs/design/nccl.md, "Calibration".
 */

/* Where an operation moves. */
enum sim_nccl_place {
    SIM_NCCL_ON_NVLINK,  /* one node, NVLink */
    SIM_NCCL_ON_PCI,     /* one node, PCIe */
    SIM_NCCL_ACROSS,     /* several nodes of several ranks */
    SIM_NCCL_ACROSS_ONE, /* several nodes of one rank */
    SIM_N_NCCL_PLACES,
};

enum { SIM_NCCL_FIRST_KNOT = -2, SIM_NCCL_N_KNOTS = 38 }; /* shares of 2^-2 ... 2^35 bytes */

/* One table: measured over modelled time, smoothed over shares. */
struct sim_nccl_measured {
    const char *table, *source;
    enum sim_nccl_place place;
    enum sim_nccl_arch arch;
    enum lw_op_kind op;
    int32_t first_knot, n_knots;        /* that the table's shares cover */
    double log_ratio[SIM_NCCL_N_KNOTS]; /* at knot first_knot + i */
    int32_t n_rows;
    const uint32_t *marks; /* sim_nccl_row_mark of each row */
};

/* What is asked of the curves. */
struct sim_nccl_spot {
    enum sim_nccl_place place;
    double share; /* sim_nccl_share */
};

/* The stored tables, *n of them. */
const struct sim_nccl_measured *sim_nccl_measured_rows(int *n);

enum sim_nccl_place sim_nccl_place_of(const struct sim_nccl_comm *c);

/* Bytes that one message of an operation carries before NCCL cuts it into channels and chunks: the
 * whole buffer of a send or receive, else the buffer over its ranks. */
double sim_nccl_share(enum lw_op_kind op, int64_t bytes, int32_t n_ranks);

/* What identifies a measured row, wherever it is written down. */
uint32_t sim_nccl_row_mark(enum lw_op_kind op, int32_t n_ranks, int32_t n_nodes, int64_t bytes,
                           int64_t time_ns);
/* Which of the n tables holds more than half of these rows; -1: none. */
int sim_nccl_same_table(const struct sim_nccl_measured *tables, int n, const uint32_t *marks,
                        int32_t n_marks);

/* What the model's time is multiplied by: of the n tables, without one of them (-1: all). At a knot
 * the vote of the tables, straight between knots. *n_used: tables that count there; 0: the factor
 * is 1. */
double sim_nccl_factor(const struct sim_nccl_measured *tables, int n, int without,
                       const struct sim_nccl_spot *at, int *n_used);
/* The same of all stored tables. Each thread keeps the knots. */
double sim_nccl_curve(const struct sim_nccl_spot *at);
/* Whether the n tables, without one of them (-1: all), speak for a place and architecture: at least
 * two are of the place (one alone says nothing), and one of these is of the architecture. */
bool sim_nccl_has_curve(const struct sim_nccl_measured *tables, int n, int without,
                        enum sim_nccl_place place, enum sim_nccl_arch arch);

/* Measured over modelled time of fabrics of a place: its logarithm has that standard deviation
 * around the curve, by the n tables without one of them (-1: all). *n_fabrics: tables whose shares
 * reach there. */
double sim_nccl_spread(const struct sim_nccl_measured *tables, int n, int without,
                       const struct sim_nccl_spot *at, int *n_fabrics);
/* What a time is divided and multiplied by for p10 and p90 of such a spread. */
double sim_nccl_p90_over_p50(double spread);

/* Smooths the ratios of a table's shares (ascending) into knots; a ratio of 0 is left out.
 * LW_EINVAL: no share in range. */
enum lw_status sim_nccl_smooth(const double *share, const double *ratio, int n,
                               struct sim_nccl_measured *out, struct lw_err *err);
