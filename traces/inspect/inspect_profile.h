#pragma once

#include "traces/inspect/inspect_print.h"

/* `inspect --report`: what is shown of each file, and of all, beside the rest. */
void traces_put_profile(struct lw_jsonout *o, const struct traces_report_file *f);
void traces_put_profiles(struct lw_jsonout *o, const struct traces_report *r);
enum lw_status traces_text_profile(const struct traces_report_file *f, FILE *out,
                                   struct lw_err *err);
enum lw_status traces_text_profiles(const struct traces_report *r, FILE *out, struct lw_err *err);
