#ifndef LW_EXEC_TENSORS_HAPPENS_BEFORE_H
#define LW_EXEC_TENSORS_HAPPENS_BEFORE_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/plan/plan.h"

/* What must be over on a rank when one of its ops begins, by its own waits and by what messages
 * from other ranks say: rank 0 that holds the gradient of micro-batch 0 knows that its
 * activation has arrived. Of one pass; op numbers count within the rank's program. */
struct exec_order {
    int32_t n_ops, n_streams;
    int32_t *stream;  /* [n_ops] */
    int32_t *over;    /* [n_ops * n_streams] ops of the stream below this index are over */
};

/* LW_ENOMEM. Programs that do not meet each other's messages leave an order in which nothing is
 * known. */
enum lw_status exec_order_init(const struct lw_plan *p, int32_t variant, int32_t rank,
                               struct exec_order *o, struct lw_err *err);
void exec_order_free(struct exec_order *o);

/* Op a is over when op b begins; of a receive, when its data can come; of a send, its data is
 * read. */
bool exec_order_before(const struct exec_order *o, int32_t a, int32_t b);

/* All ranks of a role see the same order: messages of alike ops go to ranks of one role, and
 * among those that a rank can hear of there is one rank of each role. */
enum lw_status exec_order_is_of_role(const struct lw_plan *p, int32_t variant, bool *is,
                                     struct lw_err *err);

#endif
