#pragma once

#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "traces/graph/graph.h"

/* What a node of a Chakra trace says beside its own fields, by the names of its attributes. Names
 * are compared without case and '_', as some writers changed them. */

struct chakra_value { /* a number, or a text of `len` bytes where it is not NULL */
    int64_t number;
    const char *text;
    size_t len;
};

/* Takes what it knows of an attribute; the rest is left out. */
enum lw_status chakra_attribute(struct traces_graph *g, struct traces_node *n, const char *name,
                                size_t len, const struct chakra_value *v, struct lw_err *err);
/* After all of its attributes: whether it moves data, and what. `type` is what the file says.
 * LW_EFORMAT: a type or a collective that the schema does not have. */
enum lw_status chakra_settle(struct traces_graph *g, struct traces_node *n, int64_t type,
                             struct lw_err *err);
/* The process groups in the inputs of PyTorch's node "## process_group:init ##". */
enum lw_status chakra_groups(struct traces_graph *g, const char *text, size_t len,
                             struct lw_err *err);

/* The name without '_' in lower case, cut at size - 1; for comparisons. */
void chakra_loose(const char *name, size_t len, char *loose, size_t size);
