#pragma once

#include <stdbool.h>

#include "analysis/store/store.h"

/* The words of a run's command, one option or operand a time. */
struct lw_command_word {
    char name[256];  /* without dashes; "" = an operand */
    char value[256]; /* "on" of a flag */
    bool hidden;     /* it changes no figure, or the run tells it otherwise */
};
const char *lw_command_words(const char *command); /* after the subcommand */
bool lw_command_next(const char **p, struct lw_command_word *w);
/* The last value of the option in a run's command, in the arena; NULL: not given (or no memory). */
const char *lw_command_value(const char *command, const char *option, struct lw_arena *a);

/* How much of what is known of each run its text holds. */
enum lw_run_words {
    LW_RUN_NAMES,       /* what differs, then what all share: values that are not the default's */
    LW_RUN_DIFFERENCES, /* what differs among the runs, defaults too; "" = none */
    LW_RUN_CHOICES,     /* the same without where they ran; defaults only of a run that has nothing
                         * else */
    LW_RUN_RARE         /* only values that are not the most common one; "" = none */
};

/* Texts that tell n runs apart: workload, options of the strategy that differ from their defaults,
 * other options of the command ("noise 0.01"), where it ran, cluster. Runs that are equal in all
 * these and have different plans are distinguished by the plan's hash; repeated runs have equal
 * texts. Names that users gave are not used.
 *   texts  [n], of the arena */
enum lw_status lw_run_texts(const struct lw_run *runs, int32_t n, enum lw_run_words which,
                            struct lw_arena *a, const char ***texts, struct lw_err *err);
