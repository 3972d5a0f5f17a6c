#pragma once

#include <stdio.h>

#include "shared/base/err.h"
#include "shared/json/jsonout.h"
#include "traces/inspect/inspect_print.h"

/* The parts of `lapwing inspect` about classes, waits, the host, and several ranks of one run. */
void traces_put_host_use(struct lw_jsonout *o, const struct traces_report_file *f, int64_t k);
void traces_put_host_bound(struct lw_jsonout *o, const struct traces_report_file *f);
void traces_put_cross_rank(struct lw_jsonout *o, const struct traces_report *r);
enum lw_status traces_text_host_bound(const struct traces_report_file *f, bool all, FILE *out,
                                      struct lw_err *err);
enum lw_status traces_text_cross_rank(const struct traces_report *r, FILE *out, struct lw_err *err);
