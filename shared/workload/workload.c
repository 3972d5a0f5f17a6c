/* The workload: release, totals, and its check. The check reports fields by the path that they have
 * in a workload file, so that a reader's error names the place. Times and sizes are checked for
 * their sum, so that no total below overflows. */
#include "shared/workload/workload.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/strategy/strategy.h"
#include "shared/workload/buffer.h"
#include "shared/workload/product.h"
#include "shared/workload/sparse.h"

#define MOST_SIZE (INT64_MAX / 16) /* of all parameters, or of a field of all modules: 2^59 */
#define MOST_STEP_BYTES 1024 /* per element */
#define MOST_STATE_BYTES 101
#define MOST_TOKENS (INT64_C(1) << 40) /* of one micro-batch */

LW_FREE_BY_ARENA(lw_workload_free, struct lw_workload)

enum lw_status lw_note_add(struct lw_arena *a, const char ***notes, int32_t *n, const char *text,
                           struct lw_err *err)
{
    const char **longer = lw_arena_alloc(a, (int64_t)*n + 1, sizeof *longer);
    const char *last = lw_arena_strdup(a, text);

    if (!longer || !last)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < *n; i++)
        longer[i] = (*notes)[i];
    longer[(*n)++] = last;
    *notes = longer;
    return LW_OK;
}

struct lw_made_for lw_made_for(const struct lw_strategy *s)
{
    return (struct lw_made_for){.reduced = s->dp * s->cp > 1,
                                .grad_f32 = s->grad_dtype == LW_GRAD_F32,
                                .tp = s->tp,
                                .cp = s->cp,
                                .ep = s->ep,
                                .folded_experts = lw_strategy_folds_experts(s),
                                .dispatch_once = s->dispatch_once,
                                .sequence_parallel = s->sequence_parallel,
                                .tp_overlap = (int32_t)s->tp_overlap,
                                .dispatcher = (int32_t)s->dispatcher,
                                .again_parts = s->again_parts};
}

lw_ps lw_unrepeated_ps(const struct lw_strategy *s, const struct lw_module *m)
{
    bool groups = s->recompute_method == LW_RECOMPUTE_UNIFORM && s->recompute_layers > 1;

    return groups ? 0 : m->unrepeated_ps;
}

static bool same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

bool lw_workload_is_of_others(const struct lw_workload *w, const struct lw_strategy *s,
                              const char *framework_hash)
{
    const struct lw_made_for *m = &w->from.made_for, to = lw_made_for(s);

    return (lw_model_is_set(&w->from.model) || w->n_kernels > 0) &&
           (lw_group_size(m->tp) != to.tp || lw_group_size(m->cp) != to.cp ||
            lw_group_size(m->ep) != to.ep || m->folded_experts != to.folded_experts ||
            m->dispatch_once != to.dispatch_once || m->dispatcher != to.dispatcher ||
            m->sequence_parallel != to.sequence_parallel ||
            m->tp_overlap != to.tp_overlap || m->again_parts != to.again_parts ||
            !same_text(m->framework_hash, framework_hash));
}

const char *lw_optimizer_name(int optimizer)
{
    static const char *const names[LW_N_OPTIMIZERS] = {"unknown", "sgd", "momentum", "adam",
                                                       "muon"};

    return optimizer >= 0 && optimizer < LW_N_OPTIMIZERS ? names[optimizer] : NULL;
}

void lw_module_token_fields(struct lw_module *m, int64_t *fields[LW_N_TOKEN_FIELDS])
{
    int64_t *const all[LW_N_TOKEN_FIELDS] = {
        &m->forward_ps, &m->backward_input_ps, &m->backward_weight_ps, &m->selective_ps,
        &m->unrepeated_ps, &m->whole_forward_ps, &m->whole_input_ps, &m->whole_weight_ps,
        &m->forward_flops, &m->forward_bytes, &m->output_bytes,
        &m->tp_forward_bytes, &m->tp_backward_bytes, &m->dispatch_bytes,
        &m->dispatch_weight_bytes, &m->dispatch_index_bytes, &m->routing_map_bytes,
        &m->tp_column_ps, &m->tp_row_ps,
        &m->attention_start_ps, &m->attention_ps,
        &m->attention_backward_start_ps, &m->attention_backward_ps,
        &m->kept_bytes[0], &m->kept_bytes[1], &m->kept_bytes[2],
        &m->whole_kept_bytes[0], &m->whole_kept_bytes[1], &m->whole_kept_bytes[2],
    };

    _Static_assert(LW_N_RECOMPUTE == 3, "kept_bytes are listed above");
    memcpy(fields, all, sizeof all);
}

static void move_range(lw_ps *start, lw_ps *length, lw_ps old, lw_ps now)
{
    lw_ps from = *start, to = *start + *length;

    if (old <= 0 || old == now)
        return;
    *start = (lw_ps)((__int128)from * now / old);
    *length = (lw_ps)((__int128)to * now / old) - *start;
}

void lw_module_forget_bounds(struct lw_module *m)
{
    memset(m->bound_ps, 0, sizeof m->bound_ps);
    m->host_bounds[0] = m->host_bounds[1] = false;
}

void lw_module_move_attention(struct lw_module *m, lw_ps old_forward, lw_ps old_backward)
{
    move_range(&m->attention_start_ps, &m->attention_ps, old_forward, m->forward_ps);
    move_range(&m->attention_backward_start_ps, &m->attention_backward_ps, old_backward,
               lw_module_backward(m));
}

lw_ps lw_workload_forward_ps(const struct lw_workload *w)
{
    lw_ps sum = 0;

    for (int32_t m = 0; m < w->n_modules; m++)
        sum += lw_module_at(w, m)->forward_ps;
    return sum;
}

lw_ps lw_workload_backward_ps(const struct lw_workload *w)
{
    lw_ps sum = 0;

    for (int32_t m = 0; m < w->n_modules; m++)
        sum += lw_module_at(w, m)->backward_input_ps + lw_module_at(w, m)->backward_weight_ps;
    return sum;
}

lw_ps lw_workload_step_ps(const struct lw_workload *w)
{
    lw_ps sum = lw_workload_forward_ps(w) + lw_workload_backward_ps(w) + w->gradients_ps +
                w->optimizer_ps;

    for (int g = 0; g < LW_N_GAPS; g++)
        sum += w->gap_ps[g];
    return sum;
}

/* The loss keeps score_bytes of all scores; of each stays a gradient of the products' type. */
static int64_t scores_done(const struct lw_workload *w, const struct lw_strategy *s)
{
    const struct lw_model_dims *d = &w->dims;
    int64_t item = w->n_kernels > 0 ? lw_dtype_size(w->kernels[w->n_kernels - 1].dtype) : 4;
    int64_t ranks = (int64_t)s->tp * s->cp;
    int64_t done = d->score_bytes - item * d->vocab * d->batch * d->seq;

    return done > 0 ? done / ranks : 0;
}

int64_t lw_workload_early_bytes(const struct lw_workload *w, const struct lw_strategy *s,
                                int32_t module)
{
    const int64_t *kept = lw_module_at(w, module)->kept_bytes;
    int64_t core = kept[LW_RECOMPUTE_NONE] - kept[LW_RECOMPUTE_SELECTIVE];
    int64_t early = core > 0 && s->again_parts == 0 ? core : 0;

    return early + (module == w->n_modules - 1 ? scores_done(w, s) : 0);
}

int64_t lw_half_states(int64_t adam, int64_t n)
{
    int64_t both = adam > 0 ? adam : LW_MASTER_AND_ADAM_BYTES;
    int64_t master = both < LW_MASTER_AND_ADAM_BYTES ? 0 : lw_dtype_size(LW_F32);

    return master + n * (both - master) / 2;
}

int64_t lw_own_states(int64_t state_bytes, const struct lw_strategy *s)
{
    return s->grad_dtype == LW_GRAD_F32 ? 0 : state_bytes;
}

int64_t lw_workload_numel(const struct lw_workload *w, bool trainable_only)
{
    int64_t sum = 0;

    for (int32_t i = 0; i < w->n_params; i++)
        if (lw_param_at(w, i).tied < 0 && (lw_param_at(w, i).trainable || !trainable_only))
            sum += lw_param_at(w, i).numel;
    return sum;
}

bool lw_workload_has_experts(const struct lw_workload *w)
{
    for (int32_t i = 0; i < w->n_params; i++)
        if (lw_param_at(w, i).expert)
            return true;
    return false;
}

/* Of a layer: the first kernel of experts has them all. */
static int64_t experts_of(const struct lw_workload *w)
{
    for (int32_t i = 0; w->dims.n_experts == 0 && i < w->n_kernels; i++)
        if (w->kernels[i].experts > 0)
            return w->kernels[i].experts;
    return w->dims.n_experts;
}

struct lw_routing lw_workload_routing(const struct lw_workload *w, int64_t copies)
{
    return (struct lw_routing){.copies = (int32_t)copies, .experts = (int32_t)experts_of(w),
                               .groups = (int32_t)w->dims.expert_groups,
                               .topk_groups = (int32_t)w->dims.topk_groups,
                               .in_turn = w->dims.experts_in_turn};
}

/* Biases of experts have a row for each. */
static bool is_bias(const struct lw_param *p)
{
    size_t n = p->name ? strlen(p->name) : 0;

    return n >= 4 && strcmp(p->name + n - 4, "bias") == 0;
}

bool lw_param_is_matrix(const struct lw_param *p)
{
    return p->rows > 0 && p->numel > p->rows && p->tp_split != LW_TP_VOCAB && !is_bias(p);
}

/* --- check ------------------------------------------------------------------------------------ */

static enum lw_status bad(struct lw_err *err, const char *list, int64_t i, const char *field,
                          int64_t found, const char *allowed)
{
    if (list)
        return lw_fail(err, LW_EFORMAT, "at %s[%" PRId64 "].%s: found %" PRId64 ", allowed: %s",
                       list, i, field, found, allowed);
    return lw_fail(err, LW_EFORMAT, "at %s: found %" PRId64 ", allowed: %s", field, found, allowed);
}

static enum lw_status below(struct lw_err *err, const char *list, int64_t i, const char *field,
                            int64_t found, int64_t least)
{
    char allowed[40];

    snprintf(allowed, sizeof allowed, "%" PRId64 " or more", least);
    return bad(err, list, i, field, found, allowed);
}

static enum lw_status outside(struct lw_err *err, const char *list, int64_t i, const char *field,
                              int64_t found, int64_t least, int64_t n)
{
    char allowed[64];

    snprintf(allowed, sizeof allowed, "%" PRId64 " to %" PRId64, least, n - 1);
    return bad(err, list, i, field, found, n > least ? allowed : "none");
}

static inline enum lw_status at_least(struct lw_err *err, const char *list, int64_t i,
                                      const char *field, int64_t found, int64_t least)
{
    return found >= least ? LW_OK : below(err, list, i, field, found, least);
}

static inline enum lw_status in_range(struct lw_err *err, const char *list, int64_t i,
                                      const char *field, int64_t found, int64_t least, int64_t n)
{
    return found >= least && found < n ? LW_OK : outside(err, list, i, field, found, least, n);
}

static enum lw_status add_time(struct lw_err *err, lw_ps *sum, lw_ps t)
{
    if (__builtin_add_overflow(*sum, t, sum))
        return lw_fail(err, LW_EFORMAT, "at modules: the times add up to more than 106 days");
    return LW_OK;
}

/* Bytes that modules together keep, move or send are summed per pass and per stage. */
static enum lw_status check_total_bytes(const struct lw_workload *w, struct lw_err *err)
{
#define OF(name, field) {name, offsetof(struct lw_module, field)}
    static const struct {
        const char *name;
        size_t at;
    } columns[] = {OF("forward_bytes", forward_bytes),
                   OF("output_bytes", output_bytes),
                   OF("kept_bytes", kept_bytes[LW_RECOMPUTE_NONE]),
                   OF("kept_bytes_selective", kept_bytes[LW_RECOMPUTE_SELECTIVE]),
                   OF("kept_bytes_full", kept_bytes[LW_RECOMPUTE_FULL]),
                   OF("tp_forward_bytes", tp_forward_bytes),
                   OF("tp_backward_bytes", tp_backward_bytes),
                   OF("kv_bytes", kv_bytes),
                   OF("dispatch_bytes", dispatch_bytes),
                   OF("dispatch_weight_bytes", dispatch_weight_bytes),
                   OF("dispatch_index_bytes", dispatch_index_bytes),
                   OF("routing_map_bytes", routing_map_bytes),
                   OF("reused_numel", reused_numel)};
#undef OF

    for (size_t k = 0; k < sizeof columns / sizeof *columns; k++) {
        int64_t total = 0;
        for (int32_t i = 0; i < w->n_modules; i++) {
            int64_t bytes;
            memcpy(&bytes, (const char *)lw_module_at(w, i) + columns[k].at, sizeof bytes);
            if (bytes > MOST_SIZE || (bytes > 0 && (total += bytes) > MOST_SIZE))
                return lw_fail(err, LW_EFORMAT,
                               "at modules[%d].%s: found %" PRId64
                               ", all sizes together are beyond 2^59",
                               i, columns[k].name, bytes);
        }
    }
    return LW_OK;
}

/* What tensor parallelism leaves whole is a part of the whole. */
static enum lw_status check_whole(int32_t i, const struct lw_module *m, struct lw_err *err)
{
    const struct {
        const char *name;
        int64_t found, all;
    } parts[] = {
        {"whole_forward_ps", m->whole_forward_ps, m->forward_ps},
        {"whole_backward_input_ps", m->whole_input_ps, m->backward_input_ps},
        {"whole_backward_weight_ps", m->whole_weight_ps, m->backward_weight_ps},
        {"whole_kept_bytes", m->whole_kept_bytes[LW_RECOMPUTE_NONE],
         m->kept_bytes[LW_RECOMPUTE_NONE]},
        {"whole_kept_bytes_selective", m->whole_kept_bytes[LW_RECOMPUTE_SELECTIVE],
         m->kept_bytes[LW_RECOMPUTE_SELECTIVE]},
        {"whole_kept_bytes_full", m->whole_kept_bytes[LW_RECOMPUTE_FULL],
         m->kept_bytes[LW_RECOMPUTE_FULL]},
    };

    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        if (parts[k].found != 0 && (parts[k].found < 0 || parts[k].found > parts[k].all))
            return bad(err, "modules", i, parts[k].name, parts[k].found,
                       "0 to what the module has in all");
    return LW_OK;
}

/* Column and row products are parts of the forward. */
static enum lw_status check_products(int32_t i, const struct lw_module *m, struct lw_err *err)
{
    if (m->tp_row_ps <= m->forward_ps && m->tp_column_ps <= m->forward_ps - m->tp_row_ps)
        return LW_OK;
    return lw_fail(err, LW_EFORMAT,
                   "at modules[%" PRId32 "].tp_column_ns: found %.3f and tp_row_ns %.3f, allowed: "
                   "together the module's forward_ns, %.3f, or less",
                   i, (double)m->tp_column_ps / LW_PS_PER_NS, (double)m->tp_row_ps / LW_PS_PER_NS,
                   (double)m->forward_ps / LW_PS_PER_NS);
}

/* Each, and the sum of all modules' work. */
static enum lw_status check_ops(const struct lw_workload *w, struct lw_err *err)
{
    int64_t flops = 0, bytes = 0;

    for (int32_t k = 0; k < w->n_ops; k++)
        LW_TRY(lw_recorded_op_check(&w->ops[k], k, err));
    for (int32_t i = 0; i < w->n_modules; i++) {
        const struct lw_module *m = lw_module_at(w, i);
        for (int32_t k = 0; k < m->n_ops; k++) {
            LW_TRY(in_range(err, "modules", i, "ops", m->ops[k], 0, w->n_ops));
            const struct lw_op_work work = lw_recorded_op_work(&w->ops[m->ops[k]]);
            flops = lw_add_sat(flops, work.flops);
            bytes = lw_add_sat(bytes, work.bytes);
        }
        if (flops > MOST_SIZE || bytes > MOST_SIZE)
            return lw_fail(err, LW_EFORMAT, "at modules[%" PRId32 "].ops: more than 2^59 FLOPs or "
                           "bytes up to here", i);
    }
    return LW_OK;
}

/* Parts lie inside the forward, attention inside the backward too. */
static enum lw_status check_parts_of(int32_t i, const struct lw_module *m, struct lw_err *err)
{
    const struct {
        const char *name;
        lw_ps start, length, all;
    } of[] = {
        {"attention", m->attention_start_ps, m->attention_ps, m->forward_ps},
        {"attention_backward", m->attention_backward_start_ps, m->attention_backward_ps,
         lw_module_backward(m)},
    };

    if (m->unrepeated_ps > m->forward_ps)
        return lw_fail(err, LW_EFORMAT,
                       "at modules[%" PRId32 "].unrepeated_ns: found %.3f, allowed: at most "
                       "forward_ns, %.3f",
                       i, (double)m->unrepeated_ps / LW_PS_PER_NS,
                       (double)m->forward_ps / LW_PS_PER_NS);
    for (size_t k = 0; k < sizeof of / sizeof *of; k++)
        if (of[k].start < 0 || of[k].length < 0 || of[k].length > of[k].all ||
            of[k].start > of[k].all - of[k].length)
            return lw_fail(err, LW_EFORMAT,
                           "at modules[%" PRId32 "].%s_ns: found %.3f from %s_start_ns %.3f on, "
                           "allowed: a part of the module's %.3f",
                           i, of[k].name, (double)of[k].length / LW_PS_PER_NS, of[k].name,
                           (double)of[k].start / LW_PS_PER_NS,
                           (double)of[k].all / LW_PS_PER_NS);
    return LW_OK;
}

/* Modules take the kernels in their order, each as many as it has, or those of one before it: then
 * a list is timed once. *next: the first that no module before has. */
static enum lw_status check_module_kernels(const struct lw_workload *w, int32_t i, int32_t *next,
                                           int32_t *seen, struct lw_err *err)
{
    const struct lw_module *m = lw_module_at(w, i);

    LW_TRY(in_range(err, "modules", i, "n_kernels", m->n_kernels, 0, (int64_t)w->n_kernels + 1));
    if (m->n_kernels == 0)
        return LW_OK;
    LW_TRY(in_range(err, "modules", i, "first_kernel", m->first_kernel, 0, w->n_kernels));
    if (m->first_kernel == *next && m->n_kernels <= w->n_kernels - *next) {
        seen[*next] = m->n_kernels;
        *next += m->n_kernels;
        return LW_OK;
    }
    if (seen[m->first_kernel] == m->n_kernels)
        return LW_OK;
    return lw_fail(err, LW_EFORMAT,
                   "at modules[%" PRId32 "].first_kernel: found %" PRId32 " with n_kernels %" PRId32
                   ", allowed: %" PRId32 ", the first that no module before it has, of %" PRId32
                   " in kernels, or both numbers of a module before it",
                   i, m->first_kernel, m->n_kernels, *next, w->n_kernels);
}

/* Of a model each kernel is a module's, and each gradient a kernel's. */
static enum lw_status check_kernels(const struct lw_workload *w, struct lw_err *err)
{
    int32_t next = 0, *seen = lw_calloc((size_t)w->n_kernels + 1, sizeof *seen);
    enum lw_status s = seen ? LW_OK : lw_fail_nomem(err);

    for (int32_t k = 0; k < w->n_kernels && s == LW_OK; k++)
        s = lw_kernel_check(&w->kernels[k], k, err);
    for (int32_t i = 0; i < w->n_modules && s == LW_OK; i++)
        s = check_module_kernels(w, i, &next, seen, err);
    lw_free(seen);
    if (s == LW_OK && next < w->n_kernels)
        s = lw_fail(err, LW_EFORMAT, "at kernels[%" PRId32 "]: no module has it; a module names "
                    "its kernels by first_kernel and n_kernels", next);
    if (s == LW_OK && w->n_grad_kernels != 0 && w->n_grad_kernels != w->n_params)
        s = lw_fail(err, LW_EFORMAT, "at grad_kernel: found %" PRId32 " numbers, allowed: one for "
                    "each of the %" PRId32 " parameters, or none", w->n_grad_kernels, w->n_params);
    return s;
}

static enum lw_status check_grad_kernel(const struct lw_workload *w, int32_t i, struct lw_err *err)
{
    const struct lw_module *m = lw_module_at(w, lw_param_at(w, i).module);
    int32_t most = m->n_kernels > 0 ? m->n_kernels - 1 : 0;

    if (w->n_grad_kernels == 0 || (w->grad_kernel[i] >= 0 && w->grad_kernel[i] <= most))
        return LW_OK;
    return lw_fail(err, LW_EFORMAT, "at grad_kernel[%" PRId32 "]: found %" PRId32 ", allowed: 0 to "
                   "%" PRId32 ", a kernel of module '%s', whose parameter it is",
                   i, w->grad_kernel[i], most,
                   lw_module_name(w, lw_param_at(w, i).module));
}

static enum lw_status check_module_numbers(const struct lw_workload *w, int32_t i,
                                           struct lw_err *err)
{
    const struct lw_module *m = lw_module_at(w, i);
    const struct {
        const char *name;
        int64_t found, least;
    } fields[] = {
        {"forward_ns", m->forward_ps, 0},
        {"backward_input_ns", m->backward_input_ps, 0},
        {"backward_weight_ns", m->backward_weight_ps, 0},
        {"forward_flops", m->forward_flops, -1},
        {"forward_bytes", m->forward_bytes, -1},
        {"output_bytes", m->output_bytes, -1},
        {"kept_bytes", m->kept_bytes[LW_RECOMPUTE_NONE], -1},
        {"kept_bytes_selective", m->kept_bytes[LW_RECOMPUTE_SELECTIVE], -1},
        {"kept_bytes_full", m->kept_bytes[LW_RECOMPUTE_FULL], -1},
        {"selective_ns", m->selective_ps, 0},
        {"unrepeated_ns", m->unrepeated_ps, 0},
        {"tp_forward_bytes", m->tp_forward_bytes, 0},
        {"tp_backward_bytes", m->tp_backward_bytes, 0},
        {"tp_calls", m->tp_calls, 0},
        {"tp_column_ns", m->tp_column_ps, 0},
        {"tp_row_ns", m->tp_row_ps, 0},
    };

    for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
        LW_TRY(at_least(err, "modules", i, fields[k].name, fields[k].found, fields[k].least));
    LW_TRY(in_range(err, "modules", i, "tp_split", (int64_t)m->tp_split, 0, LW_N_TP_SPLITS));
    LW_TRY(check_whole(i, m, err));
    for (int f = 0; f < LW_N_PRODUCT_PHASES; f++)
        for (int32_t k = 0; k < m->n_products[f]; k++)
            LW_TRY(in_range(err, "modules", i, "products", m->products[f][k], 0, w->n_products));
    LW_TRY(check_parts_of(i, m, err));
    return check_products(i, m, err);
}

/* Numbers of modules of one row are checked once where they follow each other. */
static enum lw_status check_module(const struct lw_workload *w, int32_t i, lw_ps *sum,
                                   struct lw_err *err)
{
    const struct lw_module *m = lw_module_at(w, i);

    /* first: of saturated times nothing is a part */
    LW_TRY(add_time(err, sum, m->forward_ps));
    LW_TRY(add_time(err, sum, m->backward_input_ps));
    LW_TRY(add_time(err, sum, m->backward_weight_ps));
    return i == 0 || !lw_modules_are_one_row(w, i - 1, i) ? check_module_numbers(w, i, err) : LW_OK;
}

static enum lw_status check_param_numbers(const struct lw_workload *w, int32_t i, lw_ps backward,
                                          struct lw_err *err)
{
    const struct lw_param *p = LW_PARAM(w, i);

    LW_TRY(at_least(err, "params", i, "numel", p->numel, 0));
    LW_TRY(at_least(err, "params", i, "rows", p->rows, 0));
    if (p->rows > 0 && p->numel % p->rows != 0)
        return bad(err, "params", i, "rows", p->rows, "a divisor of numel");
    LW_TRY(in_range(err, "params", i, "dtype", (int64_t)p->dtype, 0, LW_N_DTYPES));
    LW_TRY(at_least(err, "params", i, "device", p->device, 0));
    LW_TRY(in_range(err, "params", i, "tp_split", (int64_t)p->tp_split, 0, LW_TP_BLOCK));
    LW_TRY(in_range(err, "params", i, "tied", p->tied, -1, i));
    if (p->tied >= 0) {
        const struct lw_param *first = LW_PARAM(w, p->tied);
        if (first->tied >= 0)
            return bad(err, "params", i, "tied", p->tied,
                       "the first parameter of the group, which is tied to none");
        if (first->numel != p->numel || first->dtype != p->dtype)
            return bad(err, "params", i, "tied", p->tied, "a parameter of the same size and dtype");
        if (first->trainable != p->trainable)
            return bad(err, "params", i, "tied", p->tied,
                       "a parameter with the same \"trainable\"");
    }
    if (p->ready_ps < -1 || p->ready_ps > backward)
        return lw_fail(err, LW_EFORMAT,
                       "at params[%d].ready_ns: found %.3f, allowed: 0 to the length of the "
                       "backward, %.3f",
                       i, (double)p->ready_ps / 1e3, (double)backward / 1e3);
    if (p->ready_ps >= 0 && !(p->trainable && p->used))
        return lw_fail(err, LW_EFORMAT,
                       "at params[%d].ready_ns: found %.3f, allowed: none for a parameter without "
                       "a gradient (not trainable or not used)",
                       i, (double)p->ready_ps / 1e3);
    return LW_OK;
}

/* Numbers of parameters of one row are checked once where they follow each other. */
static enum lw_status check_param(const struct lw_workload *w, int32_t i, int64_t *total,
                                  lw_ps backward, struct lw_err *err)
{
    const struct lw_param *p = LW_PARAM(w, i);

    if (i == 0 || !lw_params_are_one_row(w, i - 1, i))
        LW_TRY(check_param_numbers(w, i, backward, err));
    LW_TRY(in_range(err, "params", i, "module", p->module, 0, w->n_modules));
    LW_TRY(check_grad_kernel(w, i, err));
    if (__builtin_add_overflow(*total, p->numel, total) || *total > MOST_SIZE)
        return lw_fail(err, LW_EFORMAT, "at params[%d].numel: all sizes together are beyond 2^59",
                       i);
    return LW_OK;
}

/* Rows are equal parts of a parameter whose gradient is sparse. */
static enum lw_status check_sparse(const struct lw_workload *w, int32_t i, struct lw_err *err)
{
    const struct lw_sparse *x = &w->sparse[i];

    LW_TRY(in_range(err, "sparse", i, "param", x->param, i > 0 ? w->sparse[i - 1].param + 1 : 0,
                    w->n_params));
    const struct lw_param *p = LW_PARAM(w, x->param);
    if (!p->sparse)
        return bad(err, "sparse", i, "param", x->param, "a parameter with \"sparse\": true");
    LW_TRY(at_least(err, "sparse", i, "row_numel", x->row_numel, 1));
    LW_TRY(at_least(err, "sparse", i, "touched_rows", x->touched_rows, 1));
    if (p->numel % x->row_numel != 0)
        return bad(err, "sparse", i, "row_numel", x->row_numel,
                   "a divisor of the parameter's numel");
    if (x->touched_rows > p->numel / x->row_numel)
        return bad(err, "sparse", i, "touched_rows", x->touched_rows,
                   "at most the parameter's numel / row_numel");
    return LW_OK;
}

/* A permutation of the parameters that get a gradient, in the order of their ready times. */
static enum lw_status check_order(const struct lw_workload *w, unsigned char *seen,
                                  struct lw_err *err)
{
    int32_t expected = 0;
    lw_ps last = 0;

    for (int32_t i = 0; i < w->n_params; i++)
        expected += lw_param_has_gradient(LW_PARAM(w, i));
    for (int32_t k = 0; k < w->n_ready; k++) {
        int32_t i = w->ready_order[k];
        if (i < 0 || i >= w->n_params)
            return lw_fail(err, LW_EFORMAT, "at ready_order[%d]: found %d, allowed: 0 to %d", k, i,
                           w->n_params - 1);
        if (seen[i]++)
            return lw_fail(err, LW_EFORMAT, "at ready_order[%d]: found %d (%s) a second time", k, i,
                           lw_param_at(w, i).name);
        if (!lw_param_has_gradient(LW_PARAM(w, i)))
            return lw_fail(err, LW_EFORMAT,
                           "at ready_order[%d]: found %d (%s), which has no gradient of its own "
                           "(not trainable, not used, or tied to another)",
                           k, i, lw_param_at(w, i).name);
        lw_ps t = lw_param_at(w, i).ready_ps;
        if (t >= 0 && t < last)
            return lw_fail(err, LW_EFORMAT,
                           "at ready_order[%d]: parameter %d is ready at %.3f ns, before the one "
                           "before it (%.3f ns)",
                           k, i, (double)t / 1e3, (double)last / 1e3);
        last = t >= 0 ? t : last;
    }
    if (w->n_ready && w->n_ready != expected)
        return lw_fail(err, LW_EFORMAT,
                       "at ready_order: found %d parameters, expected all %d that get a gradient, "
                       "or none",
                       w->n_ready, expected);
    return LW_OK;
}

static enum lw_status check_recorded(const struct lw_recorded *r, struct lw_err *err)
{
    LW_TRY(at_least(err, NULL, 0, "recorded.world_size", r->world_size, 0));
    LW_TRY(at_least(err, NULL, 0, "recorded.step_ns", r->step_ps, -1));
    LW_TRY(at_least(err, NULL, 0, "recorded.step_spread_ns", r->step_spread_ps, -1));
    for (int32_t i = 0; i < r->n_limits; i++)
        LW_TRY(at_least(err, "recorded.limit_bytes", i, "bytes", r->limit_bytes[i], 0));
    for (int32_t i = 0; i < r->n_buckets; i++)
        LW_TRY(at_least(err, "recorded.bucket_bytes", i, "bytes", r->bucket_bytes[i], 0));
    return LW_OK;
}

enum lw_status lw_workload_check(const struct lw_workload *w, struct lw_err *err)
{
    lw_ps sum = 0;
    int64_t total = 0;

    if (w->n_modules < 1)
        return bad(err, NULL, 0, "modules", w->n_modules, "at least 1 module");
    LW_TRY(in_range(err, NULL, 0, "batch", w->batch, 0, MOST_TOKENS));
    LW_TRY(in_range(err, NULL, 0, "sample_tokens", w->sample_tokens, 0,
                    w->batch > 0 ? MOST_TOKENS / w->batch : MOST_TOKENS));
    LW_TRY(at_least(err, NULL, 0, "heads", w->heads, 0));
    LW_TRY(at_least(err, NULL, 0, "kv_heads", w->kv_heads, 0));
    if (w->dims.experts_in_turn && experts_of(w) == 0)
        return bad(err, NULL, 0, "dims.n_experts", 0, "1 or more with experts_in_turn");
    LW_TRY(at_least(err, NULL, 0, "attention_flops", w->attention_flops, 0));
    LW_TRY(at_least(err, NULL, 0, "score_flops", w->score_flops, 0));
    LW_TRY(at_least(err, NULL, 0, "idle_numel", w->idle_numel, 0));
    LW_TRY(at_least(err, NULL, 0, "optimizer_ns", w->optimizer_ps, 0));
    LW_TRY(add_time(err, &sum, w->optimizer_ps));
    LW_TRY(at_least(err, NULL, 0, "gradients_ns", w->gradients_ps, 0));
    LW_TRY(add_time(err, &sum, w->gradients_ps));
    for (int g = 0; g < LW_N_GAPS; g++) {
        LW_TRY(at_least(err, "gaps", g, "ns", w->gap_ps[g], 0));
        LW_TRY(add_time(err, &sum, w->gap_ps[g]));
    }
    for (int32_t i = 0; i < w->n_products; i++)
        LW_TRY(lw_product_check(&w->products[i], i, err));
    LW_TRY(check_ops(w, err));
    for (int32_t i = 0; i < w->n_modules; i++)
        LW_TRY(check_module(w, i, &sum, err));
    LW_TRY(check_total_bytes(w, err));
    LW_TRY(check_kernels(w, err));
    LW_TRY(in_range(err, NULL, 0, "update_bytes", w->step_traffic.update, 0, MOST_STEP_BYTES));
    LW_TRY(in_range(err, NULL, 0, "held_bytes", w->step_traffic.held, 0, MOST_STEP_BYTES));
    LW_TRY(in_range(err, NULL, 0, "host_bytes", w->step_traffic.host, 0, MOST_STEP_BYTES));
    LW_TRY(in_range(err, NULL, 0, "state_bytes", w->state_bytes, 0, MOST_STATE_BYTES));
    lw_ps backward = lw_workload_backward_ps(w);
    for (int32_t i = 0; i < w->n_params; i++)
        LW_TRY(check_param(w, i, &total, backward, err));
    for (int32_t i = 0; i < w->n_sparse; i++)
        LW_TRY(check_sparse(w, i, err));
    for (int32_t i = 0; i < w->n_buffers; i++) {
        LW_TRY(at_least(err, "buffers", i, "numel", w->buffers[i].numel, 0));
        LW_TRY(in_range(err, "buffers", i, "dtype", (int64_t)w->buffers[i].dtype, 0, LW_N_DTYPES));
        if (__builtin_add_overflow(total, w->buffers[i].numel, &total) || total > MOST_SIZE)
            return bad(err, "buffers", i, "numel", w->buffers[i].numel, "below 2^59 in all");
    }
    LW_TRY(check_recorded(&w->recorded, err));
    unsigned char *seen = lw_calloc((size_t)w->n_params, 1);
    if (!seen)
        return lw_fail_nomem(err);
    enum lw_status s = check_order(w, seen, err);
    lw_free(seen);
    return s;
}

enum lw_dtype lw_workload_main_dtype(const struct lw_workload *w)
{
    int64_t n[LW_N_DTYPES] = {0};

    for (int32_t i = 0; i < w->n_params; i++)
        n[lw_param_at(w, i).dtype] += lw_param_at(w, i).numel;
    return lw_dtype_of_most(n);
}

bool lw_products_fit(const struct lw_workload *w, const struct lw_strategy *s)
{
    return w->n_products > 0 && lw_group_size(w->timed_for.tp) == s->tp &&
           lw_group_size(w->timed_for.cp) == s->cp;
}

bool lw_workload_selects_nothing(const struct lw_workload *w)
{
    for (int32_t m = 0; m < w->n_modules; m++) {
        const int64_t *kept = lw_module_at(w, m)->kept_bytes;
        if (lw_module_at(w, m)->selective_ps > 0 ||
            kept[LW_RECOMPUTE_SELECTIVE] != kept[LW_RECOMPUTE_NONE])
            return false;
    }
    return true;
}
