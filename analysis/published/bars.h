#pragma once

/* What a family of predictions must reach, in percent; 0 = not asked. */
struct lw_bars {
    double mean_pct, worst_pct, order_pct;
};
