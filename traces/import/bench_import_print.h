#pragma once

#include <stdint.h>

#include "shared/cli/cli.h"

/* `lapwing bench import FILE`: measures and prints. */
enum lw_status traces_bench_import_print(const char *file, int64_t bytes, enum lw_format format,
                                         struct lw_err *err);
