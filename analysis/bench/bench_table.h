#pragma once

#include <stdio.h>

#include "analysis/bench/bench_loads.h"
#include "shared/text/records.h"

/* Run the load c->name, or without a name all of them, and print. JSON shows one load. Loads that
 * are left out of all are named in notes. */
enum lw_status bench_print(const struct bench_choice *c, enum lw_format format, FILE *f,
                           FILE *notes, struct lw_err *err);
