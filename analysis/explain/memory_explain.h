#pragma once

#include "shared/cli/cli.h"

/* `explain --memory`: the whole command, of argv without --memory; the exit status. */
int lw_memory_explain(const struct lw_usage *usage, int argc, char **argv);
