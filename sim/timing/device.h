#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/cluster/cluster.h"
#include "shared/cluster/measured.h"
#include "shared/plan/op.h"
#include "shared/plan/plan.h"

/* How much slower a device does something beside something else. Rates are whole parts in
 * 1e9, so that progress is counted exactly. */
#define SIM_FULL_RATE INT64_C(1000000000)

/* The interference terms that a cluster gives; 0 = off. */
struct sim_terms {
    int64_t compute_under_comm; /* measured rate of compute while data moves */
    int64_t comm_under_compute; /* measured rate of communication while compute runs */
    int64_t core_share;         /* of the compute core that one communication wants, where no table
                                 * tells its CPU time */
    bool cpu_times;             /* collectives want the core by what they get of the link: tables
                                 * with CPU times or shared_link, and the core is shared */
    int64_t sm_share;           /* of the SMs that one collective holds from its local entry */
    double channel_sms;         /* share of the SMs that one channel of a collective holds */
    bool in_flight;             /* tables for several collectives at once */
    bool memory;                /* communication and compute share device memory's bandwidth */
    int64_t pair[LW_N_ACTIVITIES][LW_N_ACTIVITIES]; /* [of][beside]: measured rates; 0 = none */
    bool pairs;                 /* any of them */
    bool fair_links;            /* communications share links and adapters */
    bool shared_link;           /* a device's collectives share its one link equally */
    bool channels_alone;        /* channel_sms and no other: only the rate of compute depends on
                                 * what runs, and that on the channels of collectives alone */
    bool dynamic;               /* any of them: rates depend on what runs */
};

struct sim_terms sim_terms_of(const struct lw_cluster *cluster);

/* How a compute core is split: no communication gets more of it than `level`, all get `used`. */
struct sim_core {
    int64_t level, used;
};
/* wants[n]: shares that communications want, plus n_more that want `more` each. */
struct sim_core sim_core_split(const int64_t *wants, int32_t n, int64_t more, int32_t n_more,
                               bool computing);

/* Rate of compute and copies, where none was measured, on a device where n_moving communications
 * move data and n_waiting collectives were entered but still wait for other members; core: its
 * split when it is shared; more_sms: the share that collectives hold by their channels, beyond
 * sm_share each. */
int64_t sim_compute_rate(const struct sim_terms *t, struct sim_core core, int32_t n_moving,
                         int32_t n_waiting, int64_t more_sms);
/* Measured rates, 0 = none: of compute beside what moves (moving[LW_N_ACTIVITIES], or NULL where
 * the terms have no pairs) and of communication beside compute. sim_pair_rate: of communication
 * beside that of other kinds, 1e9 where nothing else moves. Of several the lowest counts. */
int64_t sim_compute_measured(const struct sim_terms *t, const int32_t *moving, int32_t n_moving);
int64_t sim_comm_measured(const struct sim_terms *t, enum lw_op_kind op);
int64_t sim_pair_rate(const struct sim_terms *t, const int32_t *moving, enum lw_op_kind op);

/* Rate of a communication that wants a share of the core; computing: compute or copies run
 * there. */
int64_t sim_comm_rate(const struct sim_terms *t, enum lw_op_kind op, int64_t want,
                      struct sim_core core, bool computing);

/* Share of device memory's bandwidth, in parts of 1e9, that a compute op or copy takes at full
 * rate, where its bytes are known (a copy's: read and written), else 0; and a communication of
 * so many bytes. */
int64_t sim_memory_share(const struct lw_plan *plan, const struct lw_cluster *cluster,
                         const struct lw_op *op, int64_t bytes, lw_ps work);
int64_t sim_comm_memory_share(const struct lw_cluster *cluster, int64_t bytes, lw_ps time);

/* The cluster's exceptions of ranks below n: speed[n] of their compute and how much later
 * late[n] they enter each step. */
void sim_speeds(const struct lw_cluster *cluster, int32_t n, int64_t *speed, lw_ps *late);
/* Ranks from this one on, of n, have no exceptions: 0 = all of them. */
int32_t sim_ranks_with_speeds(const struct lw_cluster *cluster, int32_t n);

/* Standard deviations of compute and of communication in a run: the options', or the cluster's
 * where they give none; 0 where nothing is drawn. Messages of chunk detail have their jitter
 * instead. */
struct lw_sim_options;
double sim_compute_sigma(const struct lw_cluster *cluster, const struct lw_sim_options *o);
double sim_comm_sigma(const struct lw_cluster *cluster, const struct lw_sim_options *o);

int64_t sim_rate_of(double share);              /* to parts in 1e9, at least 1 */
int64_t sim_rate_product(int64_t a, int64_t b); /* at least 1 */
