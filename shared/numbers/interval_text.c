/* The interval of a step as text. */
#include "shared/numbers/interval_text.h"

#include <stdio.h>

const char *lw_interval_text(char buf[LW_INTERVAL_TEXT], lw_ps p10, lw_ps p90, const char *of)
{
    char low[32], high[32];

    snprintf(buf, LW_INTERVAL_TEXT, "p10-p90 %s-%s%s%s", lw_format_ps(low, p10),
             lw_format_ps(high, p90), of ? ": " : "", of ? of : "");
    return buf;
}
