#pragma once

#include "analysis/tune_command/tune_parts.h"

/* c->words is the whole command line: what is printed of a search again follows from it too. */
enum lw_status lw_tune_join_words(struct lw_tune_command *c, int argc, char **argv,
                                  struct lw_err *err);

/* argc words, of the arena. --micro-batch becomes --batch: samples of one micro-batch. */
enum lw_status lw_tune_copy_words(struct lw_tune_command *c, int argc, char **argv, char ***out,
                                  struct lw_err *err);

/* Is it the name of an option of the strategy? */
bool lw_tune_of_strategy(const char *name);

/* "lapwing sim" with the options that are of the model, the cluster and the framework, for a
 * shell. */
enum lw_status lw_tune_put_command(struct lw_tune_command *c, int argc, char **argv,
                                   const char **out, struct lw_err *err);
