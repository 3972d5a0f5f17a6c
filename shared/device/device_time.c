/* Kernels by shape.
 *
 * Products. The result is cut into tiles, a tile is the work of one SM, and tiles run in waves of
 * as many as there are SMs: the last wave takes as long as a full one. A tile costs its k steps and
 * a fill of gemm_fill more (filling the pipeline of loads, storing the result). Smaller tiles read
 * more per product and are slower by x / (x + 40) with x = mn / (m + n), the ratio of products to
 * loads; the library chooses the fastest tile, and may cut k into up to eight parts, whose partial
 * sums go through memory. Operands whose rows are not of whole 16 bytes run at half speed, those
 * not of whole 128 bytes at 0.8. A kernel of a fraction of a millisecond runs at the clock that
 * power allows for a moment (gemm_boost), a long one at the sustained clock (gemm_sustained): the
 * share of the peak moves from one to the other around 0.3 ms. Never faster than memory at 85 % of
 * its bandwidth; each kernel costs a launch of 4 us beside. Sums of f32 that a product's result is
 * added to are read and written beside it; SUMS_EXPOSED of that traffic is not hidden, of the 205
 * weight gradients with such sums of both tables. Experts' products cost a launch each,
 * and wait for their weights and for the sums that they add to: EXPOSED is the share of these that
 * nothing hides, of the 120 groups of gemm_efficiency_b200 and _a100_pcie_simumax.
 *
 * Attention. A tile is 128 queries of one head with all keys that the mask leaves them: half of
 * them in the mean of a causal mask, and 64 of the diagonal's tile, and 165 for filling the
 * pipeline. Of a window W under a causal mask these are W - W^2 / (2 s) of s keys and, as the
 * window has an edge where it begins too, 64 more but for the first W queries; blocks outside of
 * both edges are skipped (Dao-AILab/flash-attention@0f25c7b7, hopper/block.h). The longest tile has
 * W + 128 keys. The rate of heads of width w goes as w / (w + 22), below 128 as the softmax of
 * their scores allows (narrow_speed) where the device's file says what an SM does in a clock. The
 * last tiles run beside idle SMs: half of the longest tile is added, in the backward, which begins
 * with the longest, TAIL_BACKWARD of it (of the 44 backward kernels of both tables below). The
 * backward has five products, three as wide as queries and two as wide as values (Dao, arXiv
 * 2307.08691, section 4.1). Queries of more than 128 leave its tiles half of the keys
 * (Dao-AILab/flash-attention, csrc/flash_attn/src/flash_bwd_launch_template.h: 64 x 64 from 192 on,
 * 64 x 128 at 128):
 * WIDE_BACKWARD of the speed, of the 14 such kernels of attention_efficiency_a100_pcie_simumax and
 * _b200_simumax.
 *
 * Kernels without products move their bytes at memory_sustained of the bandwidth, else at 85 %.
 *
 * The constants of this file hold for all devices; those of a device are in its file with their
 * fit (traces/clusters/fit_devices.py). Not modelled: caches, operands' layouts, sparsity of
 * experts' loads. */
#include "shared/device/device_time.h"

#include <math.h>
#include <stddef.h>

#include "shared/numbers/checked.h"

static const double EXPOSED = 0.5, SUMS_EXPOSED = 0.4;
static const double SMALL_TILE = 40, BOOST_S = 0.3e-3, BANDWIDTH = 0.85, LAUNCH_S = 4e-6;
static const double QUERY_TILE = 128, DIAGONAL = 64, KEY_FILL = 165, HEAD_FILL = 22;
static const double WIDE_BACKWARD = 0.8, TAIL = 0.5, TAIL_BACKWARD = 0.3;
static const double OTHERS = 6, OTHERS_BACKWARD = 31, OTHERS_PER_CLOCK = 128;

enum {
    VECTOR_BYTES = 16,
    LINE_BYTES = 128,
    WIDE_HEAD = 128,
    LEAST_K = 512,
    MOST_SPLIT = 8,
    TILE_STEP = 64,
    TILE = 256,
    DEFAULT_TILE = 128,
};

bool lw_device_by_shape(const struct lw_device *d, enum lw_dtype dtype)
{
    return lw_figure_is_set(d->peak_flops[dtype]) && lw_figure_is_set(d->n_sms) &&
           lw_figure_is_set(d->gemm_sustained) && lw_figure_is_set(d->gemm_fill) &&
           lw_figure_is_set(d->memory_bytes_per_s);
}

const char *lw_device_lacks_narrow(const struct lw_device *d, enum lw_dtype dtype, bool fp4)
{
    return fp4 && !lw_figure_is_set(d->fp4_speedup) ? "fp4_speedup (of 4-bit products against bf16)"
           : !fp4 && !lw_figure_is_set(d->fp8_speedup)
               ? "fp8_speedup (of 8-bit products against bf16)"
           : !lw_device_by_shape(d, dtype) ? "figures by shape (n_sms, gemm_sustained, gemm_fill)"
                                           : NULL;
}

const char *lw_device_lacks_tf32(const struct lw_device *d)
{
    return lw_figure_is_set(d->tf32_peak_flops) ? NULL
                                                : "tf32_peak_flops (of f32 products in TF32)";
}

static double at_least(double a, double b)
{
    return a > b ? a : b;
}

static int64_t parts(int64_t n, int64_t of)
{
    return n / of + (n % of != 0);
}

static double launch_s(const struct lw_device *d)
{
    return lw_figure_is_set(d->launch_ps) ? d->launch_ps.value * 1e-12 : LAUNCH_S;
}

static double memory_s(const struct lw_device *d, double bytes)
{
    return bytes / (BANDWIDTH * d->memory_bytes_per_s.value);
}

/* What the sums that a product's result is added to cost beside it, in f32: the others hide. */
static double sums_s(const struct lw_device *d, const struct lw_product *p)
{
    double item = p->out_size;

    if (!p->accumulate || item <= (double)lw_dtype_size(p->dtype))
        return 0;
    return SUMS_EXPOSED *
           memory_s(d, 2 * item * (double)p->batch * (double)p->m * (double)p->n);
}

/* --- products --------------------------------------------------------------------------------- */

static double tile_speed(double m, double n)
{
    double x = m * n / (m + n);

    return x / (x + SMALL_TILE);
}

/* Of the best tile of this device's generation: 256 x 128 up to Hopper, 256 x 256 of two SMs
 * beyond. */
static double largest_side(const struct lw_device *d)
{
    return lw_figure_is_set(d->gemm_tile) ? d->gemm_tile.value : DEFAULT_TILE;
}

/* Elements that stand side by side in the operands, beside n: k, but in a gradient of weights m,
 * since its tokens are apart. 8 and 4 bits have copies with tokens side by side; of experts these
 * are padded to whole blocks, of which k is the mean (NVIDIA/Megatron-LM@3bec9aa9,
 * megatron/core/transformer/moe/experts.py, quantization_padding): 0, which is no row. */
static int64_t inner_of(const struct lw_product *p)
{
    bool narrow = p->fp8 || p->fp4;

    if (!p->accumulate)
        return p->k;
    return !narrow ? p->m : p->grouped ? 0 : p->k;
}

/* Of the rows of the operands: whole 128 bytes are best, whole 16 bytes a vector load needs
 * (NVIDIA, Matrix Multiplication Background User's Guide, section 3.1). Where rows of 16-bit
 * elements are odd no copy to shared memory runs beside the products (cp.async takes 4, 8 or 16
 * bytes; NVIDIA/cutlass@00f271c02, include/cutlass/arch/memory_sm80.h): the library has kernels of
 * older devices alone, whose rate the device's file may say. Products of f32 without tensor cores
 * (TF32) lose nothing (baidu-research/DeepBench@da81ba782, V100 and T4). */
static double alignment(const struct lw_device *d, const struct lw_product *p)
{
    int64_t bits = p->fp4 ? 4 : p->fp8 ? 8 : 8 * lw_dtype_size(p->dtype);
    int64_t k = inner_of(p) * bits / 8, n = p->n * bits / 8;

    if (p->dtype == LW_F32 && !p->tf32 && !p->fp8 && !p->fp4)
        return 1;
    bool odd = p->n % 2 != 0 || inner_of(p) % 2 != 0;
    if (bits == 16 && odd && lw_figure_is_set(d->gemm_odd))
        return d->gemm_odd.value;
    if (k % VECTOR_BYTES != 0 || n % VECTOR_BYTES != 0)
        return 0.5;
    return k % LINE_BYTES != 0 || n % LINE_BYTES != 0 ? 0.8 : 1;
}

/* FLOP/s of one SM at the whole peak. */
static double sm_rate(const struct lw_device *d, const struct lw_product *p)
{
    double peak = p->tf32 ? d->tf32_peak_flops.value : d->peak_flops[p->dtype].value;
    struct lw_figure speedup = p->fp4 ? d->fp4_speedup : d->fp8_speedup;
    if (p->fp8 && lw_figure_is_set(speedup))
        peak *= speedup.value;
    return peak / d->n_sms.value * alignment(d, p);
}

static void try_tile(const struct lw_device *d, const struct lw_product *p, int32_t tm, int32_t tn,
                     struct lw_product_time *best)
{
    double side = largest_side(d), sms = d->n_sms.value;
    double rate = sm_rate(d, p) * tile_speed(tm, tn) / tile_speed(TILE, side);
    int64_t tiles = lw_mul_sat(p->batch, lw_mul_sat(parts(p->m, tm), parts(p->n, tn)));

    for (int32_t split = 1; split <= MOST_SPLIT; split *= 2) {
        if (split > 1 && p->k / split < LEAST_K)
            break;
        int64_t waves = parts(lw_mul_sat(tiles, split), (int64_t)sms);
        double t = (double)waves * ((double)p->k / split + d->gemm_fill.value) * 2 * tm * tn / rate;
        if (split > 1)
            t += memory_s(d, 4.0 * split * (double)p->batch * (double)p->m * (double)p->n);
        if (best->n_tiles > 0 && t >= best->compute_s)
            continue;
        best->compute_s = t;
        best->tile_m = tm;
        best->tile_n = tn;
        best->split_k = split;
        best->n_tiles = lw_mul_sat(tiles, split);
        best->n_waves = waves;
    }
}

static double out_bytes(const struct lw_product *p)
{
    double item = p->out_size > 0 ? p->out_size : (double)lw_dtype_size(p->dtype);

    return item * (double)p->batch * (double)p->m * (double)p->n;
}

/* Weights of experts, and the sums that their gradients are added to. */
static double expert_bytes(const struct lw_product *p)
{
    double weights = lw_product_operand_bytes(p, (double)p->batch * (double)p->k * (double)p->n);

    return weights + (p->accumulate ? 2 * out_bytes(p) : 0);
}

static double traffic_of(const struct lw_product *p)
{
    double m = (double)p->m, n = (double)p->n, k = (double)p->k;

    return lw_product_operand_bytes(p, (double)p->batch * (m * k + k * n)) +
           out_bytes(p) * (p->accumulate && !p->grouped ? 2 : 1);
}

/* The share of the peak at which a kernel runs that would take t at the sustained share. */
static double share_of(const struct lw_device *d, double t)
{
    double sustained = d->gemm_sustained.value, x = t / BOOST_S;
    double boost = lw_figure_is_set(d->gemm_boost) ? d->gemm_boost.value : sustained;

    return boost > sustained ? sustained + (boost - sustained) / (1 + x * x) : sustained;
}

struct lw_product_time lw_product_explain(const struct lw_device *d, const struct lw_product *p)
{
    struct lw_product_time t = {.time = 0};
    int32_t side = (int32_t)largest_side(d);

    if (p->batch <= 0 || p->m <= 0 || p->n <= 0 || p->k <= 0)
        return t;
    for (int32_t tm = TILE_STEP; tm <= TILE; tm += TILE_STEP)
        for (int32_t tn = TILE_STEP; tn <= TILE; tn += TILE_STEP)
            if (tm <= side || tn <= side)
                try_tile(d, p, tm, tn, &t);
    t.rate_share = share_of(d, t.compute_s / d->gemm_sustained.value);
    t.compute_s /= t.rate_share;
    t.memory_s = memory_s(d, traffic_of(p));
    t.overhead_s = launch_s(d) + sums_s(d, p);
    if (p->grouped)
        t.overhead_s = EXPOSED * ((double)p->batch * launch_s(d) + memory_s(d, expert_bytes(p)));
    t.time = lw_ps_from_seconds(at_least(t.compute_s, t.memory_s) + t.overhead_s);
    return t;
}

lw_ps lw_product_time(const struct lw_device *d, const struct lw_product *p)
{
    return lw_product_explain(d, p).time;
}

static enum lw_bound largest(double compute_s, double memory_s, double overhead_s)
{
    if (overhead_s > compute_s && overhead_s > memory_s)
        return LW_BOUND_LAUNCH;
    return memory_s > compute_s ? LW_BOUND_MEMORY : LW_BOUND_COMPUTE;
}

enum lw_bound lw_product_bound(const struct lw_product_time *t)
{
    return largest(t->compute_s, t->memory_s, t->overhead_s);
}

struct lw_bounded lw_product_bounded(const struct lw_device *d, const struct lw_product *p)
{
    struct lw_product_time t = lw_product_explain(d, p);

    return (struct lw_bounded){t.time, lw_product_bound(&t)};
}

/* --- attention -------------------------------------------------------------------------------- */

static bool knows_softmax(const struct lw_device *d, const struct lw_attention *a)
{
    return lw_figure_is_set(d->sm_flops_per_clock) &&
           lw_figure_is_set(d->sm_exponentials_per_clock) && lw_dtype_size(a->dtype) == 2;
}

/* Of heads narrower than 128 against these, which reach `share` of the peak. A score takes an SM
 * the clocks of one exponential (Zadouri et al., FlashAttention-4, arXiv 2603.05451) and of OTHERS
 * instructions at 128 a clock, in the backward OTHERS_BACKWARD, whatever the width of the head.
 * Products run beside them, but not wholly: the two add up as squares. At 128 both together take
 * what `share` says. The constants are fitted on heads of 64 of A100, H100 and H200
 * (traces/clusters/fit_heads.py). */
static double narrow_speed(const struct lw_device *d, const struct lw_attention *a, double width,
                           double share)
{
    double others = a->backward ? OTHERS_BACKWARD : OTHERS, products = a->backward ? 5 : 2;
    double clocks = 1 / d->sm_exponentials_per_clock.value + others / OTHERS_PER_CLOCK;
    double softmax = d->sm_flops_per_clock.value * clocks * share / (products * 2 * WIDE_HEAD);
    double part = softmax < 1 ? softmax * softmax : 1, narrow = width / WIDE_HEAD;

    return narrow / sqrt(narrow * narrow * (1 - part) + part);
}

static double attention_share(const struct lw_device *d, const struct lw_attention *a)
{
    struct lw_figure f = a->backward ? d->attention_backward : d->attention_forward;
    double width = 0.5 * (double)(a->qk_width + a->v_width);
    double share = lw_figure_is_set(f) ? f.value : 0.5 * d->gemm_sustained.value;

    share *= a->backward && a->qk_width > WIDE_HEAD ? WIDE_BACKWARD : 1;
    share *= a->speed > 0 ? a->speed : 1;
    if (width < WIDE_HEAD && knows_softmax(d, a))
        return share * narrow_speed(d, a, width, share);
    return share * width / (width + HEAD_FILL) * (WIDE_HEAD + HEAD_FILL) / WIDE_HEAD;
}

static double attention_bytes(const struct lw_attention *a)
{
    double q = (double)a->heads * (double)a->seq_q * (double)(a->qk_width + a->v_width);
    double seen = a->window > 0 ? (double)a->seq_q + 2 * (double)a->window : (double)a->seq_k;
    double keys = seen < (double)a->seq_k ? seen : (double)a->seq_k;
    double kv = (double)a->kv_heads * keys * (double)(a->qk_width + a->v_width);

    return (double)a->batch * (double)lw_dtype_size(a->dtype) * (q + kv) * (a->backward ? 2 : 1);
}

/* Keys of a tile of queries: of the mean, and of the longest. */
struct tile_keys {
    double mean, longest;
};

/* Of a window within a tile of the sequence no block is skipped. */
static struct tile_keys tile_keys(const struct lw_attention *a)
{
    double keys = (double)a->seq_k, all = keys / 2 + DIAGONAL;
    double window = lw_is_window(a->window, a->seq_k) ? (double)a->window : keys;
    double mean = window - window * window / (2 * keys) + DIAGONAL * (2 - window / keys);
    double longest = window + QUERY_TILE < keys ? window + QUERY_TILE : keys;

    return a->causal ? (struct tile_keys){mean < all ? mean : all, longest}
                     : (struct tile_keys){window, window};
}

struct lw_bounded lw_attention_bounded(const struct lw_device *d, const struct lw_attention *a)
{
    double sms = d->n_sms.value;
    struct tile_keys keys = tile_keys(a);
    double rate = d->peak_flops[a->dtype].value * attention_share(d, a) / sms;
    int64_t widths = a->backward ? 3 * a->qk_width + 2 * a->v_width : a->qk_width + a->v_width;
    double per_key = 2 * QUERY_TILE * (double)widths;
    double tiles = (double)a->batch * (double)a->heads *
                   (double)parts(a->seq_q, (int64_t)QUERY_TILE);

    if (a->batch <= 0 || a->seq_q <= 0 || a->seq_k <= 0)
        return (struct lw_bounded){.time = 0};
    double tail = (a->backward ? TAIL_BACKWARD : TAIL) * (keys.longest + KEY_FILL);
    double t = per_key * (tiles * (keys.mean + KEY_FILL) / sms + tail) / rate;
    double memory = memory_s(d, attention_bytes(a));
    return (struct lw_bounded){lw_ps_from_seconds(at_least(t, memory) + launch_s(d)),
                               largest(t, memory, launch_s(d))};
}

lw_ps lw_attention_time(const struct lw_device *d, const struct lw_attention *a)
{
    return lw_attention_bounded(d, a).time;
}

/* NVIDIA's GB10 has 30.7 TFLOP/s in them (traces/models/models_ssm.c), of 48 SMs at 2.14 GHz
 * (developer.nvidia.com/blog/scaling-autonomous-ai-agents-and-workloads-with-nvidia-dgx-spark,
 * table 8): 299 FLOPs in a clock of an SM. */
double lw_device_scan_rate(const struct lw_device *d)
{
    const double scan = 299, h100 = 4096;
    double clock = lw_figure_is_set(d->sm_flops_per_clock) ? d->sm_flops_per_clock.value : h100;

    return lw_figure_is_set(d->peak_flops[LW_BF16]) ? d->peak_flops[LW_BF16].value * scan / clock
                                                    : 0;
}

double lw_device_traffic_rate(const struct lw_device *d)
{
    double share = lw_figure_is_set(d->memory_sustained) ? d->memory_sustained.value : BANDWIDTH;

    return share * d->memory_bytes_per_s.value;
}

struct lw_bounded lw_traffic_bounded(const struct lw_device *d, int64_t bytes, lw_ps more)
{
    double t = (double)bytes / lw_device_traffic_rate(d);

    if (bytes <= 0)
        return (struct lw_bounded){.time = more, .bound = LW_BOUND_LAUNCH};
    return (struct lw_bounded){lw_add_sat(lw_ps_from_seconds(t + launch_s(d)), more),
                               largest(0, t, launch_s(d) + (double)more * 1e-12)};
}

lw_ps lw_traffic_time(const struct lw_device *d, int64_t bytes)
{
    return lw_traffic_bounded(d, bytes, 0).time;
}
