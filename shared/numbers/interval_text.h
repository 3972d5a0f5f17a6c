#pragma once

#include "shared/numbers/units.h"

/* "p10-p90 134.818 ms-238.117 ms: 14 tables with the same parallelism"; of NULL: without what it
 * comes from. Every text output has an interval in these words. */
enum { LW_INTERVAL_TEXT = 192 };
const char *lw_interval_text(char buf[LW_INTERVAL_TEXT], lw_ps p10, lw_ps p90, const char *of);

/* "-12/+30": p10 and p90 in percent from the step, for a column of a table; "-" without them. */
enum { LW_INTERVAL_PCT = 64 };
const char *lw_interval_pct(char buf[LW_INTERVAL_PCT], lw_ps step, lw_ps p10, lw_ps p90);
