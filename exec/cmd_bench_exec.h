#ifndef LW_EXEC_CMD_BENCH_EXEC_H
#define LW_EXEC_CMD_BENCH_EXEC_H

#include <stdbool.h>

#include "shared/cli/cli.h"

/* `lapwing bench dispatch`, `by-hand` and `overlap`: measure and print. */
bool cmd_bench_exec_knows(const char *name);
enum lw_status cmd_bench_exec(const char *name, enum lw_format format, struct lw_err *err);

#endif
