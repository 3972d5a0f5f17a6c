#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/plan/op.h"
#include "shared/plan/plan.h"
#include "shared/strategy/reducer_kind.h"

/* Makes a plan piece by piece: lowering, importers (a replay is a plan) and tests all build through
 * it. Add ranks and roles first, then tables, then programs variant by variant, role by role. A
 * failed addition (memory) sticks and is reported by lw_builder_finish. Strings are copied. */
struct lw_builder;
struct lw_comm_rule;
struct lw_digit;

struct lw_builder *lw_builder_new(const char *name, int32_t n_ranks);
void lw_builder_free(struct lw_builder *b);
/* The plan is only simulated: it has no hash, of the shards those of the first owner alone, and of
 * parts of modules no products. What bounds them it has: a spread of devices lengthens products. */
void lw_builder_draft(struct lw_builder *b);
bool lw_builder_is_draft(const struct lw_builder *b);

/* About so many ops will be added: room for them at once, up to a limit. */
void lw_builder_expect_ops(struct lw_builder *b, int64_t n);
/* Ops that are alike share rows (shared/plan/op_rows.h) unless there are fewer than `least` in the
 * end; where `modules` are alike, those of other modules too, and works (shared/plan/work_rows.h).
 * Before the first op or work is added. */
void lw_builder_share_ops(struct lw_builder *b, int32_t least, bool modules);
/* So many shards, or parameters and slots of all buckets: there may be millions. */
void lw_builder_expect_shards(struct lw_builder *b, int64_t n);
void lw_builder_expect_params(struct lw_builder *b, int64_t n_params, int64_t n_slots);

void lw_builder_strategy(struct lw_builder *b, const struct lw_strategy *s);
int32_t lw_builder_role(struct lw_builder *b, const struct lw_role *role); /* n_ranks is counted */
void lw_builder_rank(struct lw_builder *b, int32_t rank, int32_t role, int32_t dp, int32_t pp,
                     int32_t tp);
/* In place of lw_builder_rank: all ranks, on a grid of axes (enum lw_grid_axis). Roles are added
 * before, one for each pipeline coordinate. */
void lw_builder_grid(struct lw_builder *b, const struct lw_digit *axis);
int32_t lw_builder_stream(struct lw_builder *b, const char *name, enum lw_stream_class c,
                          int32_t priority);
int32_t lw_builder_comm(struct lw_builder *b, const char *name, enum lw_comm_purpose purpose,
                        enum lw_reducer_kind reducer, int32_t stream);
/* A group of class `comm`; members in group order, each in one group of the class at most. */
int32_t lw_builder_group(struct lw_builder *b, int32_t comm, const int32_t *members, int32_t n);
/* All groups of the class added last, by a rule whose first_group is not read. */
void lw_builder_groups(struct lw_builder *b, const struct lw_comm_rule *rule);

int32_t lw_builder_param(struct lw_builder *b, const struct lw_plan_param *p);
int32_t lw_builder_buffer(struct lw_builder *b, const struct lw_buffer *p);
int32_t lw_builder_module(struct lw_builder *b, int32_t stage);
/* ascending by parameter */
void lw_builder_sparse(struct lw_builder *b, const struct lw_sparse *x);
void lw_builder_whole(struct lw_builder *b, int32_t param); /* of plan->whole; ascending */
/* name NULL: the kind's word */
int32_t lw_builder_set(struct lw_builder *b, enum lw_bucket_kind kind, const char *name,
                       int32_t stage);
int32_t lw_builder_bucket(struct lw_builder *b, const struct lw_bucket *bucket,
                          const struct lw_slot *slots, int32_t n); /* of the set added last */
void lw_builder_slot(struct lw_builder *b, const struct lw_slot *s); /* of the bucket added last */
/* The first n slots of the bucket added last, one after the other: their parameters are to be
 * filled in before anything else is added; NULL = it failed. */
int32_t *lw_builder_slot_room(struct lw_builder *b, int32_t n);
void lw_builder_shard(struct lw_builder *b, const struct lw_shard *s);
/* n of equal length: each has the next owner, and begins where the one before it ends. */
void lw_builder_shards(struct lw_builder *b, const struct lw_shard *first, int32_t n);
/* A work without products: those of the work added last follow it. */
int32_t lw_builder_work(struct lw_builder *b, const struct lw_work *w);
void lw_builder_product(struct lw_builder *b, const struct lw_product *p); /* the next one */
void lw_builder_work_product(struct lw_builder *b, int32_t product);

int32_t lw_builder_variant(struct lw_builder *b, const char *name, const char *set_name,
                           bool ends_step);
/* Ops that follow belong to (variant, role). */
void lw_builder_program(struct lw_builder *b, int32_t variant, int32_t role);
/* An op with every index -1 and no bytes: fill what is needed and add. */
struct lw_op lw_builder_blank(enum lw_op_kind kind, int32_t stream);
/* Returns the op's number; deps are numbers returned earlier for the same program. */
int32_t lw_builder_op(struct lw_builder *b, const struct lw_op *op, const int32_t *deps,
                      int32_t n_deps);
/* An earlier op once more, of any program, with other dependencies, as many, and of another
 * micro-batch. It completes no gradients. */
int32_t lw_builder_again(struct lw_builder *b, int32_t op, int32_t micro_batch, const int32_t *deps,
                         int32_t n_deps);
/* The op added last waits for this earlier one of its program too. */
void lw_builder_dep(struct lw_builder *b, int32_t dep);
/* Ops [first, first + n) of the program at hand once more, of another micro-batch than theirs. What
 * they wait for is moved along within them; of earlier ops, outside[i] becomes instead[i], and
 * there are no others. */
struct lw_op_range {
    int32_t first, n;
    const int32_t *outside, *instead; /* [n_outside] */
    int32_t n_outside, from_micro_batch, micro_batch;
};
void lw_builder_repeat(struct lw_builder *b, const struct lw_op_range *x);
bool lw_builder_has_failed(const struct lw_builder *b);
/* Ops so far; one of them, blank where the builder has failed, and what it waits for, until the
 * next is added. */
int32_t lw_builder_n_ops(const struct lw_builder *b);
struct lw_op lw_builder_op_at(const struct lw_builder *b, int32_t op);
const int32_t *lw_builder_deps_of(const struct lw_builder *b, int32_t op);
/* Ops of the program at hand from number `first` on, n of them: the i-th is then what number
 * first + order[i] was. An op still follows what it waits for. After its last op was added. */
void lw_builder_reorder(struct lw_builder *b, int32_t first, const int32_t *order, int32_t n);
/* The op added last completes (or, for COPY_IN, copies) this gradient too. */
void lw_builder_ready(struct lw_builder *b, int32_t param);
/* The same of n gradients, to be filled in before anything else is added; NULL = it failed. */
int32_t *lw_builder_ready_room(struct lw_builder *b, int32_t n);
/* A row of operands for a role: entries[i] for the rank with index i in the role. */
int32_t lw_builder_operand_row(struct lw_builder *b, const struct lw_operand *entries, int32_t n);
/* A new row, *row, of n entries to be filled before anything else is added; NULL = it failed. */
struct lw_operand *lw_builder_operand_room(struct lw_builder *b, int32_t n, int32_t *row);
/* A new row that a rule describes; `at` is not read. */
int32_t lw_builder_operand_rule(struct lw_builder *b, const struct lw_operand_rule *rule);
/* One more entry of the row added last, which is written out. */
void lw_builder_operand_more(struct lw_builder *b, const struct lw_operand *entry);

void lw_builder_pass(struct lw_builder *b, int32_t variant);
void lw_builder_repeat_from(struct lw_builder *b, int32_t pass);
void lw_builder_note(struct lw_builder *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* What times decided: plan->from_times. */
void lw_builder_from_times(struct lw_builder *b, const char *what);

/* Move everything into *plan (one arena), fill the hash, free the builder in every case. */
enum lw_status lw_builder_finish(struct lw_builder *b, struct lw_plan *plan, struct lw_err *err);
