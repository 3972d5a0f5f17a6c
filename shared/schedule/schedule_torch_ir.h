#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/schedule/schedule.h"

/* A grid with what it needs around its actions: the messages between ranks, or the gathering and
 * dropping of sharded stages. As torch.distributed.pipelining's schedule IR. */
enum lw_lowered_kind {
    LW_STEP_F,
    LW_STEP_B,
    LW_STEP_I,
    LW_STEP_W,
    LW_STEP_SEND_F,
    LW_STEP_RECV_F,
    LW_STEP_SEND_B,
    LW_STEP_RECV_B,
    LW_STEP_UNSHARD,
    LW_STEP_RESHARD,
    LW_N_STEP_KINDS,
};

struct lw_lowered_step {
    enum lw_lowered_kind kind;
    int32_t stage, micro_batch; /* micro_batch -1: UNSHARD and RESHARD */
    bool with_next;             /* one overlapped unit with the step after it */
};

struct lw_lowered {
    struct lw_arena arena; /* owns everything below */
    int32_t n_ranks;
    int32_t *first; /* [n_ranks + 1] */
    struct lw_lowered_step *steps;
};
void lw_lowered_free(struct lw_lowered *s);

/* The same grid with every I that its W follows at once made one B. */
enum lw_status lw_grid_merge(const struct lw_grid *g, struct lw_grid *out, struct lw_err *err);

/* The grid's actions and nothing else. */
enum lw_status lw_lower_plain(const struct lw_grid *g, struct lw_lowered *out, struct lw_err *err);

/* With SEND right after the action that makes a value and RECV in the peer's list as it is then:
 * ranks take turns, one action each, waiting for what is not there. LW_EPLAN when none can go on.
 */
enum lw_status lw_lower_messages(const struct lw_grid *g, struct lw_lowered *out,
                                 struct lw_err *err);

/* With UNSHARD before a stage is used and RESHARD when it is not among the next `n_active` distinct
 * stages; n_active >= 1 is how many a rank holds at once (units of two may need one more). */
enum lw_status lw_lower_shards(const struct lw_grid *g, int32_t n_active, struct lw_lowered *out,
                               struct lw_err *err);

/* How cells are written: today's names, or those of 2024, where I was "B" and B was "BW". */
enum lw_ir_names { LW_IR_NAMES, LW_IR_OLD_NAMES };

/* The cell that starts at step i, "0F3" or "(0F3;3B5)OVERLAP_F_B", into buf of at least 80 bytes.
 * Returns the number of steps in it, 1 or 2. */
int32_t lw_lowered_cell(const struct lw_lowered *s, int32_t i, enum lw_ir_names names, char *buf,
                        size_t room);
