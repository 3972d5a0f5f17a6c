#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/check/group_kinds.h"
#include "shared/plan/plan.h"
#include "shared/plan/uses.h"

/* The parts of lw_plan_check (shared/plan/plan.h), each in its own file, in the order they are run:
 * a later part relies on what an earlier one has proven. docs/design/plan.md lists the properties.
 *
 *   tables    every index lies in its table (plan_ranges.c); ranks, groups, buckets, shards agree
 *   terms     each gradient is reduced once, whole, before the update; weights are there when used
 *   hazards   uses of one buffer, of which one changes it, are ordered: the order of the list,
 *             which terms, shard and norm follow, is the order in time
 *   shard     what one member updates reaches all others; reduces go to owners
 *   norm      gradients are clipped by a norm in which each element counts once
 *   comm      members of a communicator issue the same collectives; sends meet receives
 *   progress  no rank waits for ever under rendezvous semantics, nor does its host, which issues
 *             the ops in the order of the list */
/* lw_plan_check with every op looked at: no repeats are left out (shared/check/repeats.h). Both
 * accept and refuse the same plans with the same words, so commands call the short one alone; this
 * is the exhaustive form that it is compared with (tests/shared/check/test_repeats.c), and it is
 * here because the two share all but the choice. */
enum lw_status lw_plan_check_each(const struct lw_plan *p, struct lw_err *err);

/* *grid: the plan has rules of a grid, and they hold. */
enum lw_status lw_check_tables(const struct lw_plan *p, bool *grid, struct lw_err *err);
enum lw_status lw_check_shards(const struct lw_plan *p, struct lw_err *err);
enum lw_status lw_check_norm(const struct lw_plan *p, struct lw_err *err);
enum lw_status lw_check_comm(const struct lw_plan *p, struct lw_err *err);

/* Of the program that `uses` is set to; what several programs share is prepared once. */
struct lw_terms;
enum lw_status lw_check_terms_init(struct lw_terms **out, const struct lw_uses *uses,
                                   struct lw_err *err);
enum lw_status lw_check_terms(struct lw_terms *k, struct lw_err *err);
void lw_check_terms_free(struct lw_terms *k);

struct lw_hazards;
enum lw_status lw_check_hazards_init(struct lw_hazards **out, const struct lw_uses *uses,
                                     struct lw_err *err);
enum lw_status lw_check_hazards(struct lw_hazards *k, struct lw_err *err);
void lw_check_hazards_free(struct lw_hazards *k);

/* plan_check.c: these two for every program; terms false: hazards alone. */
enum lw_status lw_check_programs(const struct lw_plan *p, bool terms, struct lw_err *err);

/* plan_check_classes.c: classes of ranks that count the same squares in a norm, named by one of
 * theirs; -1: the rank counts none of the kind. */
struct lw_norm_classes {
    int32_t *owner;  /* [n_ranks] of elements with an owner: this member's */
    int32_t *common; /* [n_ranks] of elements that every member updates */
    int32_t n;       /* of both kinds */
};

/* Lists come from the arena. LW_EPLAN: elements that no rank counts. */
enum lw_status lw_norm_classes_find(const struct lw_plan *p, struct lw_norm_classes *out,
                                    struct lw_arena *room, struct lw_err *err);

/* What an op about the bucket of a sparse gradient may be: the first of the three all-gathers that
 * reduce it, which are checked together, one of the others, or the copy that adds up, once it is
 * gathered. */
enum lw_status lw_check_sparse(const struct lw_plan *p, int32_t variant, int32_t role, int32_t op,
                               bool gathered, struct lw_err *err);

/* Some ops are collectives. */
bool lw_check_has_collectives(const struct lw_plan *p);

/* Where each send or receive of a variant meets its partner. Role r has the sends and receives
 * list[first[r]] .. list[first[r+1]-1].
 * ends_only, set by the caller: what is sent and received need not agree, only how many.
 *   folded  every rank of a role meets the same op: mate[op] on a rank of mate_role[op]
 *   else    entry base[rank] + ordinal[op] of `rank` and `op` is the partner of an op on that rank
 */
struct lw_matches {
    int32_t variant;
    bool ends_only;
    bool any; /* the variant has sends or receives */
    bool folded;
    const int32_t *first, *list;
    const int32_t *ordinal;    /* [n_ops]: place among the sends and receives of its program */
    int32_t *mate, *mate_role; /* [n_ops] */
    const int32_t *base;       /* [n_ranks] */
    int32_t *rank, *op;        /* partner */
    int32_t *first_rank;       /* [n_roles]; -1 = the role has no rank */
};

/* Match a variant's messages; LW_EPLAN: a send without its receive, or with another's. */
enum lw_status lw_match_messages(const struct lw_plan *p, int32_t variant, struct lw_matches *out,
                                 struct lw_arena *room, struct lw_err *err);
/* The same without folding, for callers that need every rank. */
enum lw_status lw_match_by_rank(const struct lw_plan *p, struct lw_matches *out,
                                struct lw_arena *room, struct lw_err *err);

/* Each send or receive of a role meets the same op of the same role on every rank. */
bool lw_matches_by_role(const struct lw_plan *p, const struct lw_matches *m);
/* Then: the role that an op of a role meets, and its op there. */
int32_t lw_match_partner(const struct lw_plan *p, const struct lw_matches *m, int32_t role,
                         int32_t op, int32_t *mate);

/* matches may be unfolded. */
enum lw_status lw_check_progress(const struct lw_plan *p, int32_t variant,
                                 struct lw_matches *matches, const struct lw_group_kinds *kinds,
                                 struct lw_err *err);
