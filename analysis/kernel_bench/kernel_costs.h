#pragma once

#include "shared/cli/cli.h"
#include "shared/cluster/cluster.h"
#include "shared/strategy/reducer_kind.h"

/* `lapwing cost --measured FILE` of a table of measured kernels: products (m, n, k), attention
 * (seq, heads, head_dim), experts (num_tokens, topk, experts) or collectives of one node (nranks,
 * size_bytes), each row with its device. Prints the error per device and type. */
struct lw_kernel_question {
    const char *file, *where;
    const char *cluster; /* NULL: that of the row's device */
    bool sustained;      /* not in a burst */
    bool clock;          /* either was requested */
    enum lw_reducer_kind algorithm; /* of collectives */
    enum lw_format format;
};

/* The file has the titles of such a table. Reads it. */
bool lw_kernel_table_is(const char *file);
/* LW_EFORMAT: a table of devices that lacks columns of each kind; the nearest kind is named with
 * what is missing. LW_OK: such a table, or none of devices. Reads it; not for "-". */
enum lw_status lw_kernel_table_known(const char *file, struct lw_err *err);
enum lw_status lw_kernel_costs_print(const struct lw_kernel_question *q, struct lw_err *err);
