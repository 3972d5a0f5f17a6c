#pragma once

#include <stdint.h>

/* Field `k` of line `line` (0: the titles) of CSV; fields up to k have no quotes. Valid until the
 * next call. */
const char *csv_cell(const char *csv, int line, int k);

/* Of its first 60 columns the one that is titled so; fails the test where there is none. */
int csv_column(const char *csv, const char *title);

/* The whole number in the column that is titled so; columns before it have no quotes. */
int64_t csv_figure(const char *csv, int line, const char *title);
int csv_n_lines(const char *csv); /* with that of the titles */
