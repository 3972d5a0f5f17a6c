/* The figures of a rank's period: one table of their names and titles. */
#include "shared/timeline/period_figures.h"

#include <string.h>

#define FIGURE(k) LW_COLUMN_INT, offsetof(struct lw_period_row, figure[k])
#define WAIT(name, k) {"wait_" name "_ns", "wait, " name, FIGURE(LW_FIGURE_WAIT + k)}
const struct lw_column lw_period_columns[LW_N_PERIOD_COLUMNS] = {
    {"rank", NULL, LW_COLUMN_INT32, offsetof(struct lw_period_row, rank)},
    {"period_ns", "period", FIGURE(LW_FIGURE_PERIOD)},
    {"compute_busy_ns", "compute", FIGURE(LW_FIGURE_COMPUTE)},
    {"copy_busy_ns", "copies", FIGURE(LW_FIGURE_COPY_BUSY)},
    {"comm_busy_ns", "communication", FIGURE(LW_FIGURE_COMM_BUSY)},
    {"exposed_comm_ns", "communication, exposed", FIGURE(LW_FIGURE_EXPOSED_COMM)},
    {"idle_ns", "host and idle", FIGURE(LW_FIGURE_IDLE)},
    {"exposed_copy_ns", "copies, exposed", FIGURE(LW_FIGURE_COPY)},
    {"exposed_transfer_ns", "transfers, exposed", FIGURE(LW_FIGURE_TRANSFER)},
    {"hidden_transfer_ns", "transfers under compute", FIGURE(LW_FIGURE_HIDDEN)},
    WAIT("tensor", LW_WAIT_TENSOR),
    WAIT("pipeline", LW_WAIT_PIPELINE),
    WAIT("data", LW_WAIT_DATA),
    WAIT("tied", LW_WAIT_TIED),
    WAIT("other", LW_WAIT_OTHER),
    {"host_update_ns", "updates by the host", FIGURE(LW_FIGURE_HOST_UPDATE)},
    {"peak_memory_bytes", NULL, LW_COLUMN_BYTES, offsetof(struct lw_period_row, peak_memory_bytes),
     .lacking = "-"},
};

const enum lw_period_figure lw_period_parts[LW_N_PERIOD_PARTS] = {
    [LW_PERIOD_COMPUTE] = LW_FIGURE_COMPUTE,
    [LW_PERIOD_HOST_UPDATE] = LW_FIGURE_HOST_UPDATE,
    [LW_PERIOD_COPY] = LW_FIGURE_COPY,
    [LW_PERIOD_TRANSFER] = LW_FIGURE_TRANSFER,
    [LW_PERIOD_WAIT + LW_WAIT_TENSOR] = LW_FIGURE_WAIT + LW_WAIT_TENSOR,
    [LW_PERIOD_WAIT + LW_WAIT_PIPELINE] = LW_FIGURE_WAIT + LW_WAIT_PIPELINE,
    [LW_PERIOD_WAIT + LW_WAIT_DATA] = LW_FIGURE_WAIT + LW_WAIT_DATA,
    [LW_PERIOD_WAIT + LW_WAIT_TIED] = LW_FIGURE_WAIT + LW_WAIT_TIED,
    [LW_PERIOD_WAIT + LW_WAIT_OTHER] = LW_FIGURE_WAIT + LW_WAIT_OTHER,
    [LW_PERIOD_IDLE] = LW_FIGURE_IDLE,
};

const char *lw_period_figure_title(enum lw_period_figure k)
{
    return lw_period_columns[LW_PERIOD_FIRST_COLUMN + k].title;
}

const char *lw_period_figure_metric(enum lw_period_figure k, char buf[32])
{
    const char *key = lw_period_columns[LW_PERIOD_FIRST_COLUMN + k].key;

    snprintf(buf, 32, "%.*sps", (int)strlen(key) - 2, key);
    return buf;
}

void lw_period_figures(const struct lw_measure *m, lw_ps figure[LW_N_FIGURES])
{
    figure[LW_FIGURE_PERIOD] = m->end - m->start;
    figure[LW_FIGURE_COMPUTE] = m->compute_busy;
    figure[LW_FIGURE_COPY_BUSY] = m->copy_busy;
    figure[LW_FIGURE_COMM_BUSY] = m->comm_busy;
    figure[LW_FIGURE_EXPOSED_COMM] = m->exposed_comm;
    figure[LW_FIGURE_IDLE] = m->idle;
    figure[LW_FIGURE_COPY] = m->exposed_copy;
    figure[LW_FIGURE_TRANSFER] = m->transfer;
    figure[LW_FIGURE_HIDDEN] = m->hidden_transfer;
    memcpy(figure + LW_FIGURE_WAIT, m->wait, sizeof m->wait);
    figure[LW_FIGURE_HOST_UPDATE] = m->host_update;
}

/* A part may be 1 ns longer than its own rounded time: so is busy then. */
static void raise_to_exposed(lw_ns *busy, lw_ns exposed)
{
    if (*busy < exposed)
        *busy = exposed;
}

/* How much of a nanosecond the part is beyond whole ones. Idle is lengthened before another part
 * that is rounded down by itself. */
static lw_ps claim(const lw_ps exact[LW_N_FIGURES], int part)
{
    lw_ps beyond = exact[lw_period_parts[part]] % LW_PS_PER_NS;

    if (part == LW_PERIOD_IDLE && beyond > 0 && beyond < LW_PS_PER_NS / 2)
        return LW_PS_PER_NS / 2 - 1;
    return beyond;
}

/* Whole nanoseconds of the parts, which add up to the rounded period. Compute is rounded by itself,
 * the others by the largest remainder: each is within 1 ns of its time. */
static void round_parts(const lw_ps exact[LW_N_FIGURES], lw_ns figure[LW_N_FIGURES])
{
    bool longer[LW_N_PERIOD_PARTS] = {false};
    lw_ns missing = figure[LW_FIGURE_PERIOD] - figure[LW_FIGURE_COMPUTE];

    for (int i = LW_PERIOD_COMPUTE + 1; i < LW_N_PERIOD_PARTS; i++)
        missing -= figure[lw_period_parts[i]] = exact[lw_period_parts[i]] / LW_PS_PER_NS;
    for (int n = LW_PERIOD_COMPUTE + 1; missing > 0 && n < LW_N_PERIOD_PARTS; n++, missing--) {
        int most = -1;
        for (int i = LW_PERIOD_COMPUTE + 1; i < LW_N_PERIOD_PARTS; i++)
            if (!longer[i] && (most < 0 || claim(exact, i) > claim(exact, most)))
                most = i;
        longer[most] = true;
        figure[lw_period_parts[most]]++;
    }
}

struct lw_period_row lw_period_row_of(const struct lw_measure *m)
{
    struct lw_period_row row = {.rank = m->rank, .peak_memory_bytes = m->peak_memory_bytes};
    lw_ps exact[LW_N_FIGURES];

    lw_period_figures(m, exact);
    for (int k = 0; k < LW_N_FIGURES; k++)
        row.figure[k] = lw_ps_to_ns(exact[k]);
    round_parts(exact, row.figure);
    row.figure[LW_FIGURE_EXPOSED_COMM] = 0;
    for (int i = LW_PERIOD_TRANSFER; i < LW_PERIOD_IDLE; i++)
        row.figure[LW_FIGURE_EXPOSED_COMM] += row.figure[lw_period_parts[i]];
    raise_to_exposed(&row.figure[LW_FIGURE_COMM_BUSY], row.figure[LW_FIGURE_EXPOSED_COMM]);
    raise_to_exposed(&row.figure[LW_FIGURE_COPY_BUSY], row.figure[LW_FIGURE_COPY]);
    return row;
}
