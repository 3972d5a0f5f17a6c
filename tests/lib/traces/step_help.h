#pragma once

#include <stdbool.h>

#include "traces/workload/to_workload.h"

/* A training step by hand, in ns, and what becomes of it. Every failure stops the test. */

#define EVAL "autograd::engine::evaluate_function: "
#define ACC "torch::autograd::AccumulateGrad"

/* A row on the one thread; numel -1 = without a shape. */
void put_row(struct lw_trace *t, enum lw_row_class class, const char *name, int64_t start,
             int64_t end, int64_t link, int64_t numel);

/* Step [0,1000), zero_grad [10,20), forward [20,220), backward [230,730), optimizer [740,900).
 * Modules a [30,100) and b [120,210); the loss runs after b. Backward nodes: loss [240,260),
 * b's [260,460), its gradient's [461,470) (accumulated [462,466)), a's [480,700), its gradient's
 * [701,712) (accumulated [702,708)).
 *
 * Forward: a reaches from the forward's start to b's start, 100; b the rest, 100.
 * Backward: up to the loss node and the loss itself count to b (it ran after b's range began):
 * 480 - 230 = 250; a has the rest, 730 - 480 = 250. Ready: 466 - 230 = 236 and 708 - 230 = 478. */
void put_step(struct lw_trace *t, int64_t at, const char *name, bool ranges);
/* One micro-batch of it without ranges: forward from at + 35, backward [at + 240, at + 712). */
void put_micro_batch(struct lw_trace *t, int64_t at);

/* Traces on their way to a workload. */
struct imported {
    struct traces_source s;
    struct lw_workload w;
    struct traces_coverage c;
};

struct imported import_begin(void);               /* an empty trace, hand.json */
struct imported import_step(bool ranges);         /* one step at 5000, ProfilerStep#3, sorted */
struct imported import_file(const char *file);    /* see replay_read */
struct imported import_sized(const char *file);   /* with the sizes of all operators */
void import_sort(struct imported *x);             /* when all rows are there: order, steps */
void import_as(struct imported *x, const struct traces_choice *c); /* w and c: of s alone */
void import_median(struct imported *x);           /* of all steps */
void import_free(struct imported *x);

/* For several traces. */
void import_ok(const struct traces_source *s, int n, const struct traces_choice *c,
               struct lw_workload *w, struct traces_coverage *coverage);
