#pragma once

#include <stdbool.h>

#include "shared/cli/cli.h"

/* `lapwing bench dispatch`, `by-hand` and `overlap`: measure and print. */
bool cmd_bench_exec_knows(const char *name);
enum lw_status cmd_bench_exec(const char *name, enum lw_format format, struct lw_err *err);
