/* How frameworks spread blocks over stages.
 *
 * By cost, nanotron (huggingface/nanotron@67c5ebb6, src/nanotron/models/base.py and llama.py): a
 * block costs its weights, 4 h^2 + 3 f h, the head vocabulary * h, the embedding nothing. Stage q
 * takes blocks until their costs exceed (q + 1) / p of the whole, so the first stages have more
 * than their share. Where the head comes before the last stage, its module lies in the last one
 * here, and each stage without a module takes the block before it.
 *
 * Elsewhere: equal numbers of blocks. Where they do not divide, the first parts have one more,
 * unless embedding and head count as blocks. */
#include "analysis/validate/run_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double fewer(double a, double b)
{
    return a < b ? a : b;
}

/* First module of part q + 1, where part q begins at `begin`. */
static double next_by_cost(const struct lw_run *r, int64_t q, double begin)
{
    double h = (double)r->hidden, block = 4 * h * h + 3 * (double)r->ffn * h;
    double share = ((double)r->layers * block + (double)r->vocab * h) * (double)(q + 1) /
                   (double)r->pp;
    double next = floor(share / block) + 2; /* block b is module b, from 1 on */

    return fewer(next > begin ? next : begin + 1, (double)(r->layers + 3 + q - r->pp));
}

static double next_even(const struct lw_run *r, int64_t q, double begin)
{
    int64_t n = r->pp * r->vpp, blocks = r->layers;
    bool ends_count = blocks % n != 0 && (blocks + 2) % n == 0;

    return begin + (q == 0) +
           (double)(ends_count ? (blocks + 2) / n - (q == 0) : blocks / n + (q < blocks % n));
}

void lw_run_parts(const struct lw_run *r, char *list, size_t size)
{
    bool by_cost = strstr(r->partition, "cost") != NULL;
    size_t used = (size_t)snprintf(list, size, "0");
    double begin = 0;

    for (int64_t q = 0; q < r->pp * r->vpp - 1 && used < size; q++) {
        begin = by_cost ? next_by_cost(r, q, begin) : next_even(r, q, begin);
        used += (size_t)snprintf(list + used, size - used, ",%.0f", begin);
    }
}
