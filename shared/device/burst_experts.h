#pragma once

#include "shared/device/burst_time.h"

/* The experts' part of a layer on one rank of an expert group: `tokens` of the whole group go to
 * topk of n_experts each, evenly; the rank holds n_experts / ep experts, of each inter / tp
 * columns. The experts are gated. */
struct lw_expert_layer {
    int64_t tokens, hidden, inter, topk, n_experts, tp, ep; /* all above 0 */
};

/* Of the rank: rows that come to it, how many experts have any, rows of each of these (rounded up),
 * columns of each; the products of 16 bits to the gated pair's 2 inter columns, and back. */
struct lw_expert_share {
    int64_t rows, used, each, inter;
    struct lw_product to, back;
};
struct lw_expert_share lw_expert_share_of(const struct lw_expert_layer *e);

/* Forward of such a layer without its all-to-alls: of 16 bits the median of the frameworks in
 * `servers` (bits of enum lw_server; 0: all), of smaller types the fastest framework. 0: no row
 * comes to the rank, or b or the device lacks figures. See docs/design/device.md. */
lw_ps lw_burst_experts_time(const struct lw_device *d, const struct lw_burst *b,
                            const struct lw_expert_layer *e, enum lw_operands o, unsigned servers);
