#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Which rows of a table are shown: all, or the LONGEST_SHOWN longest, of equal ones the first.
 * Add every length, then ask for each in the same order. {.all = true} = all. */
enum { LONGEST_SHOWN = 10 };

struct traces_longest {
    bool all;
    int64_t n;                 /* that were added */
    int64_t ns[LONGEST_SHOWN]; /* the longest, descending */
    int64_t n_least;           /* of the length of the last one that are still to be shown */
};

void traces_longest_add(struct traces_longest *l, int64_t ns);
bool traces_longest_shows(struct traces_longest *l, int64_t ns);
/* After the table, where rows are left out: "  the 10 longest of 66 collectives; --all ...". */
void traces_longest_note(const struct traces_longest *l, FILE *f);
