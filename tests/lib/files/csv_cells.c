/* Cells of CSV that a command printed. */
#include "tests/lib/files/csv_cells.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/unit.h"

const char *csv_cell(const char *csv, int line, int k)
{
    static char out[512];

    while (line-- > 0)
        csv = strchr(csv, '\n') + 1;
    while (k-- > 0)
        csv += strcspn(csv, ",\n") + 1;
    snprintf(out, sizeof out, "%.*s", (int)strcspn(csv, ",\n"), csv);
    return out;
}

int csv_column(const char *csv, const char *title)
{
    for (int k = 0; k < 60; k++)
        if (strcmp(csv_cell(csv, 0, k), title) == 0)
            return k;
    fail_msg("no column %s", title);
    return -1;
}

int64_t csv_figure(const char *csv, int line, const char *title)
{
    return atoll(csv_cell(csv, line, csv_column(csv, title)));
}

int csv_n_lines(const char *csv)
{
    int n = 0;

    for (; *csv; csv++)
        n += *csv == '\n';
    return n;
}
