#pragma once

/* Natural logarithm and exponential from + - * / alone, so that they give the same bits with every
 * C library. Relative error below 1e-15. log: x > 0 and normal; exp: |x| < 700. */
double lw_log(double x);
double lw_exp(double x);

/* The value at x of the curve through (x0, y0) and (x1, y1) that is straight when both axes are
 * logarithmic; all > 0, x0 != x1. */
double lw_loglog(double x, double x0, double y0, double x1, double y1);
