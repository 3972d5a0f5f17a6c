#pragma once

#include "shared/schedule/schedule.h"

/* Schedulers, and how they write a grid: rank by rank, action by action. Memory failures stick
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

/* A schedule that searches makes the whole grid at once: actions[rank * n + k], n = 3 m v of them
 * on every rank, F, I and W apart. room: given back afterwards. */
typedef enum lw_status lw_schedule_search(const struct lw_schedule_shape *s,
                                          struct lw_action *actions, struct lw_arena *room,
                                          struct lw_err *err);

/* One scheduler, the constant lw_scheduler_SYMBOL of its file; LW_SCHEDULES
 * (shared/strategy/policies.h) has its row. */
struct lw_scheduler {
    lw_schedule_rule *rank;  /* makes one rank's actions, or */
    lw_schedule_search *all; /* all at once */
    enum lw_layout layout;
    int32_t chunks;          /* that it needs; 0 = any number from 1 */
    bool combined_calls;     /* sends and receives in calls of several: schedule_colossal.h */
    bool takes_group;        /* lw_schedule_shape.group */
    enum lw_schedule_pairs pairs;
    enum lw_status (*demand)(const struct lw_schedule_shape *s, struct lw_err *err);
};

#define LW_ROW_SCHEDULER(id, symbol, word, help)                                                   \
    extern const struct lw_scheduler lw_scheduler_##symbol;
LW_SCHEDULES(LW_ROW_SCHEDULER)
#undef LW_ROW_SCHEDULER

/* LW_EINVAL: the shape, and why it does not do. */
enum lw_status lw_schedule_refuse(const struct lw_schedule_shape *s, struct lw_err *err,
                                  const char *why);

/* What the schedule demands of the shape; LW_EINVAL and LW_ENOTSUP as lw_schedule_grid. */
enum lw_status lw_schedule_demand(const struct lw_schedule_shape *s, struct lw_err *err);
/* Forwards of a rank before its first pair in interleaved-1f1b. */
int32_t lw_interleaved_warmup(const struct lw_schedule_shape *s, int32_t rank);
