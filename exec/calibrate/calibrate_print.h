#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "shared/base/err.h"

struct lw_cluster;

/* What was measured, as JSON, text or CSV; file: where the cluster was written. */
void exec_calibrate_print_json(const struct lw_cluster *c, const char *file, FILE *to);
enum lw_status exec_calibrate_print(const struct lw_cluster *c, bool csv, FILE *to,
                                    struct lw_err *err);
