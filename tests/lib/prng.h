#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Random inputs for property tests: xorshift64*, the seed printed so that a failure can be repeated
 * (LAPWING_TEST_SEED sets it). */
struct prng {
    uint64_t state;
};

/* Of one of many seeds, which the test prints where it fails. */
static inline struct prng prng_of(uint64_t seed)
{
    return (struct prng){seed * 2685821657736338717u + 1};
}

static inline struct prng prng_start(const char *what)
{
    const char *given = getenv("LAPWING_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 20260101;

    printf("seed of %s: %llu\n", what, (unsigned long long)seed);
    return prng_of(seed);
}

static inline uint64_t prng_next(struct prng *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 2685821657736338717u;
}

/* Uniform in [low, high]. */
static inline int64_t prng_in(struct prng *r, int64_t low, int64_t high)
{
    return low + (int64_t)(prng_next(r) % (uint64_t)(high - low + 1));
}

/* Uniform in [0, n). */
static inline int prng_below(struct prng *r, int n)
{
    return (int)prng_in(r, 0, n - 1);
}
