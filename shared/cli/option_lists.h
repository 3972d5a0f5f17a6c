#pragma once

#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/cli/cli.h"

/* Options of a plan source that are given a list ("--dp 8,16 -c dgx-a100,dgx-h100"): a command line
 * stands for one command line for each combination, the last list varying fastest. An item may be a
 * range ("1..32" is 1, 2, 4, ..., 32; "0..3" is 0, 1, 2, 3; "2..12+2" is 2, 4, ..., 12;
 * "1MiB..2GiB" doubles too), or "all" of an option with words. A value that the option takes as it
 * is ("--units blocks,head"), or that is the name of a file, is no list. */
enum { LW_OPTION_LISTS = 24, LW_OPTION_COMBINATIONS = 10000, LW_OPTION_VALUES = 4096 };

struct lw_option_list {
    const char *name; /* long, without "--" */
    int word, at;     /* argv[word] has the values from byte `at` on */
    int n;
    const char *const *values;
};

struct lw_option_lists {
    struct lw_arena arena;
    int argc;
    char **argv; /* borrowed */
    int n;       /* 0: no list, one command line */
    int64_t n_combinations, most;
    struct lw_option_list list[LW_OPTION_LISTS];
};

/* LW_EUSAGE: too many lists or more than `most` combinations, an empty range, a value twice, an
 * option with two lists. Free in any case. */
enum lw_status lw_option_lists_find(int argc, char **argv, int64_t most,
                                    struct lw_option_lists *out, struct lw_err *err);
/* Of the k-th combination: the value of list i, and a command line of its own in the arena a, ended
 * by NULL. */
const char *lw_option_lists_value(const struct lw_option_lists *l, int64_t k, int i);
enum lw_status lw_option_lists_argv(const struct lw_option_lists *l, int64_t k, struct lw_arena *a,
                                    char ***argv, struct lw_err *err);
void lw_option_lists_free(struct lw_option_lists *l);
