#pragma once

#include <stdio.h>

#include "shared/json/jsonout.h"
#include "shared/timeline/throughput.h"
#include "sim/predict/sim_print.h"

/* The head of what `lapwing sim` prints: the plan on its cluster, the framework, the step, tokens
 * and MFU, overlap, and whether it fits; a line each. */
enum lw_status lw_sim_head_text(const struct lw_sim_report *r, const struct lw_throughput *t,
                                FILE *f, struct lw_err *err);
/* The same figures, into the object that is open. */
void lw_sim_head_json(struct lw_jsonout *o, const struct lw_sim_report *r,
                      const struct lw_throughput *t);

/* Bytes that the largest rank lacks; 0 = it fits, -1 = unknown. */
int64_t lw_sim_missing_bytes(const struct lw_sim_report *r);
bool lw_sim_is_close(const struct lw_sim_report *r); /* to the limit (lw_device_is_close) */
/* NAN: nothing is communicated. */
double lw_sim_overlap_pct(const struct lw_measure *m);
/* Times were drawn: noise, jitter, skew, samples. */
bool lw_sim_is_drawn(const struct lw_sim_report *r);
