/* Draws by seed. A draw is named by what it is for and mixed from the seed and its name, so two
 * runs that ask in another order, or ask for some of them only, get the same numbers.
 *
 * Not modelled: errors that last for a while, tails heavier than normal. */
#include "sim/timing/random_draws.h"

#include <stdbool.h>
#include <string.h>

uint64_t sim_seed_of(uint64_t seed, uint64_t k)
{
    return k == 0 ? seed : sim_mix(seed + k);
}

/* Uniform in [0, 1), for the four numbers that name the draw. */
static double draw(uint64_t seed, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    uint64_t h = sim_mix(sim_mix(sim_mix(sim_mix(sim_mix(seed) ^ a) ^ b) ^ c) ^ d);

    return (double)(h >> 11) * 0x1p-53;
}

lw_ps sim_noisy(uint64_t seed, uint64_t rank, uint64_t pass, uint64_t op, double sigma, lw_ps work)
{
    double sum = -6; /* twelve draws: mean 6, variance 1 */

    for (uint64_t i = 0; i < 12; i++)
        sum += draw(seed, rank, pass, op, 3 + i);
    double time = (double)work * (1 + sigma * sum) + 0.5;
    return time >= 1 ? (lw_ps)time : 0;
}

/* Ranks eight at a time, in registers of 512 bits with products of 64-bit lanes: the vectors of gcc
 * and clang, whose operators work lane by lane as those of uint64_t do, so the draws are the same.
 * What is left of the n ranks is not drawn: the result says how many were. */
#if defined __x86_64__ && defined __GNUC__
enum { LANES = 8 };
typedef uint64_t lanes __attribute__((vector_size(8 * LANES)));
typedef uint32_t half_lanes __attribute__((vector_size(4 * LANES)));

__attribute__((target("avx512f,avx512dq,avx512vl"))) static int32_t
draw_by_lanes(uint64_t seed, struct sim_range r, const int32_t *ranks, int32_t n, uint64_t s,
              lw_ps *restrict longer)
{
    uint64_t c = r.inverse >> 32, d = r.inverse & UINT32_MAX;
    int32_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        half_lanes rank;
        memcpy(&rank, ranks + i, sizeof rank);
        lanes x = seed ^ (__builtin_convertvector(rank, lanes) << 32 | s);
        x += UINT64_C(0x9e3779b97f4a7c15); /* as sim_mix */
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        x ^= x >> 31;
        lanes a = x >> 32, b = x & UINT32_MAX; /* x inverse / 2^64, from products of halves */
        lanes low = a * d + (b * d >> 32), high = b * c + (low & UINT32_MAX);
        lanes rest = x - (a * c + (low >> 32) + (high >> 32)) * r.n;
        rest -= r.n & (lanes)(rest >= r.n); /* as sim_range_take */
        memcpy(longer + i, &rest, sizeof rest);
    }
    return i;
}

static bool has_lanes(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#else
static int32_t draw_by_lanes(uint64_t seed, struct sim_range r, const int32_t *ranks, int32_t n,
                             uint64_t s, lw_ps *restrict longer)
{
    (void)seed, (void)r, (void)ranks, (void)n, (void)s, (void)longer;
    return 0;
}

static bool has_lanes(void)
{
    return false;
}
#endif

void sim_jitter_each(uint64_t seed, struct sim_range r, const int32_t *ranks, int32_t n, uint64_t s,
                     lw_ps *restrict longer)
{
    int32_t i = has_lanes() ? draw_by_lanes(seed, r, ranks, n, s, longer) : 0;

    for (; i < n; i++)
        longer[i] = sim_jitter(seed, r, ranks[i], s);
}

struct sim_range sim_range_of(lw_ps most)
{
    uint64_t n = (uint64_t)most + 1;

    /* for n = 1 the inverse is 2^64 - 1, so that the quotient stays one too small at most */
    return (struct sim_range){n,
                              n == 1 ? UINT64_MAX : (uint64_t)(((unsigned __int128)1 << 64) / n)};
}
