#pragma once

#include "shared/plan/plan.h"
#include "shared/workload/kernel.h"

/* What bounds the time of an op: what a faster one of would shorten it. Derived from the plan by
 * one function, for every figure that divides time by bound. See "Bound" in docs/glossary.md. */

/* After the bounds of kernels (enum lw_bound). */
enum {
    LW_BOUND_NETWORK = LW_N_BOUNDS, /* communication that the cluster times */
    LW_BOUND_MEASURED, /* a recording or a file gives the time: what bounds it is not known */
    LW_BOUND_UNKNOWN,  /* the cluster times a compute op whose time the plan lacks */
    LW_N_OP_BOUNDS,
};

const char *lw_op_bound_name(int bound); /* for people: "device memory" */
const char *lw_op_bound_key(int bound);  /* of JSON and columns, without the unit: "memory" */

/* Integers in the proportions of weights[n] (>= 0) that sum to total, exactly: each is rounded so
 * that the sums from the first on are. All weights 0: out is all 0. */
void lw_apportion(int64_t total, const int64_t *weights, int n, int64_t *out);

/* How much longer a time that products bound is on the slowest device, by `parts` of 1e9 of it, to
 * the nearest picosecond. See docs/design/device_spread.md. */
lw_ps lw_spread_more(lw_ps products, int64_t parts);

/* Adds `time` of the op to out by what bounds it, in the proportions of its work, whose products
 * the run lengthened by `spread` parts of 1e9: what is added sums to `time`. An op that ran longer
 * than that (noise, interference) keeps them. */
void lw_op_add_bounds(const struct lw_plan *p, const struct lw_op *op, lw_ps time, int64_t spread,
                      lw_ps out[LW_N_OP_BOUNDS]);

/* An update that the host's processors make (--offload update): the cluster's host times it. */
bool lw_op_is_host_update(const struct lw_plan *p, const struct lw_op *op);
/* What it moves of an element, `beside` among it: parameter, two moments and gradient are read, the
 * first three written, in f32 (deepspeedai/DeepSpeed@edaa7221, csrc/adam/cpu_adam_impl.cpp).
 * own_states > 0 (lw_own_states): parameter and gradient of 16 bits, states of so many bytes. */
int64_t lw_host_update_bytes(int64_t own_states, int64_t beside);

/* What bounds most of it: of equals the first. */
int lw_op_bound(const struct lw_plan *p, const struct lw_op *op);

/* Where the time of the op comes from: a word of enum lw_time_source, or "cluster". */
const char *lw_op_time_source(const struct lw_plan *p, const struct lw_op *op);
