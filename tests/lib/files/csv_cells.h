#pragma once

/* Field `k` of line `line` (0: the titles) of CSV; fields up to k have no quotes. Valid until the
 * next call. */
const char *csv_cell(const char *csv, int line, int k);

/* Of its first 60 columns the one that is titled so; fails the test where there is none. */
int csv_column(const char *csv, const char *title);
