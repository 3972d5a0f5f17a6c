#pragma once

#include <stdbool.h>

/* One thing that planning, running or drawing may need: whether this machine has it, and what was
 * found or what is missing. */
enum { LW_FINDING_DETAIL = 1200, LW_N_FINDINGS = 16 };

struct lw_finding {
    char name[32];
    bool ok;
    char detail[LW_FINDING_DETAIL];
};

/* Looks at everything, the database `db` too; returns how many findings there are. */
int lw_machine_findings(struct lw_finding v[LW_N_FINDINGS], const char *db);
