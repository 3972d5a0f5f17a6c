#pragma once

#include <stdint.h>

/* The expected largest of n independent standard normal numbers: 0 of one, 0.564 of two, 1.424 of
 * 8, 3.241 of 1,000; n below 1 is as 1, above 2^40 as 2^40. Absolute error below 1e-8. The same
 * bits with every C library. */
double lw_normal_max(int64_t n);
