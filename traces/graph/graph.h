#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/numbers/units.h"
#include "shared/plan/op.h"
#include "shared/workload/product.h"
#include "traces/trace/string_table.h"

/* A recorded step of one rank as a graph of nodes, whatever file it came from. Times may be known
 * or not; nodes name those that must end before them. See docs/design/import_chakra.md. */

enum traces_node_type { /* the numbers of Chakra's schema */
                        TRACES_NODE_INVALID,
                        TRACES_NODE_METADATA,
                        TRACES_NODE_MEM_LOAD,
                        TRACES_NODE_MEM_STORE,
                        TRACES_NODE_COMP,
                        TRACES_NODE_SEND,
                        TRACES_NODE_RECV,
                        TRACES_NODE_COLL,
                        TRACES_NODE_STORAGE, /* these three: of the host */
                        TRACES_NODE_BATCH,
                        TRACES_NODE_CHECKPOINT,
                        TRACES_N_NODE_TYPES,
};

struct traces_node {
    uint64_t id;               /* as the file numbers it */
    lw_ps time, start;         /* duration, and when it began; -1 = the file does not say */
    int64_t bytes;             /* of its message, of a collective what a rank gives; -1 = none */
    int64_t whole;             /* of a collective: of the buffer that holds all; -1 = bytes, of an
                                * all-gather as often as its group has ranks */
    int64_t flops, moved;      /* operations, bytes of tensors; -1 = the file does not say */
    int64_t track;             /* thread or stream as the file numbers it; -1 */
    int32_t name, group;       /* string numbers; group -1 = the file names none */
    int32_t stream, module;    /* names of the stream and of the module in our own exports; -1 */
    int32_t peer, tag, call;   /* of sends and receives; -1 */
    int32_t product;           /* into products: one that its flops are made of; -1 */
    int32_t first_dep, n_deps; /* into deps: ids in the file; after the check indexes of nodes */
    uint8_t type;              /* enum traces_node_type */
    uint8_t op;                /* of communication: enum lw_op_kind; of ours: of any node */
    uint8_t dtype;             /* of communication in our own exports, else u8 */
    bool host;                 /* runs on the host */
    bool comm;                 /* moves data: a collective of the device, a send or a receive */
    bool ours;                 /* op says what it is */
};

struct traces_group {                  /* ranks of a process group that the file lists */
    int32_t name, first_rank, n_ranks; /* n_ranks 0 = all */
};

struct traces_graph {
    struct traces_strings strings;
    const char *file;    /* as the user wrote it; borrowed */
    int32_t schema;      /* string number; -1 */
    int32_t rank, world; /* as the file says; -1 */
    int64_t n_bytes;     /* of the file, unpacked */
    int32_t n, n_deps, n_groups, n_group_ranks;
    int32_t n_dangling; /* dependencies on nodes that the file does not hold; dropped */
    bool by_data;       /* data dependencies alone order the nodes: the others are the stack of
                         * calls */
    bool ours;          /* lapwing export wrote it */
    int64_t nodes_cap, deps_cap, groups_cap, group_ranks_cap;
    struct traces_node *nodes;
    uint64_t *deps; /* ids; after traces_graph_check indexes */
    struct lw_product *products;
    struct traces_group *groups;
    int32_t *group_ranks;
    int32_t *order; /* [n] after the check: every node after those it waits for */
};

void traces_graph_init(struct traces_graph *g, const char *file);
void traces_graph_free(struct traces_graph *g); /* may be called on a zeroed one */

/* An empty node, and adding it: its dependencies are those added since the node before. */
struct traces_node traces_node_blank(void);
enum lw_status traces_graph_node(struct traces_graph *g, const struct traces_node *n,
                                 struct lw_err *err);
enum lw_status traces_graph_dep(struct traces_graph *g, uint64_t id, struct lw_err *err);
enum lw_status traces_graph_group(struct traces_graph *g, const char *name, const int32_t *ranks,
                                  int32_t n, struct lw_err *err);
enum lw_status traces_graph_text(struct traces_graph *g, const char *text, size_t len,
                                 int32_t *string, struct lw_err *err);

/* Finds the nodes that dependencies name and an order in which every node follows them: of those
 * that may come next the one with the earliest start, then the one that stands first in the file.
 * LW_EFORMAT: an id given twice, a cycle, whose nodes are named. */
enum lw_status traces_graph_check(struct traces_graph *g, struct lw_err *err);

const char *traces_graph_string(const struct traces_graph *g, int32_t string); /* "" for -1 */
const char *traces_node_type_name(int type); /* "COLL"; NULL beyond the last */
