/* What the speed of the machine explains of a difference of compute. */
#include "analysis/compare/speed_split.h"

#include <math.h>

struct lw_speed_split lw_speed_split_of(lw_ps predicted, lw_ps measured, double compute_speed)
{
    if (!(compute_speed > 0) || predicted < 0 || measured < 0)
        return (struct lw_speed_split){NAN, 0, 0};
    lw_ps at_speed = (lw_ps)llround((double)predicted / compute_speed);
    return (struct lw_speed_split){compute_speed, predicted - at_speed, at_speed - measured};
}
