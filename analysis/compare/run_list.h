#pragma once

#include <stdio.h>

#include "analysis/store/store.h"
#include "shared/text/records.h"

/* In text with why runs failed. The room is the caller's. */
enum lw_status lw_run_list_print(const struct lw_run *runs, int32_t n, struct lw_arena *room,
                                 enum lw_format format, FILE *f, struct lw_err *err);
