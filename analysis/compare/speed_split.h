#pragma once

#include "shared/numbers/units.h"

/* Predicted less measured compute in two parts that add up to it. See
 * docs/design/machine_speed.md. */
struct lw_speed_split {
    double compute_speed; /* share of the speed that the prediction assumes; NAN: not known, and
                           * the parts are 0 */
    lw_ps by_speed, left; /* what the machine's speed explains, and what is left to the model */
};

struct lw_speed_split lw_speed_split_of(lw_ps predicted, lw_ps measured, double compute_speed);
