#pragma once

#include <stdio.h>

#include "analysis/bench/bench_loads.h"
#include "shared/text/record.h"

/* Run the load c->name, or without a name all of them, and print. JSON shows one load. */
enum lw_status bench_print(const struct bench_choice *c, enum lw_format format, FILE *f,
                           struct lw_err *err);
