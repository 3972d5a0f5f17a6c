#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analysis/alike/alike_pairs.h"
#include "analysis/alike/alike_step.h"
#include "analysis/tune_bound/tune_cases.h"
#include "analysis/tune_bound/tune_noise.h"
#include "analysis/tune_bound/tune_shard.h"
#include "analysis/tune_bound/tune_space.h"
#include "shared/base/progress.h"

/* The search: all strategies of several spaces, in the order of their bounds, the best N exactly.
 * See docs/design/tune.md. */

/* A model on a cluster with one micro-batch, and its space. */
struct lw_tune_part {
    struct lw_tune_request request;
    struct lw_tune_space space;
    const char *command; /* "lapwing sim -w ..." up to the options of the strategy, with those of
                          * the noise */
    struct lw_tune_noise noise;
    const char *budget;  /* " --tokens 1T --price 2", after the strategy's options; "" */
    const char *outer;   /* "batch=4": what it has of lists that are not of the strategy; "" */
    const char *workload_hash; /* of the file that it is recorded in; "" */
    double price;        /* of a device-hour; 0 = the cluster's */
    double tokens;       /* of the whole training; 0 = not given */
};

/* What a strategy has to precede to be among the best N: by what strategies are ranked, then by
 * what they need of a device, then by number among all parts' combinations. */
struct lw_tune_limit {
    lw_ps step;
    int64_t needed, number;
};

struct lw_tune_memo;
struct lw_tune_result;
/* Searches of other processes beside this one, of other shards. */
struct lw_tune_beside {
    /* Called before each round, and again until *over: the best so far ([n], in order), whether
     * nothing is left here, whether a signal asks to stop. Gives the N-th of all processes' best
     * (*any false: there are not so many yet), whether nothing is left anywhere, and whether all
     * stop. */
    enum lw_status (*meet)(void *context, const struct lw_tune_limit *best, int64_t n, bool done,
                           bool *stop, struct lw_tune_limit *limit, bool *any, bool *over,
                           struct lw_err *err);
    void *context;
};
struct lw_tune_task {
    const struct lw_tune_part *parts;
    int n_parts, n_best, n_threads; /* threads 0: as many as cores */
    bool no_bounds;                 /* simulate every valid strategy */
    const struct lw_progress *progress;
    struct lw_tune_shard shard;   /* of all combinations those of one machine */
    struct lw_tune_memo *memo;    /* what is known of strategies and is to be stored; NULL */
    const struct lw_tune_beside *beside; /* then the answer is not proven: another search makes it
                                          * of what all have found; NULL = none */
    /* Called before the first simulation, with the numbers of combinations; NULL = not. */
    enum lw_status (*listed)(const struct lw_tune_result *r, struct lw_err *err);
};

/* A strategy that was simulated. */
struct lw_tune_row {
    int part;
    int64_t combination;
    const char *strategy; /* "tp=8 dp=2": its options */
    const char *command;  /* of sim, which gives the same step */
    const char *same_as;  /* the strategy whose plan it has too, which was simulated; "" */
    int64_t least_cap, next_cap;    /* of --bucket-cap, which make its plan too: from the first to
                                     * below the second; next_cap 0 = not known */
    lw_ps bound, step;
    lw_ps step_p90;                 /* of the samples, in a search with noise; -1 = none drawn */
    lw_ps p10, p90;                 /* of measured runs; -1 = no interval */
    int64_t n_devices, peak_memory_bytes, device_bytes, missing_bytes;
    int64_t needed_bytes, needed_bound; /* of the fullest rank's allocator; -1 = not known */
    double tokens_per_s, samples_per_s, cost_per_trillion_tokens; /* NAN: not known */
    double days, cost;              /* of the whole training; NAN: its tokens are not given */
    bool fits;                      /* not known to lack memory */
    bool told_apart;                /* from the best: their difference is larger than `pairs` */
    const char *interval_of;        /* "" = no interval */
    struct lw_alike_key key;        /* of measured runs like it */
    const char *framework;
    int64_t run;                    /* of the database; -1 = not stored as one */
};

/* Lacks it less than predictions of memory are off? Of what was not simulated, by its bound. */
bool lw_tune_is_close(const struct lw_tune_part *p, const struct lw_tune_row *x);

/* What strategies are ranked by. */
static inline lw_ps lw_tune_rank_by(const struct lw_tune_row *x)
{
    return x->step_p90 >= 0 ? x->step_p90 : x->step;
}

/* What found that a combination is not valid, the first one first. */
enum lw_tune_found { LW_TUNE_BY_GROUPS, LW_TUNE_BY_BOUND, LW_TUNE_BY_PLAN };

/* Strategies that are not valid for one reason; numbers of the message are left out. */
struct lw_tune_reason {
    const char *text, *example;
    int64_t n;
    enum lw_tune_found by;
};

struct lw_tune_result {
    struct lw_arena arena;
    int64_t n_combinations, n_repeated, n_invalid, n_valid;
    int64_t n_bounded_step, n_bounded_memory, n_simulated, n_unfit; /* unfit: simulated, no room */
    int64_t n_reasons, n_rows, n_best, n_front;
    int64_t reasons_capacity;
    struct lw_tune_reason *reasons; /* most first */
    struct lw_tune_row *rows;       /* in the order in which they were simulated */
    const struct lw_tune_row **best, **front; /* best: fastest first; front: least memory first */
    struct lw_tune_row closest;     /* where nothing fits: what lacks the fewest bytes */
    bool has_closest, interrupted;  /* interrupted: nothing is known of those not reached */
    double wall_s;
    struct lw_alike_pairs pairs;    /* how far two predictions may be apart by chance */
    lw_ps least_pruned; /* the least bound of those that were pruned by it; -1 = none */
    bool has_noise;     /* strategies are ranked by step_p90 */
};

/* Valid strategies of which an interrupted search came to know nothing; else 0. */
static inline int64_t lw_tune_n_unreached(const struct lw_tune_result *r)
{
    return r->interrupted ? r->n_valid - r->n_simulated - r->n_bounded_memory - r->n_bounded_step
                          : 0;
}

/* LW_OK also where no strategy is valid (n_valid == 0). Free the result in any case. */
enum lw_status lw_tune(const struct lw_tune_task *t, struct lw_tune_result *out,
                       struct lw_err *err);
void lw_tune_free(struct lw_tune_result *r);

/* The days and the cost of a row, of so many tokens; 0 = not given. */
void lw_tune_put_budget(double tokens, struct lw_tune_row *x);

