/* Hybrids of attention and state spaces: a pattern of letters says what each layer is, and a layer
 * is a norm, one mixer and the residual: M a Mamba-2 mixer (models_ssm.c), * attention without
 * rotation or positions, - two products with the squared ReLU between them, E experts of two
 * products (models_experts.c), which may see a latent vector of the token. Each layer is a module,
 * so a pipeline divides layers by their number, as Megatron-LM does.
 *
 * Names and order of registration are those of NemotronHForCausalLM (huggingface/transformers@
 * 008d9e95, src/transformers/models/nemotron_h/modeling_nemotron_h.py; "backbone" as in the
 * published weights), but for gate.weight, which stands before the experts here. Layers for further
 * tokens (--mtp-layers) are passes over one attention and one layer of experts with the same
 * parameters (NVIDIA-NeMo/Megatron-Bridge@1c926433, src/megatron/bridge/recipes/nemotronh/
 * nemotron_3_super.py: mtp_use_repeated_layer), each with the head's product and a loss. There the
 * squared ReLU of experts and the weight of a copy are one kernel
 * (use_fused_weighted_squared_relu), so nothing is kept between them.
 *
 * Sizes. NVIDIA-NeMo/Megatron-Bridge@160ccccb, src/megatron/bridge/models/nemotronh/
 * nemotron_h_provider.py (Nemotron-H, Nano v2, Nemotron 3 Nano and Super); NVIDIA/Megatron-LM@
 * 453761c5, examples/post_training/modelopt/conf/nvidia/
 * NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16.sh. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "traces/models/models_ssm.h"

enum { PARAMS_PER_LAYER = 14, NAME = 48 };

struct layer {
    struct transformer *t;
    char name[NAME];
    bool registers; /* its parameters: not of a repetition */
};

static void add_param(const struct layer *l, int32_t kernel, int64_t rows, int64_t columns,
                      enum lw_tp_split split, const char *name)
{
    if (l->registers)
        traces_builder_param(&l->t->b, kernel, rows, columns, split, "%s.%s", l->name, name);
    else
        traces_builder_last(&l->t->b)->reused_numel += rows * columns;
}

static void add_norm(const struct layer *l, int32_t kernel, const char *name)
{
    char bias[NAME], weight[NAME];

    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    add_param(l, kernel, l->t->hidden, 1, LW_TP_REPLICATED, weight);
    if (l->t->b.shape.layer_norm)
        add_param(l, kernel, l->t->hidden, 1, LW_TP_REPLICATED, bias);
}

/* A product with its weight, and its bias where products have one. */
static int32_t add_product(const struct layer *l, int64_t in, int64_t out, enum lw_tp_split split,
                           const char *name)
{
    int32_t kernel = transformer_linear(l->t, l->t->tokens, in, out, split);
    char text[NAME];

    snprintf(text, sizeof text, "mixer.%s.weight", name);
    add_param(l, kernel, out, in, split, text);
    snprintf(text, sizeof text, "mixer.%s.bias", name);
    if (l->t->b.shape.biases)
        add_param(l, kernel, out, 1, split == LW_TP_COLUMN ? split : LW_TP_REPLICATED, text);
    return kernel;
}

static void add_attention(const struct layer *l)
{
    struct transformer *t = l->t;
    int64_t h = t->hidden, q = t->heads * t->qk_width, kv = t->kv_heads * t->qk_width;

    transformer_gathers(t);
    add_product(l, h, q, LW_TP_COLUMN, "q_proj");
    add_product(l, h, kv, LW_TP_COLUMN, "k_proj");
    traces_builder_layer(&t->b, LW_LAYER_JOINED);
    add_product(l, h, kv, LW_TP_COLUMN, "v_proj");
    traces_builder_layer(&t->b, LW_LAYER_JOINED);
    transformer_attention(t);
    add_product(l, q, h, LW_TP_ROW, "o_proj");
    transformer_sums(t);
}

static void add_pair(const struct layer *l)
{
    struct transformer *t = l->t;
    bool before = transformer_begin_part(t, LW_AGAIN_MLP);

    transformer_gathers(t);
    add_product(l, t->hidden, t->ffn, LW_TP_COLUMN, "up_proj");
    transformer_activation(t, t->ffn);
    add_product(l, t->ffn, t->hidden, LW_TP_ROW, "down_proj");
    transformer_end_part(t, before);
    transformer_sums(t);
}

static void add_experts(const struct layer *l)
{
    char block[NAME + 8];
    bool before = transformer_begin_part(l->t, LW_AGAIN_MOE);

    snprintf(block, sizeof block, "%s.mixer", l->name);
    transformer_experts(l->t, l->registers ? block : NULL);
    transformer_end_part(l->t, before);
}

/* One kernel with the product after it where the framework has such (fused_norms), but before
 * experts; a norm before a pair of products is then a part of the pair. */
static bool begin_norm(struct transformer *t, char letter)
{
    bool fused = t->b.shape.fused_norms && letter != 'E';

    return letter == '-' ? transformer_begin_pair(t, fused) : transformer_begin_norm(t, fused);
}

static void add_mixer(const struct layer *l, char letter)
{
    switch (letter) {
    case 'M':
        transformer_ssm(l->t, l->name, l->registers);
        break;
    case '*':
        add_attention(l);
        break;
    case '-':
        add_pair(l);
        break;
    default:
        add_experts(l);
        break;
    }
}

static void add_layer(const struct layer *l, char letter)
{
    struct transformer *t = l->t;
    bool before = begin_norm(t, letter);
    int32_t norm = transformer_norm(t);

    if (letter != 'E' || t->b.shape.shared_ffn > 0)
        transformer_cast_norm(t);
    if (letter == 'E')
        transformer_keep_routed(t, t->b.shape.shared_ffn > 0);
    else
        transformer_keep_operand(t, t->hidden, true);
    transformer_end_part(t, before);
    add_norm(l, norm, "norm");
    if (t->b.shape.experts > 0 && (letter == 'M' || letter == '*'))
        transformer_copies(t, 1, 0);
    add_mixer(l, letter);
    transformer_residual(t);
}

/* What a module of layers ends with: only attention has keys and values. */
static void end_layers(struct transformer *t, bool attention)
{
    transformer_end_block(t);
    if (!attention)
        traces_builder_last(&t->b)->kv_bytes = 0;
}

/* A pass for the tokens after the next: the next token's embedding and the last layers' result, a
 * norm each, side by side and made narrow again; attention and experts; a norm, the head's product
 * and a loss. */
static void add_pass(struct transformer *t, int64_t pass)
{
    int64_t h = t->hidden, vocab = t->b.shape.vocab;
    struct layer l = {.t = t, .name = "mtp.layers.0", .registers = pass == 0};

    transformer_module(t, "mtp.layers.%d", (int)pass);
    int32_t norms = transformer_norm_of(t, 2 * h, true);
    add_norm(&l, norms, "enorm");
    add_norm(&l, norms, "hnorm");
    transformer_keep_operand(t, 2 * h, true);
    int32_t join = transformer_whole(t, 2 * h, h);
    add_param(&l, join, h, 2 * h, LW_TP_REPLICATED, "eh_proj.weight");
    add_layer(&l, '*');
    snprintf(l.name, sizeof l.name, "mtp.layers.1");
    add_layer(&l, 'E');
    int32_t last = transformer_norm(t);
    add_norm(&l, last, "final_layernorm");
    transformer_keep(t, t->b.item * t->tokens * h, true);
    transformer_linear(t, t->tokens, h, vocab, LW_TP_VOCAB);
    traces_builder_last(&t->b)->reused_numel += vocab * h;
    transformer_loss(t, vocab);
    end_layers(t, true);
}

/* A learned table of positions, and dropout of the embedding. */
static void add_positions(struct transformer *t)
{
    int64_t n = t->b.shape.positions, x = t->b.wide * t->tokens * t->hidden;
    int64_t mask = t->dropout ? t->tokens * t->hidden : 0;

    if (n == 0 && !t->dropout)
        return;
    int32_t kernel = TRACES_TRAFFIC(&t->b, 3 * x + mask, 0, 2 * x + mask);
    if (n > 0)
        traces_builder_param(&t->b, kernel, n, t->hidden, LW_TP_REPLICATED,
                             "backbone.position_embeddings.weight");
    transformer_keep(t, mask, true);
}

static void add_embedding(struct transformer *t)
{
    int64_t x = t->b.wide * t->tokens * t->hidden, vocab = t->b.shape.vocab;

    transformer_module(t, "backbone.embeddings");
    int32_t kernel = transformer_lookup(t, vocab);
    traces_builder_param(&t->b, kernel, vocab, t->hidden, LW_TP_VOCAB,
                         "backbone.embeddings.weight");
    add_positions(t);
    transformer_keep(t, 8 * t->tokens, true);
    transformer_end_plain(t, LW_TP_VOCAB, x);
}

static void add_head(struct transformer *t)
{
    const struct layer l = {.t = t, .name = "backbone", .registers = true};
    int64_t vocab = t->b.shape.vocab;

    transformer_module(t, "lm_head");
    int32_t norm = transformer_norm(t);
    add_norm(&l, norm, "norm_f");
    transformer_keep(t, t->b.item * t->tokens * t->hidden, true);
    transformer_gathers(t);
    int32_t scores = transformer_linear(t, t->tokens, t->hidden, vocab, LW_TP_VOCAB);
    struct lw_param *p =
        traces_builder_param(&t->b, scores, vocab, t->hidden, LW_TP_VOCAB, "lm_head.weight");
    if (t->b.shape.tied)
        p->tied = 0;
    transformer_loss(t, vocab);
    traces_builder_sums(&t->b, 3 * 4 * t->tokens);
    transformer_end_plain(t, LW_TP_VOCAB, 0);
}

/* own: layers of the model's own pattern, where no other is given. */
static void note_hybrid(struct transformer *t, int64_t own)
{
    const struct traces_model_shape *s = &t->b.shape;

    traces_builder_note(&t->b, "layers: %s (M state space, * attention, - two products, E experts)",
                        s->layer_pattern);
    if (s->layers < own)
        traces_builder_note(&t->b, LW_ASSUMPTION "--layers: the first %lld of the %lld layers of "
                            "the model's pattern", (long long)s->layers, (long long)own);
    if (strchr(s->layer_pattern, 'M'))
        traces_builder_note(&t->b, LW_ASSUMPTION
                            "state-space layers keep what Megatron-LM's keep; their scans take "
                            TRACES_SCAN_TAKES);
    if (s->mtp_stated > s->mtp_layers)
        traces_builder_note(&t->b, LW_ASSUMPTION "config.json's num_nextn_predict_layers is %lld; "
                            "passes for further tokens that are trained: %lld (--mtp-layers)",
                            (long long)s->mtp_stated, (long long)s->mtp_layers);
}

/* Sizes of layers that the pattern does not have. */
static enum lw_status check_unused(const struct traces_model_shape *s, bool experts,
                                   struct lw_err *err)
{
    const struct {
        const char *option;
        int64_t given;
        char letter;
    } sizes[] = {
        {"experts", s->experts, 'E'},        {"topk", s->topk, 'E'},
        {"expert-ffn", s->expert_ffn, 'E'},  {"shared-ffn", s->shared_ffn, 'E'},
        {"expert-latent", s->expert_latent, 'E'},
        {"ssm-heads", s->ssm_heads, 'M'},    {"ssm-head-width", s->ssm_head_width, 'M'},
        {"ssm-groups", s->ssm_groups, 'M'},  {"ssm-state", s->ssm_state, 'M'},
        {"ssm-chunk", s->ssm_chunk, 'M'},
    };

    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        bool has = sizes[k].letter == 'E' ? experts : strchr(s->layer_pattern, 'M') != NULL;
        if (sizes[k].given > 0 && !has)
            return lw_fail(err, LW_EINVAL,
                           "--%s: no layer of the pattern is %c; give a --layer-pattern with %c, "
                           "or leave --%s out", sizes[k].option, sizes[k].letter, sizes[k].letter,
                           sizes[k].option);
    }
    return LW_OK;
}

/* The pattern decides how many layers there are. */
static enum lw_status check_layers(const struct traces_model_shape *s, struct lw_err *err)
{
    char text[LW_MODEL_LAYERS_SIZE];
    int64_t n = (int64_t)strlen(s->layer_pattern);
    bool experts = strchr(s->layer_pattern, 'E') || s->mtp_layers > 0;

    LW_TRY(lw_err_context(err, lw_model_layers(s->layer_pattern, text, err), "--layer-pattern"));
    if (s->layers != n)
        return lw_fail(err, LW_EINVAL,
                       "--layers: found %lld, allowed: %lld, the letters of the pattern; leave "
                       "it out, and give --layer-pattern for others", (long long)s->layers,
                       (long long)n);
    if (experts && s->experts == 0)
        return lw_fail(err, LW_EINVAL, "%s: the model has no experts; give --experts, --topk and "
                       "--expert-ffn too", s->mtp_layers > 0 ? "--mtp-layers" : "--layer-pattern");
    return check_unused(s, experts, err);
}

/* What these layers have no rule for. */
static enum lw_status check_rules(const struct traces_model_shape *s, struct lw_err *err)
{
    if (s->kept & TRACES_KEPT_ALTERNATE)
        return lw_fail(err, LW_ENOTSUP,
                       "--framework: what a framework that keeps every second product of a block "
                       "(torchtitan) keeps of a hybrid's layers is not known; choose another "
                       "framework");
    if (strchr(s->layer_pattern, 'M'))
        return transformer_ssm_check(s, err);
    return LW_OK;
}

#define AT(field) offsetof(struct traces_model_shape, field)
static const size_t layer_sizes[] = {
    AT(hidden), AT(heads), AT(kv_heads), AT(head_width), AT(ffn), AT(ssm_heads),
    AT(ssm_head_width), AT(ssm_groups), AT(ssm_state), AT(ssm_chunk), AT(experts), AT(topk),
    AT(expert_ffn), AT(shared_ffn), AT(expert_latent),
};
#undef AT

/* Layers are the model's own: the first of its pattern, of its sizes where they have them. */
static bool has_own_layers(const struct traces_model *m, const struct traces_model_shape *s)
{
    if (strncmp(s->layer_pattern, m->defaults.layer_pattern, (size_t)s->layers) != 0)
        return false;
    for (size_t k = 0; k < sizeof layer_sizes / sizeof *layer_sizes; k++) {
        size_t at = layer_sizes[k];
        int64_t size = *(const int64_t *)(const void *)((const char *)s + at);
        if (size > 0 &&
            size != *(const int64_t *)(const void *)((const char *)&m->defaults + at))
            return false;
    }
    return true;
}

enum lw_status hybrid_build(const struct traces_model *m, const struct traces_model_shape *shape,
                            const struct lw_device *device, struct lw_workload *w,
                            struct lw_err *err)
{
    struct traces_model_shape s = *shape;
    struct traces_model credited = *m;
    struct transformer t;
    char source[120];

    LW_TRY(check_layers(&s, err));
    LW_TRY(check_rules(&s, err));
    LW_TRY(transformer_experts_check(&s, err));
    s.kept &= ~(unsigned)TRACES_KEPT_UNWEIGHTED;
    LW_TRY(transformer_init(&t, m, &s, device, err));
    t.causal = true;
    t.dropout = s.dropout;
    traces_builder_room(&t.b, s.layers + s.mtp_layers + 2,
                        PARAMS_PER_LAYER * (s.layers + 3) + 5, 0);
    add_embedding(&t);
    for (int32_t i = 0; i < s.layers; i++) {
        struct layer l = {.t = &t, .registers = true};
        snprintf(l.name, sizeof l.name, "backbone.layers.%d", i);
        transformer_module(&t, "%s", l.name);
        add_layer(&l, s.layer_pattern[i]);
        end_layers(&t, s.layer_pattern[i] == '*');
    }
    for (int64_t i = 0; i < s.mtp_layers; i++)
        add_pass(&t, i);
    add_head(&t);
    bool own = strncmp(s.layer_pattern, m->defaults.layer_pattern, (size_t)s.layers) == 0;
    note_hybrid(&t, own ? m->defaults.layers : 0);
    snprintf(source, sizeof source, "options or config.json; what they leave out as %s", m->name);
    credited.source = has_own_layers(m, &s) ? m->source : source;
    return transformer_finish(&t, &credited, w, err);
}

#define BRIDGE                                                                                     \
    "NVIDIA-NeMo/Megatron-Bridge@160ccccb, src/megatron/bridge/models/nemotronh/"                  \
    "nemotron_h_provider.py; config.json of huggingface.co/nvidia/"
#define ULTRA                                                                                      \
    "NVIDIA/Megatron-LM@453761c5, examples/post_training/modelopt/conf/nvidia/"                    \
    "NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16.sh"

#define HYBRID(pattern_, hidden_, heads_, kv_heads_, ffn_)                                         \
    LLAMA(sizeof(pattern_) - 1, hidden_, heads_, kv_heads_, ffn_, 8192, 131072),                   \
    .layer_pattern = pattern_, .head_width = 128, .plain_ffn = true
#define SSM(heads_, width_, state_)                                                                \
    .ssm_heads = heads_, .ssm_head_width = width_, .ssm_groups = 8, .ssm_state = state_,           \
    .ssm_chunk = 128
#define EXPERTS(experts_, topk_, width_, shared_)                                                  \
    .experts = experts_, .topk = topk_, .expert_ffn = width_, .shared_ffn = shared_

#define H_8B "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"
#define H_47B                                                                                      \
    "M-M-M-M-M-M-M-M-M*-M-M-M-M-M-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-M-M---MM---M-M*-M-M" \
    "-M-M-M-"
#define H_56B                                                                                      \
    "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M" \
    "-M-M*-M-M-M-M-M*-M-M-M-M-M-"
#define NANO_9B "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-"
#define NANO_12B "M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M-"
#define NANO_30B "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
#define SUPER_120B                                                                                 \
    "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME"
#define ULTRA_550B                                                                                 \
    "MEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*E" \
    "MEMEMEM*EMEMEMEME"

const struct traces_model traces_models_hybrid[] = {
    {"nemotron-h-8b", "Nemotron-H 8B, Mamba-2 and attention",
     {HYBRID(H_8B, 4096, 32, 8, 21504), SSM(128, 64, 128)}, hybrid_build,
     BRIDGE "Nemotron-H-8B-Base-8K"},
    {"nemotron-h-47b", "Nemotron-H 47B, Mamba-2 and attention",
     {HYBRID(H_47B, 8192, 64, 8, 30720), SSM(256, 64, 256)}, hybrid_build,
     BRIDGE "Nemotron-H-47B-Base-8K"},
    {"nemotron-h-56b", "Nemotron-H 56B, Mamba-2 and attention",
     {HYBRID(H_56B, 8192, 64, 8, 32768), SSM(256, 64, 256)}, hybrid_build,
     BRIDGE "Nemotron-H-56B-Base-8K"},
    {"nemotron-nano-9b-v2", "Nemotron Nano 2 9B, Mamba-2 and attention",
     {HYBRID(NANO_9B, 4480, 40, 8, 15680), SSM(128, 80, 128)}, hybrid_build,
     BRIDGE "NVIDIA-Nemotron-Nano-9B-v2"},
    {"nemotron-nano-12b-v2", "Nemotron Nano 2 12B, Mamba-2 and attention",
     {HYBRID(NANO_12B, 5120, 40, 8, 20480), SSM(128, 80, 128)}, hybrid_build,
     BRIDGE "NVIDIA-Nemotron-Nano-12B-v2"},
    {"nemotron-3-nano", "Nemotron 3 Nano 30B, 3.6 G parameters active, Mamba-2 and experts",
     {HYBRID(NANO_30B, 2688, 32, 2, 1856), SSM(64, 64, 128), EXPERTS(128, 6, 1856, 3712)},
     hybrid_build, BRIDGE "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"},
    {"nemotron-3-super", "Nemotron 3 Super 120B, 12.7 G parameters active, latent experts",
     {HYBRID(SUPER_120B, 4096, 32, 2, 2688), SSM(128, 64, 128), EXPERTS(512, 22, 2688, 5376),
      .expert_latent = 1024}, hybrid_build, BRIDGE "NVIDIA-Nemotron-3-Super-120B-A12B-BF16"},
    {"nemotron-3-ultra", "Nemotron 3 Ultra 550B, 55 G parameters active, latent experts",
     {HYBRID(ULTRA_550B, 8192, 64, 2, 5120), SSM(256, 64, 128), EXPERTS(512, 22, 5120, 10240),
      .expert_latent = 2048}, hybrid_build, ULTRA},
    {0},
};
