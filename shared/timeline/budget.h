#pragma once

#include <stdio.h>

#include "shared/base/err.h"
#include "shared/json/jsonout.h"
#include "shared/timeline/throughput.h"

/* What a training of so many tokens takes and costs (docs/glossary.md). Days and costs between
 * which 80 % of measured runs would lie follow from the interval of the step. */
struct lw_budget_request {
    double tokens; /* --tokens; 0 = not given */
    double price;  /* --price, per device-hour; 0 = the cluster's */
};

struct lw_budget { /* NAN: not known */
    double tokens, price;
    double days, days_p10, days_p90, device_hours;
    double cost, cost_p10, cost_p90;
    double cost_per_trillion; /* of tokens */
    double cost_per_step;
};

/* step: the one that the throughput is of; p10, p90: its interval, -1 = none. */
struct lw_budget lw_budget_of(const struct lw_throughput *t, const struct lw_cluster *c,
                              const struct lw_budget_request *q, lw_ps step, lw_ps p10, lw_ps p90);

/* "1T", "300B", "2e9" -> tokens. LW_EINVAL: no such number above 0. */
enum lw_status lw_parse_tokens(const char *text, double *tokens, struct lw_err *err);

/* Days, hours, costs and rates as text: three digits, from 100 on one decimal, from 1000 on none;
 * returns buf. */
enum { LW_BUDGET_FIGURE = 32 };
const char *lw_budget_figure(char buf[LW_BUDGET_FIGURE], double x);

/* A line; nothing where neither tokens nor a price are known. And the members of "budget". */
enum lw_status lw_budget_text(const struct lw_budget *b, int32_t n_devices, FILE *f,
                              struct lw_err *err);
void lw_budget_json(struct lw_jsonout *o, const struct lw_budget *b);
