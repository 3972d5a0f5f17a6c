#pragma once

#include <stdio.h>

#include "shared/cli/cli.h"
#include "sim/cost/cost_model.h"

enum { SIM_COST_MAX_ROWS = 64 };

/* Queries that differ in their bytes, and how each is answered; n >= 1. */
struct sim_cost_answers {
    struct lw_cost_query query[SIM_COST_MAX_ROWS];
    struct lw_cost_answer answer[SIM_COST_MAX_ROWS];
    int n;
    bool all_devices; /* of the nodes that the user gave, without ranks: the text says so */
};

enum lw_status sim_cost_print(const struct lw_cluster *c, const struct sim_cost_answers *a,
                              enum lw_format format, FILE *f, struct lw_err *err);
