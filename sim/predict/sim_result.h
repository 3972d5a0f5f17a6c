#pragma once

#include "shared/base/arena.h"
#include "shared/text/records.h"
#include "shared/timeline/budget.h"
#include "sim/predict/sim_print.h"

/* What a prediction comes to, as one row: `sim --format csv`, a row of a sweep, and what is stored
 * beside the times. Numbers that are not known: -1 for whole ones, NAN for the others. */
struct lw_sim_result {
    int64_t run;             /* in the database; -1 = not stored */
    const char *plan, *plan_hash, *workload, *cluster, *framework;
    int32_t n_ranks;
    lw_ps step, p10, p90;
    lw_ps exposed_comm;      /* whole ns, as lw_period_row_of rounds it */
    const char *interval_of; /* "" = no interval */
    double tokens_per_s, tokens_per_s_per_device, samples_per_s;
    double mfu_pct, overlap_pct;
    int64_t memory_bytes, device_memory_bytes; /* of a device: taken, and there */
    int32_t fits;            /* 1, 0, or -1 = not known */
    double price_per_device_hour, cost_per_trillion_tokens;
    double days, days_p10, days_p90, device_hours, cost, cost_p10, cost_p90;
};

enum { LW_N_SIM_RESULT_COLUMNS = 29 };
/* All are in JSON and CSV; none in text. */
extern const struct lw_column lw_sim_result_columns[LW_N_SIM_RESULT_COLUMNS];
const char *lw_sim_fits_word(int fits); /* "yes", "no", "" */

/* Texts are copied into the arena. */
enum lw_status lw_sim_result_of(const struct lw_sim_report *r, struct lw_arena *a,
                                struct lw_sim_result *out, struct lw_err *err);

/* Of the report's plan and step, at the report's price. */
struct lw_throughput lw_sim_throughput(const struct lw_sim_report *r);
struct lw_budget lw_sim_budget(const struct lw_sim_report *r);
