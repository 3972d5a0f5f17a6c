#pragma once

#include <stdint.h>

#include "analysis/draw/step_bars.h"

/* Ranks of a run that do the same at the same times are drawn once. Bars arrive rank by rank; a
 * rank whose bars equal those of an earlier group joins it, another one opens a group while there
 * are fewer than max_groups, and else is left out. */
struct equal_bar {
    int32_t rank, stage, stream; /* stage: -1 = no plan */
    char stream_name[32];
    struct picture_bar bar;      /* its row is filled here */
};

struct equal_group;

/* Zeroed but for max_groups = empty. */
struct equal_ranks {
    int32_t max_groups, n_left_out;
    int32_t n_stages;      /* one more than the largest */
    int32_t rank;          /* that the pending bars belong to */
    struct equal_bar *bars; /* of the groups, one after the other, then of the rank that arrives */
    int64_t n_bars, capacity, pending; /* pending: where that begins */
    struct equal_group *groups;
    int64_t n_groups, group_capacity;
};

enum lw_status equal_ranks_add(struct equal_ranks *a, const struct equal_bar *b,
                               struct lw_err *err);
/* `rank` has the bars of `like`, which came before with bars of its own. */
enum lw_status equal_ranks_same(struct equal_ranks *a, int32_t rank, int32_t like,
                                struct lw_err *err);
/* Append rows and bars of the groups to the picture, by stage and lowest rank. */
enum lw_status equal_ranks_finish(struct equal_ranks *a, int32_t run, struct picture *pic,
                                  struct lw_err *err);
void equal_ranks_free(struct equal_ranks *a);
