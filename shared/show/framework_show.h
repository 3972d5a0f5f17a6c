#pragma once

#include "shared/files/files.h"
#include "shared/text/records.h"

/* To standard output: a framework with every fact that it has and where it comes from; and the list
 * of frameworks that are known by name. */
enum lw_status lw_framework_print(const struct lw_framework *f, enum lw_format format,
                                  struct lw_err *err);
enum lw_status lw_frameworks_list(enum lw_format format, struct lw_err *err);
