#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/dtype.h"
#include "shared/numbers/units.h"
#include "shared/strategy/recompute.h"
#include "shared/workload/kernel.h"
#include "shared/workload/model_dims.h"
#include "shared/workload/model_request.h"
#include "shared/workload/product.h"
#include "shared/workload/recorded_op.h"

struct lw_buffer;
struct lw_product;
struct lw_sparse;

/* What one training step of one model costs on one device.
 *
 * Time axes: modules run forward in their order and backward in the reverse order; their backward
 * windows tile the backward, so module m's window begins at the sum of (backward_input +
 * backward_weight) of all modules after it. A gradient's ready_ps counts from the start of the
 * backward. Gaps (host) lie between the phases and belong to no module. */

/* How tensor parallelism splits weights. BLOCK, of modules only: column layers with row layers
 * after them, as a transformer block; its parameters say which is which. */
enum lw_tp_split {
    LW_TP_REPLICATED, LW_TP_COLUMN, LW_TP_ROW, LW_TP_VOCAB, LW_TP_BLOCK, LW_N_TP_SPLITS,
};

struct lw_module {
    const char *name;
    lw_ps forward_ps, backward_input_ps, backward_weight_ps; /* one micro-batch; >= 0 */
    int64_t forward_flops;       /* -1 = unknown; backward is twice that */
    int64_t forward_bytes;       /* device memory traffic; -1 = unknown; backward is twice that */
    int64_t output_bytes;        /* activation passed on to the next module; -1 = unknown */
    int64_t kept_bytes[LW_N_RECOMPUTE]; /* activation kept for backward by mode; -1 = unknown */
    lw_ps selective_ps; /* forward work that selective recomputation does again */
    lw_ps unrepeated_ps; /* end of the forward that full recomputation leaves out: no backward reads
                          * what it makes, and the framework's checkpoint stops before it */
    /* Tensor parallelism: how the work is split, and the activation that is all-reduced over the
     * tensor group in forward and in backward (0 = no communication), spread over tp_calls equal
     * calls (0 or 1 = one, at the end). */
    enum lw_tp_split tp_split;
    int32_t tp_calls;
    int64_t tp_forward_bytes, tp_backward_bytes;
    /* Of the forward: products that read what the tensor group gathers, and products that make what
     * it sums. Collectives of the group may run beside them; 0 = nothing is known to. */
    lw_ps tp_column_ps, tp_row_ps;
    /* The part of times and kept_bytes that every rank of a tensor group has whole; the rest, of a
     * module that is not REPLICATED, is divided among them. */
    lw_ps whole_forward_ps, whole_input_ps, whole_weight_ps;
    int64_t whole_kept_bytes[LW_N_RECOMPUTE];
    int64_t kv_bytes; /* context parallelism: keys and values that its attention reads; 0 = none. A
                       * tensor group divides them */
    /* Attention itself, scores and sums over values: where it begins in the forward and in the
     * backward window, and how long it takes there; length 0 = unknown. */
    lw_ps attention_start_ps, attention_ps;
    lw_ps attention_backward_start_ps, attention_backward_ps;
    /* expert parallelism: tokens that the experts get, and give back; 0 = it has no experts */
    int64_t dispatch_bytes;
    /* With them: beside the tokens to the experts, and beside the gradients that come back from
     * them; beside the tokens alone; and what a rank has of what all of the group gather before a
     * forward sends tokens. */
    int64_t dispatch_weight_bytes, dispatch_index_bytes, routing_map_bytes;
    /* Elements of parameters that other modules own, or that it uses before, which one token's
     * products use here again: the head's of a block for further tokens. Model FLOPs count them as
     * they count its own. */
    int64_t reused_numel;
    /* Its matrix products in the order of the forward, by phase: indexes into the workload's table;
     * none = unknown, or there are none. */
    int32_t *products[LW_N_PRODUCT_PHASES];
    int32_t n_products[LW_N_PRODUCT_PHASES];
    /* What its times come from; modules that are alike share their kernels. None: they are
     * measured. */
    int32_t first_kernel, n_kernels;
    bool measured; /* its times are others than its kernels': a plan does not read these */
    int32_t *ops, n_ops; /* of a recording: indexes into the workload's operators, of the forward as
                          * they ran, then of the backward from the last to the first */
    lw_ps bound_ps[2][LW_N_BOUNDS]; /* forward and backward of one rank by what bounds its kernels;
                                     * HOST: what it adds to them; all 0 = unknown */
    bool host_bounds[2]; /* the direction lasts as long as the host launches: kernels that are
                          * faster do not shorten it */
};

/* Its times are no longer those of its kernels. */
void lw_module_forget_bounds(struct lw_module *m);

/* What grows with the tokens of a micro-batch, which a context group shares. */
enum { LW_N_TOKEN_FIELDS = 29 };
void lw_module_token_fields(struct lw_module *m, int64_t *fields[LW_N_TOKEN_FIELDS]);

/* The module's forward and backward have become longer or shorter: attention keeps its share. */
void lw_module_move_attention(struct lw_module *m, lw_ps old_forward, lw_ps old_backward);

static inline lw_ps lw_module_backward(const struct lw_module *m)
{
    return lw_add_sat(m->backward_input_ps, m->backward_weight_ps);
}

struct lw_param {
    const char *name;       /* qualified; "" when the trace names none */
    int64_t numel;          /* elements, >= 0 */
    int64_t rows;           /* of its first dimension, a divisor of numel; 0 = unknown */
    int32_t module;         /* index of its owner */
    int32_t tied; /* index of the first parameter that shares its storage; -1 = not tied */
    uint8_t dtype;          /* enum lw_dtype */
    uint8_t tp_split; /* enum lw_tp_split; REPLICATED: whole on every rank of a tensor group */
    int8_t device;          /* index among the model's devices; 0 unless model-parallel */
    bool trainable, sparse; /* sparse: expects a sparse gradient (see lw_workload.sparse) */
    bool used;              /* takes part in the step (false: unused parameter) */
    bool ignored;           /* on the ignore list of the data-parallel wrapper */
    bool expert;            /* of all experts of its module: expert parallelism divides it */
    lw_ps ready_ps;         /* gradient ready, from the start of backward; -1 = unknown */
};

/* Whose state the parameters have: SGD none, with momentum one element each, Adam two; Muon one of
 * matrices (lw_param_is_matrix), and Adam's of all else. */
enum lw_optimizer {
    LW_OPTIMIZER_UNKNOWN, LW_OPTIMIZER_SGD, LW_OPTIMIZER_MOMENTUM, LW_OPTIMIZER_ADAM,
    LW_OPTIMIZER_MUON, LW_N_OPTIMIZERS,
};

/* Of a 16-bit element: three f32. */
enum { LW_MASTER_AND_ADAM_BYTES = 12 };

/* Bytes of n states of a 16-bit element and of its master, as a framework has them whose two states
 * of Adam, with the master where it has one, take `adam`: from 12 on there is an f32 master, 0 is
 * 12. */
int64_t lw_half_states(int64_t adam, int64_t n);

/* Where the host makes the device wait, once per step. */
enum lw_gap {
    LW_GAP_BEFORE_FORWARD, /* zero_grad, data ready, ... */
    LW_GAP_BEFORE_BACKWARD,
    LW_GAP_BEFORE_OPTIMIZER,
    LW_GAP_AFTER_OPTIMIZER,
    LW_N_GAPS,
};

/* What the recording itself showed: never used to predict, only to compare with. */
struct lw_recorded {
    int32_t world_size;           /* 0 = nothing recorded */
    lw_ps step_ps;                /* median step of this recording; -1 = unknown */
    lw_ps step_spread_ps;         /* interquartile range; -1 = unknown */
    int32_t n_limits, n_buckets;
    const int64_t *limit_bytes;   /* bucket limits that the recorded run used */
    const int64_t *bucket_bytes;  /* in launch order */
};

/* The groups whose shapes a model's times are of: fields of the strategy. */
struct lw_made_for {
    int64_t tp, cp, ep; /* 0 = 1 */
    bool folded_experts; /* lw_strategy_folds_experts */
    int64_t dispatch_once;
    bool sequence_parallel;
    int32_t tp_overlap; /* enum lw_tp_overlap */
    int32_t dispatcher; /* enum lw_dispatcher */
    bool reduced, grad_f32; /* gradients are of several data ranks; of f32 */
    int64_t again_parts; /* lw_strategy.again_parts, of kept_bytes_selective and selective_ns */
    bool usual; /* the framework was not given: another strategy or device may have another one */
    const char *framework, *framework_hash; /* "" or NULL = the ideal one */
};

/* Where the numbers come from. Not part of any hash of decisions. */
struct lw_provenance {
    const char *format;  /* "kineto", "model", ... */
    const char *file;    /* base name only */
    const char *hash;    /* of the file's bytes */
    const char *device;  /* device kind of the times */
    const char *producer;/* "torch 2.11.0", "lapwing model mlp", ... */
    int32_t rank, step;  /* -1 = median over steps, or not applicable */
    /* What a workload made from a model is computed again from, and what it was made for. */
    struct lw_model_request model;
    struct lw_made_for made_for;
};

#define LW_ASSUMPTION "assumption: "

struct lw_workload {
    struct lw_arena arena; /* owns everything below */
    const char *name;
    int32_t n_modules, n_params, n_sparse, n_buffers, n_ready, n_notes, n_products;
    /* In forward order; or NULL: module m is row module_row[m] and named module_names[m]
     * (shared/workload/model_rows.h). lw_module_at reads either. */
    struct lw_module *modules;
    struct lw_module *module_rows; /* without names */
    int32_t *module_row;
    const char **module_names;
    /* In registration order; or NULL: the i-th is row param_row[i], of module param_module[i] and
     * named param_names[i]. lw_param_at reads either. */
    struct lw_param *params;
    struct lw_param *param_rows; /* without names and modules */
    int32_t *param_row, *param_module;
    const char **param_names;
    struct lw_sparse *sparse;  /* of those whose gradient is sparse, by parameter; none = unknown */
    struct lw_buffer *buffers;
    int32_t *ready_order;      /* parameters in the order their gradients become ready; n_ready = 0:
                                * unknown, reverse registration order is assumed and said */
    struct lw_product *products; /* as a rank of timed_for has them */
    /* Of a recording: the operators that are different; none = not recorded. */
    struct lw_recorded_op *ops;
    int32_t n_ops;
    int32_t n_kernels, n_grad_kernels; /* of a model (shared/device/kernel_time.h) */
    struct lw_kernel *kernels;
    struct lw_kernel_times *kernel_times; /* of each, as they were timed last; NULL: not kept, or
                                           * the times of modules have changed since */
    struct lw_kernel_groups timed_for;    /* products and kernel_times are of a rank of these */
    bool by_kernels; /* a plan's own copy: times of modules with kernels are of one rank, from
                      * kernel_times */
    int32_t *grad_kernel;      /* by parameter: which of its module's kernels completes its gradient
                                * when its backward ends; none: ready times are measured */
    struct lw_step_traffic step_traffic;
    int64_t state_bytes;       /* of a 16-bit element, as lw_half_states takes them, unless
                                * gradients are f32; 0: f32 states and masters */
    int64_t batch;             /* samples of one micro-batch; 0 = unknown */
    int64_t sample_tokens;     /* of one sample; 0 = unknown, or it has none */
    int64_t heads, kv_heads;   /* of attention; a tensor group divides both; 0 = unknown */
    int64_t attention_flops;   /* forward of one sample, causal scores counted half; 0 = none, or
                                * unknown */
    int64_t score_flops;       /* the same with all scores, as forward_flops counts; 0 = equal */
    int64_t idle_numel;        /* of experts: elements that no product of one token uses; the rest
                                * of all elements is active */
    enum lw_optimizer optimizer;
    lw_ps optimizer_ps;        /* step of all parameters */
    lw_ps gradients_ps;        /* passes over all gradients that a rank holds, once per step */
    enum lw_bound optimizer_bound, gradients_bound; /* where step_source is not GIVEN or SCALED */
    enum lw_time_source step_source;                /* of both */
    lw_ps gap_ps[LW_N_GAPS];
    struct lw_recorded recorded;
    struct lw_model_dims dims; /* of a model */
    struct lw_provenance from;
    bool timeless;             /* the user named no device: times stand for their proportions alone,
                                * and a plan gets none of them. No file holds it */
    const char **notes;        /* from importing or modelling, one line each; LW_ASSUMPTION begins
                                * those that say which figures were assumed */
};

void lw_workload_free(struct lw_workload *w);

/* What lowering reads: of a workload whose modules share rows too. Its name is lw_module_name. */
static inline const struct lw_module *lw_module_at(const struct lw_workload *w, int32_t module)
{
    return w->modules ? &w->modules[module] : &w->module_rows[w->module_row[module]];
}

static inline struct lw_param lw_param_at(const struct lw_workload *w, int32_t param)
{
    struct lw_param p;

    if (w->params)
        return w->params[param];
    p = w->param_rows[w->param_row[param]];
    p.module = w->param_module[param];
    p.name = w->param_names[param];
    return p;
}

/* The same to point at: a copy that lasts as long as the block in which it stands. */
#define LW_PARAM(w, i) ((const struct lw_param[1]){lw_param_at(w, i)})

/* They are one row: alike but for their names. */
static inline bool lw_modules_are_one_row(const struct lw_workload *w, int32_t a, int32_t b)
{
    return !w->modules && w->module_row[a] == w->module_row[b];
}

/* They are one row: alike but for their names and modules. */
static inline bool lw_params_are_one_row(const struct lw_workload *w, int32_t a, int32_t b)
{
    return !w->params && w->param_row[a] == w->param_row[b];
}

static inline const char *lw_module_name(const struct lw_workload *w, int32_t module)
{
    return w->modules ? w->modules[module].name : w->module_names[module];
}

/* One more of *n notes of a workload or a plan, whose arena it goes to. */
enum lw_status lw_note_add(struct lw_arena *a, const char ***notes, int32_t *n, const char *text,
                           struct lw_err *err);

bool lw_workload_has_experts(const struct lw_workload *w);
/* How a token's experts are chosen; copies: --dispatch-once. */
struct lw_routing lw_workload_routing(const struct lw_workload *w, int64_t copies);
/* It is reduced on its own: trainable, used, and not tied to an earlier one. */
static inline bool lw_param_has_gradient(const struct lw_param *p)
{
    return p->trainable && p->used && p->tied < 0;
}

/* Muon updates it: of two dimensions, and neither an embedding of tokens nor the head's
 * (NVIDIA/Megatron-LM@d98e8a64, megatron/core/optimizer/layer_wise_optimizer.py,
 * is_managed_by_layer_wise_optimizer). A table of positions is one. Of unknown shape: none. */
bool lw_param_is_matrix(const struct lw_param *p);

/* LW_EFORMAT names the field: indexes in range, times and sizes not negative, ready_order a
 * permutation of the parameters with a gradient, ready times inside the backward and in that order.
 */
enum lw_status lw_workload_check(const struct lw_workload *w, struct lw_err *err);

/* "unknown", "sgd", "momentum", "adam", "muon"; NULL after the last. */
const char *lw_optimizer_name(int optimizer);

/* Selective recomputation repeats no work and frees no byte. */
bool lw_workload_selects_nothing(const struct lw_workload *w);

lw_ps lw_workload_forward_ps(const struct lw_workload *w);
lw_ps lw_workload_backward_ps(const struct lw_workload *w);
/* One step alone on one device: forward + backward + passes over gradients + optimizer + gaps. */
lw_ps lw_workload_step_ps(const struct lw_workload *w);
/* Whether the shapes of the workload's products are those of one rank of the strategy's tensor and
 * context groups. Where they are not, its times are divided by the group and its products left out.
 * False without products. */
struct lw_strategy;
bool lw_products_fit(const struct lw_workload *w, const struct lw_strategy *s);

/* What full recomputation leaves out of the end of its forward. Groups of several modules
 * (--recompute-method uniform) are Megatron-LM's, whose checkpoint runs all of it. */
lw_ps lw_unrepeated_ps(const struct lw_strategy *s, const struct lw_module *m);

struct lw_made_for lw_made_for(const struct lw_strategy *s);
/* Made from a model, and for other groups than the strategy's or for another framework. */
bool lw_workload_is_of_others(const struct lw_workload *w, const struct lw_strategy *s,
                              const char *framework_hash);

struct lw_strategy;
/* Bytes of what a module keeps that the input half of a split backward frees: attention's core,
 * which has no weights and is what selective recomputation leaves out (other parts that are named
 * have weights), and of the last module the loss's scores, but their gradient, which the half for
 * the weights reads. `w`: of one rank of the strategy. */
int64_t lw_workload_early_bytes(const struct lw_workload *w, const struct lw_strategy *s,
                                int32_t module);
/* A workload's state_bytes where the strategy leaves it so, else 0. */
int64_t lw_own_states(int64_t state_bytes, const struct lw_strategy *s);
int64_t lw_workload_numel(const struct lw_workload *w, bool trainable_only); /* tied ones once */
enum lw_dtype lw_workload_main_dtype(const struct lw_workload *w); /* of most elements */
