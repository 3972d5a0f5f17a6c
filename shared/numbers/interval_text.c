/* The interval of a step as text. */
#include "shared/numbers/interval_text.h"

#include <stdio.h>

#include "shared/numbers/quantity.h"

const char *lw_interval_text(char buf[LW_INTERVAL_TEXT], lw_ps p10, lw_ps p90, const char *of)
{
    char low[32], high[32];

    snprintf(buf, LW_INTERVAL_TEXT, "p10-p90 %s-%s%s%s", lw_format_ps(low, p10),
             lw_format_ps(high, p90), of ? ": " : "", of ? of : "");
    return buf;
}

const char *lw_interval_pct(char buf[LW_INTERVAL_PCT], lw_ps step, lw_ps p10, lw_ps p90)
{
    if (p90 <= 0 || step <= 0)
        snprintf(buf, LW_INTERVAL_PCT, "-");
    else
        snprintf(buf, LW_INTERVAL_PCT, "%+.0f/%+.0f",
                 lw_percent((double)(p10 - step), (double)step),
                 lw_percent((double)(p90 - step), (double)step));
    return buf;
}
