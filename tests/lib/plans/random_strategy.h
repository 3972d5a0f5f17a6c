#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "shared/strategy/strategy.h"
#include "shared/workload/sparse.h"
#include "shared/workload/workload.h"
#include "tests/lib/prng.h"

/* Random models, and strategies over all policies, partitions, schedules and ZeRO stages. Not every
 * combination can be planned. */
enum { RANDOM_MODULES = 24, RANDOM_PARAMS = 60 };

struct random_model {
    struct lw_module modules[RANDOM_MODULES];
    struct lw_param params[RANDOM_PARAMS];
    struct lw_sparse sparse[2];
    struct lw_workload w;
    bool begins[RANDOM_MODULES + 1]; /* a part of an explicit partition begins here */
    char list[256];
};

void random_model(struct prng *r, struct random_model *k);
/* Borrows k->list for an explicit partition. */
void random_strategy(struct prng *r, struct random_model *k, struct lw_strategy *s);

/* Of a strategy that shards: now and then two or three groups of ranks, each with a replica, a
 * root unit, and weights that are gathered ahead. */
void random_fsdp(struct prng *r, struct lw_strategy *s);

/* The options that were given, " --dp 4 --pp 2 ...". */
const char *strategy_words(const struct lw_strategy *s, char *text, size_t room);
