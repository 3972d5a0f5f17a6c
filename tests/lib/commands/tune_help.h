#pragma once

#include "tests/lib/prng.h"

/* For tests of searches over spaces of strategies. */

/* One of the words, which are separated by '|', at most 95 bytes; valid for 16 calls. */
const char *tune_one_of(struct prng *r, const char *words);
/* The best of a search with these arguments of `tune`, as JSON up to its Pareto front; to be
 * freed. The test fails if the search does. */
char *tune_best_of(const char *args);
