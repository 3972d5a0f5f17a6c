#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "shared/plan/plan.h"
#include "shared/plan/spread.h"
#include "sim/fold/trie.h"

/* The state of finding classes, shared by fold.c (refinement) and fold_read.c (what the plan says).
 */

/* A peer that ranks of a role have on a communicator: one rank for all, or a row of operands. */
struct sim_relation {
    int32_t comm, row, peer; /* row -1: peer holds */
    bool sends;
    /* fold_roles.c: of all peers, -1 = none seen yet; whether they are on the rank's node; and
     * which relation of theirs names the rank */
    int32_t peer_role, answer;
    bool near, faces; /* faces: rules show that of all ranks */
};

struct sim_role_list {
    int32_t first_relation, n_relations, first_row, n_rows;
};

struct sim_folding {
    const struct lw_plan *plan;
    const struct lw_cluster *cluster;
    bool chunk;
    struct sim_trie trie;
    struct lw_arena arena;
    int32_t *colour; /* [n_ranks]: class, dense, by lowest rank */
    int32_t n_colours;
    bool *single;                /* [n_ranks]: singled out */
    bool *ring, *unlike;         /* [n_comms]: has rings that go message by message; or collectives
                                  * whose members have parts of their own there, such as a root */
    int32_t *comm_of;            /* [n_groups]; -1 = none */
    int64_t *signature;          /* [n_groups] */
    struct lw_spread *spread;    /* [n_groups] over nodes */
    int32_t *set;                /* [largest group]: scratch */
    int64_t *path, *last;        /* of a group or a rank; and the one that was signed last, */
    int64_t n_last, signed_last; /* its length and number */
    struct sim_role_list *roles; /* [n_roles] */
    struct sim_relation *relations;
    int32_t *rows; /* operand rows whose bytes count */
    int64_t n_relations, relations_capacity, n_rows, rows_capacity;
    int32_t *ranks_of, *first_of; /* lw_plan_ranks_by_role */
    int32_t *seen_as;  /* [n_ranks], by class: the peer that was there last, */
    int64_t *seen_key; /* of which rank, communicator and direction */
};

/* Where the paths of the trie begin. */
enum sim_fold_path {
    SIM_PATH_RELATIONS = -1,
    SIM_PATH_ROWS = -2,
    SIM_PATH_RANKS = -3,
    SIM_PATH_GROUPS = -4,
    SIM_PATH_SENDS = -5,
    SIM_PATH_RECEIVES = -6
};

/* Relations and operand rows of every role; which communicators have rings or members unlike each
 * other at chunk detail. */
enum lw_status sim_fold_read_programs(struct sim_folding *m, struct lw_err *err);
/* false: a group of two communicators; the engine says what is wrong. */
bool sim_fold_read_groups(struct sim_folding *m);
bool sim_fold_read_peers(const struct sim_folding *m); /* false: one is not a rank */
void sim_fold_read_slow_links(struct sim_folding *m);

/* fold_grid.c: in every communicator the groups of a role are alike, its ranks all inside or all
 * outside. Of a plan whose groups all have rules. */
enum lw_status sim_fold_grid_groups(struct sim_folding *m, bool *alike, struct lw_err *err);

/* fold_roles.c: the same of m->signature, where m->colour has a class for each role. */
bool sim_fold_groups_are_alike(const struct sim_folding *m);
/* m->first_of has the lowest rank of each role, and groups of a role are alike. *are: so are its
 * ranks, and the roles are the classes. */
enum lw_status sim_fold_roles_are_alike(struct sim_folding *m, bool *are, struct lw_err *err);
/* The first rank of the node that a rank is on. */
static inline int32_t sim_fold_node(const struct sim_folding *m, int32_t rank)
{
    return rank - rank % m->cluster->devices_per_node;
}

static inline bool sim_fold_is_near(const struct sim_folding *m, int32_t node, int32_t rank)
{
    return rank >= node && rank - node < m->cluster->devices_per_node;
}

static inline int32_t sim_fold_peer(const struct sim_folding *m, const struct sim_relation *x,
                                    int32_t rank)
{
    return x->row < 0 ? x->peer
                      : lw_operand_at(m->plan, x->row, lw_plan_index_of(m->plan, rank)).peer;
}

/* The path is new: it was not requested before. */
bool sim_fold_is_new(struct sim_trie *t, const int64_t *path, int n);
/* Whether that changed anything. */
bool sim_single_out(struct sim_folding *m, int32_t rank);
bool sim_single_out_group(struct sim_folding *m, int32_t group);
