/* Kernels in bursts.
 *
 * Products. The tiles of shared/device/device_time.c: a tile is the work of one SM and costs its k
 * steps and a fill; the library chooses the fastest tile, and of 16-bit operands may cut k into up
 * to 32 parts (kernels of smaller operands do not, and those of 4 bits have no tile of 64 x 64).
 * Four things differ from the sustained time:
 *
 * - The clock. A kernel far below 1 ms runs at short_share of the peak, one far above at
 *   long_share, of which a device that is limited by its power has less.
 * - The last wave. Kernels of before Blackwell lose half of it: the rest overlaps with the ends of
 *   tiles that began late. Blackwell's loses nothing that is seen in the measured shapes: tiles of
 *   two SMs are smaller in proportion and the library has more forms than the grid here.
 * - Memory and products do not overlap wholly: their times are joined by a p-norm with p = 4, which
 *   adds 19 % where both are equal.
 * - Operands of 8 and 4 bits are cast within the measured time (2 bytes are read for an input and 1
 *   or 0.5625 written), by a kernel of its own before the product: it is added. Without this term
 *   the median error of fp8 is 13 to 16 % in place of 5 to 8 (products with a small n, and a large
 *   m and k, are up to 3 times too fast).
 *
 * Attention, of one framework. Tiles of 64 queries of one head (Blackwell 128) over all keys that
 * the mask leaves, and a fill. The width is that of the kernels' forms, each with a speed and a
 * fill of its own; widths of 72 are slower on Blackwell. The last tiles run while other SMs have
 * none left (tail); kernels of heads above 256 cut smaller tiles and have a tail of their own. What
 * frameworks do beside (rotary embedding, writing the cache) is in the measured time: queries and
 * outputs, and keys and values, pass the memory more than once, and each sequence has a cost. On
 * L40S, whose memory is slow, it counts what of these passes a cache serves: all but x / (x + c) of
 * x bytes, and any byte takes OF_CACHE of the memory's time beside. Kernels of 8 bits are others
 * than those of 16 and have a speed of their own, that of heads of 64 apart. Which frameworks have
 * a kernel of a width and type differs: the time of a shape is the median of those that measured
 * it, as the table's is.
 *
 * The figures are fits (traces/clusters/fit_burst.py) on the shapes of public measurements
 * (AIConfigurator); four more fits leave out a fold of them each (lw_burst_fold). Not modelled:
 * versions of a framework; times of a framework that are shorter than the peak permits (long
 * sequences of sglang). */
#include "shared/device/burst_time.h"

#include <math.h>
#include <string.h>

#include "shared/device/burst_data.h"
#include "shared/device/device_kind.h"
#include "shared/numbers/median.h"

static const double SMALL_TILE = 40, BOOST_S = 1e-3, JOIN = 4, SPLIT_TRAFFIC = 8;
static const double LAST_WAVE = 0.45, LEAST_K = 256, OF_CACHE = 0.2;

enum { TILE_STEP = 64, TILE = 256, DEFAULT_TILE = 128, MOST_SPLIT = 32 };

static const char *const words[] = {"bf16", "fp8", "fp8_block", "nvfp4"};

int lw_operands_parse(const char *word)
{
    for (int i = 0; i < LW_N_OPERANDS; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return strcmp(word, "f16") == 0 ? LW_OPERANDS_BF16 : -1;
}

/* Devices with the processor and the power of a measured one. */
static const char *measured_kind(const char *kind)
{
    static const struct {
        const char *kind, *as;
    } same[] = {{"H800-SXM5-80GB", "H100-SXM5-80GB"}, {"GH200-96GB", "H100-SXM5-80GB"},
                {"A100-SXM4-40GB", "A100-SXM4-80GB"}};

    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (strcmp(lw_device_kind(kind), same[i].kind) == 0)
            return same[i].as;
    return kind;
}

static const struct lw_burst *find(const struct lw_burst *b, const char *kind)
{
    kind = measured_kind(kind);
    for (; b->kind; b++)
        if (!lw_device_is_nameless(kind) && lw_device_same_kind(b->kind, kind))
            return b;
    return NULL;
}

const struct lw_burst *lw_burst_of(const char *kind)
{
    return find(lw_bursts, kind);
}

const struct lw_burst *lw_burst_without(const char *kind, int fold)
{
    return find(lw_bursts_without[fold], kind);
}

double lw_burst_peak(const struct lw_device *d, enum lw_operands o)
{
    static const double times[LW_N_OPERANDS] = {1, 2, 2, 4};

    return lw_figure_is_set(d->peak_flops[LW_BF16]) ? d->peak_flops[LW_BF16].value * times[o] : 0;
}

int lw_burst_fold(const int64_t *sizes, int n)
{
    uint32_t h = 2166136261u;

    for (int i = 0; i < n; i++)
        h = (h ^ (uint32_t)sizes[i]) * 16777619u;
    return (int)((h >> 16) % LW_BURST_FOLDS);
}

static double operand_bytes(enum lw_operands o)
{
    return o == LW_OPERANDS_BF16 ? 2 : o == LW_OPERANDS_NVFP4 ? 0.5625 : 1;
}

static double join(double a, double b, double p)
{
    double most = fmax(a, b);

    return most > 0 ? most * pow(pow(a / most, p) + pow(b / most, p), 1 / p) : 0;
}

double lw_burst_both(double compute_s, double memory_s)
{
    return join(compute_s, memory_s, JOIN);
}

/* --- products --------------------------------------------------------------------------------- */

/* Its tiles are those of before Blackwell. */
static bool is_small(const struct lw_device *d)
{
    return !lw_figure_is_set(d->gemm_tile) || d->gemm_tile.value <= DEFAULT_TILE;
}

static double tile_speed(double m, double n)
{
    double x = m * n / (m + n);

    return x / (x + SMALL_TILE);
}

static void try_tile(const struct lw_device *d, const struct lw_burst_gemm *g,
                     const struct lw_product *p, double rate, int32_t tm, int32_t tn,
                     int32_t most_split, struct lw_product_time *best)
{
    double m = (double)p->m, n = (double)p->n, k = (double)p->k, batch = (double)p->batch;
    double last = is_small(d) ? LAST_WAVE : 0;

    for (int32_t split = 1; split <= most_split; split *= 2) {
        double tiles = batch * ceil(m / tm) * ceil(n / tn) * split, x = tiles / d->n_sms.value;
        if (split > 1 && k / split < LEAST_K)
            break;
        double waves = last * ceil(x) + (1 - last) * fmax(x, 1);
        double t = waves * (k / split + g->fill) * 2 * tm * tn / rate;
        if (split > 1)
            t += SPLIT_TRAFFIC * split * batch * m * n / (g->memory * d->memory_bytes_per_s.value);
        if (best->n_tiles > 0 && t >= best->compute_s)
            continue;
        *best = (struct lw_product_time){.compute_s = t, .tile_m = tm, .tile_n = tn,
                                         .split_k = split, .n_tiles = (int64_t)tiles,
                                         .n_waves = (int64_t)ceil(x)};
    }
}

struct lw_product_time lw_burst_product(const struct lw_device *d, const struct lw_burst *b,
                                        const struct lw_product *p, enum lw_operands o)
{
    struct lw_product_time t = {.time = 0};
    const struct lw_burst_gemm *g = &b->gemm[o];
    double peak = lw_burst_peak(d, o), item = operand_bytes(o);
    double m = (double)p->m, n = (double)p->n, k = (double)p->k, batch = (double)p->batch;

    if (g->short_share <= 0 || peak <= 0 || !lw_figure_is_set(d->n_sms) ||
        !lw_figure_is_set(d->memory_bytes_per_s) || p->batch <= 0 || p->m <= 0 || p->n <= 0 ||
        p->k <= 0)
        return t;
    int32_t side = lw_figure_is_set(d->gemm_tile) ? (int32_t)d->gemm_tile.value : DEFAULT_TILE;
    double of_largest = tile_speed(TILE, side);
    for (int32_t tm = TILE_STEP; tm <= TILE; tm += TILE_STEP)
        for (int32_t tn = TILE_STEP; tn <= TILE; tn += TILE_STEP)
            if ((tm <= side || tn <= side) &&
                (o != LW_OPERANDS_NVFP4 || tm > TILE_STEP || tn > TILE_STEP))
                try_tile(d, g, p, peak / d->n_sms.value * tile_speed(tm, tn) / of_largest, tm, tn,
                         g->cut ? MOST_SPLIT : 1, &t);
    double x = t.compute_s / BOOST_S, bandwidth = d->memory_bytes_per_s.value;
    t.rate_share = g->long_share + (g->short_share - g->long_share) / (1 + x * x);
    t.compute_s /= t.rate_share;
    t.memory_s = batch * (item * (m * k + k * n) + 2 * m * n) / (g->memory * bandwidth);
    t.overhead_s = g->overhead_s;
    if (o != LW_OPERANDS_BF16)
        t.overhead_s += batch * (2 + item) * m * k / (g->cast * bandwidth);
    t.time = lw_ps_from_seconds(lw_burst_both(t.compute_s, t.memory_s) + t.overhead_s);
    return t;
}

/* --- attention -------------------------------------------------------------------------------- */

static const int32_t forms[LW_N_HEAD_FORMS] = {64, 96, 128, 192, 256, 512};

/* -1: no kernel is as wide. */
static int form_of(int64_t width)
{
    for (int k = 0; k < LW_N_HEAD_FORMS; k++)
        if (width <= forms[k])
            return k;
    return -1;
}

/* Time of the passes over that of all from the memory: large operands and outputs have left the
 * cache when they are read again. */
static double of_memory(const struct lw_burst_attention *f, double once)
{
    return f->cache_bytes > 0 ? once / (once + f->cache_bytes) + OF_CACHE : 1;
}

static double in_framework(const struct lw_device *d, const struct lw_burst_attention *f,
                           const struct lw_attention *a, bool fp8)
{
    double peak = lw_burst_peak(d, LW_OPERANDS_BF16), queries = is_small(d) ? 64 : 128;
    double key_tile = 64, sms = d->n_sms.value;
    int k = form_of(a->qk_width);
    bool odd = a->qk_width % 16 != 0;
    double fill = f->fill * f->form_fill[k] * (odd ? f->odd_fill : 1);
    double of_8 = !fp8 ? 1 : k == 0 ? f->narrow_fp8 : f->fp8;
    double rate = peak * f->share * f->form[k] * of_8 * (a->causal ? 1 : f->full) *
                  (odd ? f->odd : 1) / sms;
    double keys = ceil((double)a->seq_k / key_tile) * key_tile;
    double mean = (a->causal ? keys / 2 + key_tile : keys) + fill;
    double tiles = (double)(a->batch * a->heads) * ceil((double)a->seq_q / queries);
    double tail = k == LW_N_HEAD_FORMS - 1 ? f->wide_tail : f->tail;
    double t = 4 * queries * forms[k] * (tiles * mean / sms + tail * (keys + fill)) / rate;
    double token = 2 * (double)a->batch * (double)(a->qk_width + a->v_width);
    double queries_all = (double)(a->heads * a->seq_q), keys_all = (double)(a->kv_heads * a->seq_k);
    double bytes = token * (queries_all * f->queries + keys_all * f->keys) *
                   of_memory(f, token * (queries_all + keys_all));
    double memory = bytes * (fp8 ? f->fp8_traffic : 1) / d->memory_bytes_per_s.value;

    double overhead = a->causal ? f->overhead_s : f->full_overhead_s;

    return join(t, memory, f->join) + overhead + (double)a->batch * f->sequence_s;
}

lw_ps lw_burst_attention_time(const struct lw_device *d, const struct lw_burst *b,
                              const struct lw_attention *a, bool fp8, unsigned servers)
{
    int64_t times[LW_N_SERVERS];
    int n = 0;

    if (lw_burst_peak(d, LW_OPERANDS_BF16) <= 0 || !lw_figure_is_set(d->n_sms) ||
        !lw_figure_is_set(d->memory_bytes_per_s) || a->batch <= 0 || a->seq_q <= 0 ||
        a->seq_k <= 0 || form_of(a->qk_width) < 0 || form_of(a->v_width) < 0)
        return 0;
    for (int i = 0; i < LW_N_SERVERS; i++) {
        const struct lw_burst_attention *f = &b->attention[i];
        bool asked = servers == 0 || (servers >> i & 1);
        if (asked && f->share > 0 && (!fp8 || f->fp8 > 0))
            times[n++] = lw_ps_from_seconds(in_framework(d, f, a, fp8));
    }
    return lw_median(times, n);
}
