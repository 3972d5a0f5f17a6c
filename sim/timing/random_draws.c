/* Draws by seed. A draw is named by what it is for and mixed from the seed and its name, so two
 * runs that ask in another order, or ask for some of them only, get the same numbers.
 *
 * Not modelled: errors that last for a while, tails heavier than normal. */
#include "sim/timing/random_draws.h"

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

struct sim_range sim_range_of(lw_ps most)
{
    uint64_t n = (uint64_t)most + 1;

    /* for n = 1 the inverse is 2^64 - 1, so that the quotient stays one too small at most */
    return (struct sim_range){n,
                              n == 1 ? UINT64_MAX : (uint64_t)(((unsigned __int128)1 << 64) / n)};
}
