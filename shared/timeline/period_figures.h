#pragma once

#include "shared/text/records.h"
#include "shared/timeline/rank_period.h"
#include "shared/timeline/timeline.h"

/* The figures of a rank's period, which docs/glossary.md defines. Text, JSON and CSV of sim, exec
 * and explain, the rows of the database and comparisons take their names from lw_period_columns. */
enum lw_period_figure {
    LW_FIGURE_PERIOD,
    LW_FIGURE_COMPUTE,
    LW_FIGURE_COPY_BUSY,
    LW_FIGURE_COMM_BUSY,
    LW_FIGURE_EXPOSED_COMM,
    LW_FIGURE_IDLE,
    LW_FIGURE_COPY, /* not under compute */
    LW_FIGURE_TRANSFER,
    LW_FIGURE_HIDDEN, /* transfers under compute or copies */
    LW_FIGURE_WAIT, /* one for each enum lw_wait */
    LW_FIGURE_HOST_UPDATE = LW_FIGURE_WAIT + LW_N_WAITS,
    LW_N_FIGURES,
};

/* The columns of a rank: its number, the figures in the order of the enum, its peak memory. */
struct lw_period_row {
    int32_t rank;
    lw_ns figure[LW_N_FIGURES];
    int64_t peak_memory_bytes; /* -1: not known */
};
enum { LW_PERIOD_FIRST_COLUMN = 1, LW_N_PERIOD_COLUMNS = LW_N_FIGURES + 2 };
extern const struct lw_column lw_period_columns[LW_N_PERIOD_COLUMNS];

/* "host and idle"; and the name in the database, "idle_ps". */
const char *lw_period_figure_title(enum lw_period_figure k);
const char *lw_period_figure_metric(enum lw_period_figure k, char buf[32]);

/* The parts, which add up to the period, as figures. */
extern const enum lw_period_figure lw_period_parts[LW_N_PERIOD_PARTS];

void lw_period_figures(const struct lw_measure *m, lw_ps figure[LW_N_FIGURES]);
/* In whole nanoseconds; parts are rounded so that they add up to the period. */
struct lw_period_row lw_period_row_of(const struct lw_measure *m);
