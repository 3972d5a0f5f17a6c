/* A row of a table of measured runs -> the options of `lapwing sim`.
 *
 * Only the row's cells and the settings of its table decide (run_tables.c): the model and its
 * sizes, the groups, the batch, what the row says of ZeRO, recomputation and overlap. What the
 * framework does beside is the framework's (shared/framework). What this build cannot express is
 * refused with a reason that has no figure of the row, so that reasons can be counted. */
#include "analysis/published/run_options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "analysis/published/run_machine.h"
#include "analysis/published/run_model.h"
#include "traces/models/models.h"

static bool has(const char *text, const char *word)
{
    return strstr(text, word) != NULL;
}

/* --- framework -------------------------------------------------------------------------------- */

/* The first row whose words the cell of the framework contains, and for which the row is compiled
 * where `compiled`, decides. torchtune (pytorch/torchtune@bd2a0fc7, README.md): each row of its
 * table has the options of those before it too, and chunked cross entropy comes after compile. */
static const struct {
    const char *cell, *options;
    bool compiled;
    const char *name;
} frameworks[] = {
    {"nanotron", "", false, "nanotron"},
    {"MLPerf", "", false, "megatron-mlperf"},
    {"AutoModel", "", false, "nemo-automodel"},
    {"NeMo", "", false, "nemo"},
    {"Megatron-Bridge", "", false, "megatron-bridge"},
    {"MaxText", "", false, "maxtext"},
    {"Paxml", "", false, "paxml"},
    {"Megatron-DeepSpeed without ZeRO", "", false, "megatron-deepspeed-no-zero"},
    {"Megatron-DeepSpeed", "", false, "megatron-deepspeed"},
    {"DeepSpeed", "", false, "deepspeed"},
    {"Megatron-LM 2021", "", false, "megatron-lm-2021"},
    {"Megatron-LM 2022", "", false, "megatron-lm-2022"},
    {"Megatron-LM 23e00ed", "", false, "megatron-lm-23e00ed"},
    {"(SimuMax scripts)", "", false, "megatron-lm-simumax"},
    {"Megatron", "", false, "megatron-lm"},
    {"InternEvo", "", false, "internevo"},
    {"torchtitan", "", true, "torchtitan-compile"},
    {"torchtitan", "", false, "torchtitan"},
    {"FSDP", "", true, "fsdp-compile"},
    {"FSDP", "", false, "fsdp"},
    {"torchtune", "optimizer in backward", false, "torchtune-optimizer-in-backward"},
    {"torchtune", "8-bit", false, "torchtune-optimizer-in-backward"},
    {"torchtune", "chunked", false, "torchtune-chunked"},
    {"torchtune", "", false, "torchtune"},
    {"OneFlow", "", false, "oneflow"},
    {"Composer", "", false, "composer"},
};

const char *lw_run_framework(const struct lw_run *r)
{
    bool compiled = has(r->compile, "yes");

    for (size_t k = 0; k < sizeof frameworks / sizeof *frameworks; k++)
        if (has(r->framework, frameworks[k].cell) && has(r->options, frameworks[k].options) &&
            (compiled || !frameworks[k].compiled))
            return frameworks[k].name;
    return "torch";
}

static bool is_framework(const struct lw_run *r, const char *name)
{
    return strcmp(lw_run_framework(r), name) == 0;
}

/* --- sizes ------------------------------------------------------------------------------------ */

static int64_t at_least_1(int64_t v)
{
    return v > 0 ? v : 1;
}

/* Tensor groups fill a node before there are stages (Narayanan et al., SC'21, section 3.1). */
static enum lw_status split_model(struct lw_run *r, struct lw_err *err)
{
    int64_t node = at_least_1(r->gpus_per_node);

    if (r->model_parallel <= 1 || r->tp > 0 || r->pp > 0)
        return LW_OK;
    r->tp = r->model_parallel < node ? r->model_parallel : node;
    r->pp = r->model_parallel / r->tp;
    if (r->model_parallel % r->tp != 0)
        return lw_fail(err, LW_ENOTSUP, "model-parallel ranks are not a multiple of a node's");
    return LW_OK;
}

/* Megatron splits each expert over the tensor group unless --expert-tensor-parallel-size says
 * otherwise; experts that data and context ranks are too few for are shared by the tensor group.
 * ep is then of those ranks alone, as in a plan. */
static enum lw_status complete_experts(struct lw_run *r, struct lw_err *err)
{
    int64_t ranks = r->dp * r->cp;

    if (r->etp == 0)
        r->etp = r->ep > ranks ? 1 : r->tp;
    if (r->etp != 1 && r->etp != r->tp)
        return lw_fail(err, LW_ENOTSUP, "the expert tensor group has a size other than 1 or tp");
    if (r->etp < r->tp) {
        if (r->ep % r->tp != 0)
            return lw_fail(err, LW_ENOTSUP, "expert ranks are not a multiple of the tensor group");
        r->ep /= r->tp;
    }
    if (ranks % r->ep != 0)
        return lw_fail(err, LW_ENOTSUP, "expert ranks do not divide data and context ranks");
    return LW_OK;
}

/* Megatron refuses chunks that do not divide a stage's layers (megatron/training/arguments.py):
 * the next number that does. */
static int64_t chunks_of(const struct lw_run *r)
{
    int64_t chunks = at_least_1(r->vpp);

    if (!has(r->framework, "Megatron") || r->layers % r->pp != 0 || chunks > r->layers / r->pp)
        return chunks;
    while (r->layers % (r->pp * chunks) != 0)
        chunks++;
    return chunks;
}

static enum lw_status complete_world(struct lw_run *r, struct lw_err *err)
{
    LW_TRY(split_model(r, err));
    r->cp = at_least_1(r->cp);
    r->tp = at_least_1(r->tp);
    r->pp = at_least_1(r->pp);
    r->ep = at_least_1(r->ep);
    r->vpp = r->pp > 1 ? chunks_of(r) : 1;
    int64_t inner = r->cp * r->tp * r->pp;
    if (r->gpus == 0)
        r->gpus = at_least_1(r->dp) * inner;
    if (r->gpus % inner != 0)
        return lw_fail(err, LW_ENOTSUP, "devices are not a multiple of tp * pp * cp");
    r->dp = r->gpus / inner;
    return complete_experts(r, err);
}

/* Of samples, micro-batch and number of micro-batches two give the third; where all are there the
 * micro-batches are what ran. */
static enum lw_status complete_batch(struct lw_run *r, struct lw_err *err)
{
    if (r->gbs == 0 && r->batch_per_dp > 0)
        r->gbs = r->batch_per_dp * r->dp;
    if (r->mbs == 0 && r->gbs > 0 && r->micro_batches > 0)
        r->mbs = r->gbs / (r->micro_batches * r->dp);
    if (r->mbs == 0)
        return lw_fail(err, LW_ENOTSUP, "the micro-batch is not given");
    if (r->gbs > 0 && r->micro_batches > 0 && r->gbs != r->mbs * r->dp * r->micro_batches)
        return lw_fail(err, LW_ENOTSUP,
                       "the global batch is not micro-batch * micro-batches * data-parallel ranks");
    if (r->micro_batches > 0)
        r->gbs = r->mbs * r->dp * r->micro_batches;
    if (r->gbs == 0)
        return lw_fail(err, LW_ENOTSUP, "the global batch is not given");
    if (r->gbs % (r->mbs * r->dp) != 0)
        return lw_fail(err, LW_ENOTSUP, "the global batch does not divide into micro-batches");
    r->micro_batches = r->gbs / (r->mbs * r->dp);
    return LW_OK;
}

/* --- strategy --------------------------------------------------------------------------------- */

/* -1: the row does not say. */
static int64_t zero_of(const struct lw_run *r)
{
    if (has(r->zero, "GRAD_OP") || has(r->zero, "ZeRO-2"))
        return 2;
    if (has(r->zero, "ZeRO-1") || (r->zero[0] == '1' && (!r->zero[1] || r->zero[1] == ',')))
        return 1;
    if ((has(r->zero, "FSDP") && !has(r->zero, "FSDP=0")) || has(r->zero, "ZeRO-3"))
        return 3;
    if (has(r->dist_optimizer, "yes") || has(r->dist_optimizer, "True") ||
        has(r->zero, "distributed optimizer"))
        return 1;
    return -1;
}

/* --- options ---------------------------------------------------------------------------------- */

static void put(struct lw_run_options *o, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void put(struct lw_run_options *o, const char *name, const char *fmt, ...)
{
    struct lw_run_option *x = &o->options[o->n++];
    va_list ap;

    x->name = name;
    x->is_flag = false;
    va_start(ap, fmt);
    vsnprintf(x->value, sizeof x->value, fmt, ap);
    va_end(ap);
}

static void put_flag(struct lw_run_options *o, const char *name, bool on)
{
    if (!on)
        return;
    put(o, name, "on");
    o->options[o->n - 1].is_flag = true;
}

/* A size that is the base model's own is not repeated. */
static void put_size(struct lw_run_options *o, const char *name, int64_t size, int64_t own)
{
    if (size > 0 && size != own)
        put(o, name, "%lld", (long long)size);
}

static const struct traces_model_shape *own_sizes(const char *model)
{
    static const struct traces_model_shape none;
    const struct traces_model *m;

    for (int k = 0; (m = traces_model_at(k)) != NULL; k++)
        if (strcmp(m->name, model) == 0)
            return &m->defaults;
    return &none;
}

enum { LORA_RANK = 16 }; /* MLPerf Training rules, llama2_70b_lora: rank 16 */

static enum lw_status put_model(const struct lw_run *r, struct lw_run_options *o,
                                struct lw_err *err)
{
    bool llama = strcmp(r->family, "llama") == 0;
    const char *family = llama ? "decoder" : strcmp(r->family, "bert") == 0 ? "bert-large"
                                                                          : "gpt-13b";
    const char *model = r->base ? r->base : family;
    const struct traces_model_shape *own = own_sizes(model);
    bool whole = strstr(r->attention, "full") || strcmp(r->attention, "no") == 0;
    const char *dtype;
    bool fp8;

    LW_TRY(lw_run_precision(r, &dtype, &fp8, err));
    put(o, "workload", "%s", model);
    put_size(o, "layers", r->layers, own->layers);
    put_size(o, "hidden", r->hidden, own->hidden);
    put_size(o, "heads", r->heads, own->heads);
    put_size(o, "kv-heads", llama ? r->kv_heads : 0, own->kv_heads);
    put_size(o, "ffn", r->ffn, own->ffn);
    put_size(o, "seq", r->seq, own->seq);
    put_size(o, "vocab", r->vocab, own->vocab);
    put_size(o, "experts", r->experts, own->experts);
    put_size(o, "topk", r->topk, own->topk);
    put_size(o, "expert-ffn", r->moe_ffn, own->expert_ffn);
    put_size(o, "shared-ffn", r->shared_ffn, own->shared_ffn);
    put_size(o, "dense-layers", r->dense_layers, own->dense_layers);
    put_size(o, "mtp-layers", lw_run_mtp_layers(r), 0);
    put_flag(o, "tied", strcmp(r->tied, "True") == 0 && !own->tied);
    put_size(o, "lora", strstr(r->task, "LoRA") || strstr(r->model, "LoRA") ? LORA_RANK : 0, 0);
    put_flag(o, "whole-experts", r->etp < r->tp);
    put(o, "dtype", "%s", dtype);
    put_flag(o, "fp8", fp8);
    put(o, "attention", "%s", whole ? "full" : "flash");
    put(o, "batch", "%lld", (long long)r->mbs);
    if (*r->expert_capacity)
        put(o, "expert-capacity", "%.40s", r->expert_capacity);
    return LW_OK;
}

static void put_machine(const struct lw_run *r, struct lw_run_options *o)
{
    put(o, "cluster", "%s", lw_run_cluster(r));
    if (lw_run_node_gbps(r) > 0)
        put(o, "node-gbps", "%.15g", lw_run_node_gbps(r));
    put(o, "framework", "%s", lw_run_framework(r));
}

static void put_count(struct lw_run_options *o, const char *name, int64_t n)
{
    put_size(o, name, n, 1);
}

/* Cells of "TP comm overlap True" (NVIDIA's MLPerf scripts), "async TP" (torchtitan) or "no TP"
 * (SimuMax's); NULL: the framework's usual way. */
static const char *tp_overlap_of(const struct lw_run *r)
{
    static const struct {
        const char *cell, *overlap;
    } cells[] = {
        {"no TP", "off"},
        {"TP comm overlap False", "backward"},
        {"TP comm overlap 0", "backward"},
        {"TP comm overlap", "pieces"},
        {"async TP", "pieces"},
    };

    for (size_t k = 0; r->tp > 1 && k < sizeof cells / sizeof *cells; k++)
        if (strstr(r->overlap, cells[k].cell))
            return cells[k].overlap;
    return NULL;
}

/* "selective layer" is a share of the blocks that no table gives: nothing. */
static const char *recompute_of(const struct lw_run *r)
{
    if (has(r->recompute, "full"))
        return "full";
    bool selective = has(r->recompute, "selective") || has(r->recompute, "core_attn");
    return selective && !has(r->recompute, "layer") ? "selective" : "none";
}

/* The row's own word, else nothing: the framework's usual type. */
static const char *grad_dtype_of(const struct lw_run *r)
{
    return strstr(r->precision, "fp32 grad") ? "f32" : r->grad_dtype;
}

/* nanotron without ZeRO has torch's DDP, which reduces beside the last backward (trainer.py,
 * make_ddp), whatever the table says of its own sums. */
static bool overlaps(const struct lw_run *r, int64_t zero)
{
    bool ddp = zero <= 0 && is_framework(r, "nanotron");

    return zero == 3 || (r->dp > 1 && (ddp || !has(r->overlap, "no")));
}

/* Cells of "yes (overlap-param-gather)" or "DP grad-reduce and param-gather" (Megatron-LM's). */
static bool gathers_ahead(const struct lw_run *r)
{
    return strstr(r->dist_optimizer, "param-gather") || strstr(r->overlap, "param-gather");
}

static void put_strategy(const struct lw_run *r, struct lw_run_options *o)
{
    int64_t zero = zero_of(r);
    const char *overlap = tp_overlap_of(r), *grads = grad_dtype_of(r);

    put_count(o, "dp", r->dp);
    put_count(o, "pp", r->pp);
    put_count(o, "tp", r->tp);
    put_count(o, "cp", r->cp);
    put_count(o, "ep", r->ep);
    put_count(o, "chunks", r->vpp);
    put_count(o, "micro-batches", r->micro_batches);
    if (r->vpp > 1)
        put(o, "schedule", "interleaved-1f1b");
    if (r->tp > 1)
        put(o, "sequence-parallel", "%s", lw_run_is_yes(r->seq_parallel) ? "on" : "off");
    if (overlap)
        put(o, "tp-overlap", "%s", overlap);
    if (zero >= 0)
        put(o, "zero", "%lld", (long long)zero);
    if (has(r->zero, "kept"))
        put(o, "reshard", "off");
    if (!overlaps(r, zero))
        put(o, "overlap", "off");
    if (gathers_ahead(r) && (zero == 1 || zero == 2))
        put(o, "overlap-param-gather", "on");
    if (*r->recompute)
        put(o, "recompute", "%s", recompute_of(r));
    if (*grads)
        put(o, "grad-dtype", "%s", grads);
}

static enum lw_status expressible(const struct lw_run *r, struct lw_err *err)
{
    /* pytorch/torchtune@bd2a0fc7: 8-bit AdamW comes after offloaded activations */
    bool offloads = is_framework(r, "torchtune-optimizer-in-backward") && has(r->options, "8-bit");

    if (has(r->offload, "CPU") || has(r->offload, "True") || offloads)
        return lw_fail(err, LW_ENOTSUP, "offload to the host is not modelled");
    if (!lw_run_cluster(r))
        return lw_fail(err, LW_ENOTSUP, "no known system has the device (%.60s)",
                       *r->gpu ? r->gpu : "not given");
    return LW_OK;
}

enum lw_status lw_run_express(struct lw_run *r, struct lw_run_options *out, struct lw_err *err)
{
    out->n = 0;
    LW_TRY(lw_run_shape(r, err));
    LW_TRY(complete_world(r, err));
    LW_TRY(complete_batch(r, err));
    LW_TRY(expressible(r, err));
    LW_TRY(put_model(r, out, err));
    put_machine(r, out);
    put_strategy(r, out);
    return LW_OK;
}
