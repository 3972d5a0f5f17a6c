/* How the speed of a machine is printed. */
#include "shared/numbers/speed_text.h"

#include <stdio.h>

const char *lw_speed_text(char buf[LW_SPEED_TEXT], double median, double p10, double p90)
{
    snprintf(buf, LW_SPEED_TEXT, "%.3f (%.3f to %.3f)", median, p10, p90);
    return buf;
}
