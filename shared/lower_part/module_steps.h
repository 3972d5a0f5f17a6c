#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/workload/kernel.h"

/* What a rank does of a module in one direction: ops that have shares of its time, and what it
 * exchanges between them. measured_steps.c makes those of modules without kernels, kernel_steps.c
 * those of modules with kernels; lower_ops/lower_module.c writes them. */

struct lw_part;

/* The range [from, to) of something of length `of`. */
struct lw_share {
    int64_t from, to, of;
};

enum lw_step_kind {
    LW_STEP_WORK,      /* an op: a share of the module's time */
    LW_STEP_GATHER,    /* over the tensor group; what follows waits for it */
    LW_STEP_GATHERS,   /* the same in LW_TENSOR_PIECES: the next op waits for the first one, */
    LW_STEP_GATHERED,  /* and from here on for the next one */
    LW_STEP_SAVED,     /* saved inputs are gathered again beside what follows */
    LW_STEP_SUM,       /* over the tensor group; what follows waits for it, */
    LW_STEP_BESIDE,    /* but what follows here, */
    LW_STEP_SUMMED,    /* until here */
    LW_STEP_KEYS,      /* keys and values are gathered over the context group, */
    LW_STEP_KEY_GRADS, /* their gradients summed to those whose they are */
    LW_STEP_RING,      /* the next op is step `which` of a ring */
    LW_STEP_SENT,      /* tokens to the experts, or their gradients */
    LW_STEP_BACK,      /* and back */
};

struct lw_step {
    enum lw_step_kind kind;
    int32_t which;
    int64_t bytes;
    struct lw_share share; /* WORK; of others in a backward that gradients cut, from: when */
};

struct lw_steps {
    const struct lw_step *v;
    int32_t n;
};

/* One that grows; goes with lw_free(v). */
struct lw_step_list {
    struct lw_step *v;
    int64_t capacity;
    int32_t n;
    bool no_memory;
};

void lw_step_add(struct lw_step_list *l, struct lw_step step);
/* Works of a list: their number. */
int32_t lw_steps_works(struct lw_steps s);

/* measured_steps.c: of a module without kernels, its forward; the input's half of a split
 * backward; in a whole one what is before its first op, and what is after, in order of time, at
 * share.from after the begin. */
void lw_measured_forward(const struct lw_part *d, int32_t module, struct lw_step_list *l);
void lw_measured_input(const struct lw_part *d, int32_t module, struct lw_step_list *l);
void lw_measured_weight(const struct lw_part *d, int32_t module, struct lw_step_list *l);
void lw_measured_enter(const struct lw_part *d, int32_t module, struct lw_step_list *l);
void lw_measured_marks(const struct lw_part *d, int32_t module, struct lw_step_list *l);

/* kernel_steps.c: the same of a module with kernels; marks at 0 are those before the first op. Its
 * products of these phases that are in the share belong to the work added last. */
struct lw_builder;
void lw_kernel_forward(const struct lw_part *d, int32_t module, struct lw_step_list *l);
void lw_kernel_input(const struct lw_part *d, int32_t module, struct lw_step_list *l);
void lw_kernel_weight(const struct lw_part *d, int32_t module, struct lw_step_list *l);
void lw_kernel_marks(const struct lw_part *d, int32_t module, struct lw_step_list *l);
void lw_kernel_products(const struct lw_part *d, struct lw_builder *b, int32_t module,
                        unsigned phases, struct lw_share share);

/* The share of a direction by what bounds its kernels (added to weights), and what most of its time
 * comes from. */
enum lw_time_source lw_kernel_bounds(const struct lw_part *d, int32_t module, unsigned phases,
                                     struct lw_share share, lw_ps weights[LW_N_BOUNDS]);

/* module_steps.c: the steps of all modules of a part; its stretches are cut at the marks. */
enum lw_status lw_part_make_steps(struct lw_part *d, struct lw_err *err);
