#pragma once

#include "shared/text/records.h"

/* `lapwing help strategy`, to standard output. */
enum lw_status lw_strategy_help(enum lw_format format, struct lw_err *err);
