/* Models as tables name them -> sizes and workloads. */
#include "analysis/published/run_model.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analysis/published/run_figures.h"
#include "analysis/published/run_framework.h"
#include "sim/cost/cost_model.h"
#include "traces/models/models.h"

/* By the letters and digits of a name, in lower case; the first row that its beginning has. */
static const struct {
    const char *start, *model, *family;
} names[] = {
    {"llama270b", "llama-2-70b", "llama"},      {"llama27b", "llama-2-7b", "llama"},
    {"llama213b", "llama-2-13b", "llama"},      {"llama38b", "llama-3-8b", "llama"},
    {"llama318b", "llama-3-8b", "llama"},       {"llama370b", "llama-3-70b", "llama"},
    {"llama3170b", "llama-3-70b", "llama"},     {"llama3405b", "llama-3-405b", "llama"},
    {"llama31405b", "llama-3-405b", "llama"},   {"gpt3175b", "gpt-175b", "gpt"},
    {"gpt175b", "gpt-175b", "gpt"},             {"gpt35b", "gpt-5b", "gpt"},
    {"gpt5b", "gpt-5b", "gpt"},                 {"gpt126m", "gpt-125m", "gpt"},
    {"deepseekv2", "deepseek-v2", "llama"},     {"deepseekv3", "deepseek-v3", "llama"},
    {"kimik2", "kimi-k2", "llama"},             {"grok1", "grok-1", "llama"},
    {"mixtral8x7b", "mixtral-8x7b", "llama"},   {"mixtral8x22b", "mixtral-8x22b", "llama"},
    {"qwen330b", "qwen3-30b-a3b", "llama"},     {"qwen3moe30b", "qwen3-30b-a3b", "llama"},
    {"qwen3235b", "qwen3-235b-a22b", "llama"},  {"qwen38b", "qwen3-8b", "llama"},
    {"gptoss120b", "gpt-oss-120b", "llama"},    {"llama4scout", "llama-4-scout", "llama"},
    {"llama4maverick", "llama-4-maverick", "llama"},
    {"nemotron415b", "nemotron-4-15b", "llama"}, {"nemotron4340b", "nemotron-4-340b", "llama"},
    {"nemotron15b", "nemotron-4-15b", "llama"}, {"nemotron340b", "nemotron-4-340b", "llama"},
    {"nemotron22b", "nemotron-3-22b", "llama"}, {"qwen2532b", "qwen-2.5-32b", "llama"},
    {"llama323b", "llama-3.2-3b", "llama"},     {"internlm7b", "internlm-7b", "llama"},
    {"internlm20b", "internlm-20b", "llama"},
};

static void letters(const char *text, char *out, size_t size)
{
    size_t n = 0;

    for (; *text && n + 1 < size; text++)
        if (isalnum((unsigned char)*text))
            out[n++] = (char)tolower((unsigned char)*text);
    out[n] = '\0';
}

static void take(int64_t *field, int64_t v)
{
    *field = *field > 0 ? *field : v;
}

/* Layers of a row that its chunks do not divide, though those of the model that it names do. */
static bool contradicts(const struct lw_run *r, const struct traces_model *m)
{
    int64_t chunks = (r->pp > 0 ? r->pp : 1) * (r->pp > 1 && r->vpp > 0 ? r->vpp : 1);

    return r->layers > 0 && r->layers % chunks != 0 && m->defaults.layers % chunks == 0;
}

static const struct traces_model *model_named(const char *model)
{
    const struct traces_model *m;
    int i = 0;

    while ((m = traces_model_at(i)) != NULL && strcmp(m->name, model) != 0)
        i++;
    return m;
}

/* The transformer whose name in `lapwing model --list` has these letters and digits. */
static const struct traces_model *model_of_letters(const char *name)
{
    const struct traces_model *m;
    char own[64];

    for (int i = 0; (m = traces_model_at(i)) != NULL; i++) {
        letters(m->name, own, sizeof own);
        if (strcmp(own, name) == 0 && m->defaults.hidden > 0)
            return m;
    }
    return NULL;
}

/* The model that a row names; *family is set where its row of names[] gives it. A name of the list
 * counts only where the row gives no sizes, for tables use such words for other sizes. */
static const struct traces_model *model_of(const struct lw_run *r, const char **family)
{
    char name[64];

    letters(r->model, name, sizeof name);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strncmp(name, names[k].start, strlen(names[k].start)) == 0) {
            *family = names[k].family;
            return model_named(names[k].model);
        }
    return r->layers == 0 && r->hidden == 0 ? model_of_letters(name) : NULL;
}

/* *named: the model is known, and fills what the run does not say. Its family holds, whatever most
 * rows of the table have. */
static enum lw_status take_named(struct lw_run *r, bool *named, struct lw_err *err)
{
    const char *family = "";
    const struct traces_model *m = model_of(r, &family);

    *named = m != NULL;
    if (!m)
        return LW_OK;
    if (contradicts(r, m))
        return lw_fail(err, LW_ENOTSUP, "the layers do not divide into pp * vpp chunks, though "
                                        "those of the model that the row names do");
    r->base = m->name;
    r->tied = m->defaults.tied ? "True" : r->tied;
    take(&r->layers, m->defaults.layers);
    take(&r->hidden, m->defaults.hidden);
    take(&r->heads, m->defaults.heads);
    take(&r->kv_heads, m->defaults.kv_heads);
    take(&r->ffn, m->defaults.ffn);
    take(&r->vocab, m->defaults.vocab);
    take(&r->seq, m->defaults.seq);
    r->family = *family ? family : r->family;
    return LW_OK;
}

static const struct {
    const char *word, *family;
} families[] = {
    {"llama", "llama"}, {"internlm", "llama"}, {"mpt", "mpt"}, {"gpt", "gpt"}, {"bloom", "gpt"},
    {"bert", "bert"},
};

enum lw_status lw_run_shape(struct lw_run *r, struct lw_err *err)
{
    bool named;

    LW_TRY(take_named(r, &named, err));
    for (size_t k = 0; !*r->family && k < sizeof families / sizeof *families; k++)
        if (strcasestr(r->model, families[k].word))
            r->family = families[k].family;
    if (!named && (r->layers == 0 || r->hidden == 0))
        return *r->model ? lw_fail(err, LW_ENOTSUP, "the sizes of the model (%.40s) are not known",
                                   r->model)
                         : lw_fail(err, LW_ENOTSUP, "the row names no model, and no sizes of one");
    if (!*r->family)
        return lw_fail(err, LW_ENOTSUP, "the model's family (%.40s) is not known", r->model);
    if (r->heads == 0)
        return lw_fail(err, LW_ENOTSUP, "the number of heads is not given");
    if (r->seq == 0)
        return lw_fail(err, LW_ENOTSUP, "the sequence length is not given");
    take(&r->kv_heads, r->heads);
    take(&r->vocab, 51200);
    return LW_OK;
}

bool lw_run_is_8bit(const struct lw_run *r)
{
    return strcasestr(r->precision, "fp8") || strcasestr(r->precision, "float8");
}

struct precision {
    const char *name;
    enum lw_dtype dtype;
    bool fp8;
};

static enum lw_status precision_of(const struct lw_run *r, struct precision *p, struct lw_err *err)
{
    if (!*r->precision)
        return lw_fail(err, LW_ENOTSUP, "the precision is not given");
    if (strcasestr(r->precision, "fp4"))
        return lw_fail(err, LW_ENOTSUP, "4-bit products are not modelled");
    bool half = strcasestr(r->precision, "fp16") != NULL;
    p->name = half ? "f16" : "bf16";
    p->dtype = half ? LW_F16 : LW_BF16;
    p->fp8 = lw_run_is_8bit(r);
    return LW_OK;
}

static lw_ps us(double v)
{
    return (lw_ps)(v * 1e6);
}

/* The device's time of a gather of a block's input over the tensor group. It runs beside the host's
 * launches. Without stages and between nodes both take their time, as the sweep on the playbook's
 * cluster has it. */
static lw_ps collective_time(const struct lw_run *r, const struct lw_cluster *c)
{
    struct lw_cost cost = lw_sim_cost(c);
    int64_t per_node = cost.ranks_per_node > 0 ? cost.ranks_per_node : r->tp;
    struct lw_cost_query q = {
        .op = LW_OP_ALL_GATHER,
        .dtype = LW_BF16,
        .bytes = lw_dtype_size(LW_BF16) * r->mbs * r->seq * r->hidden / r->cp,
        .n_ranks = (int32_t)r->tp,
        .n_nodes = (int32_t)((r->tp + per_node - 1) / per_node),
    };
    lw_ps t = cost.time(cost.ctx, &q);

    return t > 0 ? t : 0;
}

static void take_framework(const struct lw_run *r, const struct lw_cluster *c,
                           struct traces_model_shape *s)
{
    const struct lw_run_framework *f = lw_run_framework_of(r);
    bool stages = r->pp > 1 && r->gpus > r->gpus_per_node;

    s->host_op_ps = us(lw_run_figure(r, LW_RUN_HOST_OP, 0));
    s->host_waits = f->launch_blocking;
    s->traffic = lw_run_figure(r, LW_RUN_TRAFFIC, 0);
    s->memory_op_ps = us(lw_run_figure(r, LW_RUN_MEMORY_OP, 0));
    if (stages)
        s->host_collective_ps = us(lw_run_figure(r, LW_RUN_HOST_TENSOR_STAGE, 0) * (double)r->tp);
    else if (r->tp > r->gpus_per_node)
        s->host_collective_ps = us(lw_run_figure(r, LW_RUN_HOST_TENSOR, 0) * (double)r->tp);
    if (s->host_collective_ps > 0 && (stages || r->tp <= r->gpus_per_node))
        s->collective_ps = collective_time(r, c);
    bool compiled = strstr(r->compile, "yes") || lw_run_takes(r, "compile");
    s->unfused = compiled ? 0 : f->unfused;
    s->fused_sums = f->fused_sums && strcmp(lw_run_gradients(r), "f32") == 0;
    s->step = f->step & ~(r->dp * r->cp == 1 ? (unsigned)TRACES_STEP_SCALE : 0U);
    s->grad_item = strcmp(lw_run_gradients(r), "f32") == 0 ? lw_dtype_size(LW_F32) : 0;
    s->kept = f->kept | (compiled ? TRACES_KEPT_FUSED_GATE : 0);
    s->kept |= lw_run_takes(r, "chunked") ? TRACES_KEPT_CHUNKED_LOSS : 0;
    if (!strstr(r->recompute, "op"))
        s->kept &= ~(unsigned)TRACES_KEPT_ALTERNATE;
    if (s->lora == 0)
        s->kept &= ~(unsigned)TRACES_KEPT_GATE_8BIT;
}

/* Of the fused kernel against the device's own figure. Triton 0.325, FlashAttention-2 0.655 of
 * the peak, both on A100; cuDNN 0.598, FlashAttention-2 0.387 on H100
 * (Dao-AILab/flash-attention@0251105a, figures): frameworks on TransformerEngine call cuDNN on
 * Hopper. */
static double attention_speed(const struct lw_run *r)
{
    bool hopper = strcasestr(r->gpu, "H100") || strcasestr(r->gpu, "H200");
    bool engine = strcasestr(r->framework, "megatron") || strcasestr(r->framework, "nemo");

    if (strstr(r->attention, "triton"))
        return 0.5;
    return hopper && engine ? 1.55 : 1;
}

const char *lw_run_gradients(const struct lw_run *r)
{
    if (strstr(r->precision, "fp32 grad"))
        return "f32";
    return !*r->grad_dtype && lw_run_framework_of(r)->shards_optimizer ? "bf16" : r->grad_dtype;
}

bool lw_run_is_yes(const char *text)
{
    return strncasecmp(text, "yes", 3) == 0 || strncasecmp(text, "true", 4) == 0 || *text == '1' ||
           strncmp(text, "TP mode", 7) == 0;
}

/* Megatron pads the vocabulary to whole multiples of 128 for each rank of a tensor group
 * (Narayanan et al., SC'21, section 5: 51,200 for 50,257 at 8). */
static int64_t padded_vocab(const struct lw_run *r)
{
    int64_t whole = 128 * r->tp;

    if (!strcasestr(r->framework, "megatron") && !strcasestr(r->framework, "nemo"))
        return r->vocab;
    return (r->vocab + whole - 1) / whole * whole;
}

/* DeepSeek-V3 predicts one more token; Megatron-Bridge's tables say where it does not. */
static int64_t n_mtp(const struct lw_run *r)
{
    bool trained = r->base && strcmp(r->base, "deepseek-v3") == 0 &&
                   strstr(r->framework, "Megatron-Bridge");

    return trained && !strstr(r->moe, "w/o MTP");
}

static enum lw_status capacity_of(const struct lw_run *r, double *out, struct lw_err *err)
{
    char *end;

    *out = strtod(r->expert_capacity, &end);
    return *end ? lw_fail(err, LW_ENOTSUP, "expert_capacity: '%.40s' is not a number",
                          r->expert_capacity)
                : LW_OK;
}

enum { LORA_RANK = 16 }; /* MLPerf Training rules, llama2_70b_lora: rank 16 */

/* with_host: kernels wait for their host. */
static enum lw_status workload_of(const struct lw_run *r, const struct lw_cluster *c,
                                  bool with_host, struct lw_workload *w, enum lw_dtype *dtype,
                                  struct lw_err *err)
{
    const struct lw_device *device = &c->device;
    bool llama = strcmp(r->family, "llama") == 0;
    struct precision p = {.dtype = LW_BF16};
    struct traces_model_shape s = {
        .batch = r->mbs,
        .layers = r->layers,
        .hidden = r->hidden,
        .heads = r->heads,
        .kv_heads = llama ? r->kv_heads : 0,
        .ffn = r->ffn,
        .seq = r->seq,
        .vocab = padded_vocab(r),
        .attention =
            strstr(r->attention, "full") || strcmp(r->attention, "no") == 0 ? "full" : "flash",
        .tensor = r->tp,
        .tied = strcmp(r->tied, "True") == 0,
        .experts = r->experts,
        .topk = r->topk,
        .expert_ffn = r->moe_ffn,
        .shared_ffn = r->shared_ffn,
        .dense_layers = r->dense_layers,
        .mtp_layers = n_mtp(r),
        .expert_ranks = r->ep,
        .expert_whole = r->etp < r->tp,
        .context = r->cp,
        .lora = strstr(r->task, "LoRA") || strstr(r->model, "LoRA") ? LORA_RANK : 0,
        .sequence_parallel = r->tp > 1 && lw_run_is_yes(r->seq_parallel),
        .tp_overlap = lw_run_tp_overlap(r),
        .attention_speed = attention_speed(r),
    };

    LW_TRY(precision_of(r, &p, err));
    LW_TRY(capacity_of(r, &s.expert_capacity, err));
    if (p.fp8 && !lw_figure_is_set(device->fp8_speedup))
        return lw_fail(err, LW_ENOTSUP, "the device has no 8-bit products");
    s.dtype = p.name;
    s.fp8 = p.fp8;
    take_framework(r, c, &s);
    if (!with_host)
        s.host_op_ps = s.host_collective_ps = 0;
    *dtype = p.dtype;
    const char *of_family = llama ? "decoder" : strcmp(r->family, "bert") == 0 ? "bert-large"
                                                                                : "gpt-13b";
    return traces_model_build(r->base ? r->base : of_family, &s, device, w, err);
}

enum lw_status lw_run_workload(const struct lw_run *r, const struct lw_cluster *c,
                               struct lw_workload *w, enum lw_dtype *dtype, struct lw_err *err)
{
    return workload_of(r, c, true, w, dtype, err);
}

static double time_of(const struct lw_workload *w)
{
    return (double)(lw_workload_forward_ps(w) + lw_workload_backward_ps(w));
}

enum lw_status lw_run_device_share(const struct lw_run *r, const struct lw_cluster *c,
                                   const struct lw_workload *w, double *share, struct lw_err *err)
{
    struct lw_workload alone;
    enum lw_dtype dtype;

    *share = 1;
    if (!lw_run_framework_of(r)->runs_ahead || r->pp == 1) /* no figure depends on it */
        return LW_OK;
    LW_TRY(workload_of(r, c, false, &alone, &dtype, err));
    *share = time_of(w) > 0 ? time_of(&alone) / time_of(w) : 1;
    lw_workload_free(&alone);
    return LW_OK;
}
