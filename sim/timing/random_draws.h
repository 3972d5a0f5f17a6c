#pragma once

#include <stdint.h>

#include "shared/numbers/units.h"

/* Everything that a seed decides. Each draw is a function of the seed and of what it is for, never
 * of the order in which draws are made, so a run gives the same numbers however it is computed. See
 * docs/design/noise.md. */

/* One output of splitmix64 (Steele, Lea, Flood, OOPSLA 2014) from the state x. */
static inline uint64_t sim_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Seed of the k-th of many independent things: the seed itself for k = 0. */
uint64_t sim_seed_of(uint64_t seed, uint64_t k);

/* A relative error of mean 0 and standard deviation sigma, roughly normal (the sum of twelve
 * uniform draws, which ends at 6 sigma), on `work`: rounded to the nearest picosecond, never below
 * 0. */
lw_ps sim_noisy(uint64_t seed, uint64_t rank, uint64_t pass, uint64_t op, double sigma, lw_ps work);

/* Whole numbers 0 .. most, each as likely as the other (up to 2^-64 * most). */
struct sim_range {
    uint64_t n, inverse; /* most + 1, and 2^64 / n rounded down */
};
struct sim_range sim_range_of(lw_ps most);

/* x modulo n, by the product with the inverse. With 2^64 = inverse n + rest, x inverse / 2^64 is
 * below x / n by x rest / (n 2^64) < 1, so the quotient is right or one too small: as likely as
 * not, so what is left is corrected without a branch. */
static inline lw_ps sim_range_take(struct sim_range r, uint64_t x)
{
    uint64_t q = (uint64_t)((unsigned __int128)x * r.inverse >> 64), rest = x - q * r.n;

    return (lw_ps)(rest - (r.n & -(uint64_t)(rest >= r.n)));
}

/* What message s (from 0, counted over all its ring collectives) of a rank takes longer, and how
 * much later a rank enters:   mix(seed ^ (rank << 32 | s)) mod n   and   mix(~seed ^ rank) mod n.
 */
static inline lw_ps sim_jitter(uint64_t seed, struct sim_range r, int32_t rank, uint64_t s)
{
    return sim_range_take(r, sim_mix(seed ^ ((uint64_t)(uint32_t)rank << 32 | s)));
}
/* longer[i] = sim_jitter of rank ranks[i], for i < n. */
void sim_jitter_each(uint64_t seed, struct sim_range r, const int32_t *ranks, int32_t n, uint64_t s,
                     lw_ps *restrict longer);
static inline lw_ps sim_skew(uint64_t seed, struct sim_range r, int32_t rank)
{
    return sim_range_take(r, sim_mix(~seed ^ (uint64_t)(uint32_t)rank));
}
