#ifndef LW_SHARED_PROGRAM_LOWER_H
#define LW_SHARED_PROGRAM_LOWER_H

#include "shared/program_part.h"
#include "shared/reducer.h"

/* Lowering, as a whole and phase by phase: program.c says what can be lowered, program_lower.c
 * decides and fills the plan's tables, program_pass.c orders the phases of a pass, and each phase
 * writes its ops: program_forward.c, program_backward.c, program_reduce.c, program_update.c. Only
 * shared/program_*.c see this header. */
struct lw_lowering {
    const struct lw_workload *w;
    const struct lw_strategy *s;
    struct lw_builder *b;
    struct lw_arena arena;
    int32_t n_parts;
    struct lw_part *parts;       /* [n_parts] in the order of the model */

    int32_t compute, comm, copy; /* streams; -1 = the plan has none */
    int32_t data;                /* communicator class; -1 = none */
    int32_t optimizer_work;
};

/* Which of a part's bucket sets a pass reduces. */
enum lw_pass_set { LW_PASS_REDUCES_NOTHING, LW_PASS_INITIAL, LW_PASS_REBUILT };

struct lw_pass {
    const char *name;
    enum lw_pass_set set;
    bool ends_step;
    bool after_backward; /* copies and launches only when the backward has ended */
    enum lw_used_map used_map;
};

/* What the writer of a pass keeps about one part of its rank. */
struct lw_writer_part {
    struct lw_part *d;
    const struct lw_part_set *set; /* NULL: nothing is reduced */
    struct lw_reducer *reducer;    /* NULL: nothing is reduced */
    int32_t *launches;             /* [n_buckets] room for one mark */
    int32_t *late, n_late;         /* [n_buckets] launches that wait for the end of the backward */
    int32_t *done_of;              /* [n_buckets] op after which the bucket holds its result */
    int32_t *params;               /* [n_grads] room for the gradients of one bucket */
    bool unused_copied, map_reduced;
};

/* The state of writing one pass of one rank. */
struct lw_writer {
    struct lw_lowering *l;
    const struct lw_pass *pass;
    int32_t stage;
    struct lw_writer_part *parts;  /* [n_parts] those of the stage */
    int32_t n_parts;
    int32_t micro_batch;
    int32_t *deps, n_deps;         /* what the optimizer waits for, then what follows it */
    int32_t last_compute;          /* op added last to the compute stream; -1 = none yet */
};

/* program_writer.c: ops with the fields that all of a pass share. */
int32_t lw_write_compute(struct lw_writer *k, struct lw_op *op, const int32_t *deps, int32_t n);
void lw_write_gap(struct lw_writer *k, enum lw_gap gap);
/* A copy or cast on the compute stream; dep -1 = none. */
int32_t lw_write_copy(struct lw_writer *k, enum lw_op_kind kind, int64_t bytes, enum lw_dtype dtype,
                      int32_t bucket, int32_t dep);
/* An op of the data communicator, not added yet. */
struct lw_op lw_write_collective(const struct lw_writer *k, enum lw_op_kind kind, int64_t bytes,
                                 enum lw_dtype dtype);
/* What follows on the compute stream waits for these. */
int32_t lw_write_wait(struct lw_writer *k, const char *what, const int32_t *ops, int32_t n);

/* program_forward.c */
void lw_write_buffers(struct lw_writer *k, const struct lw_writer_part *x);
void lw_write_forward(struct lw_writer *k, const struct lw_writer_part *x);

/* program_backward.c; reduce: gradients that are complete go into their buckets. */
enum lw_status lw_write_backward(struct lw_writer *k, struct lw_writer_part *x, bool reduce,
                                 struct lw_err *err);

/* program_reduce.c: copy these gradients and launch what they complete; what is left to do when the
 * backward has ended. */
enum lw_status lw_write_ready(struct lw_writer *k, struct lw_writer_part *x, const int32_t *params,
                              int32_t n, struct lw_err *err);
enum lw_status lw_write_reduction_end(struct lw_writer *k, struct lw_writer_part *x,
                                      struct lw_err *err);

/* program_update.c: gaps, optimizer, weights to all members. */
void lw_write_update(struct lw_writer *k);

/* program_pass.c: adds a variant with the ops of the pass on every stage; its number in *variant. */
enum lw_status lw_write_pass(struct lw_lowering *l, const struct lw_pass *pass, int32_t *variant,
                             struct lw_err *err);

/* program_tables.c: ranks, streams and communicators; then the model with its buckets and works. */
enum lw_status lw_lower_ranks(struct lw_lowering *l, struct lw_err *err);
enum lw_status lw_lower_model(struct lw_lowering *l, struct lw_err *err);

/* program_notes.c: the decisions and the rules behind them, for people. */
void lw_lower_notes(const struct lw_lowering *l);

/* Lower a strategy that lw_plan_build has found to be one that can be. */
enum lw_status lw_lower(const struct lw_workload *w, const struct lw_strategy *s,
                        const struct lw_cost *cost, struct lw_plan *plan, struct lw_err *err);

#endif
