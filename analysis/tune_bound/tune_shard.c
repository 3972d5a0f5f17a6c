/* Shards of a space, by a hash of a combination's number (the finalizer of SplitMix64: Steele, Lea,
 * Flood, "Fast splittable pseudorandom number generators", 2014). A remainder of the number itself
 * would give all combinations of one recomputation mode, or none that is valid, to one shard. */
#include "analysis/tune_bound/tune_shard.h"

#include <ctype.h>
#include <stdlib.h>

enum lw_status lw_tune_shard_parse(const char *text, struct lw_tune_shard *out, struct lw_err *err)
{
    char *slash, *end;
    long long i = strtoll(text, &slash, 10);
    long long n = *slash == '/' && isdigit((unsigned char)slash[1]) ? strtoll(slash + 1, &end, 10)
                                                                    : 0;

    if (!isdigit((unsigned char)text[0]) || n < 1 || *end || i < 1 || i > n || n > 1000000)
        return lw_fail(err, LW_EUSAGE,
                       "expected I/N with 1 <= I <= N <= 1000000 (2/8: the second of eight), got "
                       "'%s'", text);
    *out = (struct lw_tune_shard){i, n};
    return LW_OK;
}

static uint64_t mixed(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

bool lw_tune_shard_has(const struct lw_tune_shard *s, int64_t combination)
{
    return s->n < 2 || mixed((uint64_t)combination) % (uint64_t)s->n == (uint64_t)s->i - 1;
}

int64_t lw_tune_shard_count(const struct lw_tune_shard *s, int64_t first, int64_t n)
{
    int64_t count = 0;

    if (s->n < 2)
        return n;
    for (int64_t i = 0; i < n; i++)
        count += lw_tune_shard_has(s, first + i);
    return count;
}
