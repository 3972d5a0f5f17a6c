#ifndef LW_SHARED_CLI_HELP_H
#define LW_SHARED_CLI_HELP_H

#include <stdio.h>

#include "shared/cli.h"

/* The help of one command in three shapes, all from its usage and option table. lw_cli_begin calls
 * them for --help, --help-man and --help-words. */
void lw_cli_help_text(FILE *f, const struct lw_usage *u, const struct lw_opt *table);
void lw_cli_help_man(FILE *f, const struct lw_usage *u, const struct lw_opt *table);
/* One option per line, "--name" or "--name=" when it takes a value, for shell completion. */
void lw_cli_help_words(FILE *f, const struct lw_opt *table);

#endif
