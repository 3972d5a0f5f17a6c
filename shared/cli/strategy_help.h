#ifndef LW_SHARED_CLI_STRATEGY_HELP_H
#define LW_SHARED_CLI_STRATEGY_HELP_H

#include "shared/text/record.h"

/* `lapwing help strategy`, to standard output. */
enum lw_status lw_strategy_help(enum lw_format format, struct lw_err *err);

#endif
