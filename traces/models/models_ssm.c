/* A Mamba-2 mixer (Dao and Gu, arXiv 2405.21060, section 6): one product gives gate z, input x,
 * the state's input B and output C, and step sizes; a causal convolution of width 4 over x, B and
 * C; the scan in chunks; a gate and a grouped norm; one product back.
 *
 * With H heads of P elements, d = H P, G groups, N elements of a state, g = G N, chunks of L
 * tokens, e bytes of an element. Parameters: h (2 d + 2 g + H) and d h of the products,
 * (4 + 1) (d + 2 g) of the convolution, 3 H (A_log, D, dt_bias), d of the norm.
 *
 * Kernels, their operands and what is kept are those of NVIDIA/Megatron-LM@00bebb45,
 * megatron/core/ssm/mamba_mixer.py, _ssm_training, which calls state-spaces/mamba@e9594ce1,
 * mamba_ssm/ops/triton/ssd_combined.py, mamba_split_conv1d_scan_combined: of a token
 * e (2 d + 2 g + H) of the first product's result and e d of the scan's result before its gate are
 * kept; convolution, step sizes, chunk states and C B are computed again in the backward. The norm
 * is a kernel of its own there, which keeps its input and an f32 for each group.
 *
 * FLOPs of a token. Forward: 2 g L of C B, 2 N d of a chunk's state, 2 N d of what earlier chunks
 * give and 2 L d within the chunk. Backward: 2 g L and 2 N d again; 2 N d each for the gradients of
 * states, x, B and C; 2 L d each for those of x, of C B and of the decays; 2 (2 g L) from C B to B
 * and C. Within a chunk all pairs of tokens are computed: a block of the kernels is as large as a
 * chunk of 128. Model FLOPs count the pairs that a token sees, (L + 1) / 2 on average.
 *
 * Each kernel moves its operands and does its FLOPs, neither hidden behind the other. Forward and
 * backward of 4 x 4,096 tokens, 112 heads of 64 and 8 groups of 128, in chunks of 64, 128 and 256,
 * take 87.61, 63.57 and 57.00 ms on a GB10 (DatasunriseOU/cppmega@d57d1c10,
 * docs/status/mamba_ssd_scan_nsys_isolation_2026_04_27.md). Their operands are 15.35, 10.22 and
 * 8.06 GB, their FLOPs 0.279, 0.348 and 0.485 T: least squares give 195.5 GB/s and 30.7 TFLOP/s,
 * which repeat the three times within 0.03 %. Of its 273 GB/s that is 0.716: where kernels reach
 * 0.85, the share of a device without a measured one, those of a scan move 1.187 times their
 * operands. The FLOPs are lw_device_scan_rate's. Not counted: the convolution's 8 FLOPs an element,
 * sums over heads of gradients in several parts, passes over f32 of H elements a token. */
#include "traces/models/models_ssm.h"

#include <inttypes.h>

enum { CONV = TRACES_SSM_CONV, F32 = 4 };

int64_t transformer_ssm_inner(const struct traces_model_shape *s)
{
    return s->ssm_heads * s->ssm_head_width;
}

int64_t transformer_ssm_columns(const struct traces_model_shape *s)
{
    return 2 * transformer_ssm_inner(s) + 2 * s->ssm_groups * s->ssm_state + s->ssm_heads;
}

enum lw_status transformer_ssm_check(const struct traces_model_shape *s, struct lw_err *err)
{
    int64_t tp = s->tensor > 1 ? s->tensor : 1;

    if (s->ssm_heads % s->ssm_groups)
        return lw_fail(err, LW_EINVAL,
                       "--ssm-groups: found %" PRId64 ", allowed: divisors of the heads of a "
                       "state-space layer, %" PRId64, s->ssm_groups, s->ssm_heads);
    if (s->ssm_groups % tp)
        return lw_fail(err, LW_EINVAL,
                       "--tp: found %" PRId64 ", allowed: divisors of the groups of a state-space "
                       "layer, %" PRId64, tp, s->ssm_groups);
    if (s->seq % s->ssm_chunk)
        return lw_fail(err, LW_EINVAL,
                       "--seq: found %" PRId64 ", allowed: multiples of a chunk of the scan, "
                       "%" PRId64 " (--ssm-chunk)", s->seq, s->ssm_chunk);
    double tokens = (double)s->batch * (double)s->seq;
    double flops = 16 * tokens * (double)(s->ssm_state + s->ssm_chunk) *
                   (double)transformer_ssm_columns(s);
    if (flops > 1e17) /* a kernel's are below 2^58 */
        return lw_fail(err, LW_EINVAL,
                       "batch %" PRId64 ", sequence %" PRId64 ", state-space heads %" PRId64
                       " of %" PRId64 ": the flops of one scan are beyond 2^58; lower one of them",
                       s->batch, s->seq, s->ssm_heads, s->ssm_head_width);
    if (s->context > 1)
        return lw_fail(err, LW_ENOTSUP,
                       "--cp: found %" PRId64 ", allowed: 1 with state-space layers: the exchanges "
                       "of their heads over a context group are not modelled; leave --cp out",
                       s->context);
    return LW_OK;
}

/* Sizes of a token in elements. */
struct ssm {
    struct transformer *t;
    int64_t d, g, heads, state, chunk, groups, item, tokens;
};

static struct ssm ssm_of(struct transformer *t)
{
    const struct traces_model_shape *s = &t->b.shape;

    return (struct ssm){.t = t, .d = transformer_ssm_inner(s), .g = s->ssm_groups * s->ssm_state,
                        .heads = s->ssm_heads, .state = s->ssm_state, .chunk = s->ssm_chunk,
                        .groups = s->ssm_groups, .item = t->b.item, .tokens = t->tokens};
}

/* Bytes as the kernels of the scan move those of their operands. */
static int64_t moved(int64_t bytes)
{
    return bytes * 1187 / 1000;
}

int32_t transformer_scan(struct transformer *t, const int64_t flops[2], const int64_t bytes[2],
                         int32_t n_forward, int32_t n_backward)
{
    int64_t n = t->tokens;

    return TRACES_KERNEL(&t->b, .kind = LW_KERNEL_COUNTED, .split = LW_SPLIT_GROUP,
                         .scan = true, .flops = {n * flops[0], n * flops[1]},
                         .bytes = {moved(n * bytes[0]), moved(n * bytes[1])},
                         .n_forward = n_forward, .n_backward = n_backward);
}

/* One kernel: FLOPs and bytes of a token, forward and backward; launches. */
static int32_t scan(const struct ssm *m, int64_t flops, int64_t bytes, int64_t flops_back,
                    int64_t bytes_back, int32_t n_forward, int32_t n_backward)
{
    return transformer_scan(m->t, (const int64_t[2]){flops, flops_back},
                            (const int64_t[2]){bytes, bytes_back}, n_forward, n_backward);
}

static int32_t move(const struct ssm *m, int64_t bytes, int64_t bytes_back, int32_t n_backward)
{
    return TRACES_TRAFFIC(&m->t->b, m->tokens * bytes, m->tokens * bytes_back, 0,
                          .split = LW_SPLIT_GROUP, .n_forward = 1, .n_backward = n_backward);
}

/* Bytes of a token's part of the states of a chunk, of so many bytes an element. */
static int64_t states(const struct ssm *m, int64_t size)
{
    return size * m->state * m->d / m->chunk;
}

/* The kernels between the convolution and the gate, in the order of the forward. Those of the
 * backward alone stand with the forward's kernel whose gradients they make. */
static void add_scan(const struct ssm *m)
{
    int64_t e = m->item, d = m->d, g = m->g, within = 2 * m->chunk * d, across = 2 * m->state * d;
    int64_t cb = F32 * m->chunk * m->groups, of_cb = 2 * m->chunk * g, steps = 2 * F32 * m->heads;
    int64_t sized = e * m->heads, both = e * (d + g);

    /* step sizes and their sums; again, and their gradients */
    scan(m, 0, sized + steps, 0, sized + steps + steps + 2 * sized, 1, 2);
    /* states of chunks; again, and the gradient of B */
    int64_t state = both + steps + states(m, F32);
    scan(m, across, state, 2 * across, state + both + steps + states(m, e) + F32 * g, 1, 2);
    /* from chunk to chunk; again, and back */
    scan(m, 0, states(m, F32 + e), 0, states(m, 2 * F32) + states(m, 2 * F32 + 2 * e), 1, 2);
    /* C B; again, and the gradients of both, each added to what the states give */
    int64_t one = 2 * e * g + cb;
    scan(m, of_cb, one, 3 * of_cb, 3 * one + 2 * F32 * g, 1, 3);
    /* results, with the gate; the gradients of the gate, of states, x, C, C B and the decays */
    int64_t of_gate = 6 * e * d, of_states = state;
    int64_t of_x = both + 2 * e * d + cb + 2 * steps + states(m, e);
    int64_t of_c = both + steps + states(m, e) + F32 * g, of_decays = 2 * e * d + cb + 2 * steps;
    int64_t of_products = 2 * e * d + cb + steps;
    scan(m, within + across, cb + both + 3 * e * d + steps + states(m, e),
         3 * (within + across), of_gate + of_states + of_x + of_c + of_products + of_decays, 1, 6);
}

/* Model FLOPs, and all that the forward does: of attention and of scans (models_transformer.h). */
static void count_scan(const struct ssm *m)
{
    int64_t pairs = m->g + m->d, across = 4 * m->state * m->d;

    /* counted as attention's: twice what a causal mask leaves */
    m->t->attention_flops += 2 * m->tokens * ((m->chunk + 1) * pairs + across);
    m->t->score_flops += m->tokens * (2 * m->chunk * pairs + across);
}

static void add_param(struct transformer *t, int32_t kernel, int64_t rows, int64_t columns,
                      enum lw_tp_split split, const char *layer, const char *name)
{
    if (kernel >= 0)
        traces_builder_param(&t->b, kernel, rows, columns, split, "%s.mixer.%s", layer, name);
}

void transformer_ssm(struct transformer *t, const char *layer, bool registers)
{
    struct ssm m = ssm_of(t);
    int64_t conv = m.d + 2 * m.g, columns = transformer_ssm_columns(&t->b.shape), e = m.item;

    bool reorders = t->batch > 1 && !(t->b.shape.unfused & TRACES_SAMPLES_FIRST);

    transformer_gathers(t);
    int32_t in = transformer_linear(t, t->tokens, t->hidden, columns, LW_TP_COLUMN);
    transformer_keep(t, e * m.tokens * columns, false);
    if (reorders) /* samples before tokens: the scan takes them apart */
        move(&m, 2 * e * columns, 2 * e * columns, 1);
    int32_t mix = move(&m, 2 * e * conv, 5 * e * conv, 2);
    add_scan(&m);
    count_scan(&m);
    if (reorders)
        move(&m, 2 * e * m.d, 2 * e * m.d, 1);
    transformer_keep(t, 2 * e * m.tokens * m.d + F32 * m.tokens * m.groups, false);
    int32_t norm = move(&m, 2 * e * m.d, 3 * e * m.d, 1);
    transformer_keep_operand(t, m.d, false);
    int32_t out = transformer_linear(t, t->tokens, m.d, t->hidden, LW_TP_ROW);
    transformer_sums(t);
    if (!registers)
        return;
    add_param(t, mix, m.heads, 1, LW_TP_COLUMN, layer, "dt_bias");
    add_param(t, mix, m.heads, 1, LW_TP_COLUMN, layer, "A_log");
    add_param(t, mix, m.heads, 1, LW_TP_COLUMN, layer, "D");
    add_param(t, mix, conv, CONV, LW_TP_COLUMN, layer, "conv1d.weight");
    add_param(t, mix, conv, 1, LW_TP_COLUMN, layer, "conv1d.bias");
    add_param(t, in, columns, t->hidden, LW_TP_COLUMN, layer, "in_proj.weight");
    add_param(t, norm, m.d, 1, LW_TP_COLUMN, layer, "norm.weight");
    add_param(t, out, t->hidden, m.d, LW_TP_ROW, layer, "out_proj.weight");
}
