#pragma once

#include "traces/replay/replay_steps.h"
#include "traces/replay/to_replay.h"

/* Hand-made traces and their replays. Every failure stops the test. */
/* A file, with the sidecar beside it. */
void replay_read(struct traces_source *s, const char *file);
void replay_begin(struct traces_source *s);   /* an empty trace */
/* A row in us; returns nothing, as sorting moves it. */
void replay_row(struct traces_source *s, enum lw_row_class class, const char *name, int64_t start,
                int64_t dur, int32_t track, int64_t link);
void replay_row_with(struct traces_source *s, enum lw_row_class class, const char *name,
                     int64_t start, int64_t dur, int32_t track, int64_t link,
                     const struct lw_row_detail *detail);
struct lw_row_detail replay_no_detail(void);
void replay_ready(struct traces_source *s);   /* sort, find steps */

/* Build, simulate, and give the predicted length of each step in ps (the caller's array). */
struct replay_run {
    struct traces_replay r;
    struct lw_timeline t; /* as simulated: row = op */
};
void replay_run(const struct traces_source *s, int n, const struct traces_replay_choice *choice,
                struct replay_run *out);
void replay_run_free(struct replay_run *x);
lw_ps replay_step(const struct replay_run *x, int32_t step);
int32_t replay_op(const struct replay_run *x, const char *name, int32_t skip); /* by name */

/* For TEST_WITH: one hand-made trace, its replay, and when an op of it starts and ends. */
extern struct traces_source hand;
extern struct replay_run ran;
int hand_open(void **state);
void hand_run(void); /* when all rows are there */
int hand_close(void **state);
lw_ps hand_start(const char *name, int32_t skip);
lw_ps hand_end(const char *name, int32_t skip);
