#ifndef LW_SHARED_SCHEDULE_SCHEDULE_EMIT_H
#define LW_SHARED_SCHEDULE_SCHEDULE_EMIT_H

#include "shared/schedule/schedule.h"

/* How the rules of schedule_*.c write a grid: rank by rank, action by action. Memory failures stick
 * and are reported by lw_schedule_grid. */
struct lw_emit {
    struct lw_action *actions;
    int64_t n, capacity;
    int32_t skip_from; /* micro-batches from here on are not emitted: a rule that fills its pipeline
                        * with more than there are writes them, and they are left out */
    bool failed;
};

void lw_emit(struct lw_emit *e, enum lw_op_kind kind, int32_t stage, int32_t micro_batch);
/* A forward and a backward as one unit. */
void lw_emit_pair(struct lw_emit *e, int32_t f_stage, int32_t f_mb, int32_t b_stage, int32_t b_mb);

/* The rules: all actions of one rank. */
typedef void lw_schedule_rule(struct lw_emit *e, const struct lw_schedule_shape *s, int32_t rank);
lw_schedule_rule lw_rule_gpipe, lw_rule_1f1b, lw_rule_interleaved_1f1b, lw_rule_interleaved_zb,
    lw_rule_looped_bfs, lw_rule_zb_h1, lw_rule_zb_h2, lw_rule_zbv, lw_rule_dualpipe,
    lw_rule_dualpipev, lw_rule_colossal;

/* A schedule that searches makes the whole grid at once: actions[rank * n + k], n = 3 m v of them
 * on every rank, F, I and W apart. */
typedef enum lw_status lw_schedule_search(const struct lw_schedule_shape *s,
                                          struct lw_action *actions, struct lw_err *err);
lw_schedule_search lw_search_zb_auto, lw_search_zbv_auto, lw_search_v_greedy;

/* What the schedule demands of the shape; LW_EINVAL and LW_ENOTSUP as lw_schedule_grid. */
enum lw_status lw_schedule_demand(const struct lw_schedule_shape *s, struct lw_err *err);

/* Micro-batches of one round of the interleaved schedules. */
int32_t lw_interleaved_group(const struct lw_schedule_shape *s);
/* Forwards of a rank before its first pair in interleaved-1f1b. */
int32_t lw_interleaved_warmup(const struct lw_schedule_shape *s, int32_t rank);

#endif
