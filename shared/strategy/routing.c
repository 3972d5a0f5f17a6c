/* Places that the copies of a token go to. Experts of a token are chosen as if at random: what a
 * trained router prefers is not known, and runs that force the balance of theirs draw at random.
 * Limited to M of G groups, the M are any of the G, and the experts any of theirs: a router that
 * scores groups by their best experts (NVIDIA/Megatron-LM, megatron/core/transformer/moe/
 * moe_utils.py, group_limited_topk) spreads them over its groups a little more evenly. */
#include "shared/strategy/routing.h"

#include <math.h>
#include <stdbool.h>

/* K drawn of a pool without replacement: none is of a part of it. C(pool-part, K) / C(pool, K); the
 * part need not be whole. */
static double none_of(double pool, double part, int32_t draws)
{
    double p = 1;

    for (int32_t i = 0; i < draws && p > 0; i++)
        p *= pool - part - i > 0 ? (pool - part - i) / (pool - i) : 0;
    return p;
}

/* Of M groups drawn of G, j are among g of them: C(g, j) C(G-g, M-j) / C(G, M). */
static double drawn_groups(int32_t G, int32_t M, int32_t g, int32_t j)
{
    double p = 1;

    if (j > g || M - j > G - g)
        return 0;
    for (int32_t i = 0; i < M; i++)
        p *= (double)(i < j ? g - i : G - g - (i - j)) / (G - i);
    for (int32_t i = 0; i < j; i++) /* any j of the M draws */
        p *= (double)(M - i) / (j - i);
    return p;
}

/* Groups are whole in places or places in groups; the experts of a token are in the groups. */
static bool is_limited(int32_t n, const struct lw_routing *r)
{
    return r->topk_groups > 0 && r->topk_groups < r->groups && r->experts % r->groups == 0 &&
           r->copies <= r->experts / r->groups * r->topk_groups &&
           (r->groups % n == 0 || n % r->groups == 0);
}

static double limited(int32_t n, const struct lw_routing *r)
{
    int32_t G = r->groups, M = r->topk_groups, group = r->experts / G, pool = group * M;
    double p = 0;

    if (n >= G) /* a place has a part of one group */
        return 1 - (double)M / G + (double)M / G * none_of(pool, (double)r->experts / n, r->copies);
    for (int32_t j = 0; j <= M; j++)
        p += drawn_groups(G, M, G / n, j) * none_of(pool, (double)j * group, r->copies);
    return p;
}

/* Places of the tokens whose first experts are 0, K, 2 K, ... of a circle of E, each once: at most
 * E of them, which files and options bound by LW_MOST_EXPERTS. */
static double in_turn(int32_t n, const struct lw_routing *r)
{
    int64_t K = r->copies, E = r->experts, first = 0, n_places = 0, n_tokens = 0;

    do {
        int64_t places = (first + K - 1) * n / E - first * n / E + 1;
        n_places += places < n ? places : n; /* the last may be the first again */
        n_tokens++;
        first = (first + K) % E;
    } while (first != 0);
    return (double)n_places / (double)(n_tokens * K);
}

double lw_first_copies(int32_t n, const struct lw_routing *r)
{
    double none;

    if (r->copies <= 0)
        return 1;
    if (r->in_turn && r->experts >= r->copies)
        return in_turn(n, r);
    if (r->experts < r->copies)
        none = pow(1 - 1.0 / n, r->copies);
    else if (is_limited(n, r))
        none = limited(n, r);
    else
        none = none_of(r->experts, (double)r->experts / n, r->copies);
    return n * (1 - none) / r->copies;
}
