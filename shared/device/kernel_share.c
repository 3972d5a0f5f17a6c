/* What one rank does of a kernel of the whole model.
 *
 * A context group divides tokens, evenly. A tensor group divides columns, rows (of the weights),
 * heads or bytes, rounded up; what it does not divide, sequence parallelism divides by tokens
 * (Korthikanti et al., arXiv 2205.05198, section 4.2). An expert group divides experts, and brings
 * them the tokens of all its ranks.
 *
 * Fused attention of a context group runs as a ring: as many kernels as ranks, on a rank's share of
 * the keys each, and each result after the first is joined to the sum by one kernel, after one for
 * the rows' exponents; backward adds the gradients of queries, and of keys and values
 * (NVIDIA/TransformerEngine, pytorch/attention: context parallelism by messages). Attention to a
 * window is one kernel of a rank's queries on gathered keys (the same library refuses a window in
 * its ring). Ranks have early and late pieces of a sequence: each does the mean of all, with a
 * window too, although the first W queries have fewer keys and are of the first ranks. */
#include "shared/device/kernel_share.h"

static int64_t divided(int64_t n, int64_t ranks)
{
    return (n + ranks - 1) / ranks;
}

struct share {
    const struct lw_kernel *k;
    const struct lw_kernel_groups *g;
    int64_t tp;
    int64_t cp; /* ranks that divide the kernel's tokens */
    bool whole;
    lw_kernel_visit *visit;
    void *ctx;
};

static int64_t expert_ranks(const struct share *s)
{
    bool beside = s->g->whole_experts && !s->g->folded_experts;

    return lw_group_size(s->g->ep) * (beside ? s->tp : 1);
}

static int64_t item_of(const struct share *s)
{
    return lw_dtype_size((enum lw_dtype)s->k->dtype);
}

/* Nothing to do: no work. */
static void give(const struct share *s, struct lw_kernel_work work)
{
    if (work.flops > 0 || work.bytes > 0)
        s->visit(s->ctx, &work);
}

/* --- traffic, and what is counted ------------------------------------------------------------- */

/* A token goes once to a rank that has several of its experts. */
static bool goes_once(const struct share *s)
{
    return s->g->once.copies > 0 && expert_ranks(s) > 1;
}

/* Ranks that do the traffic of experts' tokens each; 0: rows of one expert need no sort. */
static int64_t times(const struct share *s)
{
    if (s->k->split != LW_SPLIT_EXPERTS)
        return 1;
    if ((s->k->experts / expert_ranks(s) <= 1 && !goes_once(s)) || expert_ranks(s) <= 1)
        return 0;
    return s->g->whole_experts ? 1 : s->tp;
}

/* Bytes of one phase. Where a token goes once nothing permutes copies before: what comes is of
 * `first` of them, of which the kernel in place of the sort, which read and wrote all, makes copies
 * in the order of experts. Rows that lie apart take 1.7 times those of a copy (models_experts.c).
 * NVIDIA/Megatron-LM@3bec9aa9, megatron/core/transformer/moe/token_dispatcher.py,
 * _DeepepManager.get_permuted_hidden_states_by_experts; deepseek-ai/DeepEP@ff09d91c,
 * csrc/hybrid_ep/extension/permute.cu, of dispatched tokens and local experts. */
static int64_t bytes_moved(const struct share *s, int64_t bytes)
{
    if (!goes_once(s) || s->k->experts == 0)
        return bytes;
    if (s->k->split == LW_SPLIT_NONE)
        return 0;
    if (s->k->split != LW_SPLIT_EXPERTS)
        return bytes;
    double first = lw_first_copies((int32_t)expert_ranks(s), &s->g->once);
    return (int64_t)(1.7 * (double)(bytes / 2) * (1 + first));
}

/* Traffic of experts that has launches has so many for each expert of the rank. */
static int32_t launches(const struct share *s, int32_t n)
{
    return s->k->experts > 0 ? (int32_t)(n * (s->k->experts / expert_ranks(s))) : n;
}

static bool has_work(const struct lw_kernel *k, int phase)
{
    return k->flops[phase] > 0 || k->bytes[phase] > 0;
}

/* What has no gradient of an input launches its backward with that of the weights. */
static void share_traffic(const struct share *s)
{
    const struct lw_kernel *k = s->k;
    bool first = true, no_input = !has_work(k, LW_PRODUCTS_INPUT);

    for (int phase = 0; phase < LW_N_PRODUCT_PHASES; phase++) {
        bool forward = phase == LW_PRODUCTS_FORWARD;
        bool backward = phase == (no_input ? LW_PRODUCTS_WEIGHT : LW_PRODUCTS_INPUT);
        give(s, (struct lw_kernel_work){.phase = (enum lw_product_phase)phase,
                                        .flops = k->flops[phase] / s->cp,
                                        .bytes = bytes_moved(s, k->bytes[phase]) / s->cp * times(s),
                                        .n_launches = launches(s, forward    ? k->n_forward
                                                                  : backward ? k->n_backward
                                                                             : 0),
                                        .blocks = k->blocks,
                                        .whole = s->whole,
                                        .by_roofline = k->kind == LW_KERNEL_COUNTED,
                                        .scan = k->scan,
                                        .completes = first});
        first = first && !has_work(k, phase);
    }
}

/* --- products --------------------------------------------------------------------------------- */

static int64_t columns(const struct share *s)
{
    const struct lw_kernel *k = s->k;
    bool split = k->split == LW_SPLIT_COLUMN || k->split == LW_SPLIT_VOCAB;

    if (!split || (k->experts > 0 && s->g->whole_experts))
        return k->n;
    return k->halves ? 2 * divided(k->n / 2, s->tp) : divided(k->n, s->tp);
}

static int64_t inner(const struct share *s)
{
    const struct lw_kernel *k = s->k;
    bool split = k->split == LW_SPLIT_ROW && !(k->experts > 0 && s->g->whole_experts);

    return split ? divided(k->k, s->tp) : k->k;
}

/* Of the forward. */
static struct lw_product product_of(const struct share *s)
{
    const struct lw_kernel *k = s->k;
    struct lw_product p = {.batch = k->batch, .m = k->m / s->cp, .n = columns(s), .k = inner(s),
                           .dtype = (enum lw_dtype)k->dtype, .fp8 = k->fp8, .fp4 = k->fp4,
                           .tf32 = k->tf32, .grouped = k->experts > 0};

    if (k->experts > 0) {
        p.batch = k->experts / expert_ranks(s);
        p.m = divided(lw_expert_copies(p.m, k->capacity) * expert_ranks(s),
                      k->experts * (s->g->whole_experts ? s->tp : 1));
    } else if (k->split == LW_SPLIT_HEADS) {
        p.batch = divided(k->batch, s->tp);
    } else if (k->split == LW_SPLIT_NONE && s->g->sequence_parallel) {
        p.m = divided(p.m, s->tp);
    }
    return p;
}

static int64_t flops_of(const struct share *s)
{
    const struct lw_kernel *k = s->k;
    int64_t rows = k->m / s->cp;

    return k->experts > 0 ? 2 * lw_expert_copies(rows, k->capacity) * k->n * k->k
                          : 2 * k->batch * rows * k->n * k->k;
}

/* Each operand once: of the tensor group, which shares out one product; of experts, as many as
 * there are ranks. */
static int64_t bytes_of(const struct share *s, const struct lw_product *p)
{
    const struct lw_kernel *k = s->k;
    int64_t m = k->m / s->cp;

    if (k->bytes[LW_PRODUCTS_FORWARD] > 0)
        return k->bytes[LW_PRODUCTS_FORWARD] / s->cp;
    if (k->experts > 0)
        return item_of(s) * p->batch * (p->m * p->k + p->k * p->n + p->m * p->n) * s->tp;
    return item_of(s) * k->batch * (m * k->k + k->k * k->n + m * k->n);
}

/* Reads a gradient and adds it to its sum. */
static void share_sums(const struct share *s, const struct lw_product *p)
{
    int64_t ranks = s->k->split == LW_SPLIT_NONE ? 1 : s->tp;

    give(s, (struct lw_kernel_work){
                .phase = LW_PRODUCTS_WEIGHT,
                .bytes = s->k->sum_bytes * (p->batch * p->k * p->n * ranks),
                .completes = true});
}

/* 8-bit operands: the kernel before the product writes its result in 8 bits instead of 16, and
 * writes it transposed too for the backward, so that forward moves no more than before; in
 * backward the output's gradient is read, and written twice, with frozen weights once. Of 4 bits a
 * norm writes 16, which a kernel of its own casts (the model's). Weights are cast once a step and
 * not counted. */
static void share_casts(const struct share *s, const struct lw_product *p)
{
    give(s, (struct lw_kernel_work){.phase = LW_PRODUCTS_INPUT,
                                    .bytes = lw_product_cast_bytes(
                                        p, p->batch * p->m * p->n * s->tp, s->k->trained)});
}

static struct lw_product gradient_of_input(const struct lw_product *p)
{
    struct lw_product x = *p;

    x.n = p->k;
    x.k = p->n;
    return x;
}

static struct lw_product gradient_of_weights(const struct share *s, const struct lw_product *p)
{
    struct lw_product x = *p;

    x.m = p->k;
    x.k = p->m;
    x.accumulate = true;
    x.out_size = s->k->out_size;
    return x;
}

static struct lw_product gradient_of_second(const struct share *s, const struct lw_product *p)
{
    struct lw_product x = *p;

    x.m = s->k->transposed ? p->n : p->k;
    x.n = s->k->transposed ? p->k : p->n;
    x.k = p->m;
    return x;
}

static void share_gemm(const struct share *s)
{
    const struct lw_kernel *k = s->k;
    const struct lw_product p = product_of(s);
    struct lw_kernel_work work = {.flops = flops_of(s), .bytes = bytes_of(s, &p), .product = p,
                                  .whole = s->whole};

    if (k->sum_bytes > 0 && k->trained)
        share_sums(s, &p);
    if (k->fp8 && !(k->epilogue && k->split == LW_SPLIT_COLUMN))
        share_casts(s, &p);
    work.completes = k->sum_bytes == 0 || !k->trained;
    if (k->only == LW_ONLY_BACKWARD)
        work.phase = LW_PRODUCTS_INPUT;
    give(s, work);
    if (k->only != LW_ONLY_NOT)
        return;
    work.completes = false;
    work.phase = LW_PRODUCTS_INPUT;
    work.product = gradient_of_input(&p);
    if (k->both) {
        work.second = gradient_of_second(s, &p);
        work.flops *= 2;
        work.bytes *= 2;
    }
    give(s, work);
    work.phase = LW_PRODUCTS_WEIGHT;
    work.product = gradient_of_weights(s, &p);
    if (k->trained)
        give(s, work);
}

/* --- attention -------------------------------------------------------------------------------- */

/* Bytes of a context rank: queries, keys and values, results, an f32 per row of scores. */
struct operands {
    int64_t q, kv, out, sums;
};

static void share_step(const struct share *s, const struct lw_attention *a, int64_t flops,
                       const struct operands *x, bool first)
{
    struct lw_kernel_work work = {.phase = LW_PRODUCTS_FORWARD, .flops = flops,
                                  .bytes = x->q + x->kv + x->out + x->sums, .attention = *a,
                                  .completes = first};

    if (s->k->only != LW_ONLY_BACKWARD)
        give(s, work);
    if (s->k->only == LW_ONLY_FORWARD)
        return;
    work.phase = LW_PRODUCTS_INPUT;
    work.flops = flops / 2 * 5;
    work.bytes = 2 * (x->q + x->kv + x->out) + x->sums;
    work.attention.backward = true;
    work.completes = first && s->k->only == LW_ONLY_BACKWARD;
    give(s, work);
}

static void share_pass(const struct share *s, int64_t forward, int64_t input)
{
    give(s, (struct lw_kernel_work){.phase = LW_PRODUCTS_FORWARD, .bytes = forward});
    give(s, (struct lw_kernel_work){.phase = LW_PRODUCTS_INPUT, .bytes = input});
}

/* Keys and values that a rank reads: its own, and the windows before its early and late piece. */
static int64_t keys_read(const struct lw_kernel *k, int64_t share, bool window)
{
    int64_t keys = share + 2 * k->n;

    return !window ? share : keys < k->m ? keys : k->m;
}

static void share_attention(const struct share *s)
{
    const struct lw_kernel *k = s->k;
    int64_t share = divided(k->m, s->cp), item = item_of(s);
    bool window = lw_is_window(k->n, k->m);
    int64_t steps = window ? 1 : s->cp, tokens = k->batch * share;
    int64_t keys = k->batch * keys_read(k, share, window);
    int64_t scores = window ? divided(lw_counted_scores(k->m, k->n, k->causal), s->cp)
                            : share * k->m;
    int64_t flops = 2 * k->batch * scores * k->heads * (k->qk_width + k->v_width);
    const struct operands x = {item * tokens * k->heads * k->qk_width,
                               item * keys * k->kv_heads * (k->qk_width + k->v_width),
                               item * tokens * k->heads * k->v_width, 4 * tokens * k->heads};
    const struct lw_attention a = {.batch = k->batch, .heads = divided(k->heads, s->tp),
                                   .kv_heads = divided(k->kv_heads, s->tp), .seq_q = share,
                                   .seq_k = window ? k->m : share, .window = window ? k->n : 0,
                                   .qk_width = k->qk_width, .v_width = k->v_width,
                                   .dtype = (enum lw_dtype)k->dtype, .causal = k->causal};

    for (int64_t i = 0; i < steps; i++) {
        int64_t part = i == 0 ? flops - flops / steps * (steps - 1) : flops / steps;
        share_step(s, &a, part, &x, i == 0);
        if (i == 0)
            continue;
        share_pass(s, 3 * x.out, 3 * x.q);
        share_pass(s, 3 * x.sums, 3 * x.kv);
    }
}

void lw_kernel_share(const struct lw_kernel *k, const struct lw_kernel_groups *g,
                     lw_kernel_visit *visit, void *ctx)
{
    static void (*const by_kind[LW_N_KERNEL_KINDS])(const struct share *) = {
        [LW_KERNEL_TRAFFIC] = share_traffic,
        [LW_KERNEL_GEMM] = share_gemm,
        [LW_KERNEL_ATTENTION] = share_attention,
        [LW_KERNEL_COUNTED] = share_traffic,
    };
    const struct share s = {.k = k, .g = g, .tp = lw_group_size(g->tp),
                            .cp = k->fixed ? 1 : lw_group_size(g->cp),
                            .whole = k->split == LW_SPLIT_NONE && !g->sequence_parallel,
                            .visit = visit, .ctx = ctx};

    by_kind[k->kind](&s);
}
