#pragma once

#include <stdint.h>

#include "shared/base/err.h"

/* Readings of one figure over rounds, steps and ranks. Zeroed is empty; 0 is what an empty one
 * says. */
struct exec_samples {
    double *v;
    int64_t n, capacity;
};

enum lw_status exec_samples_add(struct exec_samples *s, double v, struct lw_err *err);
double exec_samples_median(struct exec_samples *s);   /* sorts them */
double exec_samples_quarter(struct exec_samples *s);  /* a quarter of them are at most this */
double exec_samples_spread(struct exec_samples *s);   /* interquartile range */
void exec_samples_free(struct exec_samples *s);
