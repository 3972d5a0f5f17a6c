#pragma once

#include <stdio.h>

#include "shared/cli/cli.h"

/* The help of one command in several shapes, all from its usage and option table. lw_cli_begin
 * calls them for --help, --help-man, --help-words, --help-json and --help-csv. */
void lw_cli_help_text(FILE *f, const struct lw_usage *u, const struct lw_opt *table);
void lw_cli_help_man(FILE *f, const struct lw_usage *u, const struct lw_opt *table);
/* One option per line, "--name" or "--name=" when it takes a value, for shell completion. */
void lw_cli_help_words(FILE *f, const struct lw_opt *table);
void lw_cli_help_json(FILE *f, const struct lw_usage *u, const struct lw_opt *table);
enum lw_status lw_cli_help_csv(FILE *f, const struct lw_opt *table, struct lw_err *err);
